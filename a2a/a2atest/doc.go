// Package a2atest is a remote agent for tests: it replaces a peer that speaks A2A and answers each message with the next
// answer of a script. If the messages and the script do not match, calls fail and [Mock.Done] returns an error.
//
// The package opens no connection, starts no goroutine, and never guesses an answer. It reads the clock only for the
// times of states.
//
//	peer := a2atest.New().
//		Add(a2atest.Reply(a2atest.ExpectText("charged twice"), a2atest.InputRequired("Which charge?"))).
//		Add(a2atest.Reply(a2atest.ExpectTask(), a2atest.Text("It is ", "refunded.")))
//	billing, err := a2a.Remote("billing", "", a2a.WithClient(peer))
//
// A [Mock] behaves as peers do. Each message gets the next answer of the script. The answer creates a task, with the ids
// task-1, task-2, … and, unless the message names a context, context-1, …. A message to a task that waits for one is
// answered in that task. The task goes through the states submitted and working, contains the content of the answer's
// items, and is completed at the end unless an item sets another state. Clients that follow the task receive the answer:
// a stream sends each delta of [Text], and other calls return the complete text. Clients can get, subscribe to and cancel
// a task, several of them at the same time.
//
// A task waits only at [WaitFor] and [Block]. The steps between them run at once when a client sends a message,
// subscribes to the task or gets it.
package a2atest
