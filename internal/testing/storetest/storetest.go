// Package storetest has what the tests of stores in databases share: events, and processes that use the same database.
package storetest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Batch makes n events of ordinary size that follow the position seq.
func Batch(seq int64, n int) []*event.Event {
	events := make([]*event.Event, n)
	for i := range events {
		at := seq + int64(i) + 1
		events[i] = &event.Event{
			Seq: at, ID: fmt.Sprintf("e%d", at), TurnID: "t1", RunID: "r1", Agent: "billing", Path: "support/billing",
			Time: time.Unix(1_800_000_000, at).UTC(),
			Data: &event.Text{Content: "I see two charges of 24.90 on your card, both from the third of March. I have asked for one to be paid back."},
		}
	}
	return events
}

// Text makes a text at a position.
func Text(seq int64, content string) *event.Event {
	e := Batch(seq-1, 1)[0]
	e.Data = &event.Text{Content: content}
	return e
}

// Load returns the log of a session, whose positions must have no gaps.
func Load(t testing.TB, s session.Store, key session.Key) (log []*event.Event) {
	t.Helper()
	for e, err := range s.Load(t.Context(), key, 0) {
		require.NoError(t, err)
		require.EqualValues(t, len(log)+1, e.Seq)
		log = append(log, e)
	}
	return log
}

// Contents returns the texts of a session's events, "" for other events.
func Contents(t testing.TB, s session.Store, key session.Key) []string {
	t.Helper()
	texts := []string{}
	for _, e := range Load(t, s, key) {
		texts = append(texts, e.Text())
	}
	return texts
}

// CheckForks forks a session with turns that end in each way, at each position, after its log was damaged. It requires
// that each fork has the status of its log.
func CheckForks(t testing.TB, s session.Store, damage func()) {
	t.Helper()
	var log []*event.Event
	add := func(scope string, data event.Data) {
		n := int64(len(log)) + 1
		e := Text(n, "x")
		e.TurnID, e.Scope, e.Data = fmt.Sprint("t", len(log)/6), scope, data
		if n%3 == 0 {
			e.ID = fmt.Sprintf("a \"word\" %d", n) // it is stored as whole JSON
		}
		log = append(log, e)
	}
	for _, reason := range []event.FinishReason{event.FinishReasonStop, event.FinishReasonInputRequired, event.FinishReasonTransfer, event.FinishReasonError,
		event.FinishReasonLimit, event.FinishReasonCanceled, event.FinishReasonLength} {
		add("", &event.User{Content: llm.Content{Text: `{"type":"harness_end"}`}})
		add("", &event.HarnessStart{})
		add("inner", &event.HarnessEnd{FinishReason: event.FinishReasonError})
		add("", &event.State{Delta: map[string]any{"type": "user"}})
		add("", &event.HarnessEnd{FinishReason: reason})
		add("", &event.Text{Content: "harness_end"})
	}
	whole, seen := session.ID("whole"), map[session.Status]bool{}
	must.Get(s.Write(t.Context(), whole, session.Write{Acquire: session.Self(), Events: log, Release: true}))
	damage()
	for seq := range int64(len(log)) + 1 {
		fork := session.ID(fmt.Sprint("fork", seq))
		require.NoError(t, s.Fork(t.Context(), whole, seq, fork))
		var fold session.Fold
		for _, e := range Load(t, s, fork) {
			fold.Apply(e)
		}
		info, _, err := session.Find(t.Context(), s, fork)
		require.NoError(t, err)
		require.Equal(t, fold.Status(), info.Status, "the fork at %d", seq)
		seen[info.Status] = true
	}
	require.Len(t, seen, 6)
}

// Environment variables of a [Process].
const (
	roleVariable  = "ARBOR_TEST_ROLE"
	placeVariable = "ARBOR_TEST_PLACE"
	nameVariable  = "ARBOR_TEST_NAME"
)

// Main runs a package's tests, for TestMain. In a process that [Start] has started it plays a role instead.
func Main(m *testing.M, play func(role, place, name string, in *bufio.Reader) error) {
	role, in := os.Getenv(roleVariable), bufio.NewReader(os.Stdin)
	if role == "" {
		os.Exit(m.Run())
	}
	fmt.Println("ready")
	if _, err := in.ReadString('\n'); err != nil {
		os.Exit(2)
	}
	if err := play(role, os.Getenv(placeVariable), os.Getenv(nameVariable), in); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process is another process of the test's own program, which plays a role.
type Process struct {
	*exec.Cmd
	Out    *bufio.Reader
	Errors *strings.Builder // its standard error
	in     io.WriteCloser
}

// Start starts a process on a database, and returns when it is ready. The process waits for Continue.
func Start(t testing.TB, role, place, name string, env ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(os.Args[0]), Errors: new(strings.Builder)}
	p.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0", roleVariable+"="+role, placeVariable+"="+place, nameVariable+"="+name), env...)
	p.Stderr = p.Errors
	p.in = must.Get(p.StdinPipe())
	p.Out = bufio.NewReader(must.Get(p.StdoutPipe()))
	require.NoError(t, p.Cmd.Start())
	t.Cleanup(func() { _ = p.Process.Kill() }) // does nothing when it has ended
	require.Equal(t, "ready", p.Line(t))
	return p
}

// Line returns the next line that the process writes.
func (p *Process) Line(t testing.TB) string {
	t.Helper()
	line, err := p.Out.ReadString('\n')
	require.NoError(t, err, p.Errors)
	return strings.TrimSpace(line)
}

// Continue lets the process begin, or continue where it reads a line.
func (p *Process) Continue(t testing.TB) {
	t.Helper()
	_, err := p.in.Write([]byte("\n"))
	require.NoError(t, err)
}

// Finish waits until the process has ended without an error.
func (p *Process) Finish(t testing.TB) {
	t.Helper()
	_, err := io.Copy(io.Discard, p.Out)
	require.NoError(t, err)
	require.NoError(t, p.Wait(), p.Errors)
}

// Kill ends the process at once.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	require.NoError(t, p.Process.Kill())
	require.Error(t, p.Wait())
}
