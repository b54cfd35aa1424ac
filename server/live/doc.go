// Package live runs turns in the background for clients that connect and disconnect. A request
// starts a turn and may end before the turn does. Other requests follow the turn, answer its questions, or stop
// or cancel it. All APIs of a process share one [Turns] for a tree and a store, so a client of one API can
// follow and approve a turn that a client of another API started.
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
// All state that matters is in the log: what Turns keeps in memory may be lost. If a process dies, another process
// adopts its turn when a client follows the turn there, or when it looks for such turns ([WithAdoption]). The
// store's leases allow one process at a time to write to a session, so any number of processes can serve the same
// sessions.
package live
