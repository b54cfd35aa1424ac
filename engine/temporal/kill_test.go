package temporal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"

	"github.com/agentarbor/arbor/engine/temporal"
	"github.com/agentarbor/arbor/engine/temporal/internal/testserver"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sqlite"
)

// The environment of a worker that is a process of its own.
const (
	serverVariable = "ARBOR_TEMPORAL"
	workerVariable = "ARBOR_TEMPORAL_WORKER"
)

// job is what such a worker does.
type job struct {
	File, Redis, Queue string
	Steps              int
	Done               int  // it ends itself when so many activities are done, and before Temporal hears of the last one
	Hangs              bool // its model never comes to the end of its answer
}

func (j job) options() []temporal.Option {
	return []temporal.Option{temporal.WithQueue(j.Queue), temporal.WithStepsPerActivity(j.Steps), temporal.WithHeartbeat(5 * time.Second)}
}

func (j job) store(t *testing.T) live.Store {
	file, err := sqlite.Open(j.File)
	require.NoError(t, err)
	store, err := redis.New(t.Context(), j.Redis, file)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// TestWorkerChild is a worker that other tests kill.
func TestWorkerChild(t *testing.T) {
	text := os.Getenv(workerVariable)
	if text == "" {
		t.Skip("run by tests that kill workers")
	}
	var j job
	require.NoError(t, json.Unmarshal([]byte(text), &j))
	answer := pays
	if j.Hangs {
		answer, _ = slow()
	}
	d := unmanned(t, j.store(t), nil, j.options(), answer)
	d.worker(&dies{at: int64(j.Done)})
	fmt.Println("works")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until whoever started it ends
}

// dies ends the process between what an activity has done and its completion.
type dies struct {
	interceptor.WorkerInterceptorBase
	at, done int64
}

func (d *dies) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &dying{interceptor.ActivityInboundInterceptorBase{Next: next}, d}
}

type dying struct {
	interceptor.ActivityInboundInterceptorBase
	dies *dies
}

func (d *dying) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	out, err := d.Next.ExecuteActivity(ctx, in)
	if atomic.AddInt64(&d.dies.done, 1) == d.dies.at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return out, err
}

// hire starts a worker that is a process of its own, and waits until it works.
func hire(t *testing.T, j job) *exec.Cmd {
	text, err := json.Marshal(j)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestWorkerChild$")
	cmd.Env = append(os.Environ(), workerVariable+"="+string(text), serverVariable+"="+testserver.Shared(t).Address())
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = alive.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "works\n", said)
	return cmd
}

func newJob(t *testing.T, steps int) job {
	return job{File: filepath.Join(t.TempDir(), "s.db"), Redis: servers.SharedRedis(t), Queue: "killed " + t.Name(), Steps: steps}
}

// TestKilledBeforeCompletion: a worker dies when a step is in the log, and Temporal has not heard of it. The next step is in
// its first try: its tool runs, once.
func TestKilledBeforeCompletion(t *testing.T) {
	for name, steps := range map[string]int{"step": 1, "turn": 0} {
		for done := 1; done <= 3; done++ {
			if steps == 0 && done > 1 {
				break // it is one activity
			}
			t.Run(fmt.Sprint(name, " ", done), func(t *testing.T) {
				t.Parallel()
				j := newJob(t, steps)
				d := unmanned(t, j.store(t), nil, j.options(), pays)
				j.Done = done
				first := hire(t, j)
				finished := make(chan error, 1)
				var events []*event.Event
				go func() {
					var err error
					events, err = d.say("Pay it.")
					finished <- err
				}()
				require.Error(t, first.Wait(), "it is killed")
				j.Done = 0
				hire(t, j)
				require.NoError(t, <-finished)
				require.Equal(t, event.FinishReasonStop, last(events))
				require.False(t, d.unknown())
				require.Equal(t, d.log(), events, "the follower sees what is stored")
				results := 0
				for _, e := range events {
					if r, ok := e.Data.(*event.ToolResult); ok {
						results++
						require.JSONEq(t, `"secret: paid"`, string(r.Output))
					}
				}
				require.Equal(t, 1, results)
			})
		}
	}
}

// TestKilledInMidStream: who has seen half of an answer learns that it is void, and sees another worker's.
func TestKilledInMidStream(t *testing.T) {
	j := newJob(t, 1)
	d := unmanned(t, j.store(t), nil, j.options(), asIs)
	j.Hangs = true
	first := hire(t, j)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	half, void := "", false
	var text strings.Builder
	for e, err := range d.engine.Run(ctx, d.key, llm.UserText("Hello")) {
		require.NoError(t, err)
		switch x := e.Data.(type) {
		case *event.Text:
			if !e.Partial {
				text.WriteString(x.Content)
			} else if half == "" {
				half = e.ID
				require.NoError(t, first.Process.Kill())
				d.worker()
			}
		case *event.Discard:
			void = void || len(x.IDs) == 1 && x.IDs[0] == half
		}
	}
	require.NotEmpty(t, half)
	require.True(t, void)
	require.Equal(t, "secret: As it is.", text.String())
}
