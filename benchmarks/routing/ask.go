package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// maxModelCalls bounds a turn, so that a model that goes in circles does not take
// the time of all others.
const maxModelCalls = 10

// tree builds the tree in the way of a variant: a coordinator whose specialists may
// only hand back to it.
func tree(roles []role, model llm.Model, maxTokens int, v variant) (agent.Agent, error) {
	zero := 0.0
	settings := llmagent.WithSettings(llm.Settings{Temperature: &zero, MaxTokens: maxTokens})
	build := func(r role, opts ...llmagent.Option) (agent.Agent, error) {
		opts = append(opts, settings, llmagent.WithDescription(r.Description))
		return llmagent.New(r.Name, r.Instruction, model, append(opts, v.agents...)...)
	}
	var specialists []agent.Agent
	for _, r := range roles[1:] {
		a, err := build(r, llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true}))
		if err != nil {
			return nil, err
		}
		specialists = append(specialists, a)
	}
	return build(roles[0], llmagent.WithSubAgents(specialists...))
}

// start makes a runner of the tree.
func start(root agent.Agent) (*runner.Runner, error) {
	limits := runner.DefaultLimits()
	limits.ModelCalls = maxModelCalls
	return runner.New(root, session.NewMemory(), runner.WithLimits(limits))
}

// say gives a prompt to the session and returns what came of it.
func say(ctx context.Context, r *runner.Runner, id string, p prompt) (turn, error) {
	t := turn{prompt: p}
	first, err := r.Active(ctx, session.ID(id))
	if err != nil {
		return turn{}, err
	}
	t.First = first
	began := time.Now()
	moved, handed := false, false
	for e, err := range r.Run(ctx, session.ID(id), llm.UserText(p.Text)) {
		if err != nil {
			// An unreachable endpoint says nothing about the model.
			if e := (*llm.Error)(nil); errors.As(err, &e) && e.Code == llm.CodeUnreachable {
				return turn{}, err
			}
			t.Error, t.Message = code(err), err.Error()
			break
		}
		s := step{Agent: e.Agent}
		switch d := e.Data.(type) {
		case *event.Text:
			s.Text = d.Content
			if strings.TrimSpace(d.Content) != "" {
				t.End = e.Agent
			}
		case *event.ToolCall:
			s.Call = d
		case *event.ToolResult:
			s.Note = "result: " + string(d.Output)
		case *event.Transfer:
			s.To, s.Note = d.To, string(d.Outcome)
			if d.Outcome == event.TransferCommitted {
				if !moved {
					t.First = d.To
				}
				moved, handed = true, true
			}
		case *event.Discard:
			s.Note = "discarded: " + d.Code
			if d.Usage != nil {
				t.Asked = append(t.Asked, asked{Agent: e.Agent, Input: d.Usage.InputTokens, Cached: d.Usage.CachedTokens, Output: d.Usage.OutputTokens, Handed: handed})
				handed = false
			}
		case *event.Notice:
			s.Note = d.Code + ": " + d.Message
		case *event.Usage:
			t.Asked = append(t.Asked, asked{Agent: e.Agent, Input: d.InputTokens, Cached: d.CachedTokens, Output: d.OutputTokens, Handed: handed})
			handed = false
			continue
		default:
			continue
		}
		t.Steps = append(t.Steps, s)
	}
	t.Seconds = time.Since(began).Seconds()
	return t, ctx.Err()
}

// code names an error as the log does.
func code(err error) string {
	if c := agent.ErrorCode(err); c != "" {
		return c
	}
	return "error"
}
