package redis

import (
	"context"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/agentarbor/arbor/session"
)

// publisher is the goroutine that takes a Tail's queue to Redis, in order. The ids of
// entries are settled before they are sent, so that what may have arrived can be sent
// again.
type publisher struct {
	*Tail
	client driver.UniversalClient // nil if there is no connection
	down   bool                   // Redis could not be reached; what comes is dropped
	pause  time.Duration          // before the next look at a Redis that is down

	gone map[string]struct{} // streams of deleted sessions that have to go yet
}

const (
	batchSize   = 256
	closingTime = time.Second     // for what waits when the Tail is closed
	longestWait = 5 * time.Second // between two looks at a Redis that is down
	maxGone     = 10_000
)

// pauses are those before a batch is sent again. When they are used up Redis counts
// as down.
var pauses = [...]time.Duration{20 * time.Millisecond, 80 * time.Millisecond, 300 * time.Millisecond}

// command is an entry on its way, or something else that is done to a stream.
type command struct {
	s     *stream
	kind  commandKind
	at    session.Position
	token int64
	field string
	value any
	part  bool // at may be moved behind what others have published
}

type commandKind int

const (
	add commandKind = iota
	expire
	expireSoon
	trim
	tombstone
	remove
)

func (p *publisher) run() {
	defer close(p.Tail.done)
	defer p.disconnect()
	for {
		batch := p.take()
		switch {
		case batch == nil && p.isClosed():
			p.lastWishes()
			return
		case p.down:
			p.miss(batch)
			p.lookAgain()
		default:
			p.publish(batch)
		}
		p.finish(batch)
	}
}

// take waits for ops and returns some, oldest first; while Redis is down, it waits no
// longer than until the next look. It returns nil when the Tail is closed and the
// queue is empty.
func (p *publisher) take() []op {
	var timer <-chan time.Time
	if p.down {
		t := time.NewTimer(p.pause)
		defer t.Stop()
		timer = t.C
	}
	for {
		p.mu.Lock()
		n := min(len(p.queue), batchSize)
		if p.down {
			n = len(p.queue)
		}
		batch := p.queue[:n:n]
		if p.queue = p.queue[n:]; len(p.queue) == 0 {
			p.queue, p.lost = nil, false
		}
		for _, o := range batch {
			if o.kind == opPartial {
				p.queued.partial--
				p.queued.bytes -= o.size
			}
		}
		p.mu.Unlock()
		if n > 0 {
			return batch
		}
		if p.isClosed() {
			return nil
		}
		select {
		case <-p.signal:
		case <-p.life.Done():
		case <-timer:
			return []op{}
		}
	}
}

// finish forgets the streams that no op is left of.
func (p *publisher) finish(batch []op) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range batch {
		o.s.pending--
		p.forget(o.s)
	}
}

// miss notes what a Redis that is down has not seen and must not keep.
func (p *publisher) miss(batch []op) {
	for _, o := range batch {
		if o.kind == opDeleted {
			o.s.at, o.s.greeted, o.s.fenced = session.Position{}, 0, 0
			if p.gone == nil {
				p.gone = make(map[string]struct{})
			}
			if len(p.gone) < maxGone {
				p.gone[o.s.name] = struct{}{}
			}
		}
	}
}

// lookAgain goes on with a Redis that has come back.
func (p *publisher) lookAgain() {
	if p.isClosed() {
		return
	}
	if err := p.ping(); err != nil {
		p.disconnect()
		p.pause = min(2*p.pause, longestWait)
		return
	}
	p.down = false
	p.logger.Info("redis: partial events are published again", "address", p.dialer.address)
	var missed []op
	for name := range p.gone {
		missed = append(missed, op{kind: opDeleted, s: &stream{name: name}})
	}
	p.mu.Lock()
	for _, s := range p.sessions { // followers may wait for what was stored meanwhile
		if s.lease != 0 && s.seq > 0 {
			missed = append(missed, op{kind: opStored, s: s, token: s.lease, seq: s.seq, mark: s.mark})
		}
	}
	p.mu.Unlock()
	p.gone = nil
	p.publish(missed)
}

func (p *publisher) ping() error {
	ctx, cancel := p.deadline()
	defer cancel()
	client, err := p.connected(ctx)
	if err != nil {
		return err
	}
	return client.Ping(ctx).Err()
}

func (p *publisher) connected(ctx context.Context) (driver.UniversalClient, error) {
	if p.client == nil {
		var err error
		if p.client, err = p.dialer.connect(ctx, nil); err != nil {
			return nil, err
		}
	}
	return p.client, nil
}

func (p *publisher) disconnect() {
	if p.client != nil {
		_ = p.client.Close()
		p.client = nil
	}
}

// deadline bounds one exchange with Redis.
func (p *publisher) deadline() (context.Context, context.CancelFunc) {
	d := 5 * time.Second
	if p.isClosed() {
		d = closingTime
	}
	return context.WithTimeout(context.Background(), d)
}

// publish sends ops, again and again while Redis does not answer, and gives up after
// a while.
func (p *publisher) publish(batch []op) {
	var cmds []command
	i := 0
	err := p.again(func() error {
		for ; i < len(batch); i++ {
			o := &batch[i]
			if o.s.broken || o.token != 0 && o.token == o.s.fenced {
				continue
			}
			if o.token != 0 && o.s.greeted != o.token {
				if err := p.send(&cmds); err != nil { // in order
					return err
				}
				greeting, err := p.greet(o)
				if err != nil {
					return err
				}
				cmds = greeting
			}
			cmds = p.translate(cmds, o)
		}
		return p.send(&cmds)
	})
	if err == nil {
		return
	}
	p.miss(batch)
	p.down, p.pause = true, 100*time.Millisecond
	p.disconnect()
	if !p.isClosed() {
		p.logger.Warn("redis: partial events are not published: followers see stored events alone until Redis is back",
			"address", p.dialer.address, "error", err)
	}
}

func (p *publisher) again(do func() error) error {
	err := do()
	for _, pause := range pauses {
		if err == nil || p.isClosed() {
			return err
		}
		p.disconnect()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-p.life.Done():
			timer.Stop()
		}
		err = do()
	}
	return err
}

// translate settles the ids of an op's entries.
func (p *publisher) translate(cmds []command, o *op) []command {
	s := o.s
	if o.token != 0 && o.token == s.fenced {
		return cmds
	}
	switch o.kind {
	case opPartial:
		data, err := o.event.MarshalJSON()
		if err != nil { // it has no JSON form: nobody could be shown it
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
		s.at, s.greeted, s.fenced = session.Position{}, 0, 0
		return append(cmds, command{s: s, kind: tombstone}, command{s: s, kind: remove})
	}
	return cmds
}

// add appends an entry behind a position of the log.
func (p *publisher) add(cmds []command, o *op, seq int64, field string, value any) []command {
	if seq > o.s.at.Seq {
		o.s.at = session.Position{Seq: seq}
	}
	o.s.at.Part++
	return append(cmds, command{s: o.s, at: o.s.at, token: o.token, field: field, value: value, part: true})
}

// send sends commands in one pipeline. Those that were sent are gone from the list,
// unless there is an error; then all can be sent again.
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
			again, err := p.settle(s, list)
			if err != nil {
				return err
			}
			*cmds = append(*cmds, again...)
		}
	}
	return nil
}

// pipeline returns the entries that were refused since their stream has gone further.
func (p *publisher) pipeline(cmds []command) (refused map[*stream][]command, err error) {
	ctx, cancel := p.deadline()
	defer cancel()
	client, err := p.connected(ctx)
	if err != nil {
		return nil, err
	}
	pipe := client.Pipeline()
	alive := make(map[*stream]bool) // whether the stream is to be kept alive
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
			p.giveUp(c.s, err)
		default:
			return nil, err
		}
	}
	return refused, nil
}

func (p *publisher) giveUp(s *stream, err error) {
	if !s.broken {
		s.broken = true
		p.logger.Warn("redis: a session is not published: remove what stands under its name", "session", s.key.String(), "key", s.name, "error", err)
	}
}

// top returns a stream's last entry; ok is false if there is none.
func (p *publisher) top(s *stream) (last entry, ok bool, err error) {
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

// settle decides about entries that a stream has refused: they are there already, or
// come from a writer whose lease another has, and then nothing is left to do; or the
// stream is one of a session that was deleted, or such a writer has been faster.
func (p *publisher) settle(s *stream, refused []command) (again []command, err error) {
	last, ok, err := p.top(s)
	if isOfKey(err) {
		p.giveUp(s, err)
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
		return append([]command{{s: s, kind: remove}}, refused...), nil
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

// greet announces the lease that an op was made under, and voids what the holder of an
// earlier one has shown and left incomplete.
func (p *publisher) greet(o *op) ([]command, error) {
	s := o.s
	last, ok, err := p.top(s)
	if isOfKey(err) {
		p.giveUp(s, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var cmds []command
	at := s.at
	if o.kind != opStored && at.Seq < o.seq {
		at = session.Position{Seq: o.seq}
	}
	var orphans []op
	switch {
	case !ok:
	case last.token > o.token:
		s.fenced = o.token
		return nil, nil
	case last.at.Seq > max(o.seq, at.Seq): // of a session that was deleted
		cmds = append(cmds, command{s: s, kind: remove})
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
	s.greeted, s.at, s.before = o.token, at, o.seq
	if ok && last.release {
		s.before = min(last.start, o.seq)
	}
	for i := range orphans {
		orphans[i].seq = at.Seq
		cmds = p.translate(cmds, &orphans[i])
	}
	return p.add(cmds, o, at.Seq, fieldLease, "1"), nil
}

// orphans returns what voids the blocks of earlier leases for which there is nothing
// in the log.
func (p *publisher) orphans(o *op) ([]op, error) {
	ctx, cancel := p.deadline()
	defer cancel()
	client, err := p.connected(ctx)
	if err != nil {
		return nil, err
	}
	var blocks session.OpenBlocks
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
		if err != nil { // voiding too much would be worse than voiding nothing
			p.logger.Warn("redis: what a turn left incomplete is not voided", "session", o.s.key.String(), "error", err)
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

// lastWishes removes the streams of deleted sessions, if it can.
func (p *publisher) lastWishes() {
	if len(p.gone) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closingTime)
	defer cancel()
	client, err := p.connected(ctx)
	for name := range p.gone {
		if err != nil {
			return
		}
		err = client.Del(ctx, name).Err()
	}
}
