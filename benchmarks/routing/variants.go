package main

import (
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools/transfer"
)

// variant is a way to show a model its targets and to read its answers.
type variant struct {
	name   string
	about  string
	model  []openai.Option
	agents []llmagent.Option // of every agent; they come last
}

// variants returns those that can be measured, what Arbor does without any option
// first.
func variants() []variant {
	unlisted, _, _ := strings.Cut(transfer.Instruction, " The agents:")
	return []variant{
		{name: "today", about: "what Arbor does without options"},
		{name: "leaked-off", about: "calls that are written as words stay words", model: []openai.Option{openai.WithLeakedCalls(llm.LeakedCallsOff)}},
		{name: "imperative", about: "a tool for each target, and words that leave less to choose", agents: []llmagent.Option{
			llmagent.WithTransferTools(transfer.ToolPerTarget), llmagent.WithTransferInstruction(imperative)}},
		{name: "imperative-one", about: "the same words with one tool", agents: []llmagent.Option{llmagent.WithTransferInstruction(imperative)}},
		{name: "decide", about: "a short question decides who answers", agents: []llmagent.Option{llmagent.WithDecision(nil)}},
		{name: "decide-sure", about: "the same, and the user is never asked", agents: []llmagent.Option{llmagent.WithDecision(nil, llmagent.DecisionThreshold(0))}},
		{name: "no-instruction", about: "only the tool says that there are transfers", agents: []llmagent.Option{llmagent.WithTransferInstruction("")}},
		{name: "unlisted", about: "the system text does not list the targets, only the tool does", agents: []llmagent.Option{llmagent.WithTransferInstruction(unlisted)}},
		{name: "tool-per-target", about: "a tool for each target", agents: []llmagent.Option{llmagent.WithTransferTools(transfer.ToolPerTarget)}},
		{name: "slots", about: "each agent has a slot of llama.cpp's of its own, for a server with ARBOR_SLOTS=7", model: []openai.Option{openai.WithSlots(7)}},
	}
}

const imperative = "Other agents work beside you:\n" + transfer.TargetsHere +
	"\nWhen the user's message is about what one of them is for, hand the conversation over at once by calling " + transfer.ToolHere +
	" for that agent: do not ask the user anything first, do not answer, do not announce it. The other agent reads the whole conversation and answers." +
	" Answer yourself only what none of them is for."

// choose finds variants by a list of names; "all" are all.
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
