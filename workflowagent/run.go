package workflowagent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
)

// run is one run of a workflow, in one process.
type run struct {
	*flow
	inv     *agent.Invocation
	group   workflow.Group
	ready   []*workflow.Child // the children that start next
	running int               // the number of children that run or are ready
	// The state of the workflow's runs and children in the log up to seq.
	seq          int64
	runs         []string
	children     map[int]*step
	exitRecorded bool // the log has the notice that a child ended the surrounding loop
	// The outcome.
	output json.RawMessage
	text   string // the output as text of the conversation; "" means the output itself
	paused bool   // a child waits for something outside the turn
	notice *event.Notice
}

// run runs the children, or resumes where the log ends.
func (f *flow) run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		r := &run{flow: f, inv: inv, seq: inv.Since(), children: make(map[int]*step, len(f.steps))}
		if err := r.runChildren(ctx); err != nil {
			yield(nil, err)
			return
		}
		if r.paused {
			yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}}, nil)
			return
		}
		// The notice of an exit is stored before the end of this run, because a surrounding workflow reads the log in
		// between.
		if n := r.notice; n != nil && !(n.Code == noticeExit && (r.exitRecorded || f.kind == loop)) && !yield(&event.Event{Data: n, More: n.Code != noticeExit}, nil) {
			return
		}
		if inv.Scope() == "" {
			words := cmp.Or(r.text, event.OutputText(r.output))
			if strings.TrimSpace(words) != "" && !yield(&event.Event{Data: &event.Text{Content: words}, More: true}, nil) {
				return
			}
		}
		yield(&event.Event{Data: &event.Finish{Output: r.output}}, nil)
	}
}

func (r *run) runChildren(ctx context.Context) (err error) {
	if err := r.readLog(ctx); err != nil {
		return err
	}
	input := r.inv.Input()
	if r.inv.Scope() == "" {
		input = event.EncodeJSON(r.inv.Message().PlainText())
	}
	if r.group, err = workflow.NewGroup(ctx, r.inv, workflow.Settle); err != nil {
		return err
	}
	defer r.group.Close()
	if r.kind == parallel {
		return r.runInParallel(ctx, input)
	}
	return r.runSequentially(ctx, input)
}

// runSequentially runs the children one after another.
func (r *run) runSequentially(ctx context.Context, input json.RawMessage) error {
	cause := r.runs[0] + ":harness_start"
	for n := 1; ; n++ {
		if n > 1 && (n-1)%len(r.steps) == 0 {
			if over, err := r.roundsDone(ctx, n, input); over || err != nil {
				return err
			}
		}
		if s := r.children[n]; s == nil || !s.isDone() {
			r.prepare(n, input, cause)
			if err := r.await(ctx); err != nil {
				return err
			}
		}
		s := r.children[n]
		if r.paused = s.isPaused(); r.paused {
			return nil
		}
		if err := s.Failure(); err != nil {
			return r.runError(n, err)
		}
		if r.output = s.Output; s.exitsLoop {
			r.setExitNotice(n)
			return nil
		}
		input, cause = r.output, s.RunID+":harness_end"
	}
}

// roundsDone reports whether the loop ends before child n, the first of a round.
func (r *run) roundsDone(ctx context.Context, n int, output json.RawMessage) (bool, error) {
	switch {
	case r.kind == sequential:
		return true, nil
	case r.children[n] != nil: // the child has started before
		return false, nil
	case r.until != nil:
		if done, err := r.until(ctx, r.inv, output); err != nil {
			return true, fmt.Errorf("the condition of Until: %w", err)
		} else if done {
			return true, nil
		}
	}
	switch {
	case (n-1)/len(r.steps) < r.limit:
		return false, nil
	case r.failAtLimit:
		return true, &agent.RunError{Agent: r.name, Code: event.NoticeLoopLimit, Err: fmt.Errorf("%w: %d", ErrLoopLimit, r.limit)}
	}
	r.notice = &event.Notice{Code: event.NoticeLoopLimit, Message: fmt.Sprintf("the loop %s has reached its limit of %d rounds", r.name, r.limit)}
	return true, nil
}

// runInParallel runs the children at the same time.
func (r *run) runInParallel(ctx context.Context, input json.RawMessage) error {
	for next, cause := 1, r.runs[0]+":harness_start"; ; {
		for n := 1; n <= len(r.steps); n++ {
			s := r.step(n)
			if err := s.Failure(); s.isDone() && err != nil && s.Reason != event.FinishReasonCanceled && (!r.collect || s.Reason == event.FinishReasonLimit) {
				r.group.Stop()
				return r.runError(n, err)
			}
		}
		for ; next <= len(r.steps) && (r.concurrency == 0 || r.running < r.concurrency); next++ {
			if !r.step(next).isDone() {
				r.prepare(next, input, cause)
			}
		}
		if r.running == 0 {
			break
		}
		if err := r.await(ctx); err != nil {
			return err
		}
	}
	out, words := []byte{'{'}, make([]string, len(r.steps))
	for i := range r.steps {
		s, name := r.children[i+1], r.childName(i+1)
		if r.paused = r.paused || s.isPaused(); r.paused {
			return nil
		}
		given := s.Output
		if err := s.Failure(); err != nil {
			given = event.EncodeJSON(map[string]string{"error": err.Error()})
		} else if s.exitsLoop {
			r.setExitNotice(i + 1)
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, event.EncodeJSON(name)...), ':'), given...)
		words[i] = name + ": " + event.OutputText(given)
	}
	r.output, r.text = append(out, '}'), strings.Join(words, "\n\n")
	return nil
}

// prepare makes a child ready: to start, or to resume where it was interrupted or paused.
func (r *run) prepare(n int, input json.RawMessage, cause string) {
	s := r.step(n)
	s.child = workflow.Child{Tree: r.steps[(n-1)%len(r.steps)], Key: strconv.Itoa(n) + "/" + r.childName(n), Order: n, Cause: cause, Input: input,
		Resume: s.scope != "", Scope: s.scope, Timeout: r.timeout, Data: s}
	r.running++
	r.ready = append(r.ready, &s.child)
}

// await starts the children that are ready, and waits until at least one child has ended.
func (r *run) await(ctx context.Context) error {
	if err := r.group.Start(r.ready...); err != nil {
		return err
	}
	r.ready = r.ready[:0]
	ended, err := r.group.Next(0)
	if err == nil {
		err = r.readLog(ctx)
	}
	for _, e := range ended {
		r.running--
		e.Child.Data.(*step).setResult(e)
	}
	return err
}

func (r *run) childName(n int) string { return r.steps[(n-1)%len(r.steps)].Root().Agent.Name() }

func (r *run) setExitNotice(n int) {
	r.notice = &event.Notice{Code: noticeExit, Message: r.childName(n) + " has ended the loop"}
}

func (r *run) runError(n int, err error) error {
	return &agent.RunError{Agent: r.childName(n), Code: cmp.Or(r.children[n].Code, "workflow_failed"), Err: err}
}
