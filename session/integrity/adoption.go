package integrity

import (
	"time"

	"github.com/agentarbor/arbor/event"
)

// maxAdoptions is how often a turn may be adopted without progress after its process died, and maxStops how often after
// its server was stopped.
const (
	maxAdoptions = 3
	maxStops     = 10
)

// adoptions counts the processes that adopted the turn since it made progress.
type adoptions struct {
	times   int  // less the stops
	stops   int  // how often a server that was stopped gave the turn back
	stopped bool // the last event says that the turn was stopped
	left    bool // a notice says that no process adopts the turn any more

	written time.Time         // the time of the write with the last adoption
	missing map[string]string // the runs that were open then and have no notice in that write, with their scopes
}

// adoption checks the notices about adoptions.
func (c *Checker) adoption(e *event.Event) {
	h := &c.adopt
	if !e.Time.Equal(h.written) {
		c.checkAdopted()
	}
	stopped := h.stopped
	h.stopped = false
	switch d := e.Data.(type) {
	case *event.Notice:
		if stopped && d.Code != event.NoticeResumed {
			c.fail(e, "the turn was stopped, and then comes the notice %s: only a user resumes it", d.Code)
		}
		switch {
		case d.Code == event.NoticeStopped:
			h.stopped = true
		case d.Code == event.NoticeAdopted && e.Scope != "":
			delete(h.missing, e.RunID)
		case d.Code == event.NoticeAdopted:
			if h.times++; h.left || h.times > maxAdoptions || h.stops >= maxStops {
				c.fail(e, "the turn is adopted after %d deaths and %d stops without progress", h.times, h.stops)
			}
			h.written, h.missing = e.Time, make(map[string]string)
			for name, s := range c.scopes {
				if name != "" && s.open != "" && !s.over && !s.past {
					h.missing[s.open] = name
				}
			}
		case d.Code == event.NoticeGivenBack:
			h.times--
			h.stops++
		case d.Code == event.NoticeLeft:
			if h.left || h.times < maxAdoptions && h.stops < maxStops {
				c.fail(e, "the turn is given up after %d deaths and %d stops (given up before: %t)", h.times, h.stops, h.left)
			}
			h.left = true
		}
	case *event.ToolProgress, *event.Discard: // no progress: the work starts again
	default:
		h.times, h.stops, h.left = 0, 0, false
	}
}

// checkAdopted checks, after the write with an adoption, that all runs that were open have a notice about it.
func (c *Checker) checkAdopted() {
	for id, scope := range c.adopt.missing {
		c.found = append(c.found, Violation{c.seq, "the turn was adopted, but the open run " + id + " of the scope " + scope + " has no notice about it"})
	}
	c.adopt.missing = nil
}
