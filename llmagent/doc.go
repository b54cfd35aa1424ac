// Package llmagent provides the agent that a language model drives. It runs one step at a time: a step asks the model
// once, or runs the tools of the model's last answer and decides about its transfers. [Func] makes an agent of a Go
// function instead, which asks models and calls tools by a [Step]. [Agent.Split] and [ToolAgent] make agents for graphs
// in which tools have separate nodes.
//
// The types:
//
//   - Agent is the configuration, which does not change after New.
//   - kit is what an agent has in one step: its tools, those of sets and of the user's client, and the form of its
//     output. template is the part of its requests that does not depend on the messages.
//   - execution is one call of Run: the kit, the view of the conversation, and the consumer of the events.
//   - modelCall asks a model for one answer, and answer is one attempt. sideCall is a call whose answer is not part of
//     the conversation.
//   - toolRound runs the calls of an answer, and toolCall runs one of them. transferRound decides about its transfers.
//   - compactor shortens the view, and chooser asks which agent answers.
//
// A file calls only files below it:
//
//	func, stream, step             agents that are Go functions
//	split                          agents for graphs in which tools have separate nodes
//	agent, options, instructions   Agent, Run and the step that it runs
//	compact                        a step that shortens the view
//	choose, decision               a step that asks which agent answers
//	ask                            a step that asks the model: the request, the attempts, the events of the answer
//	shared                         requests that differ from those of other agents only at the end
//	tools                          a step that runs the calls of an answer
//	transfer                       the transfers among the calls
//	call, permission               one call, whether it may run, and its errors
//	answer                         the answer of a model
//	execution                      the view, and the events
//	equip, rules                   the tools of a step
//	template, kit                  the tools, system text and targets that the model is offered
//	output, splitmessages, text    the form of answers, and the messages of a split agent
//
// The package stores nothing: the session keeps the views, and the runner stores the events.
package llmagent
