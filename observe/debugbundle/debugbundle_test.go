package debugbundle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/observe/debugbundle"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

var key = session.ID("s1")

// secrets are words that no bundle may have, in the forms in which they are written.
var secrets = []string{"sk-planted12345678", "https://me:hunter22@h.test/p?key=hunter22#hunter22", "Bearer plantedbearer.x", "password=hunter22",
	"ann.planted@example.test", "eyJhbGciOiJIUzI1NiJ9.planted.c2ln", "0123456789planted0123456789abcdef", `"api_key": "hunter22 hunter22"`}

func planted(s string) []string {
	var found []string
	for _, word := range []string{"planted", "hunter22", "me:"} {
		if strings.Contains(s, word) {
			found = append(found, word)
		}
	}
	return found
}

type router struct{ agent.Agent }

func (r *router) Properties() agent.Properties {
	p := agent.PropertiesOf(r.Agent)
	p.Router = true
	return p
}

func newRouter(t testing.TB, name, secret string, opts ...agent.Option) agent.Agent {
	a, err := agent.New(name, "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			to := inv.Message().PlainText()
			path := append(inv.Node().GraphPath(), to)
			raw, _ := json.Marshal(to)
			yield(&event.Event{More: true, Data: &event.Route{From: name, To: to, RuleIndex: new(1), Reason: secret, IntentLabel: secret, Sentiment: map[string]float64{secret: 1}, GraphPath: path}}, nil)
			yield(&event.Event{Data: &event.Transfer{To: to, RouteDecision: raw, Reason: secret, GraphPath: path, TransferType: event.TransferTypeBotToBot}}, nil)
		}
	}, opts...)
	require.NoError(t, err)
	return &router{a}
}

func newAgent(t testing.TB, name string, run func(context.Context) error, opts ...agent.Option) agent.Agent {
	a, err := agent.New(name, "sk-planted12345678", func(ctx context.Context, _ *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			if !yield(&event.Event{Data: &event.Text{Content: strings.Join(secrets, " ")}}, nil) {
				return
			}
			if err := run(ctx); err != nil {
				yield(nil, err)
			}
		}
	}, opts...)
	require.NoError(t, err)
	return a
}

// desk is one whose words are secret.
type desk struct{ secret string }

func (d desk) RequestTransfer(context.Context, human.Request) (human.Update, error) {
	return human.Update{Reason: d.secret, TargetAgent: d.secret}, nil
}
func (desk) Send(context.Context, human.Leg, []human.Message) error { return nil }
func (desk) Cancel(context.Context, human.Leg, string) error        { return nil }

// TestBundle: what is in a bundle, and that no secret is.
func TestBundle(t *testing.T) {
	for _, secret := range secrets {
		t.Run(secret, func(t *testing.T) {
			far, err := a2a.Remote("far", "https://me:hunter22@h.test/card.json?key=hunter22", a2a.WithClient(a2atest.New()))
			require.NoError(t, err)
			broken := newAgent(t, "a", func(context.Context) error { return errors.New(secret) }, agent.WithSubAgents(newAgent(t, "below", func(context.Context) error { return nil })))
			root := newRouter(t, "front", secret, agent.WithSubAgents(agent.Via(broken, agent.OnError("b")), newAgent(t, "b", func(context.Context) error { return nil }), far))
			store := sessiontest.Memory(t)
			r, err := runner.New(root, store, runner.WithDesk(desk{secret}))
			require.NoError(t, err)
			for _, words := range []string{"b", "a", "human"} {
				_, err = runner.Collect(r.Run(t.Context(), key, llm.UserText(words), runner.WithMetadata(map[string]any{"token": secret})))
				require.NoError(t, err)
			}
			b, err := debugbundle.New(t.Context(), r, key, debugbundle.Options{Decisions: 3, Redact: func(s string) string { return strings.ReplaceAll(s, "below", "BELOW") }})
			require.NoError(t, err)
			raw, err := json.Marshal(b)
			require.NoError(t, err)
			require.Empty(t, planted(string(raw)), string(raw))
			require.Equal(t, []any{"s1", "over", agent.Human}, []any{b.SessionID, b.Turn, b.Active})
			require.Equal(t, []debugbundle.Node{{"front", "front", "router", ""}, {"a", "front/a", "specialist", ""}, {"BELOW", "front/a/BELOW", "agent", ""},
				{"b", "front/b", "specialist", ""}, {"far", "front/far", "remote", "https://h.test/card.json"}, {"human", "human", "human", ""}}, b.AgentGraph.Topology.Nodes)
			require.Equal(t, []debugbundle.Edge{{"front", "a", "b"}, {"a", "BELOW", ""}, {"front", "b", ""}, {"front", "far", ""}, {"front", "human", ""},
				{"a", "human", ""}, {"BELOW", "human", ""}, {"b", "human", ""}}, b.AgentGraph.Topology.Edges)
			var decided []string
			for _, d := range b.AgentGraph.Decisions {
				decided = append(decided, fmt.Sprintf("%s→%s %v", d.From, d.To, d.Failed != nil))
				require.NotEmpty(t, d.TurnID)
				require.NotZero(t, d.Seq)
				require.False(t, d.Time.IsZero())
			}
			require.Equal(t, []string{"front→a false", "a→b true", "front→human false"}, decided)
			require.Equal(t, "queued", b.Handoff.Status)
			require.True(t, strings.HasPrefix(b.Handoff.HandoffID, "h"))
			require.Equal(t, debugbundle.Limits{Transfers: 8, ModelCalls: 50, ToolCalls: 200, Steps: 25}, *b.Limits)
			require.NotEmpty(t, b.Versions.Go)

			stored, err := debugbundle.Stored(t.Context(), store, key, debugbundle.Options{})
			require.NoError(t, err)
			require.Nil(t, stored.AgentGraph.Topology)
			require.Len(t, stored.AgentGraph.Decisions, 4)
			stored.AgentGraph.Decisions = stored.AgentGraph.Decisions[1:]
			require.Equal(t, b.AgentGraph.Decisions, stored.AgentGraph.Decisions)

			var kept bool // the log is as it was
			for e, err := range r.History(t.Context(), key) {
				require.NoError(t, err)
				if d, ok := e.Data.(*event.Route); ok {
					kept = kept || d.Reason == secret
				}
			}
			require.True(t, kept)
		})
	}
}

// TestDuringATurn: a bundle can be made while a turn runs, here and elsewhere.
func TestDuringATurn(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	root := newRouter(t, "front", "why", agent.WithSubAgents(newAgent(t, "a", func(context.Context) error {
		close(begun)
		<-goOn
		return nil
	})))
	store := sessiontest.Memory(t)
	r, err := runner.New(root, store)
	require.NoError(t, err)
	other, err := runner.New(root, store)
	require.NoError(t, err)
	b, err := debugbundle.New(t.Context(), r, key, debugbundle.Options{})
	require.NoError(t, err)
	require.Equal(t, []any{"none", "front", int64(0), 0}, []any{b.Turn, b.Active, b.Seq, len(b.AgentGraph.Decisions)})
	done := make(chan error)
	go func() {
		_, err := runner.Collect(r.Run(context.Background(), key, llm.UserText("a")))
		done <- err
	}()
	<-begun
	for _, r := range []*runner.Runner{r, other} {
		b, err := debugbundle.New(t.Context(), r, key, debugbundle.Options{})
		require.NoError(t, err)
		require.Equal(t, []any{"open", "front", 1}, []any{b.Turn, b.Active, len(b.AgentGraph.Decisions)})
		require.Equal(t, []string{"front", "a"}, b.AgentGraph.Decisions[0].GraphPath)
	}
	close(goOn)
	require.NoError(t, <-done)
	_, err = debugbundle.New(t.Context(), nil, key, debugbundle.Options{})
	require.Error(t, err)
	_, err = debugbundle.Stored(t.Context(), nil, key, debugbundle.Options{})
	require.Error(t, err)
}

// TestAllIsRedacted: each text of a bundle is, whatever fields it will have.
func TestAllIsRedacted(t *testing.T) {
	var walk func(typ reflect.Type, path string)
	walk = func(typ reflect.Type, path string) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(typ.Elem(), path)
		case reflect.Map:
			walk(typ.Key(), path)
			walk(typ.Elem(), path)
		case reflect.Struct:
			for i := range typ.NumField() {
				if f := typ.Field(i); typ != reflect.TypeFor[time.Time]() {
					require.True(t, f.IsExported(), "%s.%s cannot be copied", path, f.Name)
					walk(f.Type, path+"."+f.Name)
				}
			}
		case reflect.Interface, reflect.Array, reflect.Func, reflect.Chan:
			t.Errorf("%s is of a kind that redaction does not know", path)
		}
	}
	walk(reflect.TypeFor[debugbundle.Bundle](), "Bundle")
}
