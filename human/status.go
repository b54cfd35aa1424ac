package human

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Status is the state of a handoff. The zero value is not a valid status; a [Controller] starts in [None].
type Status string

// The states of a handoff. [Controller] describes the steps between them.
const (
	None       Status = "none"       // no person was asked for
	Requested  Status = "requested"  // the desk was asked, and has not answered yet
	Queued     Status = "queued"     // the user waits until a person is free
	Connecting Status = "connecting" // a person was chosen
	Ringing    Status = "ringing"    // the person is notified
	Connected  Status = "connected"  // the person and the user write to each other
	OnHold     Status = "on_hold"    // the person put the user on hold
	Completed  Status = "completed"  // the person is done
	Ended      Status = "ended"      // the conversation with the person ended for another reason
	Cancelled  Status = "cancelled"  // the user cancelled it
	Failed     Status = "failed"     // the desk failed or refused
)

// next returns the states that may follow, without Cancelled and Failed, which may follow every state that is not
// final. The last one leads on to Connected and then to the end.
func (s Status) next() []Status {
	switch s {
	case None, Completed, Ended, Cancelled, Failed:
		return []Status{Requested}
	case Requested:
		return []Status{Queued, Connecting}
	case Queued:
		return []Status{Connecting}
	case Connecting:
		return []Status{Ringing}
	case Ringing:
		return []Status{Connected}
	case Connected:
		return []Status{OnHold, Completed, Ended}
	case OnHold:
		return []Status{Connected, Completed, Ended}
	default:
		return nil
	}
}

// Known reports whether s is one of the states.
func (s Status) Known() bool { return s.next() != nil }

// Final reports whether the handoff is over in this state.
func (s Status) Final() bool {
	return s == Completed || s == Ended || s == Cancelled || s == Failed
}

// leadsTo reports whether a step from s to another state is allowed.
func (s Status) leadsTo(to Status) bool {
	if to == Cancelled || to == Failed {
		return s.Known() && !s.Final()
	}
	return slices.Contains(s.next(), to)
}

// ErrTransition is matched by every [*TransitionError].
var ErrTransition = errors.New("human: the step of the handoff is not allowed")

// TransitionError reports a step from one state to another that handoffs do not allow. It matches [ErrTransition].
type TransitionError struct{ From, To Status }

func (e *TransitionError) Error() string {
	return fmt.Sprintf("human: a handoff that is %q cannot become %q", string(e.From), string(e.To))
}

// Is reports whether the target is [ErrTransition].
func (e *TransitionError) Is(target error) bool { return target == ErrTransition }

// Step is one step of a handoff.
type Step struct {
	Status      Status
	Reason      string    // "" if none was given
	TargetAgent string    // the person or queue; with a final status the agent that continues
	Time        time.Time // of the step; a controller keeps it and does not check it
}

// Controller tracks the state of a handoff and refuses steps that are not allowed:
//
//	none → requested → queued → connecting → ringing → connected ⇄ on_hold → completed | ended
//
// These steps are allowed as well: from requested to connecting; from connected to completed or ended; from each state
// that is not final to cancelled or failed; and from a final state to requested, which starts a new handoff.
//
// The zero value is ready to use and in the state [None]. A Controller is not safe for concurrent use.
type Controller struct{ history []Step }

// Status returns the current state.
func (c *Controller) Status() Status {
	if len(c.history) == 0 {
		return None
	}
	return c.history[len(c.history)-1].Status
}

// History returns a copy of all steps, oldest first, also of earlier handoffs.
func (c *Controller) History() []Step { return slices.Clone(c.history) }

// Apply makes a step. A step that is not allowed, such as one to the current state, changes nothing; the error is a
// [*TransitionError].
func (c *Controller) Apply(s Step) error {
	if from := c.Status(); !from.leadsTo(s.Status) {
		return &TransitionError{From: from, To: s.Status}
	}
	c.history = append(c.history, s)
	return nil
}

// Way returns the shortest list of states that leads from the current state to a later one, which is the last of the
// list. For example, the way from queued to connected is connecting, ringing, connected. It returns nil if no way
// exists, as to the current state and after a final one.
func (c *Controller) Way(to Status) []Status { return c.Status().way(to) }

// way is Controller.Way from s.
func (s Status) way(to Status) []Status {
	if s.Final() || s == to {
		return nil
	}
	var way []Status
	for at := s; !at.leadsTo(to); {
		next := at.next()
		if at = next[len(next)-1]; at.Final() {
			return nil
		}
		way = append(way, at)
	}
	return append(way, to)
}
