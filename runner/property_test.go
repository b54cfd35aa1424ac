package runner_test

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// shards is how many parts the cases of TestProperties are dealt to. It does not
// depend on the machine, so that the same cases are played everywhere.
const shards = 16

// TestProperties plays random conversations on random trees of agents with
// random models, breaks, cancels, crashes and decides about approvals at random,
// and checks all of it against what is always true.
//
// -rapid.checks=N plays N cases in all, side by side on all processors; without
// it they are few. They are the same in every run. -rapid.seed=S plays others,
// one after the other, first the one whose failure has printed this seed.
func TestProperties(t *testing.T) {
	total := 500
	if race.Enabled { // which takes seven times as long
		total = 160
	}
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "rapid.checks" {
			n := must.Get(strconv.Atoi(f.Value.String()))
			total = n
		}
	})
	seed := must.Get(strconv.ParseUint(flag.Lookup("rapid.seed").Value.String(), 10, 64))
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
	failFast := flag.Lookup("test.failfast").Value.String() == "true"
	seen := &tally{counts: make(map[string]int)}
	t.Cleanup(func() { seen.report(t, total) })
	var flags sync.Mutex
	for i := range parts {
		checks := total*(i+1)/parts - total*i/parts
		if checks == 0 {
			continue
		}
		t.Run(fmt.Sprint("shard ", i+1), func(st *testing.T) {
			st.Parallel()
			over := func() bool { return failFast && t.Failed() } // of another shard
			told := &failedCase{t: st}
			st.Cleanup(told.done)
			if over() {
				st.SkipNow()
			}
			// Flags are the only way to tell rapid how many cases to play and where
			// to begin. It has read them when it plays the first one.
			flags.Lock()
			locked := true
			require.NoError(st, flag.Set("rapid.checks", strconv.Itoa(checks)))
			if seed == 0 {
				require.NoError(st, flag.Set("rapid.seed", strconv.FormatUint(uint64(i+1)<<40, 10)))
			}
			rapid.Check(shard{st, t.Name()}, func(rt *rapid.T) {
				if locked {
					locked = false
					flags.Unlock()
				}
				if over() {
					return
				}
				w := newWorld(rapidTB{t, rt, told}, rt)
				w.play(told)
				seen.add(w)
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
	rt   *rapid.T
	told *failedCase
}

func (t rapidTB) Helper()  {}
func (t rapidTB) FailNow() { t.rt.FailNow() }

func (t rapidTB) Errorf(format string, args ...any) {
	t.told.why = fmt.Sprintf(format, args...)
	t.rt.Errorf(format, args...)
}

func (t rapidTB) Fatalf(format string, args ...any) {
	t.told.why = fmt.Sprintf(format, args...)
	t.rt.Fatalf(format, args...)
}

// tally counts what happens in the cases, because checks of what never happens
// prove nothing.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (y *tally) add(w *world) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for what := range w.happened {
		y.counts[what]++
	}
}

func (y *tally) report(t *testing.T, total int) {
	var lines []string
	for what, n := range y.counts {
		lines = append(lines, fmt.Sprintf("%6d %s", n, what))
	}
	slices.Sort(lines)
	t.Logf("of %d cases had\n%s", total, strings.Join(lines, "\n"))
	if total < 10_000 || t.Failed() {
		return
	}
	for _, what := range mustHappen {
		if y.counts[what] < total/10_000 {
			t.Errorf("only %d of %d cases had %s", y.counts[what], total, what)
		}
	}
}

// world is one random case: a tree, what its models will say, and what was seen.
type world struct {
	t          testing.TB
	rt         *rapid.T
	names      []string          // of the agents in the tree
	traits     map[string]traits // by agent
	graphs     map[string]*graphShape
	flows      map[string]*flowShape
	guarded    map[string]bool // agents whose edge has a guard
	hides      map[string]bool // agents that are not shown why another one transfers to them
	root       agent.Agent
	store      *propertyStore
	storage    session.Store // the same, as runners get it
	opts       []runner.Option
	limits     runner.Limits
	streaming  bool
	resumeRoot bool
	shares     bool // requests
	outer      bool // models are asked again by somebody else
	estimates  bool // usage that nobody reports, under a budget
	page       bool // the client brings its tool for every turn that "run" begins
	processes  []*runner.Runner
	ids        int64 // given out so far
	acts       []string
	forks      []session.Key

	log     []*event.Event // as it was last loaded
	known   []string       // the JSON of each event when it was first seen
	cuts    int            // actions that were cut off
	stepSeq int64          // where the log ended before the first try of the step that comes next
	attempt int            // the next try of the step that comes next
	story   logStory

	mu       sync.Mutex // models and tools run in parallel
	script   []plan     // what models say
	at       int        // how many plans of it the conversation has used
	turn     int
	stop     context.CancelFunc // of the action under way
	cause    error              // with which stop cancels
	stopped  bool               // a model or a tool has called stop
	problems []string
	panics   bool
	asked    int                      // how often models were asked in this action
	acted    int                      // how many tools ran in this action
	taken    map[string]int           // steps of functions in this action, by run
	ran      map[string]*execution    // by call
	last     map[string]shown         // the last request of each agent
	surround map[string][]llm.Message // what is to be seen of what is around inner scopes
	key      session.Key              // of the session that acts
	acting   *runner.Runner           // who acts in s1
	sent     []sent                   // what the conversation's models were asked
	// What the agent that answers has said, and whether it asks whom the user means.
	saidTyped  string
	askedTyped bool
	routed     []routed // conditions that were asked in this action
	chosen     []choice // of routers in this action
	happened   map[string]bool
	desk       *propertyDesk // nil without one
	words      []human.Event // that it has said
	// stoppedAt is the end of the log when the action was stopped from within, 0 if it was not.
	stoppedAt int64
	stepped   map[stepKey]*stepWork // what functions were to do
	spans     spans
	remotes   map[string]bool // agents behind A2A
	ruleds    map[string]*rulesOf
	away      map[string]bool // agents that cannot start
}

// routed is a question to the condition of a route.
type routed struct{ run, answer string }

// traits are what checks must know of an agent.
type traits struct {
	rules *tools.Policy
	asks  bool // before it transfers
	holds bool // it is offered its children alone when it has got the conversation
	each  bool // it has a tool for each target
	model bool
	// without: the one of the tools that it has not, though others have it
	without string
	// decides: a question begins its runs
	decides bool
	// typed: its answers have a form
	typed bool
	// outside: it is a graph or a remote agent
	outside bool
}

// execution is what is known of a call that a tool has run for.
type execution struct {
	info  tools.Info
	agent string
	times int
	heard [][]string // by the tool that asks, in each execution
}

func newWorld(t testing.TB, rt *rapid.T) *world {
	return &world{t: t, rt: rt, traits: make(map[string]traits), remotes: make(map[string]bool), ruleds: make(map[string]*rulesOf), away: make(map[string]bool), graphs: make(map[string]*graphShape), flows: make(map[string]*flowShape),
		guarded: make(map[string]bool), hides: make(map[string]bool), attempt: 1, story: newStory(), ran: make(map[string]*execution), taken: make(map[string]int),
		last: make(map[string]shown), surround: make(map[string][]llm.Message), stepped: make(map[stepKey]*stepWork), happened: make(map[string]bool)}
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

// interrupt cancels the action under way, from within.
func (w *world) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.key == s1 && w.stoppedAt == 0 {
		w.stoppedAt = w.store.written.Load()
	}
	w.stop()
}

func (w *world) play(told *failedCase) {
	defer func() { told.close(w, recover()) }()
	w.tree()
	w.store = newPropertyStore(w.t, rapid.Bool().Draw(w.rt, "codec"))
	w.store.snapshots = w.someSnapshots()
	w.storage = w.store
	w.opts = append(w.opts, runner.WithIDs(w.newID))
	if w.desk != nil {
		w.opts = append(w.opts, runner.WithDesk(w.desk, human.WithPatience(0)))
	}
	if w.streaming = rapid.Bool().Draw(w.rt, "streaming"); w.streaming {
		w.opts = append(w.opts, runner.WithStreaming())
	}
	var given runner.Limits
	switch oneInFour.Draw(w.rt, "limits") {
	case 2:
		given.Transfers = 1 + oneInFour.Draw(w.rt, "transfers")
	case 3:
		given = runner.Limits{Transfers: someLimit.Draw(w.rt, "transfers"), ModelCalls: someLimit.Draw(w.rt, "model calls"),
			ToolCalls: someLimit.Draw(w.rt, "tool calls"), Steps: someLimit.Draw(w.rt, "steps")}
		for _, t := range w.traits { // who decides gives equal questions equal answers, in circles without end
			if t.decides && given.Transfers < 0 {
				given.Transfers = 0
			}
		}
	}
	w.opts = append(w.opts, runner.WithLimits(given))
	if w.outer = oneInTen.Draw(w.rt, "retries outside") >= 8; w.outer {
		w.opts = append(w.opts, runner.WithOuterRetries())
	}
	if w.resumeRoot = oneInTen.Draw(w.rt, "resume root") == 9; w.resumeRoot {
		w.opts = append(w.opts, runner.ResumeRoot())
	}
	switch oneInTen.Draw(w.rt, "option") {
	case 7:
		w.opts = append(w.opts, w.budgets(runner.Budgets{Turn: runner.Budget{Tokens: 4000}, Session: runner.Budget{Tokens: 20_000}}))
	case 8:
		w.opts = append(w.opts, w.budgets(runner.Budgets{Agents: map[string]runner.Budget{"a0": {Tokens: 9000}}}))
	case 9:
		w.opts = append(w.opts, runner.WithCache(0))
	}
	if all := w.around(); len(all) > 0 {
		w.opts = append(w.opts, runner.WithInterceptors(all...))
	}
	for range rapid.IntRange(1, 6).Draw(w.rt, "actions") {
		w.action(w.process())
	}
	w.checkPast()
	for i := range someForks.Draw(w.rt, "forks") {
		w.fork(session.ID("fork" + strconv.Itoa(i)))
	}
	w.checkSent()
	for what := range w.store.snapshots.read {
		w.happened[what] = true
	}
}

var someForks = rapid.SampledFrom([]int{0, 0, 1, 2})

var someLimit = rapid.IntRange(runner.NoLimit, 4)

// process returns one of up to three runners on the session, which keep what
// they read of it when they ran last.
func (w *world) process() *runner.Runner {
	i := rapid.IntRange(0, 2).Draw(w.rt, "process")
	if w.store.snapshots.kept && rapid.Bool().Draw(w.rt, "cold") {
		w.processes = nil
	}
	if i >= len(w.processes) {
		w.processes = append(w.processes, w.runner())
		return w.processes[len(w.processes)-1]
	}
	return w.processes[i]
}

func (w *world) runner() *runner.Runner {
	r := must.Get(runner.New(w.root, w.storage, w.opts...))
	w.limits = r.Limits()
	return r
}
