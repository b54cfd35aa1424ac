// Package a2a makes remote agents that speak the A2A protocol usable as nodes of a tree: as transfer targets,
// specialists of a router, nodes of a graph, or tools through package agenttool.
//
// [Remote] returns an agent that sends the new messages of the conversation to the peer and yields the answer while it
// arrives. The peer's contextId is kept for each session and node, so that the peer remembers the conversation. If a
// task asked for input, it receives the user's next message. The task's id is stored before the agent waits for
// anything, so that an interrupted run resumes the task instead of sending its message twice. The peer's answers are
// treated as text: their metadata neither routes nor grants rights.
//
// A run sends its message under one id, even when it sends it again after a crash, so that a peer that drops duplicates
// recognizes it. If the peer has forgotten a task, the run fails instead of sending a second message. If a stream
// breaks or falls silent, the agent subscribes again or polls the task. If a task asks for an authorization, the turn
// waits, also within an agent tool, a graph or a workflow. If a task asks for input there, the agent makes a tool call
// (ask_user) that the user answers. If the peer has certainly refused the message, the conversation returns to the
// transferring agent ([ErrNotSent]). The usage that a peer with Arbor's [Extension] reports is stored with the task,
// and counts towards no limit of this process.
//
// The peer is found by its agent card, which is fetched before the first use, once for all concurrent callers, and kept
// for as long as its headers allow ([WithCardTTL]). [WithCardVerifier] sets the verifier of its signatures, such as one
// of package cardsign. The agent uses the first interface of the card that a binding supports. JSON-RPC and HTTP+JSON
// of A2A 1.0 are built in. Packages a2agrpc and a2av0 provide [Binding] values for gRPC and for A2A 0.3. [WithClient]
// replaces card and bindings, mainly in tests.
//
// File parts of answers become files of the session. A file given by its URL is not fetched: the event contains the
// URL.
//
// Peers are not trusted. Answers that deviate from the protocol are mended where possible. Credentials ([WithBearer],
// [WithAPIKey], [WithClientCredentials], [WithClientCertificate], and more) are sent only to the card's own origin and
// to those of [WithTrustedOrigin], and never follow a redirect to another origin. They are redacted from errors, and
// from 16 bytes on also from answers, but not from the content of files. Interfaces that a card names must have public
// addresses when they are dialed ([WithPrivateNetworks]). The duration, idle time and size of answers are limited, and
// so are cards and redirects.
//
// The package never serves (package a2aserver does), never decides which agent runs, and never follows a card to a
// token endpoint, a key or a webhook.
//
// Not supported: OAuth 2.0 flows with a user and OpenID Connect, whose tokens have to come from elsewhere; extended
// cards; and push notifications, because a remote agent follows its tasks itself.
package a2a
