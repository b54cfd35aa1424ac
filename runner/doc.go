// Package runner runs a user's turn on a session: it takes the session's lease,
// finds the active agent in the log, and loops over agents' steps and transfers
// until an agent has answered. What every step yields is stored before it is
// delivered. The runner always reads from the log which agent runs next.
//
// A type's name says what it holds:
//
//   - Runner has the tree, the cache of sessions and the options, which its turns share.
//   - turn holds the lease and the session (turnSession, which agents see as agent.Session), and writes the log. It
//     reserves what its models may use (tally).
//   - opening stores the first events of a turn: a message, decisions, a cancellation.
//   - scope is the loop over steps, for the conversation or an inner scope. It has the write in preparation (draft), the
//     destination of events (delivery), and the rules: guards, transfers, and the meter for limits, budgets and prices.
//   - runtime is what agents may call while they run: models, tools, other agents.
//   - inner is an agent that a tool runs; group and child are the agents that a workflow or a graph runs.
//   - closer creates the events that close what is open.
//
// A file calls only files below it:
//
//	parts, run               the methods that run turns, and parts of turns
//	opening, decide, …       the first events of turns
//	inner, group, child      agents inside of agents
//	runtime, consumer        models and tools for agents, and the destination of the conversation's events
//	scope                    the loop
//	anticipate, predict      the early request to the target of a transfer
//	transfer, guard, draft   what a step may do
//	meter, bounds            limits and budgets
//	turn, branch, session    the session, its lease and its log
//	closing, cache, cached   the fold of the log
//
// Agents reach it only through the interfaces agent.Runtime, agent.Session and workflow.Runtime.
package runner
