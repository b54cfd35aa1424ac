package replay

import (
	"context"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
)

// desk answers like the desk in the log.
type desk struct{ p *player }

// RequestTransfer implements human.Desk.
func (d desk) RequestTransfer(context.Context, human.Request) (human.Update, error) {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	var last *event.HandoffStatus
	for i := d.p.done; i < len(d.p.log.events) && d.p.log.events[i].Seq <= d.p.until; i++ {
		if s, ok := d.p.log.events[i].Data.(*event.HandoffStatus); ok && !d.p.used[i] {
			last = s
		}
	}
	if last == nil {
		return human.Update{Status: human.Queued}, nil
	}
	if last.Status == string(human.Failed) {
		return human.Update{}, human.ErrUnavailable
	}
	return updateOf(last), nil
}

// Send implements human.Desk.
func (desk) Send(context.Context, human.Leg, []human.Message) error { return nil }

// Cancel implements human.Desk.
func (desk) Cancel(context.Context, human.Leg, string) error { return nil }

func updateOf(d *event.HandoffStatus) human.Update {
	u := human.Update{Status: human.Status(d.Status), TargetAgent: d.TargetAgent, Reason: d.Reason, QueuePosition: d.QueuePosition}
	if d.EstimatedWaitTime != nil {
		wait := time.Duration(*d.EstimatedWaitTime * float64(time.Second))
		u.EstimatedWait = &wait
	}
	return u
}

// delivery returns the event of the desk in a step.
func (p *player) delivery(s step) (word human.Event) {
	for _, e := range s.write {
		if e.Agent != agent.Human {
			continue
		}
		switch d := e.Data.(type) {
		case *event.Text:
			word.Text = d.Content
		case *event.HandoffStatus:
			word.ID, word.HandoffID, word.Update = d.DeskEventID, p.newIDs[d.HandoffID], updateOf(d)
		}
	}
	return word
}
