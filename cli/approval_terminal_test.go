//go:build unix

package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm/scripted"
)

// TestApprovalPages: on a terminal long arguments come page by page, no row of them
// begins without its mark, and who stops reading is told how much is left.
func TestApprovalPages(t *testing.T) {
	t.Parallel()
	in := invocation{program: "careful", home: t.TempDir()}
	in.env = append(serve(t, answers(scripted.Reply(scripted.Call("refund", deceit)), scripted.Reply(scripted.Text("Refunded.")))), "NO_COLOR=1")
	s := in.onScreen(t, "chat", "--session", "a", "--db", filepath.Join(t.TempDir(), "s.db"))
	s.until("you> ")
	s.enter("refund it\r")
	s.until("refund → waits for approval")
	seen := s.until("Enter shows more, q stops")
	require.NotContains(t, seen, "last-one")
	s.enter("q\r")
	s.until("rows are not shown: /show ")
	s.until("the turn waits: /approve ")
	s.until("you> ")
	s.enter("/show\r")
	seen = ""
	for range 3 {
		seen += s.until("Enter shows more, q stops -- ")
		s.enter("\r")
	}
	seen += s.until("the turn waits: /approve ")
	require.Contains(t, seen, "last-one")
	for _, row := range strings.Split(strings.ReplaceAll(seen, "\r", "\n"), "\n") {
		if strings.Contains(row, "item") || strings.Contains(row, "and 9000") {
			require.Regexp(t, `^  [│┆] `, row)
		}
	}
	s.enter("/quit\r")
	require.Equal(t, 0, s.status())
}
