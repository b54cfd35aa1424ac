// Package crashtest kills processes in the middle of conversations, with SIGKILL: after each delivered event, while
// each model is asked and each tool runs, before and after each write of the store, at random instants, next to another
// process, and while a server is killed, too. Other processes continue, and are killed as well. The result is compared
// with an undisturbed run: no event is lost or repeated, and no recorded answer or result is requested again.
//
// The stories and the points of the kills are the same for every [Way] of continuing: a client resumes the turn,
// another process adopts it, or an engine does. A package with such a way runs [Suite.Run] in a test, and calls [Child]
// in the test that the suite's processes run.
//
// It is only for tests.
package crashtest
