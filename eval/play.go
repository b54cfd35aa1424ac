package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// maxDecided is the maximal number of times that a turn is resumed with the decisions of its case: a tool may ask again
// after any answer.
const maxDecided = 50

// player plays cases with a subject.
type player struct {
	*options
	subject Subject
	store   session.Store
	runner  *runner.Runner
	names   []string // of the tree's agents and tools
}

// play plays a case once. An error ends the whole run. The session has an app of its own, so that the state of a case,
// for its user or for all users, does not reach another one.
func (p *player) play(ctx context.Context, c *Case, number, repeat int) (*Outcome, error) {
	id := fmt.Sprintf("case-%d-%d", number, repeat)
	key := session.Key{App: id, User: session.DefaultUser, ID: id}
	defer p.store.Delete(context.WithoutCancel(ctx), key) // the store is in memory, so deleting cannot fail
	out := &Outcome{Case: c.Name, File: c.File, Line: c.Line, Tags: c.Tags, Repeat: repeat, Turns: make([]TurnOutcome, 0, len(c.Turns))}
	for i := range c.Turns {
		t, goesOn, err := p.turn(ctx, key, c, i)
		if err != nil {
			return nil, fmt.Errorf("%s: the case %q: %w", cmp.Or(p.subject.Name, p.subject.Root.Name()), visible.Cut(c.Name, 60), err)
		}
		out.Turns = append(out.Turns, *t)
		if !goesOn {
			break
		}
	}
	used := TurnOutcome{Cost: new(float64)}
	for i := range out.Turns {
		used.add(&out.Turns[i])
	}
	out.Differences = c.Max.compare(&used)
	return out, nil
}

// turn plays a turn, and reports whether the case continues after it.
func (p *player) turn(ctx context.Context, key session.Key, c *Case, i int) (out *TurnOutcome, goesOn bool, err error) {
	t := &c.Turns[i]
	active, err := p.runner.Active(ctx, key)
	if err != nil {
		return nil, false, err
	}
	var opts []runner.TurnOption
	if i == 0 && len(c.State) > 0 {
		opts = append(opts, runner.WithState(c.State))
	}
	if len(t.Metadata) > 0 {
		opts = append(opts, runner.WithMetadata(t.Metadata))
	}
	f := &follower{player: p, out: &TurnOutcome{User: t.User, Line: t.Line, Expected: t.Expect.Path.String(),
		ExpectedAnswers: t.Expect.Answers, Path: []string{active}}}
	if p.prices != nil {
		f.out.Cost = new(float64)
	}
	f.began = time.Now()
	failed := f.follow(p.runner.Run(ctx, key, llm.UserText(t.User), opts...))
	for range maxDecided {
		decisions := t.decisions(f.result.Pending)
		if failed != nil || len(decisions) == 0 {
			break
		}
		failed = f.follow(p.runner.Resume(ctx, key, decisions...))
	}
	f.out.Took = time.Since(f.began)
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	if err := endsRun(failed); err != nil {
		return nil, false, err
	}
	f.end(failed)
	d := t.compare(f.out, failed != nil || len(f.result.Pending) > 0)
	goesOn = true // the next message may follow instead of a decision if the question is expected
	for _, asked := range f.result.Pending {
		if !slices.Contains(t.Expect.Asks, asked.Tool) {
			goesOn = false
			d.add(kindAsks, "the turn waits for a decision about %s, and the case says neither approve, deny nor reply for it", asked.Tool)
		}
	}
	if failed != nil {
		d.add(kindError, "%s", failed)
	}
	if t.Expect.Judge != "" && p.judge != nil && failed == nil {
		f.out.Verdict, err = p.judge(ctx, f.out, t.Expect.Judge)
		switch v := f.out.Verdict; {
		case ctx.Err() != nil || endsRun(err) != nil:
			return nil, false, fmt.Errorf("the judge: %w", cmp.Or(context.Cause(ctx), err))
		case err != nil:
			d.add(kindJudge, "the judge does not know whether %s: %s", t.Expect.Judge, err)
		case v != nil && !v.True:
			d.add(kindJudge, "the judge finds it untrue that %s: %s", t.Expect.Judge, v.Why)
		}
	}
	f.out.Differences = d
	return f.out, goesOn, nil
}

// endsRun returns an error that is not about the tree or the model.
func endsRun(err error) error {
	var e *llm.Error
	if errors.As(err, &e) && (e.Code == llm.CodeUnreachable || e.Code == llm.CodeUnauthorized || e.Code == llm.CodeNotFound) {
		return err
	}
	return nil
}

// decisions returns the decisions of the case about waiting calls.
func (t *Turn) decisions(pending []*event.Relay) (all []runner.Decision) {
	for _, asked := range pending {
		if reply, ok := t.Reply[asked.Tool]; ok && asked.Kind == event.RelayInput {
			all = append(all, runner.Answer(asked.ToolCallID, reply))
			continue
		}
		switch {
		case slices.Contains(t.Deny, asked.Tool):
			all = append(all, runner.Deny(asked.ToolCallID, "the user says no"))
		case asked.Kind == event.RelayPermission && slices.Contains(t.Approve, asked.Tool):
			all = append(all, runner.Approve(asked.ToolCallID))
		}
	}
	return all
}

// follower processes the events of a turn.
type follower struct {
	*player
	out    *TurnOutcome
	result runner.Result
	said   []string
	began  time.Time

	arrivals session.Arrivals
}

func (f *follower) follow(turn iter.Seq2[*event.Event, error]) error {
	for e, err := range turn {
		if err != nil {
			return err
		}
		if f.out.FirstWord == 0 && e.Scope == "" && isText(e) {
			f.out.FirstWord = time.Since(f.began)
		}
		if !e.Partial {
			f.take(e)
		}
	}
	return nil
}

func isText(e *event.Event) bool { _, ok := e.Data.(*event.Text); return ok }

func (f *follower) take(e *event.Event) {
	f.result.Apply(e)
	if u, anew := f.arrivals.Apply(e); u != nil {
		f.out.Arrivals = append(f.out.Arrivals, anew)
	}
	outer := e.Scope == "" // in the user's conversation
	switch d := e.Data.(type) {
	case *event.Text:
		if outer {
			f.said = append(f.said, d.Content)
		}
	case *event.Transfer:
		if outer && d.Outcome == event.TransferCommitted {
			f.out.Path = append(f.out.Path, d.To)
			if n := f.runner.Tree().Node(d.From); n == nil || !n.Properties.Router {
				f.out.Transfers++
			}
		}
	case *event.ToolCall:
		if d.Name != agent.TransferTool {
			f.out.Tools = append(f.out.Tools, d.Name)
		}
	case *event.Relay:
		f.out.Asked = append(f.out.Asked, d.Tool)
	case *event.Usage:
		f.used(d)
	case *event.Discard:
		if d.Usage != nil {
			f.used(d.Usage)
		}
	}
}

// used counts the usage of an answer.
func (f *follower) used(u *event.Usage) {
	n := u.Counted()
	answer := TurnOutcome{ModelCalls: 1, Usage: event.Usage{InputTokens: n.InputTokens, OutputTokens: n.OutputTokens, CachedTokens: n.CachedTokens}}
	if cost, ok := f.prices.Cost(u.Model, n); ok && n != (llm.Usage{}) {
		answer.Cost = &cost
	}
	f.out.add(&answer)
}

// end completes the outcome of a turn.
func (f *follower) end(failed error) {
	if failed != nil {
		f.out.Error = cmp.Or(agent.ErrorCode(failed), "error")
	}
	answer := f.result.Answer
	if strings.TrimSpace(answer.Text) != "" {
		f.out.Answered = answer.Agent
		if len(f.said) == 0 { // the output of a graph or of a function
			f.said = append(f.said, answer.Text)
		}
	}
	f.out.Said = strings.Join(f.said, "\n")
	f.out.Leaked = slices.ContainsFunc(f.said, func(text string) bool { return leaked(text, f.names) })
}
