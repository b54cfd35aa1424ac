// Package router has an agent without a model: rules decide who answers a message, in
// process, and the runner hands the conversation over. The first rule that matches decides;
// where none does, the agent that was in charge stays, or the one that asked the user
// something answers, or the default. Rules take handles of agents, no names.
//
// What a router decided before it reads from the log, so that a session may move between
// processes. Signals such as what the user wants come from classifiers, which have a
// deadline: without them the message is routed all the same.
//
// Of this module it imports agent, event, llm and internal packages. It never runs an agent
// and changes no text.
package router
