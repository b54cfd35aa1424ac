// Package llmagent is the agent that a language model drives. It takes one step at a time: a step
// asks the model once, or runs the tools of the model's last answer and decides about transfers.
// [Func] makes an agent of a Go function instead, which asks and calls by a [Step].
// [Agent.Split] and [ToolAgent] make agents for graphs in which tools have nodes of their own.
//
// A type's name says what it holds:
//
//   - Agent is the configuration, which does not change after New.
//   - kit is what an agent has at a time: its tools, those of sets and of the user's client, and the form of its
//     answers. offer is what the model is offered of that in a place of the tree.
//   - execution is one call of Run: the kit, the view of the conversation, and where events go.
//   - question is what a model is asked, and answer one attempt to answer it; side is a question whose answer is not
//     part of the conversation.
//   - toolRound runs the calls of an answer, and toolCall one of them; transferRound decides about its transfers.
//   - compactor shortens the view, and chooser asks who answers.
//
// A file calls only files below it:
//
//	func, stream, step             agents that are Go functions
//	split                          agents for graphs in which tools have nodes of their own
//	agent, options, instructions   Agent, Run and the step that it takes
//	compact                        a step that shortens the view
//	choose, decision               a step that asks who answers
//	ask                            a step that asks the model: the request, the attempts, what follows from the answer
//	shared                         requests that differ from those of other agents only in the last message
//	tools                          a step that runs the calls of an answer
//	transfer                       the transfers among them
//	call, permission               one call, whether it may run, and what is wrong with it
//	answer                         what a model sends
//	execution                      the view, and the events
//	equip, rules                   the tools at a time
//	place, kit                     what the model is offered
//	output, passed, text           the form of answers, and what the parts of a split agent pass on
//
// The package stores nothing: the session keeps the views, and the runner stores the events.
package llmagent
