// Package workflow is what a runner offers to agents that run other agents: the [Group] in which children run in
// parallel, each in a scope of its own, and [Named], which gives a child its name in the workflow.
//
// The package runs nothing itself. Authors of agents that only send text, call tools and transfer do not need it.
package workflow
