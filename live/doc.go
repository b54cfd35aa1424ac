// Package live runs turns in the background for clients that connect and disconnect: a request
// starts a turn and may end before it; other requests follow the turn, answer its questions, stop or cancel
// it. All APIs of a process share one [Turns] for a tree and a store, so that a client of one API can
// follow and approve a turn that another API started.
//
//	store, err := tail.New(db) // package session/tail, or session/redis
//	run, err := runner.New(root, store, runner.WithStreaming())
//	turns, err := live.New(run, store)
//	...
//	turn, err := turns.Begin(ctx, key, llm.UserText("hello")) // returns when the message is stored
//	for entry, err := range turns.Follow(ctx, key, lastEventID) {
//		...
//	}
//
// The log decides, so that everything that Turns keeps in memory can be lost. If a process dies, the next
// process that follows its turn adopts it, or a process that looks for such turns ([WithTakeOver]). The
// store's leases allow one process at a time, so that any number of processes serve the same sessions.
package live
