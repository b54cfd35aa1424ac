package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// act runs or resumes a turn, with a break or a cancellation at a random event,
// and checks all that must hold afterwards.
func (w *world) act(r *runner.Runner, fresh bool, start func(context.Context, session.Key) iter.Seq2[*agent.Event, error]) {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), worldKey{}, w))
	defer cancel()
	stopAt, how := 0, ""
	if rapid.IntRange(0, 2).Draw(w.rt, "stop") == 2 {
		how = rapid.SampledFrom([]string{"break", "cancel"}).Draw(w.rt, "how")
		stopAt = rapid.IntRange(1, 30).Draw(w.rt, "stop at")
	}
	var delivered []*agent.Event
	var failed error
	deltas, settled := make(map[string]string), make(map[string]bool)
	n, stopped := 0, false
	for e, err := range start(ctx, s1) {
		if failed != nil {
			w.t.Fatalf("something comes after the error %v", failed)
		}
		n++
		switch {
		case err != nil:
			require.Nil(w.t, e)
			failed = err
		case e.Partial:
			require.True(w.t, w.streaming)
			require.False(w.t, settled[e.ID], "a delta of a block that is over")
			require.Positive(w.t, e.Attempt)
			deltas[e.ID] += partialText(e)
		default:
			delivered = append(delivered, e)
			switch d := e.Data.(type) {
			case *agent.Text, *agent.Reasoning:
				if shown, ok := deltas[e.ID]; ok {
					require.Equal(w.t, strings.ToValidUTF8(shown, "\uFFFD"), partialText(e))
				}
				settled[e.ID] = true
			case *agent.Discard:
				for _, id := range d.IDs {
					require.Contains(w.t, deltas, id)
					require.False(w.t, settled[id])
					settled[id] = true
				}
			}
		}
		if n == stopAt {
			stopped = true
			if how == "break" {
				break
			}
			cancel()
		}
	}
	if len(w.problems) > 0 {
		w.t.Fatalf("%s", strings.Join(w.problems, "\n"))
	}
	before := len(w.log)
	w.read(r)
	after := w.log
	for key, runs := range w.runs {
		if runs > 1 {
			w.t.Fatalf("the tool call %s was executed %d times", key, runs)
		}
	}
	w.checkError(failed, stopped)
	checkLog(w.t, r, after)
	if fresh && !stopped {
		require.NotEmpty(w.t, delivered)
	}
	// What is delivered is what is stored, from the first new event on.
	require.LessOrEqual(w.t, before+len(delivered), len(after))
	for i, e := range delivered {
		w.requireSame(before+i, e)
	}
	if !stopped {
		require.Len(w.t, after, before+len(delivered))
		for id := range deltas {
			require.True(w.t, settled[id], "the deltas of %s came to nothing", id)
		}
		if len(after) > 0 {
			require.Equal(w.t, agent.TypeHarnessEnd, after[len(after)-1].Type())
		}
	}
	w.checkWarm(r)
}

// read loads the log, which must go on from where it was.
func (w *world) read(r *runner.Runner) {
	log := load(w.t, r, s1)
	require.GreaterOrEqual(w.t, len(log), len(w.log), "stored events are gone")
	for i := range w.log {
		w.requireSame(i, log[i])
	}
	for _, e := range log[len(w.log):] {
		w.known = append(w.known, w.encode(e))
	}
	w.log = log
}

// checkPast holds the log against what it was when each event was first seen,
// because a payload must not be changed once it is stored.
func (w *world) checkPast() {
	for i, e := range w.log {
		if got := w.encode(e); got != w.known[i] {
			w.t.Fatalf("seq %d was changed after it was stored:\n%s\n%s", e.Seq, w.known[i], got)
		}
	}
}

func (w *world) encode(e *agent.Event) string {
	data, err := e.MarshalJSON()
	require.NoError(w.t, err)
	return string(data)
}

// requireSame compares an event with the i-th of the log.
func (w *world) requireSame(i int, got *agent.Event) {
	if i < len(w.log) {
		e := *w.log[i]
		if e.More = got.More; e == *got {
			return // one payload, which checkPast looks at
		}
	}
	if have := w.encode(got); have != w.known[i] {
		w.t.Fatalf("seq %d is not what was stored:\n%s\n%s", i+1, w.known[i], have)
	}
}

func (w *world) checkError(err error, stopped bool) {
	if err == nil || stopped && errors.Is(err, context.Canceled) {
		return
	}
	var re *agent.RunError
	require.ErrorAs(w.t, err, &re)
	switch re.Code {
	case "transfer_limit":
		require.ErrorIs(w.t, err, agent.ErrTransferLimit)
	case "transfer_rejected":
		require.ErrorIs(w.t, err, agent.ErrTransferRejected)
	case "limit":
		require.ErrorIs(w.t, err, agent.ErrLimit)
	case "output_truncated":
		require.ErrorIs(w.t, err, agent.ErrOutputTruncated)
	case "internal":
		require.True(w.t, w.panics, "%v", err)
	default:
		var me *llm.Error
		require.ErrorAs(w.t, err, &me)
		require.Contains(w.t, []llm.ErrorCode{llm.CodeTruncated, llm.CodeServer, llm.CodeRateLimited}, me.Code)
	}
}

// checkWarm compares the runner, warm by now, with one that knows nothing but
// the log, and both with the log itself.
func (w *world) checkWarm(r *runner.Runner) {
	cold := w.runner()
	active := w.names[0]
	for _, e := range w.log {
		if d, ok := e.Data.(*agent.Transfer); ok && d.Outcome == agent.TransferCommitted && e.Scope == "" {
			active = d.To
		}
	}
	ctx := context.Background()
	for _, who := range []*runner.Runner{r, cold} {
		got, err := who.Active(ctx, s1)
		require.NoError(w.t, err)
		require.Equal(w.t, active, got)
	}
	for _, name := range w.names {
		a, err := r.Preview(ctx, s1, name)
		require.NoError(w.t, err)
		b, err := cold.Preview(ctx, s1, name)
		require.NoError(w.t, err)
		if a == nil && b == nil {
			continue // a function
		}
		if !sameMessages(a.Messages, b.Messages) {
			w.t.Fatalf("the warm view of %s is not the cold one:\n%v\n%v", name, a.Messages, b.Messages)
		}
		if a.System != b.System || !sameTools(a.Tools, b.Tools) {
			w.t.Fatalf("%s is offered something else when it is warm:\n%s %v\n%s %v", name, a.System, a.Tools, b.System, b.Tools)
		}
	}
}

func sameTools(a, b []llm.ToolSpec) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Description != b[i].Description || !bytes.Equal(a[i].Parameters, b[i].Parameters) {
			return false
		}
	}
	return true
}

func sameMessages(a, b []llm.Message) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Role != b[i].Role || a[i].Text != b[i].Text || len(a[i].Parts) != len(b[i].Parts) {
			return false
		}
		for j := range a[i].Parts {
			if !samePart(a[i].Parts[j], b[i].Parts[j]) {
				return false
			}
		}
	}
	return true
}

func samePart(a, b llm.Part) bool {
	x, ok := a.(llm.Media)
	if !ok {
		return a == b
	}
	y, ok := b.(llm.Media)
	return ok && x.Kind == y.Kind && x.MediaType == y.MediaType && x.URL == y.URL && x.Name == y.Name && bytes.Equal(x.Data, y.Data)
}

// codecStore keeps of each event what its JSON form keeps.
type codecStore struct{ session.Store }

func (s codecStore) Append(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*agent.Event) error {
	decoded := make([]*agent.Event, len(events))
	for i, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		decoded[i] = new(agent.Event)
		if err := json.Unmarshal(data, decoded[i]); err != nil {
			return err
		}
	}
	return s.Store.Append(ctx, key, seq, lease, decoded...)
}
