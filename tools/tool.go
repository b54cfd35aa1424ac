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

// Tool is something a model can call. Implementations are safe for concurrent use.
type Tool interface {
	Info() Info
	// Call runs the tool. Input is a JSON object that the schema allows, if the
	// tool was reached through [Execute]. A string or json.RawMessage is the
	// output as it is; any other value is encoded as JSON. The error's text is
	// what the model reads.
	Call(ctx Context, input json.RawMessage) (any, error)
}

// Host is implemented by tools that run agents in scopes of their own. A runner knows by
// it which agents there are besides those to which the conversation can be handed.
type Host interface{ InnerAgents() []agent.Agent }

// Info describes a tool to the model and to those who run it.
type Info struct {
	llm.ToolSpec
	// Own is what the source of the tool calls it, such as a server of the Model Context
	// Protocol, without the prefix that Name may have. Rules may use either.
	Own string
	// Idempotent tools may be run again when a crash left their outcome unknown.
	Idempotent bool
	// Resumable tools do nothing themselves that must not be done twice: they are called
	// again after a crash, and the agents that they run go on where they were.
	Resumable bool
	// ReadOnly is what whoever made the tool says: that a call changes nothing. It allows
	// nothing by itself; the rules of a policy may look at it.
	ReadOnly bool
	// Timeout bounds one call; 0 means DefaultTimeout, a negative value none.
	Timeout time.Duration
	// Approval is what the tool itself demands of every call: nothing, or Ask.
	Approval Decision
	// By is who may give the approval.
	By By
	// Destructive says that a call can do harm that cannot be undone: where nothing else
	// is said, its approvals need the right "approve", whatever the server's default is.
	Destructive bool
	// Client says that the user's client runs the tool; see [ClientTools].
	Client bool
	// MaxOutput bounds the output in bytes; 0 means DefaultMaxOutput. What is
	// longer is cut, and says so.
	MaxOutput int
}

// The limits of a tool that sets none.
const (
	DefaultTimeout   = 60 * time.Second
	DefaultMaxOutput = 64 << 10
)

// CheckName reports whether a tool may have this name.
func CheckName(name string) error {
	bad := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("tool name %q: 1 to 64 letters, digits, _ and - are allowed", name)
	}
	return nil
}

// Registry holds tools by name. It is filled before use and read-only then.
type Registry struct{ tools map[string]Tool }

// NewRegistry makes a registry of tools; two of one name are an error.
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

// Get returns the tool of a name, or nil. A nil registry has none.
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
