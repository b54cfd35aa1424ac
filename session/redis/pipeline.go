package redis

import (
	driver "github.com/redis/go-redis/v9"

	"github.com/agentarbor/arbor/session"
)

// command is an entry that is sent to a stream, or another operation on it.
type command struct {
	s     *stream
	kind  commandKind
	at    session.Position
	token int64
	field string
	value any
	part  bool // at may be increased if other entries have been published there
}

type commandKind int

const (
	add commandKind = iota
	expireSoon
	trim
	tombstone
	remove
)

// translate appends the commands for an op, and chooses the ids of its entries.
func (p *publisher) translate(cmds []command, o *op) []command {
	s := o.s
	if o.token != 0 && o.token == s.fenced {
		return cmds
	}
	switch o.kind {
	case opPartial:
		data, err := o.event.MarshalJSON()
		if err != nil { // it has no JSON form, so no follower could read it
			p.logger.Debug("redis: a partial event cannot be published", "session", s.key.String(), "error", err)
			return cmds
		}
		return p.add(cmds, o, o.seq, fieldEvent, data)
	case opStored:
		if o.seq > s.at.Seq || o.token == 0 {
			if o.seq > s.at.Seq {
				s.at = session.Position{Seq: o.seq}
			}
			return append(cmds, command{s: s, at: session.Position{Seq: o.seq}, token: o.token, field: fieldMark, value: o.mark})
		}
	case opReleased:
		cmds = p.add(cmds, o, o.seq, fieldRelease, o.start)
		return append(cmds, command{s: s, kind: trim, at: session.Position{Seq: s.before}}, command{s: s, kind: expireSoon})
	case opDeleted:
		s.at, s.announced, s.fenced = session.Position{}, 0, 0
		return append(cmds, removal(s)...)
	}
	return cmds
}

// removal removes a stream, and notifies all followers that wait for its next entry.
func removal(s *stream) []command {
	return []command{{s: s, kind: tombstone}, {s: s, kind: remove}}
}

// add appends an entry after a position of the log.
func (p *publisher) add(cmds []command, o *op, seq int64, field string, value any) []command {
	if seq > o.s.at.Seq {
		o.s.at = session.Position{Seq: seq}
	}
	o.s.at.Part++
	return append(cmds, command{s: o.s, at: o.s.at, token: o.token, field: field, value: value, part: true})
}

// send sends commands in one pipeline. Afterwards the list contains the commands that were not sent. After an error
// it contains all commands, which can be sent again.
func (p *publisher) send(cmds *[]command) error {
	for tries := 0; len(*cmds) > 0; tries++ {
		refused, err := p.pipeline(*cmds)
		if err != nil {
			return err
		}
		if *cmds = nil; len(refused) == 0 || tries == 3 {
			return nil
		}
		for s, list := range refused {
			again, err := p.resolveRefused(s, list)
			if err != nil {
				return err
			}
			*cmds = append(*cmds, again...)
		}
	}
	return nil
}

// pipeline sends commands and returns the entries that Redis refused because their stream already has a later one.
func (p *publisher) pipeline(cmds []command) (refused map[*stream][]command, err error) {
	ctx, cancel := p.deadline()
	defer cancel()
	client, err := p.connected(ctx)
	if err != nil {
		return nil, err
	}
	pipe := client.Pipeline()
	alive := make(map[*stream]bool) // whether to renew the stream's expiry
	for _, c := range cmds {
		switch name := c.s.name; c.kind {
		case add:
			args := &driver.XAddArgs{Stream: name, ID: c.at.String(), Values: []any{fieldToken, c.token, c.field, c.value}}
			if c.field == fieldMark {
				args.MaxLen, args.Approx = p.maxLen, true
			}
			pipe.XAdd(ctx, args)
			alive[c.s] = true
		case trim:
			pipe.XTrimMinID(ctx, name, c.at.String())
		case expireSoon:
			pipe.PExpire(ctx, name, p.linger)
			alive[c.s] = false
		case tombstone:
			pipe.XAdd(ctx, &driver.XAddArgs{Stream: name, ID: lastID, Values: []any{fieldDeleted, "1"}})
		case remove:
			pipe.Del(ctx, name)
			alive[c.s] = false
		}
	}
	for s, yes := range alive {
		if yes {
			pipe.PExpire(ctx, s.name, p.ttl)
		}
	}
	replies, err := pipe.Exec(ctx)
	if err != nil && !isReply(err) {
		return nil, err
	}
	for i, c := range cmds {
		switch err := replies[i].Err(); {
		case err == nil:
		case isOutOfOrder(err):
			if refused == nil {
				refused = make(map[*stream][]command)
			}
			if c.kind == add {
				refused[c.s] = append(refused[c.s], c)
			}
		case isOfKey(err):
			p.disable(c.s, err)
		default:
			return nil, err
		}
	}
	return refused, nil
}

// disable stops publishing a session whose stream's name has another kind of value in Redis.
func (p *publisher) disable(s *stream, err error) {
	if !s.broken {
		s.broken = true
		p.logger.Warn("redis: a session is not published, because its key has a value that is not a stream: delete the key", "session", s.key.String(), "key", s.name, "error", err)
	}
}

// lastEntry returns a stream's last entry. ok is false if there is none.
func (p *publisher) lastEntry(s *stream) (last entry, ok bool, err error) {
	ctx, cancel := p.deadline()
	defer cancel()
	client, err := p.connected(ctx)
	if err != nil {
		return entry{}, false, err
	}
	list, err := client.XRevRangeN(ctx, s.name, "+", "-", 1).Result()
	if err != nil || len(list) == 0 {
		return entry{}, false, err
	}
	last, ok = parseEntry(list[0])
	return last, ok, nil
}

// resolveRefused returns the commands to send instead of entries that a stream refused. It returns none if the
// entries exist already or if another process has the lease by now. Otherwise the stream is that of a session that
// was deleted or restored, or such a process published first.
func (p *publisher) resolveRefused(s *stream, refused []command) (again []command, err error) {
	last, ok, err := p.lastEntry(s)
	if isOfKey(err) {
		p.disable(s, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	token := refused[0].token
	switch {
	case ok && last.token > token:
		s.fenced = token
		return nil, nil
	case ok && last.token == token:
		return nil, nil
	case !ok || last.at.Seq > refused[len(refused)-1].at.Seq:
		return append(removal(s), refused...), nil
	}
	for _, c := range refused {
		if c.part && c.at.Seq == last.at.Seq {
			last.at.Part++
			c.at = last.at
			again = append(again, c)
		}
	}
	if last.at.Seq == s.at.Seq {
		s.at.Part = max(s.at.Part, last.at.Part)
	}
	return again, nil
}
