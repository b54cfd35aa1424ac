package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/option"
)

// The criteria of [Bisect].
const (
	ByRoute   = "route"   // the active agents, or other actions, which follow from the log alone
	ByRequest = "request" // the request at the place
	ByAnswer  = "answer"  // the route of the turn with the current answers of the revision's models
)

// Bisection is the result of [Bisect].
type Bisection struct {
	Criterion string `json:"criterion"`
	Turn      int    `json:"turn"`
	Seq       int64  `json:"seq"`
	Agent     string `json:"agent"`
	Good      string `json:"good"` // a description of what the good revision does there
	Bad       string `json:"bad"`
	// First is the index of the first bad revision, and Since that of the last good one. Revisions between them were
	// skipped, and may be the first bad one as well.
	First   int    `json:"-"`
	Since   int    `json:"-"`
	Played  int    `json:"played"` // the number of revisions
	Skipped []Skip `json:"-"`
}

// Skip is a revision that could not be judged.
type Skip struct {
	Index  int
	Reason string
}

// ErrSameBehavior is the error of [Bisect] if the first and the last revision act the same way.
var ErrSameBehavior = errors.New("the good and the bad revision do the same in this session")

// Bisect finds the first bad one of n revisions. The first revision is good and the last one is bad. It compares the
// revisions at the place of the log where these two differ. That is the first place where one of them acts differently
// from the log or, if there is none, where their requests differ. With [Until] the place is the last request before the
// position. With [Live] it asks models there, once for each different request, and compares the routes of the turn.
//
// tree returns the tree of a revision, and a function to call when the tree is no longer used. If tree returns an
// error, or the revision does not reach the place, the revision is skipped. The error of Bisect is about the first or
// the last revision, that of the context, or [ErrSameBehavior].
func Bisect(ctx context.Context, l *Log, n int, tree func(i int) (agent.Agent, func(), error), opts ...Option) (*Bisection, error) {
	c := &config{}
	if err := option.Apply(c, opts); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	b := &bisection{log: l, config: c, tree: tree, routes: make(map[sum]string)}
	good, err := b.play(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("the good revision: %w", err)
	}
	bad, err := b.play(ctx, n-1)
	if err != nil {
		return nil, fmt.Errorf("the bad revision: %w", err)
	}
	if err := b.findDifference(good, bad); err != nil {
		return nil, err
	}
	if b.Criterion == ByRequest && c.live {
		b.Criterion = ByAnswer
	}
	if b.Good, err = b.describe(ctx, 0, good); err != nil {
		return nil, fmt.Errorf("the good revision: %w", err)
	}
	if b.Bad, err = b.describe(ctx, n-1, bad); err != nil {
		return nil, fmt.Errorf("the bad revision: %w", err)
	}
	if b.Good == b.Bad {
		return nil, fmt.Errorf("%w: as their models answer now, both go %s in turn %d", ErrSameBehavior, b.Good, b.Turn)
	}
	if err := b.search(ctx, n); err != nil {
		return nil, err
	}
	b.Played += 2
	if b.Criterion == ByRequest {
		b.Good, b.Bad = "asks what it asked", "asks something else"
	}
	slices.SortFunc(b.Skipped, func(x, y Skip) int { return x.Index - y.Index })
	return &b.Bisection, nil
}

type bisection struct {
	Bisection
	log    *Log
	config *config
	tree   func(int) (agent.Agent, func(), error)
	at     place          // the place of the compared request
	routes map[sum]string // the routes by request
}

// trail is what a revision does.
type trail struct {
	sums     map[place]sum
	asked    map[place]*ask // without the requests themselves
	seq      int64          // of the first difference from the log, 0 if there is none
	behavior string         // what it does there
	first    *Difference
	stop     *Stopped
}

// play plays a revision as far as possible.
func (b *bisection) play(ctx context.Context, i int) (*trail, error) {
	root, end, err := b.tree(i)
	if err != nil {
		return nil, err
	}
	defer end()
	c := *b.config
	c.live = false
	p := newPlayer(b.log, &c)
	t := &trail{sums: make(map[place]sum), asked: make(map[place]*ask)}
	now := make(sums)
	p.asks = func(a *ask) *Difference {
		t.sums[a.place()] = now.of(a)
		t.asked[a.place()] = &ask{seq: a.seq, turn: a.turn, agent: a.agent}
		return nil
	}
	if err := p.play(ctx, root); err != nil {
		return nil, err
	}
	out := p.outcome()
	if t.first, t.stop = out.Difference, out.Stopped; t.first != nil {
		t.seq, t.behavior = t.first.Seq, p.instead(t.first)
	}
	return t, nil
}

// instead describes what a tree does at a difference. Trees that do the same there have the same description.
func (p *player) instead(d *Difference) string {
	if d.New == nil {
		return d.Message
	}
	switch e := p.comparable(d.New.Data, true).(type) {
	case *event.Route:
		return e.From + " routes to " + e.To
	case *event.Transfer:
		return fmt.Sprintf("%s transfers to %s (%s)", e.From, e.To, e.Outcome)
	case *event.HarnessStart:
		return e.AgentID + " begins"
	default:
		return fmt.Sprintf("%s of %s %s", d.New.Type(), d.New.Agent, event.EncodeJSON(e))
	}
}

// asRecorded describes a tree that does the same as the log.
const asRecorded = "what the log has"

// findDifference finds the place where two trails differ.
func (b *bisection) findDifference(good, bad *trail) error {
	until := b.config.at
	in := func(seq int64) bool { return seq > 0 && (until == 0 || seq <= until) }
	if good.seq != bad.seq || good.behavior != bad.behavior {
		for _, t := range []*trail{good, bad} {
			if in(t.seq) && (b.Seq == 0 || t.seq < b.Seq) {
				b.Criterion, b.Seq, b.Turn, b.Agent = ByRoute, t.seq, t.first.Turn, t.first.Agent
			}
		}
	}
	if b.Seq > 0 {
		return nil
	}
	places := slices.SortedFunc(maps.Keys(good.sums), func(x, y place) int {
		if x.seq != y.seq {
			return int(x.seq - y.seq)
		}
		return x.n - y.n
	})
	if until > 0 { // the last one before it
		places = slices.DeleteFunc(places, func(at place) bool { return at.seq > until })
		places = places[max(0, len(places)-1):]
	}
	for _, at := range places {
		if sum, ok := bad.sums[at]; ok && sum != good.sums[at] {
			a := good.asked[at]
			b.Criterion, b.at, b.Seq, b.Turn, b.Agent = ByRequest, at, at.seq, a.turn, a.agent
			return nil
		}
	}
	for _, t := range []*trail{good, bad} {
		if t.stop != nil {
			return fmt.Errorf("%w until turn %d, position %d, from where it cannot be played: %s", ErrSameBehavior, t.stop.Turn, t.stop.Seq, t.stop.Reason)
		}
	}
	return ErrSameBehavior
}

// describe describes what a revision does at the place.
func (b *bisection) describe(ctx context.Context, i int, t *trail) (string, error) {
	if b.Criterion == ByRoute {
		switch {
		case t.stop != nil && t.stop.Seq < b.Seq:
			return "", errors.New(t.stop.Reason)
		case t.seq > 0 && t.seq < b.Seq:
			return "", fmt.Errorf("the replay does not reach position %d: %s", b.Seq, t.first.Message)
		case t.seq == b.Seq:
			return t.behavior, nil
		}
		return asRecorded, nil
	}
	sum, ok := t.sums[b.at]
	switch {
	case !ok && t.first != nil:
		return "", fmt.Errorf("the replay does not reach position %d: %s", b.Seq, t.first.Message)
	case !ok:
		return "", fmt.Errorf("the replay does not reach position %d", b.Seq)
	case b.Criterion == ByRequest:
		return string(sum[:]), nil
	}
	if b.routes[sum] == "" {
		route, err := b.ask(ctx, i)
		if err != nil {
			return "", err
		}
		b.routes[sum] = route
	}
	return b.routes[sum], nil
}

// ask asks the models of a revision at the place, and returns the route of the turn.
func (b *bisection) ask(ctx context.Context, i int) (string, error) {
	root, end, err := b.tree(i)
	if err != nil {
		return "", err
	}
	defer end()
	c := *b.config
	c.at = 0
	p := newPlayer(b.log, &c)
	p.asks = func(a *ask) *Difference {
		if a.place() != b.at {
			return nil
		}
		return &Difference{Kind: kindRequest, Seq: a.seq, Agent: a.agent}
	}
	if err := p.play(ctx, root); err != nil {
		return "", err
	}
	if p.failed != nil {
		return "", p.failed
	}
	return strings.Join(compact(p.path), " → "), nil
}

// search finds the first bad revision, as git bisect does.
func (b *bisection) search(ctx context.Context, n int) error {
	skipped := make(map[int]bool)
	b.Since, b.First = 0, n-1
	for {
		var open []int
		for i := b.Since + 1; i < b.First; i++ {
			if !skipped[i] {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return nil
		}
		i := open[len(open)/2]
		t, err := b.play(ctx, i)
		does := ""
		if err == nil {
			b.Played++
			does, err = b.describe(ctx, i, t)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			skipped[i] = true
			b.Skipped = append(b.Skipped, Skip{i, err.Error()})
		case does == b.Good:
			b.Since = i
		default:
			b.First = i
		}
	}
}
