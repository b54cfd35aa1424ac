// Package a2a makes remote agents that speak the A2A protocol nodes of a tree:
// transfer targets like any other, specialists of a router, nodes of a graph, or
// tools through package agenttool.
//
// [Remote] gives an agent whose step sends the new words of the conversation to
// the peer and yields what it answers, while it arrives. The peer's contextId is
// kept for each session and node, so that it remembers the conversation; a task
// that asked for input gets the user's next words; the handle of a task is stored
// before anything is waited for, so that a run that was cut off takes it up again
// instead of sending its words twice. What a peer sends is text: its metadata
// neither routes nor grants.
//
// A run sends its message under one id, also when it sends it again after a crash, so that
// a peer that drops messages it has seen recognizes it. A task that the
// peer has forgotten is an error, not a second message. A stream that breaks is
// subscribed to again, or the task is polled. A task that asks for an authorization
// makes the turn wait, inside of an agent tool, a graph or a workflow as well; a task that
// asks for input there makes a call of the agent ([AskTool]) that the user answers. A message
// that was certainly turned away gives the conversation back ([ErrNotSent]). What a peer that
// speaks our [Extension] says of its usage is kept with the task's handle, and counts
// towards no limit here.
//
// The peer is found by its agent card. It is fetched before the first use, once for all
// who need it, and kept as its headers say ([WithCardTTL]); its signature is checked by
// the verifier of [WithCardVerifier], such as package cardsign's. The first interface of
// the card that a binding speaks is used. JSON-RPC and HTTP+JSON of A2A 1.0 are built in;
// packages a2agrpc and a2av0 have [Binding] values for gRPC and for A2A 0.3, and
// [WithClient] does without card and bindings, above all in tests.
//
// File parts of its answers become files of the session. One at an address is not
// fetched: the event says where it is.
//
// A peer is a stranger. What it sends in a form of its own is mended where that can be
// done. Credentials ([WithBearer], [WithAPIKey],
// [WithClientCredentials], [WithClientCertificate], and more) go to the card's own
// origin and to those of [WithTrustedOrigin], are never taken along by a redirect,
// and are taken out of errors in which a peer repeats them, those of 16 bytes or more
// out of answers too, but not out of the bytes of files. What a card names must be a public address, at the moment in
// which it is dialed ([WithPrivateNetworks]). Time, silence and size of answers are bounded, and so are cards and
// redirects.
//
// The package imports agent, event, llm and view, internal/dialguard, and of
// github.com/a2aproject/a2a-go the types and the clients for HTTP.
// It never serves (package a2aserver does), never decides who runs, and never
// follows a card to a token endpoint, a key or a webhook.
//
// Not there: OAuth 2.0 flows with a user in them and OpenID Connect, for which a
// token has to be got elsewhere; extended cards; and push notifications, since a node
// follows its tasks itself.
package a2a
