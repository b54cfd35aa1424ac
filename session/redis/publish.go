package redis

import (
	"context"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/agentarbor/arbor/internal/sleep"
	"github.com/agentarbor/arbor/session"
)

// publisher is the goroutine that sends a Tail's queue to Redis, in order. It chooses the ids of entries before it
// sends them, so it can send entries again that may have arrived.
type publisher struct {
	*Tail
	client *driver.Client // nil if there is no connection
	down   bool           // Redis cannot be reached; ops are dropped
	pause  time.Duration  // the pause between two attempts to reach a Redis that is down
	next   time.Time      // the time of the next attempt

	deleted map[string]struct{} // the streams of deleted sessions that are not removed yet
}

const (
	batchSize   = 256
	closingTime = time.Second     // the time for the rest of the queue after Close
	longestWait = 5 * time.Second // the longest pause between two attempts to reach a Redis that is down
	maxDeleted  = 10_000
)

// pauses are the pauses before a batch is sent again. After the last one, Redis counts as down.
var pauses = [...]time.Duration{20 * time.Millisecond, 80 * time.Millisecond, 300 * time.Millisecond}

func (p *publisher) run() {
	defer close(p.Tail.done)
	defer p.disconnect()
	for {
		batch := p.nextBatch()
		switch {
		case batch == nil && p.isClosed():
			p.removeDeleted()
			return
		case p.down:
			p.dropBatch(batch)
			p.tryReconnect()
		default:
			p.publish(batch)
		}
		p.finish(batch)
	}
}

// nextBatch waits for ops and returns some of them, oldest first. While Redis is down, it returns all ops, and waits
// at most until the next attempt to reach Redis. It returns nil if the Tail is closed and the queue is empty.
func (p *publisher) nextBatch() []op {
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

// finish forgets the streams that have no op left.
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

// dropBatch drops ops while Redis is down, and records the streams that must be removed later.
func (p *publisher) dropBatch(batch []op) {
	for _, o := range batch {
		if o.kind == opDeleted {
			o.s.at, o.s.announced, o.s.fenced = session.Position{}, 0, 0
			if p.deleted == nil {
				p.deleted = make(map[string]struct{})
			}
			if len(p.deleted) < maxDeleted {
				p.deleted[o.s.name] = struct{}{}
			}
		}
	}
}

// tryReconnect resumes publishing if Redis is available again.
func (p *publisher) tryReconnect() {
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
	p.logger.Info("redis: partial events are published again", "address", p.dialer.options.Addr)
	var missed []op
	for name := range p.deleted {
		missed = append(missed, op{kind: opDeleted, s: &stream{name: name}})
	}
	p.mu.Lock()
	for _, s := range p.sessions { // followers may wait for events that were stored meanwhile
		if s.lease != 0 && s.seq > 0 {
			missed = append(missed, op{kind: opStored, s: s, token: s.lease, seq: s.seq, mark: s.mark})
		}
	}
	p.mu.Unlock()
	p.deleted = nil
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

func (p *publisher) connected(ctx context.Context) (*driver.Client, error) {
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

// deadline returns the context for one exchange with Redis.
func (p *publisher) deadline() (context.Context, context.CancelFunc) {
	d := 5 * time.Second
	if p.isClosed() {
		d = closingTime
	}
	return context.WithTimeout(context.Background(), d)
}

// publish sends ops, and retries while Redis does not answer. After the last retry it drops them.
func (p *publisher) publish(batch []op) {
	var cmds []command
	i := 0
	err := p.withRetries(func() error {
		for ; i < len(batch); i++ {
			o := &batch[i]
			if o.s.broken || o.token != 0 && o.token == o.s.fenced {
				continue
			}
			if o.token != 0 && o.s.announced != o.token {
				if err := p.send(&cmds); err != nil { // earlier entries first
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
	p.dropBatch(batch)
	p.down, p.pause = true, 100*time.Millisecond
	p.next = time.Now().Add(p.pause)
	p.disconnect()
	if !p.isClosed() {
		p.logger.Warn("redis: partial events are not published: followers receive only stored events until Redis is available again",
			"address", p.dialer.options.Addr, "error", err)
	}
}

func (p *publisher) withRetries(do func() error) error {
	err := do()
	for _, pause := range pauses {
		if err == nil || p.isClosed() {
			return err
		}
		p.disconnect()
		_ = sleep.For(p.life, pause)
		err = do()
	}
	return err
}

// removeDeleted removes the streams of deleted sessions, if Redis can be reached.
func (p *publisher) removeDeleted() {
	if len(p.deleted) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closingTime)
	defer cancel()
	client, err := p.connected(ctx)
	for name := range p.deleted {
		if err != nil {
			return
		}
		err = client.Del(ctx, name).Err()
	}
}
