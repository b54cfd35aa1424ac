package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// meteredStore counts what is read, and how often snapshots are stored.
type meteredStore struct {
	session.Store
	mu sync.Mutex
	metered
}

type metered struct{ events, snapshots, bytes, puts int }

func (s *meteredStore) add(m metered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metered = metered{s.events + m.events, s.snapshots + m.snapshots, s.bytes + m.bytes, s.puts + m.puts}
}

func (s *meteredStore) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range s.Store.Load(ctx, key, after) {
			s.add(metered{events: 1})
			if !yield(e, err) {
				return
			}
		}
	}
}

func (s *meteredStore) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if w.Snapshot.Data != "" {
		s.add(metered{puts: 1})
	}
	return s.Store.Write(ctx, key, w)
}

func (s *meteredStore) Snapshot(ctx context.Context, key session.Key) (session.Snapshot, error) {
	found, err := s.Store.Snapshot(ctx, key)
	if found.Data != "" {
		s.add(metered{snapshots: 1, bytes: len(found.Data)})
	}
	return found, err
}

// clerk is an agent that calls a tool and then answers, in each turn. last is what its model was asked last.
func clerk(t testing.TB, p view.Policy, last **llm.Request) agent.Agent {
	tool := must.Get(tools.Func("lookup", "Looks a customer up.", func(tools.Context, struct{}) (string, error) {
		return "The customer has two charges of 9.99 from March, one of them by the old system.", nil
	}))
	call := scripted.Reply(scripted.Call("lookup", `{}`), scripted.Usage(500, 20, 0))
	answer := scripted.Reply(scripted.Text("I see two charges, and refund the one that the old system made. It takes three days."), scripted.Usage(600, 30, 0))
	return must.Get(llmagent.New("clerk", "You are the clerk.", scripted.Func("clerk", func(req *llm.Request) scripted.Answer {
		*last = req
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return answer
		}
		return call
	}), llmagent.WithTools(tool), llmagent.WithHistory(p)))
}

// stored puts a log into a store.
func stored(t testing.TB, store session.Store, key session.Key, events []*event.Event) {
	ctx := context.Background()
	lease := must.Get(sessiontest.Acquire(ctx, store, key, session.Self()))
	require.NoError(t, sessiontest.Append(ctx, store, key, 0, lease, events...))
	require.NoError(t, sessiontest.Release(ctx, store, key, lease))
}

// TestColdTurnReadsAsMuchAtAnyLength: a turn in a new process reads the snapshot and the turns that its agent is shown,
// however long the session is. A Full view reads the log.
func TestColdTurnReadsAsMuchAtAnyLength(t *testing.T) {
	if race.Enabled {
		t.Skip("what is read does not depend on the race detector, which takes ten times as long")
	}
	for name, p := range map[string]view.Policy{"last_turns": view.LastTurns(20), "full": view.Full()} {
		t.Run(name, func(t *testing.T) {
			var last *llm.Request
			root := clerk(t, p, &last)
			for _, turns := range []int{10, 100, 1000} {
				path := filepath.Join(t.TempDir(), "s.db")
				cold := func(opts ...runner.Option) *meteredStore {
					file := must.Get(sqlite.Open(path))
					defer file.Close()
					s := &meteredStore{Store: file}
					turn(t, newRunner(t, root, s, opts...), s1)
					return s
				}
				file := must.Get(sqlite.Open(path))
				stored(t, file, s1, past(t, root, turns))
				require.NoError(t, file.Close())
				first := cold() // which has to read all of it
				require.GreaterOrEqual(t, first.events, 8*turns)
				for range 20 {
					s := cold()
					require.LessOrEqual(t, s.bytes, 8<<10, "%d turns", turns)
					if name == "last_turns" {
						require.LessOrEqual(t, s.events, snapshotRows+shownRows, "%d turns", turns)
					}
				}
				asked := last
				without := cold(runner.WithSnapshots(0))
				require.GreaterOrEqual(t, without.events, 8*turns)
				require.Equal(t, len(asked.Messages) > 200, name == "full" && turns > 10)
			}
		})
	}
}

// TestColdSessionKnowsItsPast: what a runner knows of a whole log is there when the session comes from snapshots: files
// of the user and of tools, the ids of calls, long words of a turn that was cut off.
func TestColdSessionKnowsItsPast(t *testing.T) {
	for _, kept := range []bool{true, false} {
		var found string
		tool := must.Get(tools.Func("files", "", func(c tools.Context, _ struct{}) (string, error) {
			if found == "" {
				_, err := c.SaveFile("made.txt", "text/plain", []byte("made"))
				return "saved", err
			}
			made, err := c.ReadFile("made.txt")
			if err != nil {
				return "", err
			}
			sent, err := c.ReadFile("sent.txt")
			found = string(made) + " " + string(sent)
			return found, err
		}))
		fails := false
		a := must.Get(llmagent.New("a", "", scripted.Func("a", func(req *llm.Request) scripted.Answer {
			switch {
			case fails:
				return scripted.Reply(scripted.Fail(errors.New("down")))
			case req.Messages[len(req.Messages)-1].Role == llm.RoleTool:
				return scripted.Reply(scripted.Text("done"))
			}
			return scripted.Reply(scripted.CallID("c1", "files", "{}")) // as endpoints do that only count
		}), llmagent.WithTools(tool)))
		store := sessiontest.Memory(t, session.KeepSnapshots())
		cold := func(content llm.Content) {
			for _, err := range newRunner(t, a, store, runner.WithSnapshots(1)).Run(t.Context(), s1, llm.Message{Role: llm.RoleUser, Content: content}) {
				if !fails {
					require.NoError(t, err)
				}
			}
		}
		cold(llm.UserParts(llm.TextPart{Text: "Keep this."}, llm.Media{Kind: llm.MediaFile, MediaType: "text/plain", Name: "sent.txt", Data: []byte("sent")}).Content)
		found = "nothing"
		cold(llm.UserText("And?").Content)
		require.Equal(t, "made sent", found)
		ids := make(map[string]bool)
		for _, e := range must.All(store.Load(t.Context(), s1, 0)) {
			if e.Type() == event.TypeToolCall {
				require.False(t, ids[e.ID], e.ID)
				ids[e.ID] = true
			}
		}
		require.Len(t, ids, 2)

		long := strings.Repeat("long ", 20_000)
		fails = true
		cold(llm.UserText(long).Content)
		r := newRunner(t, a, store, runner.WithSnapshots(map[bool]int{true: 1}[kept]))
		require.NoError(t, r.ReadFold(t.Context(), s1, func(f *session.Fold) error {
			require.Equal(t, long, f.Turn.User.Content.Text)
			return nil
		}))
	}
}

// snapshotRows is how many events a cold turn may read: those since the last snapshot, which is due after 64 and comes
// at the end of a turn, and the one that it is known by. None is read twice for a view.
const snapshotRows = 64 + 8 + 1

// shownRows is how many events more there are in the turns that a view of LastTurns(20) reads: 40 turns of eight events
// at most, and a quarter of that where not all turns are known.
const shownRows = 40 * 8 * 5 / 4

// marshaled is a request in the form of chat completions, by package json.
func marshaled(t testing.TB, req *llm.Request) []byte {
	type call struct {
		ID       string            `json:"id"`
		Type     string            `json:"type"`
		Function map[string]string `json:"function"`
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
		Calls   []call `json:"tool_calls,omitempty"`
		CallID  string `json:"tool_call_id,omitempty"`
	}
	list := make([]message, 0, len(req.Messages))
	for _, m := range req.Messages {
		out := message{Role: string(m.Role), Content: m.Text}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				out.Calls = append(out.Calls, call{p.ID, "function", map[string]string{"name": p.Name, "arguments": p.Arguments}})
			case llm.ToolResult:
				out.CallID, out.Content = p.CallID, p.Output
			}
		}
		list = append(list, out)
	}
	return must.Get(json.Marshal(map[string]any{"model": "m", "messages": list}))
}

// coldSession is a session in a database that is opened anew for each turn.
type coldSession struct {
	root agent.Agent
	last *llm.Request // what the model was asked last
	open func() session.Store
}

// newCold stores a session of so many turns, and lets it have one more, so that there are snapshots, as always when
// people talk from process to process.
func newCold(t testing.TB, kind string, p view.Policy, turns int) *coldSession {
	c := &coldSession{}
	c.root = clerk(t, p, &c.last)
	place := filepath.Join(t.TempDir(), "s.db")
	if kind == "postgres" {
		place = servers.Database(t)
	}
	c.open = func() (s session.Store) {
		var err error
		if kind == "postgres" {
			s, err = postgres.Open(context.Background(), place)
		} else {
			s, err = sqlite.Open(place)
		}
		require.NoError(t, err)
		return s
	}
	s := c.open()
	stored(t, s, s1, past(t, c.root, turns))
	turn(t, newRunner(t, c.root, s), s1)
	require.NoError(t, s.Close())
	return c
}

// turnCost is what a cold turn read, took and allocated.
type turnCost struct {
	read          metered
	took          time.Duration
	allocs, bytes float64
}

// turn runs a turn by a new runner on the opened store, which has a connection already.
func (c *coldSession) turn(t testing.TB, opts ...runner.Option) turnCost {
	s := &meteredStore{Store: c.open()}
	defer s.Close()
	r := newRunner(t, c.root, s, opts...)
	must.Get(s.SharedState(context.Background(), s1)) // connects
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	turn(t, r, s1)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return turnCost{s.metered, took, float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc)}
}

// TestAllocationBudgetOfColdTurns: what a cold turn allocates does not depend on the length of the session if its agent
// is shown the last turns. If it is shown all of them, it allocates so much for each event of the log.
func TestAllocationBudgetOfColdTurns(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates on its own")
	}
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			least := func(p view.Policy, turns int) turnCost {
				c := newCold(t, kind, p, turns)
				cost := c.turn(t)
				for range 4 { // what else goes on in the process is not the turn's
					again := c.turn(t)
					cost.bytes, cost.allocs = min(cost.bytes, again.bytes), min(cost.allocs, again.allocs)
				}
				t.Logf("%s, %d turns: %.0f KiB, %.0f allocations", p, turns, cost.bytes/1024, cost.allocs)
				return cost
			}
			short, long := least(view.LastTurns(20), 100), least(view.LastTurns(20), 2000)
			require.LessOrEqual(t, long.allocs, 1.5*short.allocs)
			require.LessOrEqual(t, long.bytes, 1.5*short.bytes)
			require.LessOrEqual(t, short.allocs, 4500.0)
			full := least(view.Full(), 1000)
			require.LessOrEqual(t, full.allocs, 2000.0+15*8*1000)
			require.LessOrEqual(t, full.bytes, 300<<10+1100.0*8*1000)
		})
	}
}

// BenchmarkColdTurn measures one turn of a new runner on a store that was just opened, the opening itself not among the
// time.
func BenchmarkColdTurn(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres"} {
		for _, of := range []struct {
			name   string
			policy view.Policy
		}{{"last_turns", view.LastTurns(20)}, {"full", view.Full()}} {
			for _, turns := range []int{10, 100, 1000, 4000, 12500} {
				b.Run(fmt.Sprintf("%s/%s/turns=%d", kind, of.name, turns), func(b *testing.B) {
					c := newCold(b, kind, of.policy, turns)
					var took, marshal, allocs, bytes float64
					var request int
					var read metered
					for b.Loop() {
						cost := c.turn(b)
						took, allocs, bytes, read = took+cost.took.Seconds(), allocs+cost.allocs, bytes+cost.bytes, cost.read
						start := time.Now()
						request = len(marshaled(b, c.last))
						marshal += time.Since(start).Seconds()
					}
					n := float64(b.N)
					b.ReportMetric(took/n*1e3, "ms/turn")
					b.ReportMetric(c.turn(b, runner.WithSnapshots(0)).took.Seconds()*1e3, "ms-without")
					b.ReportMetric(allocs/n, "allocs/turn")
					b.ReportMetric(bytes/n/1024, "KiB/turn")
					b.ReportMetric(float64(read.bytes)/1024, "KiB-snapshots")
					b.ReportMetric(float64(read.events), "events-read")
					b.ReportMetric(float64(request)/1024, "KiB-request")
					b.ReportMetric(took/marshal, "x-marshal")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
