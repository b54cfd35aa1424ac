// Package crashtest kills processes in the middle of conversations, with SIGKILL: after each event
// that somebody gets, while each model is asked and each tool runs, before and after each write of
// the store, at random instants, beside another process, and while a server is killed too. Others go
// on, and are killed as well. What comes out is compared with a run that nobody disturbed: nothing is
// lost, nothing is there twice, nothing that was recorded is asked for or run again.
//
// The stories and the places at which they are cut off are the same for every [Way] of going on:
// a client resumes the turn, another process adopts it, an engine does. A package that has one
// runs [Suite.Run] in a test, and calls [Child] in the test that the suite's processes are.
//
// It is for tests only: no package of the module imports it outside of them.
package crashtest
