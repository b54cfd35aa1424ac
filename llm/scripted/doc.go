// Package scripted is a language model for tests. It gives each agent the answers of a script, in order, and returns an
// error if the calls and the script differ. It opens no connection, reads no clock and never guesses an answer.
//
// A [Script] has an ordered list of answers per agent. [Script.Model] returns the llm.Model of one agent, whose Name is
// the agent's name. [Script.Models] returns a function that finds these models by name, for code that serves several
// (such as llm/openai/endpoint). Every iteration of a Generate sequence is one call and uses one answer. A call beyond
// the script, or one that does not meet an expectation, is a non-retryable *llm.Error that wraps [ErrDrift].
// [Script.Done] returns these errors again, and reports every unused answer.
//
//	script := scripted.New().
//		Add("support", scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))).
//		Add("billing", scripted.Reply(scripted.Text("I see ", "two charges.")))
//
// # Script text
//
// [Parse] reads a script from text. An answer starts at the beginning of a line with the agent's name and a colon, and
// continues over all following indented lines. Blank lines, and lines whose first character is #, are ignored. An
// answer is a list of items in the order of the stream:
//
//	"Hello " "there."          two deltas of text; the strings are Go's, quoted with " or `
//	think "The user is upset"  a delta of reasoning
//	likely "billing" 0.6 {"tech": 0.3}
//	                           a delta of text that is one token, with its probability and those of others
//	call lookup {"id": 1}      a tool call; the JSON is not changed
//	call lookup#c1 {"id": 1}   the same with an id; without one, ids are call_AGENT_1, call_AGENT_2, …
//	                           (a name of more than 24 characters is shortened)
//	call lookup raw "{oops"    a tool call whose arguments are any string
//	call now                   a tool call with empty arguments
//	finish=length              the finish reason; by default tool_calls if there are calls, otherwise stop
//	usage=12/7  usage=12/7/4   input/output[/cached] tokens, sent with the last chunk
//	model=gpt-x-2026           the model's name that the endpoint returns
//	fault=cut                  the stream ends here, without a terminal chunk
//	fault=status:503           the call fails here with this HTTP status
//	fault=status:429/2s        the same; the endpoint asks the client to wait two seconds
//	fault=timeout              the call fails here with this llm.ErrorCode
//	expect user "charged"      the last user message must contain this
//	expect system "billing"    the system message must contain this
//	expect result "refunded"   the last tool result must contain this
//	expect tools a,b           exactly these tools must be offered, in any order; none means no tools
//	always                     return this answer for every further call; the agent's last answer only
//
// For example:
//
//	# The coordinator transfers, the specialist answers.
//	support: expect user "charged twice" call transfer_to_agent {"agent_name": "billing"}
//	billing: call lookup#c1 {"id": 1} call lookup#c2 {"id": 2} usage=40/12
//	billing:
//	    think "Both exist."
//	    "I see " "two charges."
//	billing: "part" fault=cut
//
// An answer without items of the stream is an empty answer that finishes with stop. No item of the stream can follow a
// fault.
package scripted
