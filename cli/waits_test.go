package cli_test

import (
	"bytes"
	"context"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// An agent that waits for something that nobody decides here: the command ends with
// status 5, says how to go on, and resume looks whether it is done.
func TestWaitingElsewhere(t *testing.T) {
	open := false
	gate := must.Get(agent.New("gate", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			switch {
			case open:
				yield(text("Come in."), nil)
			case yield(&event.Event{Data: &event.Text{Content: "Sign in at https://login.test first."}, More: true}, nil):
				yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}}, nil)
			}
		}
	}))
	db := filepath.Join(t.TempDir(), "arbor.db")
	arbor := func(stdin string, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		status := cli.Run(t.Context(), args, cli.Streams{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs}, cli.WithTree(gate))
		return status, out.String(), errs.String()
	}
	status, out, errs := arbor("", "run", "Hello", "--db", db, "--session", "s1")
	require.Equal(t, cli.StatusApproval, status)
	require.Contains(t, out, "Sign in at https://login.test first.")
	require.Contains(t, errs, "gate waits for something that is done elsewhere; when it is done: arbor resume --session s1 --db "+db)
	require.NotContains(t, errs, "approval")

	status, _, errs = arbor("", "resume", "--db", db, "--session", "s1")
	require.Equal(t, cli.StatusApproval, status)
	require.Contains(t, errs, "arbor resume --session s1")
	status, out, _ = arbor("", "sessions", "show", "s1", "--state", "--db", db)
	require.Equal(t, cli.StatusAnswered, status)
	require.Contains(t, out, `"waiting"`)
	status, _, errs = arbor("/resume\n", "chat", "--db", db, "--session", "s1")
	require.Equal(t, cli.StatusApproval, status)
	require.Equal(t, 2, strings.Count(errs, "when it is done: /resume; to say something instead: a new message"), errs)

	open = true
	status, out, _ = arbor("", "resume", "--db", db, "--session", "s1")
	require.Equal(t, cli.StatusAnswered, status)
	require.Contains(t, out, "Come in.")
	status, _, errs = arbor("", "resume", "--db", db, "--session", "s1")
	require.Equal(t, cli.StatusAnswered, status)
	require.Contains(t, errs, "nothing to resume")
}
