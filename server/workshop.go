package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// Workshop lets the owner of a tree experiment with it on their own machine: fork sessions with a changed agent, call
// tools directly, and change the instructions in the files of agents. See [WithWorkshop]. The functions are called
// concurrently.
type Workshop struct {
	// Change returns a runner over the same store whose tree has the change, and a function that releases the runner.
	// The error is a sentence for the caller that says why the change is impossible. If Change is nil, the server
	// refuses all changes.
	Change func(ctx context.Context, c Change) (run *runner.Runner, release func(), err error)
	// Body returns the instructions in an agent's file. Write replaces them if the file still has the version of b,
	// and returns [ErrFileChanged] otherwise. Other errors are sentences for the caller. Both are nil for a tree
	// without files.
	Body  func(ctx context.Context, agent string) (Body, error)
	Write func(ctx context.Context, agent string, b Body) (Body, error)
	// Restart reports that turns use the text of Write only after a restart of the server. Defaults to false: the
	// program reloads the tree when a file changes.
	Restart bool
}

// Body is the text of an agent's file after its front matter.
type Body struct {
	Text    string `json:"text"`
	Version string `json:"version"` // of the file; opaque
}

// ErrFileChanged reports that the file of an agent has another version than the caller read.
var ErrFileChanged = errors.New("the file has changed since it was read")

// Change is the change of an agent in a fork. A nil field keeps the value of the tree.
type Change struct {
	Agent        string  `json:"agent"`
	Description  *string `json:"description"`
	Instructions *string `json:"instructions"`
	Model        *string `json:"model"`
}

// WithWorkshop serves a workshop to callers with the right [access.Owner]. Use it only for a server that no other
// machine can reach. Without this option, the routes of the workshop do not exist.
func WithWorkshop(w Workshop) Option { return func(s *settings) { s.workshop = &w } }

func (h *Handler) workshopRoutes() []front.Route {
	if h.workshop == nil {
		return nil
	}
	routes := []front.Route{{Method: "POST", Path: "/agents/{agent}/tools/{tool}", Needs: access.Owner, Handle: h.callTool}}
	if h.workshop.Body != nil && h.workshop.Write != nil {
		routes = append(routes, front.Route{Method: "GET", Path: "/agents/{agent}/body", Needs: access.Owner, Handle: h.readBody},
			front.Route{Method: "PUT", Path: "/agents/{agent}/body", Needs: access.Owner, Handle: h.writeBody})
	}
	return routes
}

func (h *Handler) readBody(c *front.Call) error {
	return h.body(c, h.workshop.Body)
}

func (h *Handler) writeBody(c *front.Call) error {
	var b struct {
		Text    *string `json:"text"`
		Version string  `json:"version"`
	}
	if err := c.Decode(&b); err != nil {
		return err
	}
	switch {
	case b.Text == nil:
		return front.InvalidValue("text", "is missing")
	case b.Version == "":
		return front.InvalidValue("version", "is missing")
	}
	return h.body(c, func(ctx context.Context, agent string) (Body, error) {
		return h.workshop.Write(ctx, agent, Body{*b.Text, b.Version})
	})
}

// body answers with the result of a function for an agent of the tree.
func (h *Handler) body(c *front.Call, of func(context.Context, string) (Body, error)) error {
	name := c.R.PathValue("agent")
	if h.currentTree().run.Tree().Node(name) == nil {
		return front.Missing("the tree has no such agent")
	}
	b, err := of(c.R.Context(), name)
	switch {
	case errors.Is(err, ErrFileChanged):
		return front.Conflict("file_changed", err.Error())
	case err != nil:
		return front.Unprocessable("bad_file", err.Error())
	}
	return c.JSON(http.StatusOK, b)
}

// changedRunner returns a runner of the tree with a change, and a function that releases it. Both are nil if change
// is nil.
func (h *Handler) changedRunner(c *front.Call, change *Change) (*runner.Runner, func(), error) {
	switch {
	case change == nil:
		return nil, nil, nil
	case h.workshop == nil || h.workshop.Change == nil:
		return nil, nil, front.InvalidValue("change", "is not possible on this server")
	case !c.User.May(access.Owner):
		return nil, nil, &front.Fault{Status: http.StatusForbidden, Code: "forbidden", Detail: "only the owner of the server may change an agent"}
	case change.Description == nil && change.Instructions == nil && change.Model == nil:
		return nil, nil, front.InvalidValue("change", "must name what changes: description, instructions or model")
	}
	run, release, err := h.workshop.Change(c.R.Context(), *change)
	if err != nil {
		return nil, nil, front.Unprocessable("bad_change", err.Error())
	}
	return run, release, nil
}

// toolResult is the result of a direct call of a tool.
type toolResult struct {
	Output  json.RawMessage `json:"output"`
	IsError bool            `json:"isError"`
	Seconds float64         `json:"seconds"`
	// State and Files are the changes that the call would store in a session. Files are names.
	State map[string]any `json:"state"`
	Files []string       `json:"files"`
}

// callTool runs a tool of an agent. The call belongs to no session, and the server stores nothing of it.
func (h *Handler) callTool(c *front.Call) error {
	n := h.currentTree().run.Tree().Node(c.R.PathValue("agent"))
	if n == nil {
		return front.Missing("the tree has no such agent")
	}
	var b struct {
		Input    json.RawMessage `json:"input"`
		Approved bool            `json:"approved"`
	}
	if err := c.Decode(&b); err != nil {
		return err
	}
	a, ok := agent.As[*llmagent.Agent](n.Agent)
	if !ok {
		return front.Missing("the agent has no tools")
	}
	t, err := toolOf(c.R.Context(), a, c.R.PathValue("tool"))
	switch {
	case err != nil:
		return err
	case t == nil:
		return front.Missing("the agent has no tool with this name")
	case t.Info().Client:
		return front.Unprocessable("client_tool", "the client runs this tool")
	}
	if _, runsAgents := t.(tools.Host); runsAgents {
		return front.Unprocessable("runs_agents", "the tool runs agents, which it can do only in a session")
	}
	if err := tools.Check(t, b.Input); err != nil {
		return front.InvalidValue("input", err.Error())
	}
	switch decision, why := a.Decide(c.R.Context(), n, t, b.Input); {
	case why != "":
		return front.Unprocessable("denied", why)
	case decision == tools.Deny:
		return front.Unprocessable("denied", "the rules of the agent do not allow this call")
	case decision == tools.Ask && !b.Approved:
		return front.Conflict("needs_approval", "this call needs an approval")
	}
	begun := time.Now()
	key := session.Key{App: h.App(), User: c.User.Name, ID: "by-hand-" + rand.Text()}
	res, err := tools.Execute(c.R.Context(), t, tools.CallInfo{Session: key, Agent: a.Name(), RunID: key.ID, CallID: "call"}, b.Input)
	switch {
	case errors.Is(err, agent.ErrWaits):
		return front.Unprocessable("waits", "the tool waits for a person, which it can do only in a session")
	case err != nil:
		return err
	}
	out := toolResult{res.Output, res.IsError, time.Since(begun).Seconds(), map[string]any{}, []string{}}
	maps.Copy(out.State, res.State)
	for _, f := range res.Files {
		out.Files = append(out.Files, f.Name)
	}
	return c.JSON(http.StatusOK, out)
}

// toolOf returns the tool with a name, or nil if the agent has none.
func toolOf(ctx context.Context, a *llmagent.Agent, name string) (tools.Tool, error) {
	all, err := toolsOf(ctx, a)
	if i := slices.IndexFunc(all, func(t tools.Tool) bool { return t.Info().Name == name }); i >= 0 {
		return all[i], nil
	}
	return nil, err
}

// toolsOf returns the current tools of an agent, without those that transfer. The error says why some are missing.
func toolsOf(ctx context.Context, a *llmagent.Agent) (all []tools.Tool, failed error) {
	all = slices.Clone(a.Tools())
	for _, s := range a.Toolsets() {
		has, err := s.Tools(ctx)
		for _, name := range has.Names() {
			all = append(all, has.Get(name))
		}
		if err != nil {
			failed = front.Unprocessable("tools_unavailable", err.Error())
		}
	}
	return all, failed
}

// workshopInfo is what the caller can do with an agent in a workshop.
type workshopInfo struct {
	Tools   []string `json:"tools"`   // that the caller can call directly
	Restart bool     `json:"restart"` // whether turns use saved instructions only after a restart
}

// workshopOf returns what the caller can do with an agent, or nil if the caller may not use a workshop.
func (h *Handler) workshopOf(c *front.Call, a *llmagent.Agent) *workshopInfo {
	if h.workshop == nil || !c.User.May(access.Owner) {
		return nil
	}
	p := &workshopInfo{Tools: []string{}, Restart: h.workshop.Restart}
	all, _ := toolsOf(c.R.Context(), a) // a call of a missing tool returns the error
	for _, t := range all {
		if _, runsAgents := t.(tools.Host); !runsAgents && !t.Info().Client {
			p.Tools = append(p.Tools, t.Info().Name)
		}
	}
	return p
}
