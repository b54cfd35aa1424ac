// Package replay runs a stored session again with another tree of agents, and finds the first place
// where that tree asks or does something else. The runner is the real one; what users, persons and
// those who approve said comes from the log at its places, and so do the answers of models and the
// results of tools. No model is asked and no tool runs, unless [Live] has the models of the tree go on
// beyond that place.
//
// What a model was asked is not in a log. [Play] therefore finds what the log alone shows: that another
// agent is started, that a router chooses otherwise, that a call or a transfer is refused. With
// [Against] the tree that made the session is played over the same log first, and requests are
// compared, too. [Bisect] finds among revisions of a tree the first that decides otherwise.
//
// It imports runner and what is below it, tools, llmagent, router and human. It changes no store: the session
// that it makes is in memory.
package replay
