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

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// Workshop lets the owner of a tree try things on a server of their own machine: forks with a changed agent, calls
// of tools by hand, and other instructions in the files of agents. See [WithWorkshop].
type Workshop struct {
	// Change returns a runner over the same store whose tree has a change, and a function that ends it. The error says
	// why there can be no such tree, in a sentence for the caller. A nil Change refuses all changes.
	Change func(ctx context.Context, c Change) (run *runner.Runner, over func(), err error)
	// Body returns the instructions in an agent's file, and Write replaces them there if the file still has the version
	// that b names, else it returns [ErrFileChanged]. Other errors say what is wrong, in a sentence for the caller.
	// Both are nil for a tree without files.
	Body  func(ctx context.Context, agent string) (Body, error)
	Write func(ctx context.Context, agent string, b Body) (Body, error)
	// Restart reports that turns use what Write has written only after a restart of the server. Defaults to false: the
	// program reloads the tree when a file changes.
	Restart bool
}

// Body is the text of an agent's file below its front matter.
type Body struct {
	Text    string `json:"text"`
	Version string `json:"version"` // of the file
}

// ErrFileChanged says that a file of an agent is not as it was read.
var ErrFileChanged = errors.New("the file has changed since it was read")

// Change is what an agent has in a fork. A nil field is as in the tree.
type Change struct {
	Agent        string  `json:"agent"`
	Description  *string `json:"description"`
	Instructions *string `json:"instructions"`
	Model        *string `json:"model"`
}

// WithWorkshop serves a workshop to callers with the right [access.Owner]. Use it only for a server that no other
// machine can reach. Without this option, the routes of the workshop do not exist.
func WithWorkshop(w Workshop) Option { return func(s *settings) { s.workshop = &w } }

func (d *Door) workshopRoutes() []front.Route {
	if d.workshop == nil {
		return nil
	}
	routes := []front.Route{{Method: "POST", Path: "/agents/{agent}/tools/{tool}", Needs: access.Owner, Handle: d.callTool}}
	if d.workshop.Body != nil && d.workshop.Write != nil {
		routes = append(routes, front.Route{Method: "GET", Path: "/agents/{agent}/body", Needs: access.Owner, Handle: d.readBody},
			front.Route{Method: "PUT", Path: "/agents/{agent}/body", Needs: access.Owner, Handle: d.writeBody})
	}
	return routes
}

func (d *Door) readBody(c *front.Call) error {
	return d.body(c, d.workshop.Body)
}

func (d *Door) writeBody(c *front.Call) error {
	var b struct {
		Text    *string `json:"text"`
		Version string  `json:"version"`
	}
	if err := c.Decode(&b); err != nil {
		return err
	}
	switch {
	case b.Text == nil:
		return front.Unfit("text", "is missing")
	case b.Version == "":
		return front.Unfit("version", "is missing")
	}
	return d.body(c, func(ctx context.Context, agent string) (Body, error) {
		return d.workshop.Write(ctx, agent, Body{*b.Text, b.Version})
	})
}

// body answers with the instructions in the file of an agent of the tree.
func (d *Door) body(c *front.Call, of func(context.Context, string) (Body, error)) error {
	name := c.R.PathValue("agent")
	if d.treeNow().run.Tree().Node(name) == nil {
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

// changed returns a runner of the tree with a change, and what ends it; nil without a change.
func (d *Door) changed(c *front.Call, change *Change) (*runner.Runner, func(), error) {
	switch {
	case change == nil:
		return nil, nil, nil
	case d.workshop == nil || d.workshop.Change == nil:
		return nil, nil, front.Unfit("change", "is not possible on this server")
	case !c.User.May(access.Owner):
		return nil, nil, &front.Fault{Status: http.StatusForbidden, Code: "forbidden", Detail: "only the owner of the server may change an agent"}
	case change.Description == nil && change.Instructions == nil && change.Model == nil:
		return nil, nil, front.Unfit("change", "must name what changes: description, instructions or model")
	}
	run, over, err := d.workshop.Change(c.R.Context(), *change)
	if err != nil {
		return nil, nil, front.Unprocessable("bad_change", err.Error())
	}
	return run, over, nil
}

// called is the outcome of a call by hand.
type called struct {
	Output  json.RawMessage `json:"output"`
	IsError bool            `json:"isError"`
	Seconds float64         `json:"seconds"`
	// State and Files are what the call would have stored in a session.
	State map[string]any `json:"state"`
	Files []string       `json:"files"`
}

// callTool runs a tool of an agent outside of all sessions.
func (d *Door) callTool(c *front.Call) error {
	n := d.treeNow().run.Tree().Node(c.R.PathValue("agent"))
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
		return front.Missing("the agent has no tools of its own")
	}
	t, err := toolOf(c.R.Context(), a, c.R.PathValue("tool"))
	switch {
	case err != nil:
		return err
	case t == nil:
		return front.Missing("the agent has no such tool")
	case t.Info().Client:
		return front.Unprocessable("client_tool", "the client runs this tool")
	}
	if err := tools.Check(t, b.Input); err != nil {
		return front.Unfit("input", err.Error())
	}
	switch decision := a.Decide(t.Info(), b.Input); {
	case decision == tools.Deny:
		return front.Unprocessable("denied", "the rules of the agent do not allow this call")
	case decision == tools.Ask && !b.Approved:
		return front.Conflict("needs_approval", "this call needs an approval")
	}
	begun := time.Now()
	key := session.Key{App: d.App(), User: c.User.Name, ID: "by-hand-" + rand.Text()}
	res, err := tools.Execute(c.R.Context(), t, tools.CallInfo{Session: key, Agent: a.Name(), RunID: key.ID, CallID: "call"}, b.Input)
	switch {
	case errors.Is(err, agent.ErrWaits):
		return front.Unprocessable("waits", "the tool waits for a person, which it can do only in a session")
	case err != nil:
		return err
	}
	out := called{res.Output, res.IsError, time.Since(begun).Seconds(), map[string]any{}, []string{}}
	maps.Copy(out.State, res.State)
	for _, f := range res.Files {
		out.Files = append(out.Files, f.Name)
	}
	return c.JSON(http.StatusOK, out)
}

// toolOf returns a tool of an agent, nil if the agent has no tool of that name.
func toolOf(ctx context.Context, a *llmagent.Agent, name string) (tools.Tool, error) {
	all, err := toolsOf(ctx, a)
	if i := slices.IndexFunc(all, func(t tools.Tool) bool { return t.Info().Name == name }); i >= 0 {
		return all[i], nil
	}
	return nil, err
}

// toolsOf returns the tools that an agent has now, without those that transfer, and why some are missing.
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

// possible is what the caller can do with an agent in a workshop.
type possible struct {
	Tools   []string `json:"tools"`   // that run by hand
	Restart bool     `json:"restart"` // whether turns use saved instructions only after a restart
}

// possibleWith returns what the caller can do with an agent, nil for nothing.
func (d *Door) possibleWith(c *front.Call, a *llmagent.Agent) *possible {
	if d.workshop == nil || !c.User.May(access.Owner) {
		return nil
	}
	p := &possible{Tools: []string{}, Restart: d.workshop.Restart}
	all, _ := toolsOf(c.R.Context(), a) // a call of a missing one says why
	for _, t := range all {
		if info := t.Info(); !info.Client {
			p.Tools = append(p.Tools, info.Name)
		}
	}
	return p
}
