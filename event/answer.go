package event

import "strings"

// Answer follows the stored events of one conversation and knows what whoever asked is
// answered. The zero value has seen nothing. It is not safe for concurrent use.
type Answer struct {
	// Text is the last words of the agent that answers. What an agent has said before it
	// handed the conversation over is no answer. The output of a graph, or of a function,
	// that ended without words counts as its words.
	Text string
	// Agent is who said them, or who ran last if nobody has said anything since.
	Agent string
	// FinishReason is how the last run ended, empty while it is open.
	FinishReason FinishReason
}

// Apply takes in the next event. Events of other conversations, of inner scopes above all,
// must be left out; deltas change nothing.
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
