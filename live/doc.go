// Package live runs turns in the background, for those who come and go: a request begins a
// turn and may end before it, others follow it, decide what it asks, stop or cancel it. One
// [Turns] for a tree and a store is shared by everything that serves it, so that a turn begun
// at one door is followed and approved at another.
//
//	store, err := tail.New(db) // package session/tail, or session/redis
//	run, err := runner.New(root, store, runner.WithStreaming())
//	turns, err := live.New(run, store)
//	...
//	turn, err := turns.Begin(ctx, key, llm.UserText("hello")) // returns when the words are stored
//	for entry, err := range turns.Follow(ctx, key, lastEventID) {
//		...
//	}
//
// The log decides: whatever is kept here can be lost. A turn that a dead process left is taken
// over by whoever follows it, or by any process that looks for such turns ([WithTakeOver]), after
// the rules of the store's leases, so any number of processes serve the same sessions.
//
// It imports access for the bound of turns and for who may decide, agent, event, human, llm, runner, session, tools and view. It never
// knows how it is served, and never reads or writes a log but through the runner and the store.
package live
