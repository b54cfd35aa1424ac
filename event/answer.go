package event

import "strings"

// Answer computes the answer to the user from the stored events of the user's conversation. The zero value is ready
// for the first event. It is not safe for concurrent use.
type Answer struct {
	// Text is the last text of the agent that answers. The text of an agent before it transferred the conversation is
	// not part of the answer. If a graph or a function ended without a text, its output counts as its text.
	Text string
	// Agent is the agent whose text it is, or the agent that ran last if there is no text yet.
	Agent string
	// FinishReason is the reason why the last run ended. It is "" while the run is open.
	FinishReason FinishReason
}

// Apply updates the answer with the next event. The caller must leave out events of inner scopes and of other
// sessions. Apply ignores partial events.
func (a *Answer) Apply(e *Event) {
	if e.Partial {
		return
	}
	switch d := e.Data.(type) {
	case *HarnessStart:
		a.FinishReason = ""
		if a.Text == "" {
			a.Agent = e.Agent
		}
	case *Text:
		a.Text, a.Agent = d.Content, e.Agent
	case *Transfer:
		if d.Outcome == TransferCommitted {
			a.Text, a.Agent = "", d.To
		}
	case *HarnessEnd:
		a.FinishReason = d.FinishReason
		if d.FinishReason == FinishReasonStop && strings.TrimSpace(a.Text) == "" && len(d.Output) > 0 {
			a.Text, a.Agent = OutputText(d.Output), e.Agent
		}
	}
}
