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
	pause  time.Duration          // between two looks at a Redis that is down
	next   time.Time              // when to look again

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

func (p *publisher) run() {
	defer close(p.Tail.done)
	defer p.disconnect()
	for {
		batch := p.take()
		switch {
		case batch == nil && p.isClosed():
			p.removeDeleted()
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

// take waits for ops and returns some, oldest first, or all while Redis is down; then
// it waits no longer than until the next look. It returns nil when the Tail is closed and the
// queue is empty.
func (p *publisher) take() []op {
	var timer <-chan time.Time
	if p.down {
		t := time.NewTimer(time.Until(p.next))
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
			p.queue = nil
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
	if len(p.queue) == 0 {
		p.lost = false // Redis is fast enough again
	}
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

// lookAgain resumes publishing when Redis is reachable again.
func (p *publisher) lookAgain() {
	if p.isClosed() || time.Now().Before(p.next) {
		return
	}
	if err := p.ping(); err != nil {
		p.disconnect()
		p.pause = min(2*p.pause, longestWait)
		p.next = time.Now().Add(p.pause)
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
				announcement, err := p.announce(o)
				if err != nil {
					return err
				}
				cmds = announcement
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
	p.next = time.Now().Add(p.pause)
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

// removeDeleted removes the streams of deleted sessions, if it can.
func (p *publisher) removeDeleted() {
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
