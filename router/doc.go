// Package router has an agent without a model: rules choose the agent that answers a message, and the runner transfers
// the conversation to it. The first rule that matches decides. If no rule matches, the answer comes from the agent that
// answered before (see [Sticky]), from the agent that has asked the user something, or from the default. Rules name
// agents by handles and not by names, so that a misspelt name does not compile.
//
// A router reads its earlier decisions from the log, so that a session can continue in another process. Signals, such
// as the user's intent, come from classifiers. A classifier has a deadline, and a message is routed even if a signal
// does not arrive.
//
// The package never runs an agent and changes no text.
package router
