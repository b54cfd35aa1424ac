package runner

import (
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

func turnStateOf(f *session.Fold) TurnState {
	s := TurnState{Seq: f.Seq, Turn: f.Turn.ID, Over: !f.Unfinished(), Stopped: f.Stopped()}
	if s.Over {
		s.Waits, s.Asked, s.Finish = f.Held(), f.OpenCalls(), f.Scope("").Run.Finish
	}
	return s
}

// TurnState is the state of the last turn of a session.
type TurnState struct {
	Seq  int64  // where the log ends
	Turn string // the turn's id, "" without a message of a user
	// Over reports that the turn has no next step before a new message or a decision comes. If Waits is true, the turn
	// is not finished: it waits for a decision, or for something that is done elsewhere.
	Over, Waits bool
	// Stopped reports that the turn was stopped, and no user has resumed it yet.
	Stopped bool
	// Asked are the calls with open questions, in the order of the questions. The caller must not change the questions.
	Asked []session.Call
	// Finish is how the conversation's last run ended, "" if the turn is not Over.
	Finish event.FinishReason
}
