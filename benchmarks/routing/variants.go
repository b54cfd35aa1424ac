package main

import (
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools/transfer"
)

// variant is a way to show a model its targets and to read its answers.
type variant struct {
	name   string
	about  string
	model  []openai.Option
	agents []llmagent.Option // for every agent, after its own options
	root   []llmagent.Option // for the coordinator, after those for every agent
	// policy changes the transfer policy of every agent except the coordinator.
	policy func(*agent.TransferPolicy)
	// whole gives every agent the whole history, whatever its role says.
	whole  bool
	runner []runner.Option
}

// variants returns all variants. The first one is Arbor without options.
func variants() []variant {
	return []variant{
		{name: "today", about: "what Arbor does without options"},
		{name: "leaked-off", about: "calls that are written as words stay words", model: []openai.Option{openai.WithLeakedCalls(llm.LeakedCallsOff)}},
		{name: "one-tool", about: "one tool for all targets", agents: []llmagent.Option{llmagent.WithTransferTools(transfer.OneTool)}},
		{name: "tool-each", about: "a tool for each target", agents: []llmagent.Option{llmagent.WithTransferTools(transfer.ToolPerTarget)}},
		{name: "permissive", about: "words that leave more to choose", agents: []llmagent.Option{llmagent.WithTransferInstruction(permissive + listed)}},
		{name: "permissive-one", about: "such words with one tool", agents: []llmagent.Option{
			llmagent.WithTransferTools(transfer.OneTool), llmagent.WithTransferInstruction(permissive + listed)}},
		{name: "permissive-unlisted", about: "the same, and only the tool lists the targets", agents: []llmagent.Option{
			llmagent.WithTransferTools(transfer.OneTool), llmagent.WithTransferInstruction(permissive)}},
		{name: "decide", about: "a short question decides who answers", agents: []llmagent.Option{llmagent.WithDecision(nil)}},
		{name: "decide-sure", about: "the same, and the user is never asked", agents: []llmagent.Option{llmagent.WithDecision(nil, llmagent.DecisionThreshold(0))}},
		{name: "decide-brief", about: "the same as a table in code, and shared words count", agents: []llmagent.Option{llmagent.WithDecision(nil, llmagent.DecisionThreshold(0), llmagent.DecisionBrief())}},
		{name: "decide-schema", about: "the same with the instructions, in JSON with a schema", agents: []llmagent.Option{llmagent.WithDecision(nil, llmagent.DecisionThreshold(0), llmagent.DecisionSchema())}},
		{name: "decide-root", about: "only the coordinator decides by a short question", root: []llmagent.Option{llmagent.WithDecision(nil)}},
		{name: "hold", about: "an agent that got the conversation by a transfer is offered only its children at first", policy: func(p *agent.TransferPolicy) { p.HoldOnArrival = true }},
		{name: "small", about: "the profile for small models", root: []llmagent.Option{llmagent.WithSmallModels()}},
		{name: "small-one", about: "the same with one tool", root: []llmagent.Option{llmagent.WithSmallModels()}, agents: []llmagent.Option{llmagent.WithTransferTools(transfer.OneTool)}},
		{name: "shared", about: "the agents share their requests, and each sees the whole history", whole: true, runner: []runner.Option{runner.WithSharedRequests()}},
		{name: "no-peers", about: "agents may not transfer to their siblings", policy: func(p *agent.TransferPolicy) { p.AllowTransferToPeers = false }},
		{name: "no-instruction", about: "only the tool says that there are transfers", agents: []llmagent.Option{llmagent.WithTransferInstruction("")}},
		{name: "slots", about: "each agent has a slot of llama.cpp's of its own, for a server with ARBOR_SLOTS=7", model: []openai.Option{openai.WithSlots(7)}},
	}
}

// The texts that Arbor used before small models were measured with them.
const (
	permissive = "You may hand this conversation to another agent by calling " + transfer.ToolPlaceholder + ". Do so when another agent is better suited to" +
		" the user's request. Do not announce it and do not explain it: the other agent reads the whole conversation and answers. When you are the right one, answer yourself."
	listed = " The agents:\n" + transfer.TargetsPlaceholder
)

// choose returns the variants of a list of names; "all" means all of them.
func choose(names string) ([]variant, error) {
	if names == "all" {
		return variants(), nil
	}
	var chosen []variant
	var known []string
	for _, v := range variants() {
		known = append(known, v.name)
	}
names:
	for _, name := range strings.Split(names, ",") {
		for _, v := range variants() {
			if v.name == name {
				chosen = append(chosen, v)
				continue names
			}
		}
		return nil, fmt.Errorf("there is no variant %q; there are %s", name, strings.Join(known, ", "))
	}
	return chosen, nil
}
