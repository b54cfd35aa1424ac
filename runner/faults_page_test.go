package runner_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
)

const faultsPage = "../docs/faults.md"

// TestFaultsPage compares the table of docs/faults.md with the cases above, in
// both directions. -update writes it.
func TestFaultsPage(t *testing.T) {
	page := must.Get(os.ReadFile(faultsPage))
	before, rest, ok := strings.Cut(string(page), "| the endpoint |")
	require.True(t, ok, "the page has no table of faults")
	_, after, ok := strings.Cut(rest, "\n\n")
	require.True(t, ok)
	want := before + faultTable() + "\n" + after
	if *update {
		require.NoError(t, os.WriteFile(faultsPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page))
}

func faultTable() string {
	var b strings.Builder
	b.WriteString("| the endpoint | once | always | code | retryable |\n|---|---|---|---|---|\n")
	for i := range faults {
		f := &faults[i]
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` | %s |\n", f.title(), f.once(), f.always(), f.code, yesNo(f.retryable))
	}
	return b.String()
}

func (f *fault) title() string {
	switch {
	case f.only == "whole":
		return f.name + ", not streamed"
	case f.only == "streamed" && !strings.Contains(f.name, "stream"):
		return f.name + ", streamed"
	}
	return f.name
}

func (f *fault) once() string {
	switch {
	case f.again == theAgent && f.shown:
		return "back, again"
	case f.again == theAdapter && f.waits > 0:
		return "again, after that time"
	case f.again != nobody:
		return "again"
	case f.shown:
		return "back, the turn fails"
	}
	return "the turn fails"
}

func (f *fault) always() string {
	if f.again == nobody {
		return "the same"
	}
	return fmt.Sprintf("fails after %d requests", maxRequests)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
