// Package analytics tells a program's product analytics what happens in conversations: which router chose whom, which
// specialist answered and how long that took, how much was said, which approvals were asked for, and how handoffs to
// people stand. [New] makes an interceptor for runner.WithInterceptors, and a [Sink] gets the events.
//
// A graph is a router with all below it. What a turn does in one is told in this order:
//
//	agent_graph_entered
//	( agent_routed* agent_specialist_started (agent_specialist_completed | agent_specialist_failed) )*
//	agent_routed*
//	agent_graph_exited
//
// The last one always comes: also if the turn fails, its context ends, its consumer breaks out of the loop or panics,
// or another interceptor does. Events of other types come in between.
//
//   - A specialist is whom the conversation goes to below a router, with all below itself: while it hands on there, it
//     is the same one. It has completed when a router begins to run, above or below it, when an agent beside it does,
//     which is the next specialist, or a person.
//   - One that fails and for which another agent goes on (agent.OnError) has failed, and the other one is started. No
//     router has decided that, so nothing is routed. If the other one is below the same specialist, this has not
//     failed.
//   - The graph is exited when an agent above it goes on, and entered again if the conversation comes back. A person is
//     no specialist; a graph that a person has the conversation of ends with the turn, and later turns with the person
//     are in no graph. If no person can be had and an agent goes on, it is still the same graph.
//   - A specialist that waits, for an approval or because it asks something, has completed with the finish reason
//     input_required. What is resumed later, in whatever process, is a graph of its own with the same turn id, marked
//     as resumed and without a decision. So is each step of runner.Advance, at whose end a specialist that goes on in the next one
//     has completed without a finish reason. The specialist is then the agent right below its innermost router.
//   - An agent that a tool or a workflow runs has a conversation of its own, a scope. A router in it is another graph,
//     whose events name the scope. The tree of the runner does not have it: it is entered with its first decision, and
//     what is resumed behind that is not told.
//
// What people, models and tools say is left out, unless [WithTexts] asks for it; user ids always are. Secrets are taken
// out of reasons and messages of errors.
//
// Of this module the package imports agent, event, llm and internal packages. It runs one goroutine for each
// interceptor until Close, and never makes a turn wait.
package analytics
