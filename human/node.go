package human

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Option configures an [Agent].
type Option func(*Agent)

// WithPatience sets how long a turn repeats a call of a desk that cannot be reached. Defaults to 10 seconds; 0 calls
// once.
func WithPatience(d time.Duration) Option { return func(a *Agent) { a.patience = d } }

// WithDescription sets the description of the person that models read, so that they know when to transfer. Defaults
// to a sentence in English.
func WithDescription(text string) Option { return func(a *Agent) { a.description = text } }

// Texts are the messages to the user that the agent itself writes. An empty one is not sent.
type Texts struct {
	Asked       string // a person was asked to join
	Unreachable string // no person can be reached, so the agent that asked continues
	Undelivered string // the user's message has not reached the desk yet; the next one is sent with it
}

// WithTexts replaces all texts, as for another language. Defaults to English texts.
func WithTexts(t Texts) Option { return func(a *Agent) { a.texts = t } }

// Agent represents the person in a tree. A run of it asks the desk for a person, or sends the user's message to the
// desk. It is immutable and safe for concurrent use. A runner creates it; see runner.WithDesk.
type Agent struct {
	desk        Desk
	description string
	patience    time.Duration
	texts       Texts
}

// NewAgent returns the agent of a desk. It accepts invalid arguments; [Agent.Check] reports them.
func NewAgent(desk Desk, opts ...Option) *Agent {
	a := &Agent{desk: desk, patience: 10 * time.Second,
		description: "A person. Hand over to them if the user asks for a person, or if nobody else here can help.",
		texts: Texts{
			Asked:       "I have asked for a person to join us.",
			Unreachable: "No person can be reached right now.",
			Undelivered: "Your message has not reached the person yet. It will be passed on as soon as possible.",
		}}
	for _, opt := range opts {
		if opt != nil {
			opt(a)
		}
	}
	return a
}

// Check returns an error if the desk is nil or the patience is negative.
func (a *Agent) Check() error {
	switch {
	case a.desk == nil:
		return errors.New("human: the desk is nil")
	case a.patience < 0:
		return errors.New("human: the patience is negative")
	}
	return nil
}

// Name implements agent.Agent.
func (a *Agent) Name() string { return agent.Human }

// Description implements agent.Agent.
func (a *Agent) Description() string { return a.description }

// SubAgents implements agent.Agent. It returns nil.
func (a *Agent) SubAgents() []agent.Agent { return nil }

// FindAgent implements agent.Agent.
func (a *Agent) FindAgent(name string) agent.Agent {
	if name == agent.Human {
		return a
	}
	return nil
}

// Run implements agent.Agent.
func (a *Agent) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		r := &run{a: a, ctx: ctx, inv: inv, yield: yield}
		var err error
		if l, failed := follow(ctx, inv.Session()); failed != nil {
			err = failed
		} else {
			own := *l // what is not stored must not stay
			r.leg, err = &own, nil
			err = r.step()
		}
		if err != nil && !r.over {
			yield(nil, err)
		}
	}
}

// Hear returns the events that store an event of the desk, to be written in one write. It returns none if the log
// has them already. Before that, it sends the desk those messages of the user that did not reach it. The error is
// [ErrGone], a [*TransitionError], or an error of reading the log.
func (a *Agent) Hear(ctx context.Context, inv *agent.Invocation, word Event) ([]event.Data, error) {
	key := inv.Session().Key()
	l, err := follow(ctx, inv.Session())
	switch {
	case err != nil:
		return nil, err
	case l.ID == word.HandoffID && l.knows(word.ID):
		return nil, nil
	case l.ID != word.HandoffID || !l.open(key):
		return nil, ErrGone
	}
	steps, err := l.steps(word.Status)
	if err != nil {
		return nil, err
	}
	own := *l
	r := &run{a: a, ctx: ctx, inv: inv, leg: &own}
	r.leg.UpTo = max(r.leg.UpTo, r.leg.AskedAt) // the desk has the request, because it answers
	if _, err := r.send(0); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		inv.Logger().Warn("the desk cannot be reached", "handoff", l.ID, "error", err)
	}
	status := l.Now
	if len(steps) > 0 {
		status = steps[len(steps)-1]
	}
	if target, _ := inv.Tree().Find(word.TargetAgent); status.Final() && (target == nil || target.Virtual()) {
		word.TargetAgent = l.Asked.From
	}
	if status == Failed && word.Text == "" {
		word.Text = a.texts.Unreachable
	}
	events := append(talk(word.Text), own.walk(steps, word.Update, word.ID)...)
	if len(steps) > 0 {
		events = append(events, index(key, l, status))
	}
	return events, nil
}

// Cancel implements agent.Canceler: it cancels the handoff at the desk and returns the events that record it.
func (a *Agent) Cancel(ctx context.Context, inv *agent.Invocation) ([]event.Data, error) {
	key := inv.Session().Key()
	l, err := follow(ctx, inv.Session())
	if err != nil || !l.open(key) {
		return nil, err
	}
	const reason = "the user went on without a person"
	if err := a.desk.Cancel(ctx, Leg{l.ID, key}, reason); err != nil {
		inv.Logger().Warn("the desk does not know that a handoff was cancelled", "handoff", l.ID, "error", err)
	}
	return []event.Data{l.status(Cancelled, l.Asked.From, reason), index(key, l, Cancelled)}, nil
}

// run is one run of the agent.
type run struct {
	a     *Agent
	ctx   context.Context
	inv   *agent.Invocation
	leg   *leg
	yield func(*event.Event, error) bool
	over  bool // the runner wants nothing more
}

func (r *run) step() error {
	key := r.inv.Session().Key()
	switch {
	case !r.leg.open(key):
		r.leg = r.leg.next(legID(key, r.inv.NewID()))
		if !r.store(r.leg.status(Requested, "", r.leg.Asked.Reason), index(key, r.leg, Requested)) {
			return nil
		}
		return r.ask()
	case r.leg.UpTo == 0: // a crash came between the request and what the desk said of it
		return r.ask()
	}
	return r.pass()
}

// ask asks the desk for a person.
func (r *run) ask() error {
	session := r.inv.Session()
	key, l := session.Key(), r.leg
	upTo, said, err := messages(r.ctx, session, 0)
	if err != nil {
		return err
	}
	request := Request{Leg: Leg{l.ID, key}, From: l.Asked.From, Reason: l.Asked.Reason, RouteDecision: l.Asked.Route, GraphPath: l.Asked.Path, Conversation: said}
	var answer Update
	err = r.try(r.a.patience, func(ctx context.Context) (err error) {
		answer, err = r.a.desk.RequestTransfer(ctx, request)
		return err
	})
	if cause := context.Cause(r.ctx); cause != nil {
		return cause
	}
	if answer.Status == "" {
		answer.Status = Queued
	}
	steps, refused := l.steps(answer.Status)
	switch {
	case err == nil:
		err = refused
	case errors.Is(err, ErrUnavailable):
		answer.Reason = "nobody is there"
	default:
		answer.Reason = "the desk cannot be reached"
	}
	if err != nil || answer.Status.Final() {
		return r.giveBack(answer.Reason, err)
	}
	l.UpTo = upTo
	r.store(append(talk(r.a.texts.Asked), append(l.walk(steps, answer, ""), index(key, l, answer.Status))...)...)
	return nil
}

// giveBack ends the leg within the user's turn: the agent that asked for a person goes on.
func (r *run) giveBack(reason string, err error) error {
	if err != nil {
		r.inv.Logger().Warn("a handoff failed", "handoff", r.leg.ID, "error", err)
	}
	failed := r.leg.status(Failed, r.leg.Asked.From, reason)
	events := append(talk(r.a.texts.Unreachable), failed, index(r.inv.Session().Key(), r.leg, Failed))
	if from, _ := r.inv.Tree().Find(r.leg.Asked.From); from != nil {
		events = append(events, &event.Transfer{To: r.leg.Asked.From, Reason: reason, TransferType: event.TransferTypeHumanToBot})
	}
	r.store(events...)
	return nil
}

// pass passes on what the user has said.
func (r *run) pass() error {
	sent, err := r.send(r.a.patience)
	if cause := context.Cause(r.ctx); cause != nil {
		return cause
	}
	switch {
	case errors.Is(err, ErrGone), errors.Is(err, ErrUnavailable):
		return r.giveBack("the desk has closed the handoff", err)
	case err != nil:
		r.inv.Logger().Warn("the desk cannot be reached", "handoff", r.leg.ID, "error", err)
		r.store(append(talk(r.a.texts.Undelivered), r.leg.status(r.leg.Now, "", ""))...)
	case sent:
		r.store(r.leg.status(r.leg.Now, "", ""))
	}
	return nil
}

// send sends what the user has said since the desk was told last, and reports whether there was anything.
func (r *run) send(patience time.Duration) (sent bool, err error) {
	session := r.inv.Session()
	upTo, said, err := messages(r.ctx, session, r.leg.UpTo)
	said = slices.DeleteFunc(said, func(m Message) bool { return m.Author != "user" })
	if err == nil && len(said) > 0 {
		err = r.try(patience, func(ctx context.Context) error { return r.a.desk.Send(ctx, Leg{r.leg.ID, session.Key()}, said) })
	}
	if err != nil {
		return false, err
	}
	r.leg.UpTo = upTo // also if nobody said anything: what was looked through need not be again
	return len(said) > 0, nil
}

func talk(text string) []event.Data {
	if text == "" {
		return nil
	}
	return []event.Data{&event.Text{Content: text}}
}

// store yields events that are one write.
func (r *run) store(data ...event.Data) bool {
	for i, d := range data {
		if !r.yield(&event.Event{Data: d, More: i < len(data)-1}, nil) {
			r.over = true
			return false
		}
	}
	return true
}

// oneTry bounds a call of the desk that is not repeated.
const oneTry = 2 * time.Second

// try calls a desk again while it cannot be reached and there is time. The session is held
// meanwhile.
func (r *run) try(patience time.Duration, call func(context.Context) error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = 100*time.Millisecond, 2*time.Second
	opts := []backoff.RetryOption{backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(patience)}
	if patience == 0 {
		opts = append(opts, backoff.WithMaxTries(1))
	}
	ctx, cancel := context.WithTimeout(r.ctx, max(patience, oneTry))
	defer cancel()
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := call(ctx)
		if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrGone) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, opts...)
	return err
}
