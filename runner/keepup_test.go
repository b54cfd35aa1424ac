package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/view"
)

// readStore counts what is read of logs.
type readStore struct {
	session.Store
	loads atomic.Int64
}

func (s *readStore) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	s.loads.Add(1)
	return s.Store.Load(ctx, key, after)
}

// A warm session's log is not read again: what the last turn stored is in
// memory.
func TestAWarmTurnReadsNothing(t *testing.T) {
	s := &readStore{Store: sessiontest.Memory(t)}
	r := newRunner(t, chain(t, 1, "I refund one."), s)
	turn(t, r, s1)
	s.loads.Store(0)
	for range 3 {
		turn(t, r, s1)
	}
	require.Zero(t, s.loads.Load())
}

// TestAPolicyThatPanics: a panic of a view's own function ends the turn with an
// error, and what was half done is not continued.
func TestAPolicyThatPanics(t *testing.T) {
	broken := true
	policy := view.Full().Redact(func(s string) string {
		if broken {
			panic("no words")
		}
		return s
	})
	r := newRun(t, says(t, "solo", "Hello.", llmagent.WithHistory(policy)))
	_, err := collect(r.Run(context.Background(), s1, llm.UserText("one")))
	require.ErrorContains(t, err, "no words")
	broken = false
	run(t, r, s1, "two")
	preview := must.Get(r.Preview(context.Background(), s1, "solo"))
	require.Equal(t, []llm.Message{llm.UserText("one"), llm.UserText("two"), {Role: llm.RoleAssistant, Content: llm.Content{Text: "Hello."}}}, preview.Messages)

	broken = true // when the turn is over, while the view is kept up
	_, _ = collect(r.Run(context.Background(), s1, llm.UserText("three")))
}

// counter stores in the snapshot how many events there are, with the given number of bytes.
type counter struct {
	agent.Agent
	size int
	off  int64 // by which what is read is wrong
	half bool  // what is read is given up when some of it was taken

	fresh, read int // values that were made, and those that were read
}

type counted struct {
	of *counter
	n  int64
}

func (c *counter) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		made := func() any {
			c.fresh++
			return &counted{of: c}
		}
		v := inv.Session().Memo("counted", made).(*counted)
		for e, err := range inv.Session().Events(ctx, v.n) {
			if err != nil || e.Seq != v.n+1 {
				yield(nil, agent.ErrBadInput)
				return
			}
			v.n++
		}
		yield(&event.Event{Data: &event.Text{Content: "counted"}}, nil)
	}
}

func (v *counted) Seq() int64           { return v.n }
func (v *counted) SnapshotName() string { return "counted" }

type storedCount struct {
	N    int64
	Text string
}

func (v *counted) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedCount{v.n, strings.Repeat("a", v.of.size)})
}

func (v *counted) UnmarshalJSON(data []byte) error {
	var stored storedCount
	err := json.Unmarshal(data, &stored)
	v.of.read++
	v.n = stored.N + v.of.off
	if len(stored.Text) != v.of.size || v.of.half {
		return errors.New("it has another size")
	}
	return err
}

// TestMemosFromSnapshots: what an agent keeps comes back in another process. What was read in vain, or says that it is of a later
// position, is made anew, and a large session is stored less often.
func TestMemosFromSnapshots(t *testing.T) {
	root := answering(t)
	store := sessiontest.Memory(t, session.KeepSnapshots())
	cold := func(c *counter) (fresh, read int, n int) {
		c.Agent = root
		turn(t, newRunner(t, c, store, runner.WithSnapshots(1)), s1)
		return c.fresh, c.read, int(must.Get(store.Snapshot(t.Context(), s1)).Seq)
	}
	of := func(fresh, read, n int) [3]int { return [3]int{fresh, read, n} }
	require.Equal(t, [3]int{1, 0, 4}, of(cold(&counter{size: 1})))
	require.Equal(t, [3]int{1, 1, 8}, of(cold(&counter{size: 1})))
	require.Equal(t, [3]int{2, 1, 12}, of(cold(&counter{size: 1, half: true})))
	require.Equal(t, [3]int{2, 1, 16}, of(cold(&counter{size: 1, off: 100})))
	require.Equal(t, [3]int{2, 1, 20}, of(cold(&counter{size: 6 << 10})), "it has another size, and was not stored as a large one")
	require.Equal(t, [3]int{1, 1, 20}, of(cold(&counter{size: 6 << 10})), "four events since")
	require.Equal(t, [3]int{1, 1, 28}, of(cold(&counter{size: 6 << 10})), "eight events since")
	root = answering(t)
	turn(t, newRunner(t, root, store, runner.WithSnapshots(1)), s1) // which does not ask for it
	turn(t, newRunner(t, root, store, runner.WithSnapshots(1)), s1)
	require.Equal(t, [3]int{1, 1, 38}, of(cold(&counter{size: 6 << 10})), "it was kept")
}

// answering is an agent that answers at once.
func answering(t testing.TB) agent.Agent {
	return must.Get(llmagent.New("clerk", "", scripted.Always("clerk", scripted.Reply(scripted.Text("I see two charges.")))))
}

// once stores in the snapshot how many events there were before its first turn, and ignores later ones.
type once struct {
	agent.Agent
	looked bool
}

func (o *once) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if !o.looked {
			o.looked = true
			s := inv.Session()
			s.Memo("counted", func() any { return &counted{of: &counter{size: 1}, n: s.Seq() - 2} })
		}
		yield(&event.Event{Data: &event.Text{Content: "counted"}}, nil)
	}
}

// TestMemosThatStayBehind: what cannot be stored where it is, because the event there was not read, does not make each
// turn one that stores something.
func TestMemosThatStayBehind(t *testing.T) {
	s := &meteredStore{Store: sessiontest.Memory(t, session.KeepSnapshots())}
	before := newRunner(t, answering(t), s, runner.WithSnapshots(0))
	for range 100 {
		turn(t, before, s1)
	}
	first, events := 0, 0
	r := newRunner(t, &once{Agent: answering(t)}, s)
	for range 100 {
		if events = int(turn(t, r, s1).Seq); first == 0 {
			first = events
		}
	}
	require.LessOrEqual(t, s.puts, (events-first)/64+1)
}
