package workflow

import (
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Failure returns why a finished child has no output, or nil if it has one. The text is the one in the log, so that it
// is the same if the result comes from the log. The error wraps Err or, for a limit of the turn without Err,
// agent.ErrLimit.
func (r *Result) Failure() error {
	if r.Reason == event.FinishReasonStop {
		return nil
	}
	f := &failure{r.Message, r.Err}
	switch r.Reason {
	case event.FinishReasonLength:
		f.message = "the answer was cut off at the model's limit of tokens"
	case event.FinishReasonContentFilter:
		f.message = "the endpoint's content filter cut the answer off"
	case event.FinishReasonLimit:
		if f.err == nil {
			f.err = agent.ErrLimit
		}
	}
	if f.message == "" {
		f.message = "the run ended with the reason " + string(r.Reason)
	}
	return f
}

type failure struct {
	message string
	err     error
}

func (f *failure) Error() string { return f.message }
func (f *failure) Unwrap() error { return f.err }
