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

// WithDescription sets the description of the person that models read, so that they know when to transfer. Defaults to
// a sentence in English.
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
		if l, failed := currentLeg(ctx, inv.Session()); failed != nil {
			err = failed
		} else {
			own := *l // a copy: the memo must not have changes that are not stored
			r.leg, err = &own, nil
			err = r.step()
		}
		if err != nil && !r.over {
			yield(nil, err)
		}
	}
}

// Receive returns the events that store an event of the desk, for one write. It returns none if the log has them
// already. Before that, it sends the desk those messages of the user that did not reach it. The error is [ErrGone], a
// [*TransitionError], or an error of reading the log.
func (a *Agent) Receive(ctx context.Context, inv *agent.Invocation, e Event) ([]event.Data, error) {
	key := inv.Session().Key()
	l, err := currentLeg(ctx, inv.Session())
	switch {
	case err != nil:
		return nil, err
	case l.ID == e.HandoffID && l.received(e.ID):
		return nil, nil
	case l.ID != e.HandoffID || !l.open(key):
		return nil, ErrGone
	}
	steps, err := l.steps(e.Status)
	if err != nil {
		return nil, err
	}
	own := *l
	r := &run{a: a, ctx: ctx, inv: inv, leg: &own}
	r.leg.UpTo = max(r.leg.UpTo, r.leg.AskedAt) // the desk has answered, so it has the request
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
	if target, _ := inv.Tree().Find(e.TargetAgent); status.Final() && (target == nil || target.Virtual()) {
		e.TargetAgent = l.Asked.From
	}
	if status == Failed && e.Text == "" {
		e.Text = a.texts.Unreachable
	}
	events := append(textData(e.Text), own.statusEvents(steps, e.Update, e.ID)...)
	if len(steps) > 0 {
		events = append(events, index(key, l, status))
	}
	return events, nil
}

// Cancel implements agent.Canceler: it cancels the handoff at the desk and returns the events that record it.
func (a *Agent) Cancel(ctx context.Context, inv *agent.Invocation) ([]event.Data, error) {
	key := inv.Session().Key()
	l, err := currentLeg(ctx, inv.Session())
	if err != nil || !l.open(key) {
		return nil, err
	}
	const reason = "the user went on without a person"
	if err := a.desk.Cancel(ctx, Leg{l.ID, key}, reason); err != nil {
		inv.Logger().Warn("the desk could not be notified of a canceled handoff", "handoff", l.ID, "error", err)
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
	over  bool // the runner wants no more events
}

// step asks the desk for a person if no handoff is open, and forwards the user's messages otherwise.
func (r *run) step() error {
	key := r.inv.Session().Key()
	switch {
	case !r.leg.open(key):
		r.leg = r.leg.next(legID(key, r.inv.NewID()))
		if !r.store(r.leg.status(Requested, "", r.leg.Asked.Reason), index(key, r.leg, Requested)) {
			return nil
		}
		return r.ask()
	case r.leg.UpTo == 0: // the process died before the desk's answer was stored
		return r.ask()
	}
	return r.forward()
}

// ask asks the desk for a person, and stores the answer.
func (r *run) ask() error {
	session := r.inv.Session()
	key, l := session.Key(), r.leg
	upTo, said, err := messages(r.ctx, session, 0)
	if err != nil {
		return err
	}
	request := Request{Leg: Leg{l.ID, key}, From: l.Asked.From, Reason: l.Asked.Reason, RouteDecision: l.Asked.Route, GraphPath: l.Asked.Path, Conversation: said}
	var answer Update
	err = r.retry(r.a.patience, func(ctx context.Context) (err error) {
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
		return r.returnFailed(answer.Reason, err)
	}
	l.UpTo = upTo
	r.store(append(textData(r.a.texts.Asked), append(l.statusEvents(steps, answer, ""), index(key, l, answer.Status))...)...)
	return nil
}

// returnFailed ends the handoff as failed and transfers back to the agent that asked for a person, in the same turn.
func (r *run) returnFailed(reason string, err error) error {
	if err != nil {
		r.inv.Logger().Warn("a handoff failed", "handoff", r.leg.ID, "error", err)
	}
	failed := r.leg.status(Failed, r.leg.Asked.From, reason)
	events := append(textData(r.a.texts.Unreachable), failed, index(r.inv.Session().Key(), r.leg, Failed))
	if from, _ := r.inv.Tree().Find(r.leg.Asked.From); from != nil {
		events = append(events, &event.Transfer{To: r.leg.Asked.From, Reason: reason, TransferType: event.TransferTypeHumanToBot})
	}
	r.store(events...)
	return nil
}

// forward sends the desk the user's new messages. If the desk has closed the handoff, it ends.
func (r *run) forward() error {
	sent, err := r.send(r.a.patience)
	if cause := context.Cause(r.ctx); cause != nil {
		return cause
	}
	switch {
	case errors.Is(err, ErrGone), errors.Is(err, ErrUnavailable):
		return r.returnFailed("the desk has closed the handoff", err)
	case err != nil:
		r.inv.Logger().Warn("the desk cannot be reached", "handoff", r.leg.ID, "error", err)
		r.store(append(textData(r.a.texts.Undelivered), r.leg.status(r.leg.Now, "", ""))...)
	case sent:
		r.store(r.leg.status(r.leg.Now, "", ""))
	}
	return nil
}

// send sends the desk the user's messages that it does not have yet, and reports whether there were any.
func (r *run) send(patience time.Duration) (sent bool, err error) {
	session := r.inv.Session()
	upTo, said, err := messages(r.ctx, session, r.leg.UpTo)
	said = slices.DeleteFunc(said, func(m Message) bool { return m.Author != "user" })
	if err == nil && len(said) > 0 {
		err = r.retry(patience, func(ctx context.Context) error { return r.a.desk.Send(ctx, Leg{r.leg.ID, session.Key()}, said) })
	}
	if err != nil {
		return false, err
	}
	r.leg.UpTo = upTo // also without messages: the next call need not read these events again
	return len(said) > 0, nil
}

// textData returns a text event's data, nil for an empty text.
func textData(text string) []event.Data {
	if text == "" {
		return nil
	}
	return []event.Data{&event.Text{Content: text}}
}

// store yields events of one write, and reports whether the runner wants more.
func (r *run) store(data ...event.Data) bool {
	for i, d := range data {
		if !r.yield(&event.Event{Data: d, More: i < len(data)-1}, nil) {
			r.over = true
			return false
		}
	}
	return true
}

// oneTry is the minimum timeout of a call of the desk with its repetitions.
const oneTry = 2 * time.Second

// retry calls the desk again after errors, for as long as patience allows. It does not repeat calls after
// ErrUnavailable and ErrGone. The turn keeps the session's lease meanwhile.
func (r *run) retry(patience time.Duration, call func(context.Context) error) error {
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
