package main

import (
	"bytes"
	"cmp"
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
	"github.com/agentarbor/arbor/tools/summarize"
	"github.com/agentarbor/arbor/view"
)

// files holds the trees and the cases; see data/README.md.
//
//go:embed data/star data/nested
var files embed.FS

// treeNames returns the names of the trees, which are the folders of data.
func treeNames() []string { return []string{"star", "nested"} }

// role describes an agent of a tree.
type role struct {
	Name        string `json:"name"`
	Parent      string `json:"parent"` // "" for the coordinator and its own children
	Description string `json:"description"`
	Instruction string `json:"instruction"`
	// Peers allows transfers to siblings. Every agent except the coordinator may transfer to its parent.
	Peers bool `json:"peers"`
	// Tools contains the names of tools. summarize_text is the only one.
	Tools []string `json:"tools"`
	// History is the name of a view policy. Defaults to full.
	History string `json:"history"`
}

// roles returns the agents of a tree, the coordinator first.
func roles(tree string) (all []role, err error) {
	name := "data/" + tree + "/agents.jsonl"
	text, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var r role
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(all) > 0 {
			r.Parent = cmp.Or(r.Parent, all[0].Name)
		}
		all = append(all, r)
	}
}

// load returns the first n cases of a file that belong to a half, or to both if half is "all". If n is negative, it
// returns all of them.
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

// grow builds a tree from roles in the given variant. The first role is the coordinator.
func grow(all []role, model llm.Model, maxTokens int, v variant) (agent.Agent, error) {
	if len(all) == 0 {
		return nil, errors.New("a tree needs a coordinator")
	}
	zero := 0.0
	settings := llmagent.WithSettings(llm.Settings{Temperature: &zero, MaxTokens: maxTokens})
	var build func(r role) (agent.Agent, error)
	build = func(r role) (agent.Agent, error) {
		if v.whole {
			r.History = ""
		}
		history, err := view.Parse(cmp.Or(r.History, "full"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		opts := []llmagent.Option{settings, llmagent.WithDescription(r.Description), llmagent.WithHistory(history)}
		if r.Parent != "" {
			policy := agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: r.Peers}
			if v.policy != nil {
				v.policy(&policy)
			}
			opts = append(opts, llmagent.WithTransferPolicy(policy))
		}
		if len(r.Tools) > 0 {
			tool, err := summarize.New(model)
			if err != nil {
				return nil, err
			}
			opts = append(opts, llmagent.WithTools(tool))
		}
		var children []agent.Agent
		for _, c := range all {
			if c.Parent != r.Name {
				continue
			}
			child, err := build(c)
			if err != nil {
				return nil, err
			}
			children = append(children, child)
		}
		opts = append(append(opts, llmagent.WithSubAgents(children...)), v.agents...)
		if r.Parent == "" {
			opts = append(opts, v.root...)
		}
		return llmagent.New(r.Name, r.Instruction, model, opts...)
	}
	return build(all[0])
}
