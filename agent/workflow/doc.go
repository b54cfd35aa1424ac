// Package workflow is what a runner gives to agents that run other agents: the
// [Group] in which children run side by side, each in a scope of its own, and
// [Named], which gives a child its name in the workflow.
//
// It imports agent, event and llm, and runs nothing itself. Authors of agents that
// only talk, call tools and transfer do not need it.
package workflow
