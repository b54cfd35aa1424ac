package redis

import (
	"time"

	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/following"
)

// announce announces the lease of an op, and makes void the blocks that the holder of an earlier lease left
// incomplete.
func (p *publisher) announce(o *op) ([]command, error) {
	s := o.s
	last, ok, err := p.lastEntry(s)
	if isOfKey(err) {
		p.disable(s, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var cmds []command
	at := s.at
	if at.Seq > o.seq { // the position is from before the session was deleted, or the database restored
		at = session.Position{}
	}
	if o.kind != opStored && at.Seq < o.seq {
		at = session.Position{Seq: o.seq}
	}
	var orphans []op
	switch {
	case !ok:
	case last.token > o.token:
		s.fenced = o.token
		return nil, nil
	case last.at.Seq > o.seq: // the stream has more than the log: the session was deleted, or the database restored
		cmds = removal(s)
	default:
		if last.at.Seq == at.Seq {
			at.Part = max(at.Part, last.at.Part)
		} else if last.at.Seq > at.Seq {
			at = last.at
		}
		if !last.release && last.token < o.token {
			if orphans, err = p.orphans(o); err != nil {
				return nil, err
			}
		}
	}
	s.announced, s.at, s.before = o.token, at, o.seq
	if ok && last.release {
		s.before = min(last.start, o.seq)
	}
	for i := range orphans {
		orphans[i].seq = at.Seq
		cmds = p.translate(cmds, &orphans[i])
	}
	return p.add(cmds, o, at.Seq, fieldLease, "1"), nil
}

// orphans returns the discards for blocks of earlier leases that never reached the log.
func (p *publisher) orphans(o *op) ([]op, error) {
	ctx, cancel := p.deadline()
	defer cancel()
	client, err := p.connected(ctx)
	if err != nil {
		return nil, err
	}
	var blocks following.OpenBlocks
	first := int64(-1)
	const page = 500
	for from := "-"; ; {
		list, err := client.XRangeN(ctx, o.s.name, from, "+", page).Result()
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			e, ok := parseEntry(m)
			if !ok || e.event == "" || e.token >= o.token {
				continue
			}
			if event, ok := p.decode(e); ok {
				blocks.Show(event)
				if first < 0 {
					first = e.at.Seq
				}
			}
		}
		if len(list) < page {
			break
		}
		from = "(" + list[len(list)-1].ID
	}
	if first < 0 {
		return nil, nil
	}
	for e, err := range p.underlying.Load(ctx, o.s.key, first) {
		if err != nil { // discarding too much would be worse than discarding nothing
			p.logger.Warn("redis: incomplete blocks of an interrupted turn stay visible: the store cannot be read", "session", o.s.key.String(), "error", err)
			return nil, nil
		}
		blocks.Settle(e)
	}
	var out []op
	for _, e := range blocks.Discard(time.Now()) {
		out = append(out, op{kind: opPartial, s: o.s, token: o.token, event: e})
	}
	return out, nil
}
