// Package agenttool makes a tool of an agent: call and return, where a transfer
// would hand the conversation over.
//
// The agent runs in a scope of its own in the same session's log. It sees the
// input that the calling model wrote and nothing of the conversation, and its
// last words are the tool's output, or what it finished with if it said nothing, as
// a graph does. A transfer inside moves that inner conversation only. (With a transfer the target sees the conversation, with an
// agent tool it does not: redpanda-data/ai-sdk-go issue 95.)
//
// It imports agent and tools. It runs nothing itself: the runner does, behind
// tools.Context.RunAgent, so that the limits of a turn count inner runs too.
package agenttool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/tools"
)

// Option configures a tool made by [New].
type Option func(*tools.Info)

// WithName names the tool; the default is the agent's name. A tool must not have
// the name of an agent to which its owner can transfer.
func WithName(name string) Option { return func(i *tools.Info) { i.Name = name } }

// WithDescription replaces the agent's description for the calling model.
func WithDescription(d string) Option { return func(i *tools.Info) { i.Description = d } }

// WithTimeout bounds one call. The default, and any value that is not positive,
// is no bound besides those of the turn. When the time is up the inner run is
// closed as canceled and the calling model reads an error.
func WithTimeout(d time.Duration) Option {
	return func(i *tools.Info) {
		if d <= 0 {
			d = -1
		}
		i.Timeout = d
	}
}

// WithMaxOutput bounds the answer in bytes; 0 means tools.DefaultMaxOutput. What
// is longer is cut, and says so.
func WithMaxOutput(n int) Option { return func(i *tools.Info) { i.MaxOutput = n } }

// Input is what the calling model gives.
type Input struct {
	Input string `json:"input" jsonschema:"minLength=1,description=The task\\, with everything that is needed to do it: the agent sees nothing of this conversation"`
}

// New makes a tool from an agent and all below it. The tool is safe for
// concurrent use: several calls in one answer run side by side, each in its own
// scope.
//
// Whatever ends the inner run without an answer (a failure, a limit of the turn,
// an agent that says nothing) is an error result for the calling model, which
// then continues as far as the limits allow. Canceling the turn cancels the
// inner run.
//
// An agent that has to wait for somebody outside, such as for an approval, pauses the turn
// with it, and goes on where it was. So it does after a crash: what it has answered is not
// asked for again.
//
// The error of New says what is wrong with the name, or is the *agent.TreeError
// of the agents below a.
func New(a agent.Agent, opts ...Option) (tools.Tool, error) {
	if a == nil {
		return nil, errors.New("agent tool: the agent is nil")
	}
	if _, err := agent.NewTree(a); err != nil {
		return nil, fmt.Errorf("agent tool: %w", err)
	}
	schema, err := tools.SchemaOf[Input]()
	if err != nil {
		return nil, fmt.Errorf("agent tool %q: %w", a.Name(), err)
	}
	info := tools.Info{Timeout: -1, Resumable: true}
	info.Name, info.Description, info.Parameters = a.Name(), a.Description(), schema
	if err := option.Apply(&info, opts); err != nil {
		return nil, fmt.Errorf("agent tool %q: %w", a.Name(), err)
	}
	t, err := tools.New(info, func(ctx tools.Context, input json.RawMessage) (any, error) {
		var in Input
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		answer, err := ctx.RunAgent(a, in.Input)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(answer) == "" {
			return nil, fmt.Errorf("the agent %s ended without an answer", a.Name())
		}
		return answer, nil
	})
	if err != nil {
		return nil, err
	}
	return &tool{t, a}, nil
}

type tool struct {
	tools.Tool
	agent agent.Agent
}

// InnerAgents implements tools.Host.
func (t *tool) InnerAgents() []agent.Agent { return []agent.Agent{t.agent} }
