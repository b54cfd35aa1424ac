package checkpoint

import (
	"context"
	"iter"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Moment is what a session was at a checkpoint. It does not change.
type Moment struct {
	Key session.Key
	Checkpoint
	// Fold is the state of the log there: the turn, the run and its calls that wait,
	// what was used until then.
	Fold *session.Fold
	// Graph is the conversation until then.
	Graph *conversation.Graph
}

// At returns what the session was at a position, which need not be a checkpoint.
// Its cost is that of reading the log until there. The error is [agent.ErrBadInput]
// if the session has no such position.
//
// What the model of an agent was shown there is [runner.Runner.PreviewAt].
//
// [runner.Runner.PreviewAt]: https://pkg.go.dev/github.com/agentarbor/arbor/runner#Runner.PreviewAt
func (s *Sessions) At(ctx context.Context, key session.Key, seq int64) (*Moment, error) {
	m := &Moment{Key: key, Fold: &session.Fold{}, Graph: conversation.New()}
	m.Seq = seq
	for e, err := range s.Replay(ctx, key, seq) {
		if err != nil {
			return nil, err
		}
		if n := len(m.Events); n > 0 && between(m.Events[n-1], e) {
			m.Events = nil
		}
		m.Fold.Apply(e)
		m.Graph = m.Graph.Reduce(e)
		m.Time, m.Events = e.Time, append(m.Events, e)
	}
	m.Active = m.Fold.Scope("").Active
	return m, nil
}

// State returns the values of the turn's and the session's state. What sessions
// share, under the prefixes "user:" and "app:", has no past and is not among them.
func (m *Moment) State() map[string]any { return m.Fold.States() }

// Replay yields the recorded events until a position, as the turns delivered them;
// no model is asked and no tool runs. The error is [agent.ErrBadInput] if the
// session does not reach that far.
func (s *Sessions) Replay(ctx context.Context, key session.Key, until int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		at := int64(0)
		for e, err := range s.store.Load(ctx, key, 0) {
			if err != nil {
				yield(nil, err)
				return
			}
			if at == until || !yield(e, nil) {
				return
			}
			at = e.Seq
		}
		if at == 0 && until == 0 { // a fork may have no events yet
			if infos, err := s.store.List(ctx, key, session.Page{}); err != nil {
				yield(nil, err)
				return
			} else if len(infos) > 0 {
				return
			}
		}
		if at == 0 || at != until {
			yield(nil, noPosition(key, until))
		}
	}
}
