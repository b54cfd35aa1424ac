package runner

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// MissingUsage says what a budget of tokens or cost is charged when an endpoint does not
// report what an answer has used, or reports what cannot be true.
type MissingUsage int

const (
	// RefuseMissingUsage ends the turn with agent.ErrUnknownUsage when a model is to be
	// asked next: the budget cannot be kept.
	RefuseMissingUsage MissingUsage = iota
	// EstimateMissingUsage charges an estimate, by the runner's token counter, of the
	// request and of the answer that came. The answer's usage event has it, with a
	// notice beside it that has the code usage_estimated. Earlier answers without usage
	// in the log count nothing.
	EstimateMissingUsage
)

// noticeEstimated is the code of the notice beside a usage that is an estimate.
const noticeEstimated = "usage_estimated"

// metered adds a usage to an answer whose endpoint reports none: to one that is whole if
// the budgets say so, and always to one that broke off, which no endpoint reports and
// somebody pays for. Without a budget of tokens or cost it changes nothing.
func (l *lane) metered(model llm.Model, req *llm.Request, chunks iter.Seq2[llm.Chunk, error]) iter.Seq2[llm.Chunk, error] {
	l.estimate = ""
	if !l.t.r.budgeted.tokens && !l.t.r.budgeted.cost {
		return chunks
	}
	return func(yield func(llm.Chunk, error) bool) {
		var m meter
		for chunk, err := range chunks {
			switch {
			case chunk.Lost != nil:
				if lost := *chunk.Lost; lost.Begun && lost.Usage == nil {
					lost.Usage = l.charge(lost.Model, req, new(meter))
					chunk.Lost = &lost
				}
			case err == nil && chunk.Notice != nil:
			case err == nil:
				m.take(&chunk)
				if m.whole && !m.reported && l.t.r.budgets.MissingUsage == EstimateMissingUsage {
					chunk.Usage = l.charge(model.Name(), req, &m)
				}
			case m.broken(err) && !yield(llm.Chunk{Usage: l.charge(model.Name(), req, &m)}, nil):
				return
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
		if m.broken(nil) {
			yield(llm.Chunk{Usage: l.charge(model.Name(), req, &m)}, nil)
		}
	}
}

// charge estimates what an answer has used, and keeps what a notice says about it.
func (l *lane) charge(model string, req *llm.Request, m *meter) *llm.Usage {
	content := m.content
	content.Text = m.text.String()
	answer := llm.Message{Role: llm.RoleAssistant, Content: content}
	u := &llm.Usage{InputTokens: llm.CountRequest(req, l.t.r.tokens), OutputTokens: llm.CountMessage(&answer, l.t.r.tokens) - llm.MessageTokens}
	l.estimate = fmt.Sprintf("the endpoint of the model %q did not say what its answer has used; by an estimate it is %d tokens of input and %d of output",
		model, u.InputTokens, u.OutputTokens)
	return u
}

// meter notes what an answer has used.
type meter struct {
	text     strings.Builder // and the reasoning
	content  llm.Content     // the calls
	begun    bool
	whole    bool
	reported bool
}

func (m *meter) take(c *llm.Chunk) {
	m.begun = true
	m.text.WriteString(c.Reasoning)
	m.text.WriteString(c.Text)
	if c.Call != nil {
		m.content.Parts = append(m.content.Parts, *c.Call)
	}
	if c.Usage != nil { // the last one counts
		u, _ := c.Usage.Plausible()
		m.reported = u != llm.Usage{}
	}
	m.whole = m.whole || c.Finish != ""
}

// broken reports whether the answer was under way and has ended with an error, or with
// none before it was whole, and nobody said what it has used. A request that failed
// before anything came of an answer is taken to cost nothing.
func (m *meter) broken(err error) bool {
	var failed *llm.Error
	begun := m.begun || errors.As(err, &failed) && failed.Code == llm.CodeTruncated
	return begun && !m.whole && !m.reported
}

// estimated returns the notice that the usage of an answer is an estimate, nil if it is
// none.
func (l *lane) estimated(answer *event.Event) *event.Event {
	if l.estimate == "" || !isAnswer(answer) {
		return nil
	}
	notice := &event.Notice{Code: noticeEstimated, Message: l.estimate}
	l.estimate = ""
	return &event.Event{Data: notice}
}
