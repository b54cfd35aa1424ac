package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/runner"
)

// Option configures [Play] and [Bisect].
type Option func(*config)

type config struct {
	old    agent.Agent
	at     int64
	live   bool
	runner []runner.Option
	files  func(ctx context.Context, digest string) ([]byte, error)
}

// Against first plays the tree that created the session over the same log, and compares the requests of both trees.
func Against(old agent.Agent) Option { return func(c *config) { c.old = old } }

// Until ends the replay at a position of the log. Defaults to 0, its end.
func Until(seq int64) Option { return func(c *config) { c.at = seq } }

// Live lets the tree's models answer after the first difference, until the turn is over. No tool runs: a call gets the
// result of the same call in that turn of the log. A call without a recorded result ends the replay.
func Live() Option { return func(c *config) { c.live = true } }

// WithRunner sets options of the runners, such as limits. They must be the options of the runner that created the
// session.
func WithRunner(opts ...runner.Option) Option {
	return func(c *config) { c.runner = append(c.runner, opts...) }
}

// WithFiles sets the function that returns the bytes of the log's file events.
func WithFiles(load func(ctx context.Context, digest string) ([]byte, error)) Option {
	return func(c *config) { c.files = load }
}

// Result is the result of a replay.
type Result struct {
	Turns    int `json:"turns"` // the number of started turns
	Requests int `json:"requests"`
	Tools    int `json:"tools"` // the number of calls that got their results
	// Difference is the first difference, nil if the replayed part has none.
	Difference *Difference `json:"difference,omitempty"`
	// Stopped is the reason why the replay did not continue, nil if it came to the end or to a difference. With [Live]
	// both can be set.
	Stopped *Stopped `json:"stopped,omitempty"`
	// Compared reports that requests were compared, and not only what the log shows.
	Compared bool `json:"compared"`
}

// Same reports whether the replay produced the whole log.
func (r *Result) Same() bool { return r.Difference == nil && r.Stopped == nil }

// Stopped is a place where a replay cannot continue.
type Stopped struct {
	Turn   int    `json:"turn"`
	Seq    int64  `json:"seq,omitempty"` // a position in the log
	Reason string `json:"reason"`
}

// Play plays a tree over a log up to the first difference. The error is about the trees, or the context's. The result
// says what cannot be replayed.
func Play(ctx context.Context, l *Log, tree agent.Agent, opts ...Option) (*Result, error) {
	c := &config{}
	if err := option.Apply(c, opts); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if l == nil {
		return nil, errors.New("replay: the log is nil")
	}
	if tree == nil {
		return nil, errors.New("replay: the tree is nil")
	}
	if c.old == nil {
		p := newPlayer(l, c)
		err := p.play(ctx, tree)
		return p.outcome(), err
	}
	before := *c
	before.live = false
	asked := make(map[place]sum)
	old := newPlayer(l, &before)
	then, today := make(sums), make(sums)
	old.asks = func(a *ask) *Difference {
		asked[a.place()] = then.of(a)
		return nil
	}
	if err := old.play(ctx, c.old); err != nil {
		return nil, fmt.Errorf("the tree that made the session: %w", err)
	}
	upTo := old.reached()
	now := newPlayer(l, c)
	now.asks = func(a *ask) *Difference {
		was, known := asked[a.place()]
		switch {
		case known && was == today.of(a):
			return nil
		case !known && upTo > 0 && a.seq >= upTo:
			_ = now.stop(a.seq, "%s", old.why())
			return nil
		}
		return &Difference{Kind: kindRequest, Seq: a.seq, Agent: a.agent, at: a.place(), After: a.body(), Message: fmt.Sprintf("%s is asked something else", a.agent)}
	}
	if err := now.play(ctx, tree); err != nil {
		return nil, err
	}
	out := now.outcome()
	out.Compared = true
	if upTo > 0 && (out.Difference == nil && out.Stopped == nil || out.Difference != nil && out.Difference.Kind != kindRequest && out.Difference.Seq >= upTo) {
		out.Difference, out.Stopped = nil, &Stopped{Turn: old.turn, Seq: upTo, Reason: old.why()}
	}
	if d := out.Difference; d != nil && d.Kind == kindRequest {
		again := newPlayer(l, &before) // without its requests, whose total size grows with the square of the number of turns
		again.asks = func(a *ask) *Difference {
			if a.place() == d.at {
				d.Before = a.body()
				_ = again.end()
			}
			return nil
		}
		if err := again.play(ctx, c.old); err != nil {
			return nil, err
		}
		d.compare()
	}
	return out, nil
}

// reached returns the position where a replay stopped, or 0 if it reached the end.
func (p *player) reached() int64 {
	switch {
	case p.first != nil:
		return p.first.Seq
	case p.stopped != nil:
		return p.stopped.Seq
	}
	return 0
}

// why returns why the replay of the tree that made the session did not reach the end.
func (p *player) why() string {
	if p.first != nil {
		return "the tree that is said to have made the session does not lead to what the log has there: " + p.first.Message
	}
	return p.stopped.Reason
}

func (p *player) outcome() *Result {
	if at := p.config.at; at > 0 { // the replayed part of the turn after it does not count
		if d := p.first; d != nil && d.Seq > at {
			p.first = nil
		}
		if s := p.stopped; s != nil && s.Seq > at {
			p.stopped = nil
		}
	}
	out := &Result{Turns: p.turn, Requests: p.requests, Tools: p.tools, Difference: p.first, Stopped: p.stopped}
	if d := p.first; d != nil {
		d.Recorded, d.Route, d.Open = p.log.route(d.Turn), compact(p.path), !p.live || p.stopped != nil
	}
	return out
}
