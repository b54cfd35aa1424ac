package runner

import (
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// refusal returns the error by which a step has refused the conversation, if it can go
// back to the agent that handed it over; nil if the error ends the run like any other.
func (l *lane) refusal(run session.Run, err error) *agent.RefusedError {
	var refused *agent.RefusedError
	if errors.As(err, &refused) {
		run, _ = l.state() // with what the step has stored
	}
	from := run.Transfer
	switch {
	case refused == nil || refused.Agent != run.Agent, l.ctx.Err() != nil:
		return nil
	case from == nil, run.TakesUp, run.Answers > 0, run.Said != "", len(run.Pending) > 0:
		return nil
	case from.TransferType == event.TransferTypeRefused: // it gets its own back, and wants it even less
		return nil
	case from.TransferType == event.TransferTypeRoute: // the source has answered, and would answer again
		return nil
	case from.TransferType == event.TransferTypeBotToBot: // a router, or what is to happen after an error, names the next agent
		return nil
	case l.tree.Node(from.From) == nil:
		return nil
	}
	if l.void("", "") != nil {
		return nil
	}
	for _, e := range l.joined {
		switch e.Data.(type) {
		case *event.RemoteTask, *event.Notice:
		default: // it did something after all
			return nil
		}
	}
	return &agent.RefusedError{Agent: refused.Agent, Reason: l.fit(refused.Reason), Err: errors.New(l.fit(refused.Error()))}
}

// handBack gives the conversation back to the agent that handed it over, in one write
// with what the run wanted to have stored. The limit of transfers does not forbid it,
// but it counts: the source cannot hand over for ever.
func (l *lane) handBack(run session.Run, refused *agent.RefusedError) error {
	back := &event.Transfer{From: run.Agent, To: run.Transfer.From, Reason: refused.Reason, Outcome: event.TransferCommitted,
		TransferType: event.TransferTypeRefused}
	l.t.mu.Lock()
	if given := l.t.w.fold.Scope(l.scope).Given; given != nil {
		back.Payload = given.Payload // what the source was started with
	}
	l.t.mu.Unlock()
	return l.handOver(run, back.To, nil,
		&event.Event{Data: &event.Notice{Code: event.NoticeTransferRefused, Message: fmt.Sprintf("%s did not accept the conversation: %s", run.Agent, refused.Error())}},
		&event.Event{Data: back})
}
