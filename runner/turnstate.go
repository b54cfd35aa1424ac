package runner

import (
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

func turnStateOf(f *session.Fold) TurnState {
	s := TurnState{Seq: f.Seq, Turn: f.Turn.ID, Over: !f.Unfinished()}
	if s.Over {
		s.Waits, s.Asked, s.Finish = f.Held(), f.Questions(), f.Scope("").Run.Finish
	}
	return s
}

// TurnState says how the last turn of a session stands.
type TurnState struct {
	Seq  int64  // where the log ends
	Turn string // the turn's id, "" without a message of a user
	// Over reports that nothing is left to do until a new message or a decision comes. Waits says that the turn
	// is not finished then: it waits for a decision, or for something that is done elsewhere.
	Over, Waits bool
	// Asked are the open questions. They are shared.
	Asked []*event.Relay
	// Finish is how the conversation's last run ended, "" if the turn is not Over.
	Finish event.FinishReason
}
