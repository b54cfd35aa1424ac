// Package a2atest is a remote agent for tests: it takes the place of a peer that
// speaks A2A, answers each message with what a script says, in order, and fails
// loudly when the messages and the script drift apart.
//
// It imports the types of the protocol's library. It opens no connection, starts no goroutine,
// never guesses an answer, and reads the clock for the times of states alone.
//
//	peer := a2atest.New().
//		Add(a2atest.Reply(a2atest.ExpectText("charged twice"), a2atest.InputRequired("Which charge?"))).
//		Add(a2atest.Reply(a2atest.ExpectTask(), a2atest.Text("It is ", "refunded.")))
//	billing, err := a2a.Remote("billing", "", a2a.WithClient(peer))
//
// A [Mock] behaves as peers do. Every message takes the next answer of the script.
// The answer opens a task, whose ids are task-1, task-2, … and context-1, …, unless
// the message names a context; a message that names a task which waits for it is
// answered on that task. The task goes through the states submitted and working,
// holds what the answer's items say, and is completed at the end unless an item
// says otherwise. The answer is played to whoever listens: [Text] comes word by
// word over a stream and whole without one. A task can be asked for, subscribed to
// by several, and canceled.
//
// A task waits only at [WaitFor] and [Block]. Between them an
// answer is played at once, when somebody sends, subscribes or asks for the task.
package a2atest
