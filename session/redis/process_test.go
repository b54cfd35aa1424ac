package redis_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// TestMain lets the test's own program play the process that is killed.
func TestMain(m *testing.M) {
	if file := os.Getenv("ARBOR_TEST_WRITER"); file != "" {
		if err := playWriter(file, os.Getenv("ARBOR_TEST_WRITER_REDIS")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playWriter speaks until it is killed.
func playWriter(file, url string) error {
	ctx, key := context.Background(), session.ID("s")
	store, err := sqlite.Open(file)
	if err != nil {
		return err
	}
	tail, err := redis.New(ctx, url, store)
	if err != nil {
		return err
	}
	lease, err := sessiontest.Acquire(ctx, tail, key, session.Self())
	if err != nil {
		return err
	}
	e := &event.Event{Seq: lease.Head.Seq + 1, ID: fmt.Sprint("e", lease.Token), TurnID: "t", RunID: "r", Agent: "a", Time: time.Now().UTC(), Data: &event.Text{Content: "one"}}
	if err := sessiontest.Append(ctx, tail, key, lease.Head.Seq, lease, e); err != nil {
		return err
	}
	pace := time.Tick(time.Millisecond)
	for i := 0; ; i++ {
		e := &event.Event{ID: fmt.Sprint("b", lease.Token), TurnID: "t", RunID: "r", Agent: "a", Time: time.Now().UTC(), Partial: true,
			Data: &event.Text{Content: fmt.Sprint(i, " ")}}
		if err := tail.Publish(ctx, key, e); err != nil {
			return err
		}
		if i == 20 {
			fmt.Println("speaking")
		}
		<-pace
	}
}

// TestKilledInMidAnswer: a process dies in the middle of an answer, and the next one
// voids what it has shown when it takes the lease.
func TestKilledInMidAnswer(t *testing.T) {
	server := servers.NewRedis(t)
	file := filepath.Join(t.TempDir(), "sessions.db")
	store := must.Get(sqlite.Open(file))
	tail := newTail(t, server.URL(), store, redis.WithPoll(20*time.Millisecond))
	key := session.ID("s")
	c := follow(t, tail, key, "")
	shown := func() int {
		ids := map[string]bool{}
		for _, e := range c.entries() {
			if e.Event.Partial && e.Event.Type() == event.TypeText {
				ids[e.Event.ID] = true
			}
		}
		return len(ids)
	}
	for n := range 3 {
		writer := exec.Command(os.Args[0])
		writer.Env = append(os.Environ(), "ARBOR_TEST_WRITER="+file, "ARBOR_TEST_WRITER_REDIS="+server.URL())
		writer.Stderr = os.Stderr
		out := must.Get(writer.StdoutPipe())
		require.NoError(t, writer.Start())
		t.Cleanup(func() { _ = writer.Process.Kill() }) // if the test fails before
		lines := bufio.NewScanner(out)
		require.True(t, lines.Scan())
		must.Wait(t, func() bool { return shown() == n+1 })
		require.NoError(t, writer.Process.Kill())
		_ = writer.Wait() // it says that it was killed
	}
	w := begin(t, tail, key)
	w.show("c", "anew")
	w.add("c", "anew")
	w.end()
	c.seesLast("anew.")
	c.sound(tail, key)
	voided := 0
	for _, e := range c.entries() {
		if e.Event.Type() == event.TypeDiscard {
			voided++
		}
	}
	require.Equal(t, 3, voided)
}
