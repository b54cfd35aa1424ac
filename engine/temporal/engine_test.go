package temporal_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/agentarbor/arbor/engine/temporal"
	"github.com/agentarbor/arbor/engine/temporal/internal/testserver"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/tools"
)

// desk is a tree whose clerk pays with a tool that must not run twice, and an engine that runs its turns.
type desk struct {
	*testing.T
	client  client.Client
	store   live.Store
	runner  *runner.Runner
	engine  *temporal.Engine
	key     session.Key
	paid    atomic.Int64
	mu      sync.Mutex
	answers []scripted.Answer // of the model, to the user's words; the last one stays
}

var sessions atomic.Int64

// open makes a desk with a worker. What the model is asked with a tool's result it answers itself.
func open(t *testing.T, store session.Store, runs []runner.Option, opts []temporal.Option, answers ...scripted.Answer) *desk {
	d := unmanned(t, store, runs, opts, answers...)
	d.worker()
	return d
}

// unmanned makes a desk without a worker.
func unmanned(t *testing.T, store session.Store, runs []runner.Option, opts []temporal.Option, answers ...scripted.Answer) *desk {
	if store == nil {
		store = sessiontest.Memory(t)
	}
	n := sessions.Add(1)
	d := &desk{T: t, client: connect(t), key: session.ID(fmt.Sprint("s", n, " / ", t.Name())), answers: answers}
	var err error
	if followed, ok := store.(live.Store); ok {
		d.store = followed
	} else {
		d.store, err = tail.New(store, tail.WithPoll(10*time.Millisecond))
		require.NoError(t, err)
	}
	pay := func(name string, opts ...tools.Option) tools.Tool {
		tool, err := tools.Func(name, "Pays.", func(tools.Context, struct{}) (string, error) { d.paid.Add(1); return "secret: paid", nil }, opts...)
		require.NoError(t, err)
		return tool
	}
	model := scripted.Func("clerk", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role != llm.RoleUser {
			return scripted.Reply(scripted.Text("secret: Done."))
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		a := d.answers[0]
		if len(d.answers) > 1 {
			d.answers = d.answers[1:]
		}
		return a
	})
	root, err := llmagent.New("clerk", "You pay.", model, llmagent.WithTools(pay("pay"), pay("refund", tools.NeedsApproval())))
	require.NoError(t, err)
	d.runner, err = runner.New(root, d.store, append([]runner.Option{runner.WithOuterRetries(), runner.WithStreaming()}, runs...)...)
	require.NoError(t, err)
	d.engine, err = temporal.New(d.client, fmt.Sprint("q", n, "-", t.Name()), d.runner, append([]temporal.Option{temporal.WithHeartbeat(30 * time.Second)}, opts...)...)
	require.NoError(t, err)
	return d
}

// connect returns a client of the server that all tests share, also those that are processes of others.
func connect(t *testing.T) client.Client {
	address := os.Getenv(serverVariable)
	if address == "" {
		return testserver.Shared(t).Client(t)
	}
	c, err := testserver.Dial(address)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func (d *desk) worker(interceptors ...interceptor.WorkerInterceptor) worker.Worker {
	d.Helper()
	w := d.engine.Worker(worker.Options{Interceptors: interceptors})
	require.NoError(d, w.Start())
	d.Cleanup(w.Stop)
	return w
}

var (
	pays    = scripted.Reply(scripted.Call("pay", "{}"))
	refunds = scripted.Reply(scripted.Call("refund", "{}"))
	asIs    = scripted.Reply(scripted.Text("secret: As it is."))
)

func collect(events iter.Seq2[*event.Event, error]) (all []*event.Event, err error) {
	for e, err := range events {
		if err != nil {
			return all, err
		}
		if !e.Partial {
			all = append(all, e)
		}
	}
	return all, nil
}

func (d *desk) say(text string, opts ...runner.TurnOption) ([]*event.Event, error) {
	ctx, cancel := context.WithTimeout(d.Context(), 3*time.Minute)
	defer cancel()
	return collect(d.engine.Run(ctx, d.key, llm.UserText(text), opts...))
}

func (d *desk) resume(decisions ...runner.Decision) ([]*event.Event, error) {
	ctx, cancel := context.WithTimeout(d.Context(), 3*time.Minute)
	defer cancel()
	return collect(d.engine.Resume(ctx, d.key, decisions...))
}

func (d *desk) log() []*event.Event {
	all, err := collect(d.runner.History(d.Context(), d.key))
	require.NoError(d, err)
	return all
}

func types(events []*event.Event) (names []string) {
	for _, e := range events {
		names = append(names, e.Type())
	}
	return names
}

func last(events []*event.Event) event.FinishReason {
	end, ok := events[len(events)-1].Data.(*event.HarnessEnd)
	if !ok {
		return ""
	}
	return end.FinishReason
}

func TestRun(t *testing.T) {
	for name, steps := range map[string]int{"a step an activity": 1, "the whole turn": 0, "two steps": 2} {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil, nil, []temporal.Option{temporal.WithStepsPerActivity(steps)}, pays, asIs)
			events, err := d.say("secret: Pay it.")
			require.NoError(t, err)
			require.Equal(t, d.log(), events, "the follower sees what is stored")
			require.Equal(t, event.FinishReasonStop, last(events))
			require.EqualValues(t, 1, d.paid.Load())

			plain, err := runner.New(d.runner.Tree().Root().Agent, sessiontest.Memory(t))
			require.NoError(t, err)
			d.answers = []scripted.Answer{pays}
			want, err := collect(plain.Run(t.Context(), d.key, llm.UserText("secret: Pay it.")))
			require.NoError(t, err)
			require.Equal(t, types(want), types(events), "the log is that of a plain runner")

			d.answers = []scripted.Answer{asIs}
			again, err := d.say("And now?")
			require.NoError(t, err)
			require.Equal(t, d.log()[len(events):], again)
		})
	}
}

// say begins turns one after the other without a pause: a workflow that is about to end is waited for.
func TestTurnsInARow(t *testing.T) {
	d := open(t, nil, nil, nil, asIs)
	for i := range 20 {
		events, err := d.say(fmt.Sprint("Turn ", i))
		require.NoError(t, err)
		require.Equal(t, event.FinishReasonStop, last(events))
	}
}
