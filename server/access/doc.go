// Package access authenticates and limits the clients of an HTTP server. It has users and their tokens, the checks of
// Host and Origin that keep out other web pages, limits for bodies, slow clients and concurrent streams, and a writer of
// server-sent events.
//
// [Guard.Handler] wraps a program's own handler with all of it:
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
// A server of a protocol that defines its own errors calls [Guard.Admit], or the single steps, instead.
//
// The package does not depend on what is served, and never logs or returns a credential.
package access
