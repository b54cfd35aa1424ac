// Package agenttool makes a tool of an agent: call and return, where a transfer
// would hand the conversation over.
//
// The agent runs in a scope of its own in the same session's log. It sees the
// input that the calling model wrote, and of the conversation nothing but what [WithHistory] shows. Its
// last words are the tool's output, or what it finished with if it said nothing, as
// a graph does. A transfer inside moves that inner conversation only. (With a transfer the target sees the conversation, with an
// agent tool it does not: redpanda-data/ai-sdk-go issue 95.)
//
// It imports agent, tools and view. It runs nothing itself: the runner does, behind
// tools.Context.RunAgent, so that the limits of a turn count inner runs too.
package agenttool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// Option configures a tool made by [New] or [NewTyped].
type Option func(*config)

type config struct {
	tools.Info
	around []agent.EdgeOption
	depth  int
}

// WithName names the tool; the default is the agent's name. A tool must not have
// the name of an agent to which its owner can transfer.
func WithName(name string) Option { return func(c *config) { c.Name = name } }

// WithDescription replaces the agent's description for the calling model.
func WithDescription(d string) Option { return func(c *config) { c.Description = d } }

// WithTimeout bounds one call. The default, and any value that is not positive,
// is no bound besides those of the turn. When the time is up the inner run is
// closed as canceled and the calling model reads an error.
func WithTimeout(d time.Duration) Option {
	return func(c *config) {
		if c.Timeout = d; d <= 0 {
			c.Timeout = -1
		}
	}
}

// WithMaxOutput bounds the answer in bytes; 0 means tools.DefaultMaxOutput. What
// is longer is cut, and says so.
func WithMaxOutput(n int) Option { return func(c *config) { c.MaxOutput = n } }

// WithHistory shows the agent, in front of its input, the conversation of the calling agent,
// as the policy says: with the images and files of the user, and with what the caller has said up to
// the call. Without it the agent sees its input alone.
func WithHistory(p view.Policy) Option {
	return func(c *config) { c.around = append(c.around, view.Around(p)) }
}

// WithMaxDepth bounds how many calls of agent tools may be nested, a call of this tool included: 1 allows the call only
// outside of agent tools. The result of a deeper call is an error that the model reads. Defaults to 8.
func WithMaxDepth(n int) Option { return func(c *config) { c.depth = n } }

// Input is what the calling model gives.
type Input struct {
	Input string `json:"input" jsonschema:"minLength=1,description=The task\\, with everything that is needed to do it: the agent sees nothing of this conversation"`
}

// seeing is the Input of an agent that sees the conversation.
type seeing struct {
	Input string `json:"input" jsonschema:"minLength=1,description=The task. The agent sees this conversation too"`
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
	return newTool(a, opts, func(c *config) (json.RawMessage, error) {
		if len(c.around) > 0 {
			return tools.SchemaOf[seeing]()
		}
		return tools.SchemaOf[Input]()
	}, func(input json.RawMessage) (string, error) {
		var in Input
		err := json.Unmarshal(input, &in)
		return in.Input, err
	}, func(answer string) (any, error) { return answer, nil })
}

// newTool makes a tool of an agent, of the schema of its arguments, and of what they are to
// the agent and its answer to the caller.
func newTool(a agent.Agent, opts []Option, parameters func(*config) (json.RawMessage, error),
	task func(json.RawMessage) (string, error), give func(answer string) (any, error)) (tools.Tool, error) {
	if a == nil {
		return nil, errors.New("agent tool: the agent is nil")
	}
	if _, err := agent.NewTree(a); err != nil {
		return nil, fmt.Errorf("agent tool: %w", err)
	}
	c := config{Info: tools.Info{Timeout: -1, Resumable: true}, depth: 8}
	c.Name, c.Description = a.Name(), a.Description()
	err := option.Apply(&c, opts)
	if err == nil && c.depth < 1 {
		err = fmt.Errorf("a depth of %d: at least 1 is needed", c.depth)
	}
	if err == nil {
		c.Parameters, err = parameters(&c)
	}
	if err != nil {
		return nil, fmt.Errorf("agent tool %q: %w", a.Name(), err)
	}
	inner := a
	if len(c.around) > 0 {
		inner = agent.Via(a, c.around...)
	}
	t, err := tools.New(c.Info, func(ctx tools.Context, input json.RawMessage) (any, error) {
		in, err := task(input)
		if err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		depth, _ := ctx.Value(depthKey{}).(int)
		if depth >= c.depth {
			return nil, fmt.Errorf("%s is already nested in %d calls of agents, and the limit is %d: answer without it", c.Name, depth, c.depth-1)
		}
		ctx.Context = context.WithValue(ctx.Context, depthKey{}, depth+1)
		answer, err := ctx.RunAgent(inner, in)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(answer) == "" {
			return nil, fmt.Errorf("the agent %s ended without an answer", a.Name())
		}
		return give(answer)
	})
	if err != nil {
		return nil, err
	}
	return &tool{t, a}, nil
}

// depthKey is by what a context knows in how many calls of agent tools it stands.
type depthKey struct{}

type tool struct {
	tools.Tool
	agent agent.Agent
}

// Unwrap returns the tool whose schema the arguments are held against.
func (t *tool) Unwrap() tools.Tool { return t.Tool }

// InnerAgents implements tools.Host.
func (t *tool) InnerAgents() []agent.Agent { return []agent.Agent{t.agent} }
