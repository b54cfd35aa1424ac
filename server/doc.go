// Package server is the native HTTP API of a tree of agents, and puts it together with the doors
// of other protocols.
//
//	turns, err := live.New(run, store)
//	...
//	api, err := server.New(turns, server.WithGuard(guard))
//	...
//	http.ListenAndServe(addr, server.Mux(api))
//
// The API begins turns, shows what happens in them as pages and as streams of events, takes
// decisions, and stops, resumes and cancels. openapi.json describes it; [Door] serves it.
// Everything it answers is read from the session's log: a turn that was begun elsewhere is
// followed, decided and ended here as one that was begun here.
//
// It imports access, agent, event, llm, live, runner and session. It keeps nothing of a session,
// and knows no other door.
package server
