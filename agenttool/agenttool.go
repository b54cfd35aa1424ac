// Package agenttool makes a tool of an agent: the caller gets an answer back, whereas a transfer gives the
// conversation to the target.
//
// The agent runs in a scope of its own in the same session's log. It sees the input that the calling model wrote, and
// as much of the conversation as [WithHistory] shows, by default nothing. The last text of the agent is the tool's
// output; without a text it is the output of the run, as that of a graph. A transfer inside moves only that inner
// conversation. (With a transfer the target sees the conversation, with an agent tool it does not:
// redpanda-data/ai-sdk-go issue 95.)
//
// The package runs nothing itself: the runner runs the agent, through tools.Context.RunAgent, so that inner runs count
// in the limits of the turn.
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
	edgeOptions []agent.EdgeOption
	depth       int
}

// WithName sets the name of the tool. A tool must not have the name of an agent to which its owner can transfer.
// Defaults to the agent's name.
func WithName(name string) Option { return func(c *config) { c.Name = name } }

// WithDescription sets the description that the calling model reads.
// Defaults to the agent's description.
func WithDescription(d string) Option { return func(c *config) { c.Description = d } }

// WithTimeout limits the time of one call. When the time is up, the inner run is canceled and the calling model reads
// an error. If d is 0 or negative, only the limits of the turn apply.
// Defaults to 0.
func WithTimeout(d time.Duration) Option {
	return func(c *config) {
		if c.Timeout = d; d <= 0 {
			c.Timeout = -1
		}
	}
}

// WithMaxOutput limits the answer, in bytes. A longer answer is cut and marked as such.
// Defaults to tools.DefaultMaxOutput, also if n is 0.
func WithMaxOutput(n int) Option { return func(c *config) { c.MaxOutput = n } }

// WithHistory shows the agent the conversation of its caller before its input, as the policy says: with the user's
// images and files, and with what the caller has said up to the call. By default the agent sees only its input.
func WithHistory(p view.Policy) Option {
	return func(c *config) { c.edgeOptions = append(c.edgeOptions, view.Around(p)) }
}

// WithMaxDepth limits how many calls of agent tools may be nested, including a call of this tool: 1 allows the call
// only outside of agent tools. The result of a deeper call is an error that the model reads.
// Defaults to 8.
func WithMaxDepth(n int) Option { return func(c *config) { c.depth = n } }

// arguments are the arguments of a call, which the calling model writes.
type arguments struct {
	Input string `json:"input" jsonschema:"minLength=1,description=The task\\, with everything that is needed to do it: the agent sees nothing of this conversation"`
}

// argumentsWithHistory are the arguments for an agent that sees the conversation.
type argumentsWithHistory struct {
	Input string `json:"input" jsonschema:"minLength=1,description=The task. The agent sees this conversation too"`
}

// New returns a tool that runs an agent and the agents below it. The tool is safe for concurrent use: several calls of
// one answer run at the same time, each in its own scope.
//
// If the inner run ends without an answer (after a failure, at a limit of the turn, because a content filter withholds
// it, or because the agent says nothing), the calling model reads an error result and continues as far as the limits
// allow. Canceling the turn cancels the inner run.
//
// If the agent waits for something outside, such as an approval, the turn pauses, and the agent later resumes where it was.
// After a crash it resumes in the same way: the answers that are in the log are not requested again.
//
// The error is that the name or an option is invalid, or the *agent.TreeError of the agents below a.
func New(a agent.Agent, opts ...Option) (tools.Tool, error) {
	return newTool(a, opts, func(c *config) (json.RawMessage, error) {
		if len(c.edgeOptions) > 0 {
			return tools.SchemaOf[argumentsWithHistory]()
		}
		return tools.SchemaOf[arguments]()
	}, func(input json.RawMessage) (string, error) {
		var in arguments
		err := json.Unmarshal(input, &in)
		return in.Input, err
	}, func(answer string) (any, error) { return answer, nil })
}

// newTool returns a tool that runs an agent. parameters returns the schema of the arguments, task the agent's input
// from the arguments, and toOutput the tool's output from the agent's answer.
func newTool(a agent.Agent, opts []Option, parameters func(*config) (json.RawMessage, error),
	task func(json.RawMessage) (string, error), toOutput func(answer string) (any, error)) (tools.Tool, error) {
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
		err = fmt.Errorf("the maximal depth is %d, but must be at least 1", c.depth)
	}
	if err == nil {
		c.Parameters, err = parameters(&c)
	}
	if err != nil {
		return nil, fmt.Errorf("agent tool %q: %w", a.Name(), err)
	}
	inner := a
	if len(c.edgeOptions) > 0 {
		inner = agent.Via(a, c.edgeOptions...)
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
		return toOutput(answer)
	})
	if err != nil {
		return nil, err
	}
	return &tool{t, a}, nil
}

// depthKey is the context key of the number of calls of agent tools around the current one.
type depthKey struct{}

type tool struct {
	tools.Tool
	agent agent.Agent
}

// Unwrap returns the tool whose schema validates the arguments.
func (t *tool) Unwrap() tools.Tool { return t.Tool }

// InnerAgents implements tools.Host.
func (t *tool) InnerAgents() []agent.Agent { return []agent.Agent{t.agent} }
