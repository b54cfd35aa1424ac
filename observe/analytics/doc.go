// Package analytics reports to a program's product analytics what happens in conversations: which router chose which
// agent, which specialist answered and how long that took, how long texts were, which approvals were requested, and the
// status of handoffs to people. [New] returns an interceptor for runner.WithInterceptors, and a [Sink] receives the
// events.
//
// A graph is a router with all agents below it. The events of a turn in a graph come in this order:
//
//	agent_graph_entered
//	( agent_routed* agent_specialist_started (agent_specialist_completed | agent_specialist_failed) )*
//	agent_routed*
//	agent_graph_exited
//
// The last one always comes, even if the turn fails, its context ends, its consumer breaks out of the loop or panics,
// or another interceptor does. Events of other types come in between.
//
//   - A specialist is the agent below a router that gets the conversation, with
//     all agents below it: transfers between these do not change the
//     specialist. It completes when a router above or below it starts a run,
//     when an agent next to it does, which is the next specialist, or when a
//     person takes the conversation.
//   - If a specialist fails and another agent continues (agent.OnError), the
//     specialist has failed, and the other one is started. No router has
//     decided this, so there is no agent_routed. If the other agent is below the
//     same specialist, the specialist has not failed.
//   - The graph is exited when an agent above it continues, and entered again if
//     the conversation returns. A person is not a specialist. If a person takes
//     the conversation of a graph, the graph ends with the turn, and later turns
//     with the person belong to no graph. If no person is available and an agent
//     continues, the graph stays the same.
//   - If a specialist waits for an approval or an answer, it completes with the
//     finish reason input_required. A later resume, in any process, is a graph
//     of its own with the same turn id, marked as resumed and without a
//     decision. So is each step of runner.Advance; a specialist that continues
//     in the next step completes without a finish reason. The specialist is then
//     the agent directly below its innermost router.
//   - An agent that a tool or a workflow runs has a conversation of its own, a
//     scope. A router in it is another graph, whose events name the scope. The
//     runner's tree does not contain this router: its graph is entered with its
//     first decision, and a resume after that is not reported.
//
// Texts of people, models and tools are left out unless [WithTexts] is given; user ids always are. Secrets are removed
// from reasons and the messages of errors.
//
// The package runs one goroutine per interceptor until Close, and never makes a turn wait.
package analytics
