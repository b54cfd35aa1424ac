package eval

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Subject is what is measured: a tree, or a tree with one of several models.
type Subject struct {
	Name string // unique
	Root agent.Agent
}

// Run plays cases with each subject, one subject after the other, so that endpoints keep one model loaded, or the
// beginnings of prompts cached. The report is in the order of the cases, regardless of [Parallel].
//
// The report contains the errors of a tree or a model. Run returns an error if a tree or an option is invalid, the
// context has ended, or a model cannot be asked at all, because its endpoint is unreachable or refuses the caller: such
// failures say nothing about the model and are not counted. The report then contains the cases played so far; it is nil
// if none was started.
func Run(ctx context.Context, cases []Case, subjects []Subject, opts ...Option) (*Report, error) {
	o := options{repeat: 1, parallel: 4, store: func() session.Store { return session.NewMemory() }}
	if err := option.Apply(&o, opts); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	players, err := o.players(subjects)
	if err != nil {
		return nil, err
	}
	report := &Report{Cases: len(cases), Repeat: o.repeat}
	if o.agreement != nil {
		var err error
		if report.Judge, err = o.agreement(ctx); err != nil {
			return nil, err
		}
	}
	for _, p := range players {
		outcomes, err := p.all(ctx, cases)
		report.Subjects = append(report.Subjects, Results{Subject: p.subject.Name, Outcomes: outcomes})
		if err != nil {
			return report, fmt.Errorf("eval: %w", err)
		}
	}
	return report, nil
}

// players returns the players of the subjects.
func (o *options) players(subjects []Subject) (all []*player, err error) {
	if least := min(o.repeat, o.parallel); least < 1 {
		return nil, fmt.Errorf("eval: Repeat and Parallel must be at least 1, and one of them is %d", least)
	}
	if err := o.prices.Check(); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	opts := []runner.Option{runner.WithCache(o.parallel)} // ended sessions are not needed again
	if o.prices != nil {
		opts = append(opts, runner.WithPrices(o.prices))
	}
	for _, s := range subjects {
		if slices.ContainsFunc(all, func(p *player) bool { return p.subject.Name == s.Name }) {
			return nil, fmt.Errorf("eval: two subjects have the name %q", s.Name)
		}
		p := &player{options: o, subject: s, store: o.store()}
		if p.runner, err = runner.New(s.Root, p.store, append(opts, o.runner...)...); err != nil {
			return nil, err
		}
		k := knownOf(p.runner.Tree())
		p.names = slices.Concat(k.agents, k.tools)
		all = append(all, p)
	}
	return all, nil
}

// all plays all cases.
func (p *player) all(ctx context.Context, cases []Case) ([]Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outcomes := make([]*Outcome, len(cases)*p.repeat)
	next := make(chan int)
	var all sync.WaitGroup
	telling := make(chan struct{}, 1)
	for range min(p.parallel, len(outcomes)) {
		all.Go(func() {
			for i := range next {
				out, err := p.play(ctx, &cases[i/p.repeat], i/p.repeat+1, i%p.repeat+1)
				if err != nil {
					cancel(err)
					continue
				}
				outcomes[i] = out
				if p.progress != nil {
					telling <- struct{}{}
					p.progress(p.subject.Name, out)
					<-telling
				}
			}
		})
	}
	for i := 0; i < len(outcomes) && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
	played := make([]Outcome, 0, len(outcomes))
	for _, out := range outcomes {
		if out != nil {
			played = append(played, *out)
		}
	}
	return played, context.Cause(ctx)
}

// Option configures [Run] and [Test].
type Option func(*options)

type options struct {
	repeat, parallel int
	prices           llm.Prices
	runner           []runner.Option
	progress         func(subject string, o *Outcome)
	// judge reports whether a statement about the outcome of a turn is true. It returns an error if it cannot decide.
	judge     func(ctx context.Context, t *TurnOutcome, statement string) (*Verdict, error)
	agreement func(ctx context.Context) (*Agreement, error) // of the judge with people
	store     func() session.Store                          // returns the store for a subject
}

// Repeat plays each case n times. Defaults to 1.
func Repeat(n int) Option { return func(o *options) { o.repeat = n } }

// Parallel sets the number of cases that are played at once; each has a session of its own. Defaults to 4.
func Parallel(n int) Option { return func(o *options) { o.parallel = n } }

// WithPrices sets the prices of models. Without it the cost is unknown.
func WithPrices(p llm.Prices) Option { return func(o *options) { o.prices = p } }

// WithRunner sets options of the runners that play the cases.
func WithRunner(opts ...runner.Option) Option {
	return func(o *options) { o.runner = append(o.runner, opts...) }
}

// Progress calls f with the outcome of each case as soon as it is over: one call at a time, in any order if several
// cases are played at once. f must not change its arguments.
func Progress(f func(subject string, o *Outcome)) Option {
	return func(o *options) { o.progress = f }
}
