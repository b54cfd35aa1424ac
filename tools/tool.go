package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// Tool is a function that a model can call. Implementations must be safe for concurrent use.
type Tool interface {
	Info() Info
	// Call runs the tool. [Execute] passes only an input that is a JSON object and fits the schema. A string or a
	// json.RawMessage is the output itself; any other value is encoded as JSON. The model reads the text of an error.
	Call(ctx Context, input json.RawMessage) (any, error)
}

// Host is implemented by tools that run agents in inner scopes. InnerAgents returns these agents, which are not part of
// the tree of agents that conversations can be transferred to.
type Host interface{ InnerAgents() []agent.Agent }

// Info describes a tool to the model and to the agent that runs it.
type Info struct {
	llm.ToolSpec
	// Own is the name of the tool at its source, such as an MCP server, without the prefix that Name may have. The
	// rules of a [Policy] can use either name.
	Own string
	// Source is the name of the tool's source, such as an MCP server, or "". An approval of a call is not one of a call of
	// another source.
	Source string
	// Idempotent reports that a call may run again after a crash that left its outcome unknown.
	Idempotent bool
	// Resumable reports that the tool itself has no effect that must not happen twice. After a crash it is called
	// again, and the agents that it runs continue.
	Resumable bool
	// ReadOnly is a statement of the tool's author that a call changes nothing. By itself it has no effect; rules can
	// use it.
	ReadOnly bool
	// Timeout limits the time of one call. A negative value sets no limit. Defaults to DefaultTimeout.
	Timeout time.Duration
	// Approval is the least strict decision about any call of the tool. Defaults to Allow.
	Approval Decision
	// By says who may approve a call.
	By By
	// Destructive reports that a call can do harm that cannot be undone. Unless By, a rule or the agent says otherwise,
	// an approval then needs the right "approve", whatever the server's default is.
	Destructive bool
	// Client reports that the user's client runs the tool; see [ClientTools].
	Client bool
	// MaxOutput limits the output in bytes. A longer output is cut, and ends with a line that says so. Defaults to
	// DefaultMaxOutput.
	MaxOutput int
}

// The default limits of a tool.
const (
	DefaultTimeout   = 60 * time.Second
	DefaultMaxOutput = 64 << 10
)

// CheckName returns an error if a tool cannot have this name.
func CheckName(name string) error {
	bad := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("tool name %q: 1 to 64 letters, digits, _ and - are allowed", name)
	}
	return nil
}

// Registry contains tools by name. It is immutable.
type Registry struct{ tools map[string]Tool }

// NewRegistry returns a registry of tools. Two tools with the same name are an error.
func NewRegistry(all ...Tool) (*Registry, error) {
	r := &Registry{tools: make(map[string]Tool, len(all))}
	for _, t := range all {
		if t == nil {
			return nil, errors.New("a tool is nil")
		}
		name := t.Info().Name
		if err := CheckName(name); err != nil {
			return nil, err
		}
		if r.tools[name] != nil {
			return nil, fmt.Errorf("tool %q is registered twice", name)
		}
		r.tools[name] = t
	}
	return r, nil
}

// Get returns the tool with a name, or nil. A nil registry contains no tools.
func (r *Registry) Get(name string) Tool {
	if r == nil {
		return nil
	}
	return r.tools[name]
}

// Names returns all names, sorted.
func (r *Registry) Names() []string {
	if r == nil {
		return nil
	}
	names := make([]string, 0, len(r.tools))
	for name := range r.tools {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
