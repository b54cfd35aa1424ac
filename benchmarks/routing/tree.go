package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
)

// files is what is asked; see data/README.md.
//
//go:embed data/*.jsonl data/*.yaml
var files embed.FS

// role is an agent of the tree.
type role struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Instruction string `json:"instruction"`
}

// roles returns the agents, the coordinator first.
func roles() (all []role, err error) {
	text, err := files.ReadFile("data/agents.jsonl")
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var r role
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("data/agents.jsonl: %w", err)
		}
		all = append(all, r)
	}
}

// load returns the first n cases of a file that belong to a half, or to both with "all"; n below 0
// means all of them.
func load(name, half string, n int) ([]eval.Case, error) {
	text, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	cases, err := eval.Load(text, name)
	if err != nil {
		return nil, err
	}
	cases = slices.DeleteFunc(cases, func(c eval.Case) bool { return half != "all" && !slices.Contains(c.Tags, half) })
	if n >= 0 && n < len(cases) {
		cases = cases[:n]
	}
	return cases, nil
}

// tree builds the tree in the way of a variant: a coordinator whose specialists may
// only hand back to it.
func tree(model llm.Model, maxTokens int, v variant) (agent.Agent, error) {
	all, err := roles()
	if err != nil {
		return nil, err
	}
	zero := 0.0
	settings := llmagent.WithSettings(llm.Settings{Temperature: &zero, MaxTokens: maxTokens})
	build := func(r role, opts ...llmagent.Option) (agent.Agent, error) {
		opts = append(opts, settings, llmagent.WithDescription(r.Description))
		return llmagent.New(r.Name, r.Instruction, model, append(opts, v.agents...)...)
	}
	var specialists []agent.Agent
	for _, r := range all[1:] {
		a, err := build(r, llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true}))
		if err != nil {
			return nil, err
		}
		specialists = append(specialists, a)
	}
	return build(all[0], llmagent.WithSubAgents(specialists...))
}
