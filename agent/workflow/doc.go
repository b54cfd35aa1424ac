// Package workflow is what agents that run other agents need, and what a runner gives
// them: the [Group] in which children run side by side, each in a scope of its own,
// and [Named], by which a child has its name in the workflow.
//
// It imports agent, event and llm, and runs nothing itself. Whoever writes agents that
// talk, call and transfer does not need it.
package workflow
