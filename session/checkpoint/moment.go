package checkpoint

import (
	"context"
	"iter"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Moment is the state of a session at a position. It is immutable.
type Moment struct {
	Key session.Key
	Checkpoint
	// Fold is the state of the log at the position: the turn, the run and its waiting calls, and the usage.
	Fold *session.Fold
	// Graph is the conversation up to the position.
	Graph *conversation.Graph
}

// At returns the state of a session at a position, which need not be a checkpoint. It reads the log up to the
// position. If the session has no such position, the error is an [agent.ErrBadInput].
//
// [runner.Runner.PreviewAt] returns what an agent's model was shown at the position.
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

// State returns the values of the turn's and the session's state. It omits values that sessions share, with the
// prefixes "user:" and "app:", because these have no past.
func (m *Moment) State() map[string]any { return m.Fold.States() }

// Replay yields the recorded events up to a position. It asks no model and runs no tool. If the session has no such
// position, the error is an [agent.ErrBadInput].
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
			if _, ok, err := session.Find(ctx, s.store, key); err != nil || ok {
				if err != nil {
					yield(nil, err)
				}
				return
			}
		}
		if at == 0 || at != until {
			yield(nil, noPosition(key, until))
		}
	}
}
