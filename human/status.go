package human

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Status is the state of a handoff. The zero value is no status; a [Controller] begins in [None].
type Status string

// The states. The way through them stands in the documentation of [Controller].
const (
	None       Status = "none"       // nobody has asked for a person
	Requested  Status = "requested"  // asked for, and the desk has not said that it heard
	Queued     Status = "queued"     // waits until a person is free
	Connecting Status = "connecting" // a person was chosen
	Ringing    Status = "ringing"    // the person is being told
	Connected  Status = "connected"  // the person and the user talk
	OnHold     Status = "on_hold"    // the person has left for a while
	Completed  Status = "completed"  // the person has done what was to do
	Ended      Status = "ended"      // the conversation with the person ended otherwise
	Cancelled  Status = "cancelled"  // the user gave it up
	Failed     Status = "failed"     // the desk could not do it
)

// next says where each state may lead to, the one that is furthest on the way last. Those that are
// not final may also be cancelled or fail.
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

// Known says whether it is one of the states.
func (s Status) Known() bool { return s.next() != nil }

// Final says whether a leg of the handoff is over with it.
func (s Status) Final() bool {
	return s == Completed || s == Ended || s == Cancelled || s == Failed
}

func (s Status) leadsTo(to Status) bool {
	if to == Cancelled || to == Failed {
		return s.Known() && !s.Final()
	}
	return slices.Contains(s.next(), to)
}

// ErrTransition is a step that the table of states does not have: see [TransitionError].
var ErrTransition = errors.New("human: not a lawful step of a handoff")

// TransitionError says which step was refused. It matches [ErrTransition].
type TransitionError struct{ From, To Status }

func (e *TransitionError) Error() string {
	return fmt.Sprintf("human: a handoff that is %q cannot become %q", string(e.From), string(e.To))
}

// Is reports whether the target is [ErrTransition].
func (e *TransitionError) Is(target error) bool { return target == ErrTransition }

// Step is one step of a handoff.
type Step struct {
	Status      Status
	Reason      string    // why, if anybody said
	TargetAgent string    // the person or queue; with a final status the agent that goes on
	Time        time.Time // when; a controller only keeps it
}

// Controller follows a handoff from state to state and refuses what is not a step of it:
//
//	none → requested → queued → connecting → ringing → connected ⇄ on_hold → completed | ended
//
// A request may go straight to connecting, a connected handoff may be completed or ended too,
// every state that is not final may be cancelled or fail, and a final state may be followed by
// another request, which begins a new leg.
//
// The zero value is ready and in the state [None]. It is for one goroutine at a time.
type Controller struct{ history []Step }

// Status is the present state.
func (c *Controller) Status() Status {
	if len(c.history) == 0 {
		return None
	}
	return c.history[len(c.history)-1].Status
}

// History returns a copy of the steps of all legs, oldest first.
func (c *Controller) History() []Step { return slices.Clone(c.history) }

// Apply takes a step. A step that is refused, with a [*TransitionError], changes nothing; the
// present state again is refused too.
func (c *Controller) Apply(s Step) error {
	if from := c.Status(); !from.leadsTo(s.Status) {
		return &TransitionError{From: from, To: s.Status}
	}
	c.history = append(c.history, s)
	return nil
}

// Way returns the fewest steps that lead to a later state of the present leg, the last of them to
// that state itself: a desk that says "connected" of a queued handoff means connecting, ringing,
// connected. It is nil if there is no way, as to the present state and after a final one.
func (c *Controller) Way(to Status) []Status { return c.Status().way(to) }

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
