// Package replay runs a stored session again with another tree of agents, and finds the first place where that tree
// acts differently or sends a different request. It uses the real runner. The messages of users, the messages of people
// at the desk and the decisions come from the log, and so do the answers of models and the results of tools. The replay
// asks no model and runs no tool, unless [Live] lets the tree's models continue after that place.
//
// A log does not contain the requests to models. So [Play] only finds differences that the log shows: another agent
// starts, a router chooses another target, a call or a transfer is refused. With [Against] it first plays the tree that
// created the session over the same log, and compares the requests as well. [Bisect] finds the first revision of a tree
// that acts differently.
//
// The package changes no store: the session that it creates is in memory.
package replay
