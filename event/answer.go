package event

import "strings"

// Answer computes the answer to the user from the stored events of one conversation. The zero
// value has seen no event. It is not safe for concurrent use.
type Answer struct {
	// Text is the last text of the agent that answers. What an agent said before it transferred
	// the conversation is not part of the answer. The output of a graph or a function that ended
	// without a text counts as its text.
	Text string
	// Agent is the agent that said it, or the agent that ran last if there is no text since.
	Agent string
	// FinishReason is how the last run ended, empty while it is open.
	FinishReason FinishReason
}

// Apply updates the answer with the next event. The caller leaves out events of other conversations
// and of inner scopes. Deltas change nothing.
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
