package integrity

import (
	"time"

	"github.com/agentarbor/arbor/event"
)

// takeOvers is how often a turn may be taken over without getting any further.
const takeOvers = 3

// hands is what the log says of processes that took the turn over since it got further.
type hands struct {
	times int
	left  bool // it was noted that nobody takes it over any more

	written time.Time         // of the write in which the last one did
	untold  map[string]string // the runs that were open then and are not told in it, with their scopes
}

// changeHands checks what take-overs say.
func (c *Checker) changeHands(e *event.Event) {
	h := &c.hands
	if !e.Time.Equal(h.written) {
		c.allTold()
	}
	switch d := e.Data.(type) {
	case *event.Notice:
		switch {
		case d.Code == event.NoticeTakenOver && e.Scope != "":
			delete(h.untold, e.RunID)
		case d.Code == event.NoticeTakenOver:
			if h.times++; h.left || h.times > takeOvers {
				c.fail(e, "the turn is taken over for the %d. time without getting any further", h.times)
			}
			h.written, h.untold = e.Time, make(map[string]string)
			for name, s := range c.scopes {
				if name != "" && s.open != "" && !s.over && !s.past {
					h.untold[s.open] = name
				}
			}
		case d.Code == event.NoticeLeft:
			if h.left || h.times < takeOvers {
				c.fail(e, "the turn is left alone, after it was taken over %d times (said before: %t)", h.times, h.left)
			}
			h.left = true
		}
	case *event.ToolProgress, *event.Discard: // of what begins anew
	default:
		h.times, h.left = 0, false
	}
}

// allTold checks at the end of a write in which the turn was taken over that the open runs of all scopes were told.
func (c *Checker) allTold() {
	for id, scope := range c.hands.untold {
		c.found = append(c.found, Violation{c.seq, "the turn was taken over, and the run " + id + " of the scope " + scope + ", which is open, does not say so"})
	}
	c.hands.untold = nil
}
