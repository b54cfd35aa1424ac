package eval

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Subject is what is measured: a tree, or a tree with one of several models.
type Subject struct {
	Name string // unique
	Root agent.Agent
}

// Run plays cases with each subject, one subject after the other, so that endpoints which
// keep one model loaded, or the beginnings of prompts, do so. Whatever is played at once,
// the report is in the order of the cases.
//
// What a tree or a model does wrong is in the report. An error is that a tree or an option is
// wrong, that ctx has ended, or that a model cannot be asked at all, because its endpoint
// cannot be reached or refuses whoever asks: nothing is counted then that says nothing about
// the model. The report has what was played until then, and is nil if nothing was begun.
func Run(ctx context.Context, cases []Case, subjects []Subject, opts ...Option) (*Report, error) {
	o := options{repeat: 1, parallel: 4, store: func() session.Store { return session.NewMemory() }}
	if err := option.Apply(&o, opts); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	if err := o.check(subjects); err != nil {
		return nil, err
	}
	report := &Report{Cases: len(cases), Repeat: o.repeat}
	for _, s := range subjects {
		outcomes, err := o.subject(ctx, cases, s)
		report.Subjects = append(report.Subjects, Results{Subject: s.Name, Outcomes: outcomes})
		if err != nil {
			return report, fmt.Errorf("eval: %w", err)
		}
	}
	return report, nil
}

// check reports what would keep cases from being played.
func (o *options) check(subjects []Subject) error {
	if o.repeat < 1 || o.parallel < 1 {
		return errors.New("eval: Repeat and Parallel are numbers from 1")
	}
	if err := o.prices.Check(); err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	names := map[string]bool{}
	for _, s := range subjects {
		if names[s.Name] {
			return fmt.Errorf("eval: two subjects have the name %q", s.Name)
		}
		names[s.Name] = true
		if _, err := runner.New(s.Root, o.store(), o.runnerOptions()...); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) runnerOptions() []runner.Option {
	if o.prices == nil {
		return o.runner
	}
	return append([]runner.Option{runner.WithPrices(o.prices)}, o.runner...)
}

// subject plays all cases with one subject.
func (o *options) subject(ctx context.Context, cases []Case, s Subject) ([]Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outcomes := make([]*Outcome, len(cases)*o.repeat)
	next := make(chan int)
	var all sync.WaitGroup
	var telling sync.Mutex
	for range min(o.parallel, len(outcomes)) {
		all.Go(func() {
			for i := range next {
				out, err := o.play(ctx, &cases[i/o.repeat], s, i/o.repeat+1, i%o.repeat+1)
				if err != nil {
					cancel(err)
					continue
				}
				outcomes[i] = out
				if o.progress != nil {
					telling.Lock()
					o.progress(s.Name, out)
					telling.Unlock()
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
