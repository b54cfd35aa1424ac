package runner_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// shards is how many parts the cases of TestProperties are dealt to. It does not
// depend on the machine, so that the same cases are played everywhere.
const shards = 16

// TestProperties plays random conversations on random trees of agents with
// random models and holds them against what is always true.
//
// -rapid.checks=N plays N cases in all, side by side on all processors. They are
// the same in every run; -rapid.seed=S plays others, one after the other, the
// first of which is the one that a failure named with this seed.
func TestProperties(t *testing.T) {
	total, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	require.NoError(t, err)
	seed, err := strconv.ParseUint(flag.Lookup("rapid.seed").Value.String(), 10, 64)
	require.NoError(t, err)
	parts := shards
	if seed != 0 {
		parts = 1
	}
	for _, name := range []string{"rapid.checks", "rapid.seed", "rapid.nofailfile"} {
		before := flag.Lookup(name).Value.String()
		t.Cleanup(func() { require.NoError(t, flag.Set(name, before)) })
	}
	require.NoError(t, flag.Set("rapid.nofailfile", "true")) // a failure prints its seed
	gc := debug.SetGCPercent(400)                            // the cases are small, and short-lived
	t.Cleanup(func() { debug.SetGCPercent(gc) })
	var flags sync.Mutex
	for i := range parts {
		checks := total*(i+1)/parts - total*i/parts
		if checks == 0 {
			continue
		}
		t.Run(fmt.Sprint("shard ", i+1), func(st *testing.T) {
			st.Parallel()
			// Flags are the only way to tell rapid how many cases to play and where
			// to begin. It has read them when it plays the first one.
			flags.Lock()
			locked := true
			require.NoError(st, flag.Set("rapid.checks", strconv.Itoa(checks)))
			if seed == 0 {
				require.NoError(st, flag.Set("rapid.seed", strconv.Itoa((i+1)<<40)))
			}
			rapid.Check(shard{st, t.Name()}, func(rt *rapid.T) {
				if locked {
					locked = false
					flags.Unlock()
				}
				newWorld(rapidTB{t, rt}, rt).play()
			})
		})
	}
}

// shard has the name of the whole test, because that is what to run when a
// failure prints its seed.
type shard struct {
	*testing.T
	name string
}

func (s shard) Name() string { return s.name }

// rapidTB lets helpers that want a testing.TB fail a rapid check.
type rapidTB struct {
	testing.TB
	rt *rapid.T
}

func (t rapidTB) Helper()                           {}
func (t rapidTB) Errorf(format string, args ...any) { t.rt.Errorf(format, args...) }
func (t rapidTB) FailNow()                          { t.rt.FailNow() }
func (t rapidTB) Fatalf(format string, args ...any) { t.rt.Fatalf(format, args...) }

// world is one random case: a tree, what its models will say, and what was seen.
type world struct {
	t         testing.TB
	rt        *rapid.T
	names     []string // of the agents in the tree
	root      agent.Agent
	store     session.Store
	opts      []runner.Option
	streaming bool
	ids       int64 // given out so far

	log   []*agent.Event // as it was last loaded
	known []string       // the JSON of each event when it was first seen

	mu       sync.Mutex // models and tools run in parallel
	script   []plan     // what models say
	at       int        // how many plans of it the conversation has used
	turn     int
	problems []string
	panics   bool
	runs     map[string]int   // executions of tools that are not idempotent, by key
	last     map[string]shown // the last request of each agent
}

func newWorld(t testing.TB, rt *rapid.T) *world {
	return &world{t: t, rt: rt, runs: make(map[string]int), last: make(map[string]shown)}
}

// worldKey is under which models and tools, which all cases share, find the
// case that they run in.
type worldKey struct{}

func worldOf(ctx context.Context) *world { return ctx.Value(worldKey{}).(*world) }

func (w *world) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

func (w *world) newID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return "i" + strconv.FormatInt(w.ids, 10)
}

func (w *world) play() {
	w.tree()
	w.store = session.NewMemory()
	if rapid.Bool().Draw(w.rt, "codec") {
		w.store = codecStore{w.store}
	}
	w.opts = append(w.opts, runner.WithIDs(w.newID))
	if w.streaming = rapid.Bool().Draw(w.rt, "streaming"); w.streaming {
		w.opts = append(w.opts, runner.WithStreaming())
	}
	if rapid.IntRange(0, 3).Draw(w.rt, "small limits") == 3 {
		limit := rapid.IntRange(0, 4)
		w.opts = append(w.opts, runner.WithLimits(runner.Limits{Transfers: limit.Draw(w.rt, "transfers"),
			ModelCalls: limit.Draw(w.rt, "model calls"), ToolCalls: limit.Draw(w.rt, "tool calls"), Steps: limit.Draw(w.rt, "steps")}))
	}
	r := w.runner()
	for range rapid.IntRange(1, 5).Draw(w.rt, "actions") {
		if rapid.IntRange(0, 2).Draw(w.rt, "another process") == 2 {
			r = w.runner()
		}
		if rapid.IntRange(0, 2).Draw(w.rt, "resume") == 2 {
			w.act(r, false, func(ctx context.Context, key session.Key) iter.Seq2[*agent.Event, error] { return r.Resume(ctx, key) })
		} else {
			w.turn++
			msg := w.message()
			w.act(r, true, func(ctx context.Context, key session.Key) iter.Seq2[*agent.Event, error] { return r.Run(ctx, key, msg) })
		}
	}
	w.checkPast()
}

func (w *world) runner() *runner.Runner {
	r, err := runner.New(w.root, w.store, w.opts...)
	require.NoError(w.t, err)
	return r
}

var userMessages = rapid.SampledFrom([]llm.Message{
	llm.UserText("Hello"), llm.UserText("a\x00 \u202e<b>\n"),
	llm.UserParts(llm.TextPart{Text: "See"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{1, 2}}),
	{Role: llm.RoleUser, Content: llm.Content{Text: "Both", Parts: []llm.Part{llm.Media{Kind: llm.MediaFile, MediaType: "text/plain", URL: "https://example.com/a.txt", Name: "a"}}}},
})

func (w *world) message() llm.Message { return userMessages.Draw(w.rt, "message") }
