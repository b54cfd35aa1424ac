package session

import (
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
	"github.com/agentarbor/arbor/llm"
)

// foldReader reads what a foldWriter has written.
type foldReader struct {
	*pack.Reader
	transfers []*event.Transfer
}

func (r *foldReader) require(is bool) {
	if !is {
		r.Fail()
	}
}

func (r *foldReader) duration() time.Duration { return time.Duration(r.Int64()) }

func (r *foldReader) turn(t *Turn) {
	t.ID, t.UserRunID = r.Text(), r.Text()
	t.First, t.Started = r.Position(), r.Time()
	t.Transfers, t.ModelCalls, t.ToolCalls = r.Int(), r.Int(), r.Int()
	t.User = pack.PayloadOf[*event.User](r.Reader)
	r.require(t.First > 0 || t.User == nil)
}

func (r *foldReader) scope(s *Scope) {
	s.Active, s.LastEnd, s.Input, s.root, s.opener = r.Text(), r.Text(), r.Bytes(), r.Text(), r.Text()
	s.first, s.began = r.Position(), r.Int64()
	s.node = node{id: r.Text(), run: r.Text(), typ: r.Text(), n: r.Int()}
	s.handed, s.given = r.transfer(), r.transfer()
	for range r.Items() {
		s.pairs = append(s.pairs, hop{r.Text(), r.Text()})
	}
	r.run(&s.Run)
}

func (r *foldReader) run(run *Run) {
	run.ID, run.Agent, run.Path, run.TurnID, run.AgentID = r.Text(), r.Text(), r.Text(), r.Text(), r.Text()
	run.Finish, run.Target, run.Said = event.FinishReason(r.Text()), r.Text(), r.Text()
	run.Since, run.Start, run.Answers = r.Int64(), r.Position(), r.Int()
	run.Open, run.TakesUp = r.Bool(), r.Bool()
	for range r.Items() {
		run.Before = append(run.Before, r.Text())
	}
	run.Transfer = r.transfer()
	for range r.Items() {
		c := Call{ID: r.Text(), Name: r.Text(), RunID: r.Text(), Relay: r.Text()}
		c.Made, c.Number, c.at = r.Position(), r.Int(), r.Position()
		c.Resolved = r.Bool()
		if r.Bool() {
			c.Asks = pack.PayloadOf[*event.Relay](r.Reader)
		}
		r.require(c.Relay == "" || c.Asks != nil)
		run.Pending = append(run.Pending, c)
	}
}

func (r *foldReader) transfer() *event.Transfer {
	n := r.Int()
	switch {
	case n == 0 || r.Err() != nil:
		return nil
	case n > 0 && n <= len(r.transfers):
		return r.transfers[n-1]
	}
	t := pack.PayloadOf[*event.Transfer](r.Reader)
	r.require(t != nil && n == len(r.transfers)+1)
	r.transfers = append(r.transfers, t)
	return t
}

func (r *foldReader) use(u *Use) {
	*u = Use{Answers: r.Int(), Reported: r.Int(), Usage: llm.Usage{InputTokens: r.Int(), OutputTokens: r.Int(), CachedTokens: r.Int()}}
}

func (r *foldReader) remote() Remote {
	remote := Remote{}
	if d := pack.PayloadOf[*event.RemoteTask](r.Reader); d != nil {
		remote.RemoteTask = *d
	} else {
		r.Fail()
	}
	remote.Scope, remote.Agent, remote.Path, remote.RunID, remote.TurnID = r.Text(), r.Text(), r.Text(), r.Text(), r.Text()
	remote.Since, remote.First = r.Int64(), r.Position()
	for range r.Items() {
		remote.Way = append(remote.Way, Hosted{r.Text(), r.Text()})
	}
	return remote
}
