package analytics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/observe/analytics"
)

// keeping is a sink that keeps what it is given.
type keeping struct {
	mu  sync.Mutex
	all []analytics.Event
}

func (k *keeping) Record(_ context.Context, e analytics.Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, e)
	return nil
}

// checking is a test, or a case of a property.
type checking interface {
	require.TestingT
	Helper()
}

// told runs something with an interceptor and returns what that has told.
func told(t checking, opts []analytics.Option, run func(agent.Interceptor)) []analytics.Event {
	t.Helper()
	sink := &keeping{}
	i := must.Get(analytics.New(sink, opts...))
	run(i)
	require.NoError(t, i.Close(context.Background()))
	require.Equal(t, analytics.Stats{Recorded: uint64(len(sink.all))}, i.Stats())
	follows(t, sink.all)
	return sink.all
}

// grammar is the order of the events of one graph: by the state, what may come and which state
// follows.
var grammar = map[string]map[string]string{
	"outside": {"agent_graph_entered": "between"},
	"between": {"agent_routed": "between", "agent_specialist_started": "within", "agent_graph_exited": "outside"},
	"within":  {"agent_specialist_completed": "between", "agent_specialist_failed": "between"},
}

// follows checks the grammar: of each scope, and that all graphs are exited in the end.
func follows(t checking, all []analytics.Event) {
	t.Helper()
	state, inside := map[string]string{}, map[string]analytics.Event{}
	for _, e := range all {
		require.NotEmpty(t, e.SessionID)
		require.NotEmpty(t, e.TurnID)
		require.False(t, e.Timestamp.IsZero())
		if !strings.HasPrefix(e.Type, "agent_") {
			continue
		}
		at := e.Scope
		if state[at] == "" {
			state[at] = "outside"
		}
		next := grammar[state[at]][e.Type]
		require.NotEmpty(t, next, "%s: %s\n%s", state[at], e.Type, strings.Join(types(all), "\n"))
		switch e.Type {
		case "agent_graph_entered", "agent_specialist_started":
			inside[at] = e
		case "agent_specialist_completed", "agent_specialist_failed":
			require.Equal(t, inside[at].SpecialistID, e.SpecialistID)
			require.NotNil(t, e.DurationMs)
			if e.Type == "agent_specialist_failed" {
				require.NotEmpty(t, e.Code)
				require.NotNil(t, e.Retryable)
			}
		case "agent_graph_exited":
			require.Contains(t, []string{"specialist", "human", "failed", "cancelled"}, e.Outcome)
			require.Equal(t, e.GraphID, e.GraphPath[0])
		}
		require.Equal(t, inside[at].GraphID, e.GraphID)
		require.Equal(t, inside[at].TurnID, e.TurnID)
		state[at] = next
	}
	for scope, s := range state {
		require.Equal(t, "outside", s, "the scope %q\n%s", scope, strings.Join(types(all), "\n"))
	}
}

// types tells events in words: the types of those about graphs without "agent_", and what is
// most telling of each.
func types(all []analytics.Event) (words []string) {
	for _, e := range all {
		w := strings.TrimPrefix(e.Type, "agent_")
		switch e.Type {
		case "agent_graph_entered":
			w = "entered " + e.GraphID
			if e.Resumed {
				w += " resumed"
			}
		case "agent_routed":
			w = "routed " + e.From + "→" + e.To
		case "agent_specialist_started":
			w = "started " + e.SpecialistID
		case "agent_specialist_completed":
			w = "completed " + e.SpecialistID + " " + e.FinishReason
		case "agent_specialist_failed":
			w = "failed " + e.SpecialistID + " " + e.Code
		case "agent_graph_exited":
			w = "exited " + e.Outcome + " " + strings.Join(e.GraphPath, "/")
		case "message_sent":
			w = "sent " + e.Agent + " " + fmt.Sprint(*e.Size)
		case "message_received":
			w = "received " + fmt.Sprint(*e.Size)
		case "handoff_status":
			w = "handoff " + e.Status
		}
		words = append(words, w)
	}
	return words
}

// graphs leaves out events that are not of graphs.
func graphs(words []string) (kept []string) {
	for _, w := range words {
		if head, _, _ := strings.Cut(w, " "); slices.Contains([]string{"entered", "routed", "started", "completed", "failed", "exited"}, head) {
			kept = append(kept, w)
		}
	}
	return kept
}

// chooser is a router.
type chooser struct{ agent.Agent }

func (c *chooser) Properties() agent.Properties {
	p := agent.PropertiesOf(c.Agent)
	p.Router = true
	return p
}

// decides is how a router chooses; to is "" for nobody.
type decides func(inv *agent.Invocation) (to string, err error)

func newRouter(t testing.TB, name string, choose decides, opts ...agent.Option) agent.Agent {
	t.Helper()
	a := must.Get(agent.New(name, "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			to, err := choose(inv)
			if err != nil {
				yield(nil, err)
				return
			}
			n, path, kind := inv.Tree().Node(to), []string(nil), event.TransferTypeBotToBot
			if path = n.GraphPath(); n.Virtual() {
				path, kind = append(inv.Node().GraphPath(), to), event.TransferTypeBotToHuman
			}
			raw, _ := json.Marshal(to)
			d := &event.Route{From: name, To: to, GraphPath: path, LatencyMs: 0.5}
			if to != "human" {
				d.RuleIndex, d.Reason, d.IntentLabel, d.IntentConfidence, d.Sentiment = new(0), "the rule of "+to, "label", 0.9, map[string]float64{"joy": 1}
			}
			if yield(&event.Event{More: true, Data: d}, nil) {
				yield(&event.Event{Data: &event.Transfer{To: to, RouteDecision: raw, GraphPath: path, TransferType: kind}}, nil)
			}
		}
	}, opts...))
	return &chooser{a}
}

// byWords chooses the first of the user's words that names somebody whom the router may choose.
func byWords(inv *agent.Invocation) (string, error) {
	for word := range strings.FieldsSeq(inv.Message().PlainText() + " " + strings.Trim(string(inv.Input()), `"`)) {
		if n := inv.Tree().Node(word); n != nil && inv.Node().MayTransferTo(n) && n.Agent.Name() != inv.Agent().Name() {
			return word, nil
		}
	}
	return "", fmt.Errorf("no rule matches")
}

// does is an agent that does what a function says.
func does(t testing.TB, name string, act func(context.Context, *agent.Invocation, func(event.Data) bool) error, opts ...agent.Option) agent.Agent {
	t.Helper()
	return must.Get(agent.New(name, "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			if err := act(ctx, inv, func(d event.Data) bool { return yield(&event.Event{Data: d}, nil) }); err != nil {
				yield(nil, err)
			}
		}
	}, opts...))
}

// says is an agent that says its name.
func says(t testing.TB, name string, opts ...agent.Option) agent.Agent {
	return does(t, name, func(_ context.Context, _ *agent.Invocation, yield func(event.Data) bool) error {
		yield(&event.Text{Content: name})
		return nil
	}, opts...)
}

// goes is an agent that hands over.
func goes(t testing.TB, name, to string, opts ...agent.Option) agent.Agent {
	return does(t, name, func(_ context.Context, _ *agent.Invocation, yield func(event.Data) bool) error {
		yield(&event.Transfer{To: to})
		return nil
	}, append(opts, everywhere())...)
}

func everywhere() agent.Option {
	return agent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true})
}

// desk is a desk that takes all handoffs, or none.
type desk struct{ down error }

func (d desk) RequestTransfer(context.Context, human.Request) (human.Update, error) {
	return human.Update{QueuePosition: new(3)}, d.down
}
func (d desk) Send(context.Context, human.Leg, []human.Message) error { return d.down }
func (d desk) Cancel(context.Context, human.Leg, string) error        { return d.down }
