// Package server implements the native HTTP API of a tree of agents, and combines it with the handlers of other APIs
// at one address.
//
//	turns, err := live.New(run, store)
//	...
//	api, err := server.New(turns, server.WithGuard(guard))
//	...
//	http.ListenAndServe(addr, server.Mux(api))
//
// The API starts turns, returns their events as pages and as streams, receives decisions, and stops, resumes and
// cancels turns. openapi.json describes it; [Handler] serves it. The API reads all answers from the session's log, so
// that clients can follow, decide and end a turn that another API or another process started.
//
// The package keeps no state of sessions, and does not depend on other APIs.
package server
