package agentgraph_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
)

var kills = flag.Int("kills", 6, "how many processes TestKill kills at least")

// killOrder is the order to a process of TestKill: where the session is, and when to
// kill itself, if at all: when something has happened for the N-th time.
type killOrder struct {
	Dir string
	On  string // "call": an agent, a model or a tool is called; "write", "written": the store is about to be written, or was; "event": one was delivered
	N   int64
}

var killKinds = []string{"call", "write", "written", "event"}

// suicide counts what happens in a process, and kills it.
type suicide struct {
	killOrder
	counts [4]atomic.Int64
}

func (s *suicide) pass(on string) {
	for i, kind := range killKinds {
		if kind == on && s.counts[i].Add(1) == s.N && s.On == on {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {}
		}
	}
}

// countedStore passes the writes of a store.
type countedStore struct {
	session.Store
	*suicide
}

func (s countedStore) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return s.Store.Write(ctx, key, w)
	}
	s.pass("write")
	lease, err := s.Store.Write(ctx, key, w)
	s.pass("written")
	return lease, err
}

// playToEnd begins or continues the session in a folder, to the end of its turn.
func playToEnd(s *suicide) error {
	store, err := sqlite.Open(filepath.Join(s.Dir, "s.db"))
	if err != nil {
		return err
	}
	defer store.Close()
	calls, err := os.OpenFile(filepath.Join(s.Dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer calls.Close()
	scene := &scene{at: func(ctx context.Context, call string) error {
		if _, err := fmt.Fprintln(calls, call); err != nil { // one write, so that lines are whole
			return err
		}
		s.pass("call")
		select { // long enough to be killed in
		case <-time.After(time.Duration(rand.IntN(2000)) * time.Microsecond):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	a := scene.variety()
	if scene.err != nil {
		return scene.err
	}
	r, err := runner.New(a, countedStore{store, s}, runner.WithWait(20*time.Second))
	if err != nil {
		return err
	}
	ctx := context.Background()
	turn := r.Resume(ctx, key)
	begun := false
	for _, err := range r.History(ctx, key) {
		if err != nil {
			return err
		}
		begun = true
	}
	if !begun {
		turn = r.Run(ctx, key, llm.UserText("go"))
	}
	for _, err := range turn {
		if err != nil {
			return err
		}
		s.pass("event")
	}
	return nil
}

// TestKillChild is the process that TestKill kills.
func TestKillChild(t *testing.T) {
	text := os.Getenv("ARBOR_GRAPH_KILL")
	if text == "" {
		t.Skip("run by TestKill")
	}
	s := &suicide{}
	require.NoError(t, json.Unmarshal([]byte(text), &s.killOrder))
	fmt.Println("begins")
	require.NoError(t, playToEnd(s))
}

// killed is a session of TestKill, as it is between two processes.
type killed struct {
	dir    string
	log    []*event.Event
	called map[string]int // by the last process
	lines  int
}

// look reads what a process has left.
func (k *killed) look(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(k.dir, "calls"))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(text) == 0 {
		all = nil
	}
	k.called = make(map[string]int)
	for _, call := range all[k.lines:] {
		k.called[call]++
	}
	k.lines = len(all)
	store := must.Get(sqlite.Open(filepath.Join(k.dir, "s.db")))
	defer func() { require.NoError(t, store.Close()) }()
	log := must.All(store.Load(context.Background(), key, 0))
	require.GreaterOrEqual(t, len(log), len(k.log), "what was stored stays")
	k.log = log
}

func (k *killed) result(t *testing.T) agentgraph.Result {
	a := (&scene{}).variety()
	results := must.Get(a.Runs(must.Seq(k.log, nil)))
	require.Len(t, results, 1)
	result := results[0].Result
	// Which of three errors comes first, and when who begins, is up to the waits.
	slices.Sort(result.Order)
	require.NotNil(t, result.Error)
	result.Error = nil
	delete(result.Inputs, "spare")
	return result
}

// process runs a process on a session, kills it at some instant if after is not 0, and
// reports whether it was killed.
func process(t *testing.T, order killOrder, after time.Duration) bool {
	text := must.Get(json.Marshal(order))
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillChild$")
	cmd.Env = append(os.Environ(), "ARBOR_GRAPH_KILL="+string(text), "GORACE=atexit_sleep_ms=0")
	var output bytes.Buffer
	cmd.Stderr = &output
	out := must.Get(cmd.StdoutPipe())
	require.NoError(t, cmd.Start())
	_, err := io.ReadFull(out, make([]byte, len("begins\n")))
	require.NoError(t, err)
	if after > 0 {
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	rest := must.Get(io.ReadAll(out))
	err = cmd.Wait()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	if status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true
	}
	require.NoError(t, err, "%s\n%s", rest, &output)
	return false
}

// killTime is how long TestKill begins sessions. On a machine that is busy it kills fewer
// processes then, and says so.
const killTime = 50 * time.Second

// TestKill kills processes that run a graph with SIGKILL: in its agents, before and
// after writes, at events and at random instants. Others continue, and are killed
// too, until one reaches the end. What had finished is not called again, and the run
// has the outcome of one that nobody killed. -kills=N kills at least N.
func TestKill(t *testing.T) {
	whole := &killed{dir: t.TempDir()}
	undisturbed := &suicide{killOrder: killOrder{Dir: whole.dir}}
	began := time.Now()
	require.NoError(t, playToEnd(undisturbed))
	life := time.Since(began)
	whole.look(t)
	requireClosed(t, whole.log, "undisturbed")
	want, called := inJSON(whole.result(t)), whole.called

	var done, sessions atomic.Int64
	t.Run("sessions", func(t *testing.T) {
		for worker := range 4 {
			t.Run(fmt.Sprint("side by side ", worker), func(t *testing.T) {
				t.Parallel()
				dice := rand.New(rand.NewPCG(uint64(worker), uint64(*kills)))
				for done.Load() < int64(*kills) && time.Since(began) < killTime {
					k := &killed{dir: t.TempDir()}
					story := k.story(t, dice, life, undisturbed, called)
					done.Add(int64(len(story) - 1))
					sessions.Add(1)
					requireClosed(t, k.log, strings.Join(story, ", "))
					if got := inJSON(k.result(t)); want != got {
						require.Equal(t, want, got, "%s\n%s", strings.Join(story, ", "), lines(k.log))
					}
				}
			})
		}
	})
	t.Logf("%d processes were killed in %d sessions", done.Load(), sessions.Load())
	if time.Since(began) < killTime {
		require.GreaterOrEqual(t, done.Load(), int64(*kills))
	}
	require.Positive(t, done.Load())
}

// story runs processes on a session, which are killed, until one finishes it.
func (k *killed) story(t *testing.T, dice *rand.Rand, life time.Duration, undisturbed *suicide, called map[string]int) (story []string) {
	for {
		log, order, after := k.log, killOrder{Dir: k.dir}, time.Duration(0)
		switch kind := dice.IntN(len(killKinds) + 1); {
		case len(story) == 12: // enough
		case kind == len(killKinds):
			after = 1 + time.Duration(dice.Int64N(int64(life)))
		default:
			order.On, order.N = killKinds[kind], 1+dice.Int64N(1+undisturbed.counts[kind].Load()/4)
		}
		wasKilled := process(t, order, after)
		story = append(story, fmt.Sprintf("%s %d", order.On, order.N))
		k.look(t)
		requireNotAgain(t, log, called, k.called, strings.Join(story, ", "))
		if !wasKilled {
			return story
		}
	}
}
