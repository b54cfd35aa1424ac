// Package debugbundle collects information about why a conversation was routed as it was, without its texts. It changes
// nothing.
package debugbundle

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/redact"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Options select the content of a [Bundle]; the zero value means all defaults.
type Options struct {
	// Decisions is the number of the last decisions. Defaults to 20.
	Decisions int
	// Redact is applied to each text after the package's own redaction.
	Redact func(text string) string
}

// Bundle explains why a conversation was routed as it was: it has the active agent, the tree, and the decisions of
// routers. It contains no text of people, models or tools, no state and no user id. From each text it removes: user,
// password, query and fragment of URLs; a value after "Bearer" and the like, or after a name such as password, token or
// api_key; words in the form of keys, such as sk-…, ghp_… and JSON Web Tokens, or with 32 or more letters and digits;
// and e-mail addresses. Ids are those of the log; the session's id is the one passed to New.
type Bundle struct {
	SessionID string `json:"sessionId"`
	TurnID    string `json:"turnId,omitempty"`
	// Turn is the state of the last turn: "none" (no turn), "open" (running or interrupted), "waiting" or "over".
	Turn string `json:"turn"`
	// Seq and Time are those of the last event of the log.
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time,omitzero"`
	// Active is the agent that answers the next message: by the tree or, without a tree, by the log.
	Active     string     `json:"activeAgent,omitempty"`
	AgentGraph AgentGraph `json:"agentGraph"`
	Handoff    *Handoff   `json:"handoff,omitempty"` // the last one
	Versions   Versions   `json:"versions"`
	Limits     *Limits    `json:"limits,omitempty"` // nil without a tree
}

// AgentGraph is the tree and the decisions of its routers, the latest last.
type AgentGraph struct {
	Topology  *Topology  `json:"topology,omitempty"` // nil without a tree
	Decisions []Decision `json:"decisions"`
}

// Topology is a tree of agents, in its order.
type Topology struct {
	Nodes []Node `json:"nodes"`
	Edges []Edge `json:"edges"`
}

// Node is an agent. Kind is router, specialist (a child of a router), human, remote (on another machine, at any place
// in the tree) or agent. URL is the URL of a remote agent's card.
type Node struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Kind string `json:"kind"`
	URL  string `json:"url,omitempty"`
}

// Edge leads from an agent to a child, or to the person to whom it may transfer. OnError is the agent that continues if
// the child fails.
type Edge struct {
	From    string `json:"from"`
	To      string `json:"to"`
	OnError string `json:"onError,omitempty"`
}

// Decision is a decision of a router, or of the runner after an agent failed.
type Decision struct {
	Seq    int64     `json:"seq"`
	Time   time.Time `json:"time"`
	TurnID string    `json:"turnId"`
	Scope  string    `json:"scope,omitempty"`
	event.Route
}

// Handoff is the status of the last handoff to a person.
type Handoff struct {
	Time time.Time `json:"time"`
	event.HandoffStatus
}

// Limits are the limits of a turn; see [runner.Runner.Limits]. 0 means no limit.
type Limits struct {
	Transfers  int     `json:"transfers"`
	ModelCalls int     `json:"modelCalls"`
	ToolCalls  int     `json:"toolCalls"`
	Steps      int     `json:"steps"`
	Seconds    float64 `json:"seconds"`
}

// Versions are those of this module, if the program's build information contains it, and of Go.
type Versions struct {
	Arbor string `json:"arbor,omitempty"`
	Go    string `json:"go"`
}

// New returns the bundle of a session. It only reads the store and the tree, so it may be called while a turn runs in
// any process; it shows the events stored so far. The error is the store's. A session that does not exist has no
// events.
func New(ctx context.Context, r *runner.Runner, key session.Key, o Options) (*Bundle, error) {
	if r == nil {
		return nil, errors.New("debugbundle: the runner is nil")
	}
	b, err := fromLog(r.History(ctx, key), key, o)
	if err != nil {
		return nil, err
	}
	if b.Active != agent.Human {
		if b.Active, err = r.Active(ctx, key); err != nil {
			return nil, err
		}
	}
	l := r.Limits()
	b.Limits = &Limits{l.Transfers, l.ModelCalls, l.ToolCalls, l.Steps, l.Time.Seconds()}
	b.AgentGraph.Topology = topology(r.Tree())
	return b.redact(o), nil
}

// Stored returns the bundle of a session like [New], but without a runner: it lacks the topology and the limits.
func Stored(ctx context.Context, store session.Store, key session.Key, o Options) (*Bundle, error) {
	if store == nil {
		return nil, errors.New("debugbundle: the store is nil")
	}
	b, err := fromLog(store.Load(ctx, key, 0), key, o)
	if err != nil {
		return nil, err
	}
	return b.redact(o), nil
}

func fromLog(log iter.Seq2[*event.Event, error], key session.Key, o Options) (*Bundle, error) {
	last := o.Decisions
	if last <= 0 {
		last = 20
	}
	f, b := new(session.Fold), &Bundle{SessionID: key.ID, Versions: versions()}
	b.AgentGraph.Decisions = []Decision{}
	for e, err := range log {
		if err != nil {
			return nil, err
		}
		f.Apply(e)
		switch d := e.Data.(type) {
		case *event.Route:
			if at := len(b.AgentGraph.Decisions) - last; at >= 0 {
				b.AgentGraph.Decisions = b.AgentGraph.Decisions[at+1:]
			}
			b.AgentGraph.Decisions = append(b.AgentGraph.Decisions, Decision{e.Seq, e.Time, e.TurnID, e.Scope, *d})
		case *event.HandoffStatus:
			b.Handoff = &Handoff{e.Time, *d}
		}
	}
	b.TurnID, b.Seq, b.Time = f.Turn.ID, f.Seq, f.Latest
	b.Turn, b.Active = f.Stage(), f.Active()
	return b, nil
}

func topology(tree *agent.Tree) *Topology {
	t := &Topology{Edges: []Edge{}}
	add := func(n *agent.Node) {
		node := Node{Name: n.Agent.Name(), Path: n.Path, Kind: "agent"}
		remote, ok := agent.As[interface{ CardURL() string }](n.Agent)
		switch {
		case n.Virtual():
			node.Kind = "human"
		case n.Properties.Router:
			node.Kind = "router"
		case ok:
			node.Kind, node.URL = "remote", remote.CardURL()
		case n.Parent != nil && n.Parent.Properties.Router:
			node.Kind = "specialist"
		}
		t.Nodes = append(t.Nodes, node)
		if n.Parent != nil {
			t.Edges = append(t.Edges, Edge{n.Parent.Agent.Name(), node.Name, n.Edge.OnError})
		}
	}
	for n := range tree.Walk() {
		add(n)
	}
	if person := tree.Root().Human(); person != nil {
		add(person)
		for n := range tree.Walk() {
			if n.MayTransferTo(person) {
				t.Edges = append(t.Edges, Edge{From: n.Agent.Name(), To: agent.Human})
			}
		}
	}
	return t
}

func versions() (v Versions) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	const module = "github.com/agentarbor/arbor"
	v.Go = info.GoVersion
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module {
			v.Arbor = m.Version
		}
	}
	return v
}

// redact replaces each text of the bundle. It copies what the bundle shares with the log.
func (b *Bundle) redact(o Options) *Bundle {
	change := func(s string) string {
		if s = redact.Text(s); o.Redact != nil {
			s = o.Redact(s)
		}
		return s
	}
	clean := redactValue(reflect.ValueOf(*b), change).Interface().(Bundle)
	clean.SessionID, clean.TurnID = b.SessionID, b.TurnID
	for i, d := range b.AgentGraph.Decisions {
		clean.AgentGraph.Decisions[i].TurnID, clean.AgentGraph.Decisions[i].Scope = d.TurnID, d.Scope
	}
	if b.Handoff != nil {
		clean.Handoff.HandoffID = b.Handoff.HandoffID
	}
	return &clean
}

// redactValue returns a copy of a value with changed texts. It uses reflection, so that it includes fields that are
// added later.
func redactValue(v reflect.Value, change func(string) string) reflect.Value {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return v
	}
	c := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		c.SetString(change(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			c.Set(reflect.New(v.Type().Elem()))
			c.Elem().Set(redactValue(v.Elem(), change))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			c.Field(i).Set(redactValue(v.Field(i), change))
		}
	case reflect.Slice:
		if !v.IsNil() {
			c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				c.Index(i).Set(redactValue(v.Index(i), change))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			c.Set(reflect.MakeMap(v.Type()))
			for key, value := range v.Seq2() {
				c.SetMapIndex(redactValue(key, change), redactValue(value, change))
			}
		}
	default:
		c.Set(v)
	}
	return c
}
