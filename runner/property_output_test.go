package runner_test

import (
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
)

// checkOutput holds the end of a run against the form that its agent's answers have: what
// has it is said and is the output, and no run ends well without, but with a question.
func (w *world) checkOutput(e *event.Event) {
	if !w.traits[e.Agent].typed || e.Scope != "" {
		return
	}
	switch d := e.Data.(type) {
	case *event.Text:
		w.saidTyped = d.Content
	case *event.Notice:
		w.askedTyped = d.Code == event.NoticeAsksUser
	case *event.HarnessStart:
		w.saidTyped, w.askedTyped = "", false
	case *event.HarnessEnd:
		switch {
		case len(d.Output) > 0:
			require.Equal(w.t, `{"n":1}`, string(d.Output))
			require.Equal(w.t, `{"n": 1}`, w.saidTyped, "seq %d: it has not said its output", e.Seq)
			w.happened["an answer with a form"] = true
		case d.FinishReason == event.FinishReasonStop:
			require.True(w.t, w.askedTyped, "seq %d: a run ends without the output that it has to have", e.Seq)
		}
	case *event.Discard:
		if d.Code == event.CodeBadOutput {
			w.happened["an answer without the form it should have"] = true
		}
	}
}
