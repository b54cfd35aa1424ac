// Package access decides who may call an HTTP server, from where and how much: users and
// their tokens, the checks of Host and Origin that keep web pages of others out, bounds of
// bodies, of slow clients and of what one user has open at once, and the writer of
// server-sent events.
//
// [Guard.Handler] puts all of it before a program's own handler:
//
//	users, err := access.Secrets(map[string]string{token: "ann"})
//	...
//	bearer, err := access.Bearer(users)
//	...
//	guard, err := access.New(access.Options{Users: bearer})
//	...
//	server := &http.Server{Addr: "127.0.0.1:8080", Handler: guard.Handler(mux)}
//	access.Harden(server)
//
// Whoever serves a protocol with errors of its own calls the steps one by one instead.
//
// It imports session for the rules of user names, and the standard library. It never knows
// what is served, and never logs or repeats a credential.
package access
