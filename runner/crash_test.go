package runner_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
)

var crashes = flag.Int("crashes", 10, "how many processes TestCrash kills at random instants")

// cashDesk is a tree whose models and tools are functions of what they see, so that
// another process goes on as the first one would have. Every call of a model or
// tool leaves a line in the file at path before it does anything.
func cashDesk(path string) (agent.Agent, error) {
	note := func(format string, args ...any) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, format+"\n", args...)
		}
		if err != nil {
			panic(err)
		}
		_ = f.Close()
	}
	model := func(name string, answer func(last llm.Message) scripted.Answer) llm.Model {
		return scripted.Func(name, func(req *llm.Request) scripted.Answer {
			note("model %s %d", name, len(req.Messages))
			return answer(req.Messages[len(req.Messages)-1])
		})
	}
	tool := func(name string, opts ...tools.Option) (tools.Tool, error) {
		return tools.Func(name, "Does "+name+".", func(c tools.Context, _ struct{}) (string, error) {
			note("tool %s %s", name, c.IdempotencyKey())
			c.Set(name, true)
			return name + " done", nil
		}, opts...)
	}
	lookup, err := tool("lookup", tools.Idempotent())
	if err != nil {
		return nil, err
	}
	pay, err := tool("pay")
	if err != nil {
		return nil, err
	}
	billing, err := llmagent.New("billing", "", model("billing", func(last llm.Message) scripted.Answer {
		if last.Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("Paid."))
		}
		return scripted.Reply(scripted.Text("I pay. "), scripted.Call("pay", "{}"))
	}), llmagent.WithTools(pay))
	if err != nil {
		return nil, err
	}
	return llmagent.New("support", "", model("support", func(last llm.Message) scripted.Answer {
		if last.Role == llm.RoleTool {
			return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`))
		}
		return scripted.Reply(scripted.Text("Let me see."), scripted.Call("lookup", "{}"), scripted.Call("lookup", "{}"))
	}), llmagent.WithTools(lookup), llmagent.WithSubAgents(billing))
}

// TestCrashChild is the process that TestCrash kills: it begins or resumes the
// turn and, if so told, kills itself when it gets its n-th event.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv("ARBOR_CRASH_DIR")
	if dir == "" {
		t.Skip("run by TestCrash")
	}
	var killAt int
	_, err := fmt.Sscan(os.Getenv("ARBOR_CRASH_AT"), &killAt)
	require.NoError(t, err)
	events, err := crashTurn(dir)
	require.NoError(t, err)
	n := 0
	for _, err := range events {
		require.NoError(t, err)
		if n++; n == killAt {
			require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
			select {}
		}
	}
}

// crashTurn begins the turn if nothing of it is stored, else resumes it.
func crashTurn(dir string) (iter.Seq2[*agent.Event, error], error) {
	root, err := cashDesk(filepath.Join(dir, "calls"))
	if err != nil {
		return nil, err
	}
	store, err := sqlite.Open(filepath.Join(dir, "s.db"))
	if err != nil {
		return nil, err
	}
	r, err := runner.New(root, store)
	if err != nil {
		return nil, err
	}
	return func(yield func(*agent.Event, error) bool) {
		defer store.Close()
		seq := r.Resume(context.Background(), s1)
		if begun := len(stored1(r)) > 0; !begun {
			seq = r.Run(context.Background(), s1, llm.UserText("Pay"))
		}
		seq(yield)
	}, nil
}

func stored1(r *runner.Runner) (events []*agent.Event) {
	for e, err := range r.History(context.Background(), s1) {
		if err != nil {
			panic(err)
		}
		events = append(events, e)
	}
	return events
}

// crashed is what is known of a session after a process died: its log, and how
// often models and tools were called.
type crashed struct {
	events                 []*agent.Event
	models, lookups, pays  int
	usages, found, payDone int
}

func inspect(t *testing.T, dir string) crashed {
	var c crashed
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	c.models = strings.Count(string(calls), "model ")
	c.lookups = strings.Count(string(calls), "tool lookup")
	c.pays = strings.Count(string(calls), "tool pay")
	store, err := sqlite.Open(filepath.Join(dir, "s.db"))
	require.NoError(t, err)
	defer store.Close()
	for e, err := range store.Load(context.Background(), s1, 0) {
		require.NoError(t, err)
		c.events = append(c.events, e)
		switch d := e.Data.(type) {
		case *agent.Usage:
			c.usages++
		case *agent.ToolResult:
			switch d.Name {
			case "lookup":
				c.found++
			case "pay":
				c.payDone++
			}
		}
	}
	return c
}

// shape writes a log without what differs between two runs of one turn: ids,
// times, the order in which parallel tools settled, and whether the outcome of
// the tool that is not idempotent is known.
func shape(events []*agent.Event) string {
	var b strings.Builder
	for _, e := range events {
		switch d := e.Data.(type) {
		case *agent.ToolResult:
			fmt.Fprintf(&b, "%s result of %s\n", e.Agent, d.Name)
		case *agent.State: // of a call whose outcome may be unknown
		case *agent.ToolCall:
			fmt.Fprintf(&b, "%s call %s %s\n", e.Agent, d.Name, d.Input)
		case *agent.Transfer:
			fmt.Fprintf(&b, "%s → %s %s\n", d.From, d.To, d.Outcome)
		default:
			fmt.Fprintf(&b, "%s %s %s\n", e.Agent, e.Type(), agent.EncodeJSON(d))
		}
	}
	return b.String()
}

// TestCrash kills a real process with SIGKILL after each event of a turn, and
// at random instants, resumes the turn, and compares with an undisturbed run:
// nothing is lost, nothing is there twice, nothing that was recorded is asked
// for again, and the payment is made at most once.
func TestCrash(t *testing.T) {
	undisturbed := t.TempDir()
	events, err := crashTurn(undisturbed)
	require.NoError(t, err)
	whole, err := collect(events)
	require.NoError(t, err)
	want := shape(whole)

	root, err := cashDesk(filepath.Join(undisturbed, "none"))
	require.NoError(t, err)
	memory, err := runner.New(root, session.NewMemory())
	require.NoError(t, err)

	finish := func(t *testing.T, dir string) {
		before := inspect(t, dir)
		events, err := crashTurn(dir)
		require.NoError(t, err)
		_, err = collect(events)
		require.NoError(t, err)
		after := inspect(t, dir)
		require.Equal(t, want, shape(after.events))
		checkLog(t, memory, after.events)
		require.Equal(t, shape(before.events), shape(after.events[:len(before.events)]), "what was recorded stays")
		require.Equal(t, after.usages-before.usages, after.models-before.models, "models are asked only for what is not recorded")
		require.Equal(t, after.found-before.found, after.lookups-before.lookups, "tools run only for what is not recorded")
		require.LessOrEqual(t, after.pays, 1, "the payment is made at most once")
	}
	child := func(dir string, killAt int) *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
		cmd.Env = append(os.Environ(), "ARBOR_CRASH_DIR="+dir, fmt.Sprint("ARBOR_CRASH_AT=", killAt), "GORACE=atexit_sleep_ms=0")
		return cmd
	}
	for n := 1; n <= len(whole); n++ {
		t.Run(fmt.Sprintf("after event %d", n), func(t *testing.T) {
			dir := t.TempDir()
			err := child(dir, n).Run()
			require.ErrorContains(t, err, "killed")
			for again := 1; again <= 2; again++ { // and kill those that resume, too
				_ = child(dir, again).Run()
			}
			finish(t, dir)
		})
	}
	t.Run("at random instants", func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		started := time.Now()
		require.NoError(t, child(t.TempDir(), -1).Run())
		life := time.Since(started)
		for range *crashes {
			dir := t.TempDir()
			for range 1 + random.IntN(3) {
				cmd := child(dir, -1)
				require.NoError(t, cmd.Start())
				timer := time.AfterFunc(time.Duration(random.Int64N(int64(life))), func() { _ = cmd.Process.Kill() })
				_ = cmd.Wait()
				timer.Stop()
			}
			finish(t, dir)
		}
	})
}
