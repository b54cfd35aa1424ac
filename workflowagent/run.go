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
	inv   *agent.Invocation
	group workflow.Group
	batch []*workflow.Child // to be started
	live  int               // children that run, or are to be started
	// What the log says, up to seq, of the workflow's runs and of its children.
	seq   int64
	runs  []string
	past  map[int]*step
	noted bool // that one has ended the loop around
	// What comes of it.
	output json.RawMessage
	words  string // the output as it is said in a conversation, if not as it is
	waits  bool   // a child waits for somebody
	notice *event.Notice
}

// run runs the children, or goes on where the log ends.
func (f *flow) run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		r := &run{flow: f, inv: inv, seq: inv.Since(), past: make(map[int]*step, len(f.steps))}
		if err := r.all(ctx); err != nil {
			yield(nil, err)
			return
		}
		if r.waits {
			yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}}, nil)
			return
		}
		// The workflow around looks for an exit when this one has ended, before its end is stored.
		if n := r.notice; n != nil && !(n.Code == noticeExit && (r.noted || f.kind == loop)) && !yield(&event.Event{Data: n, More: n.Code != noticeExit}, nil) {
			return
		}
		if inv.Scope() == "" {
			words := cmp.Or(r.words, event.OutputText(r.output))
			if strings.TrimSpace(words) != "" && !yield(&event.Event{Data: &event.Text{Content: words}, More: true}, nil) {
				return
			}
		}
		yield(&event.Event{Data: &event.Finish{Output: r.output}}, nil)
	}
}

func (r *run) all(ctx context.Context) (err error) {
	if err := r.read(ctx); err != nil {
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
		return r.together(ctx, input)
	}
	return r.inTurn(ctx, input)
}

// inTurn runs the children one after the other.
func (r *run) inTurn(ctx context.Context, input json.RawMessage) error {
	cause := r.runs[0] + ":harness_start"
	for n := 1; ; n++ {
		if n > 1 && (n-1)%len(r.steps) == 0 {
			if over, err := r.over(ctx, n, input); over || err != nil {
				return err
			}
		}
		if s := r.past[n]; s == nil || !s.over() {
			r.begin(n, input, cause)
			if err := r.await(ctx); err != nil {
				return err
			}
		}
		s := r.past[n]
		if r.waits = s.waits(); r.waits {
			return nil
		}
		if err := s.Failure(); err != nil {
			return r.failed(n, err)
		}
		if r.output = s.Output; s.exits {
			r.exit(n)
			return nil
		}
		input, cause = r.output, s.RunID+":harness_end"
	}
}

// over reports whether the child n, the first of a round, is not to begin any more.
func (r *run) over(ctx context.Context, n int, output json.RawMessage) (bool, error) {
	switch {
	case r.kind == sequential:
		return true, nil
	case r.past[n] != nil: // it has begun before
		return false, nil
	case r.until != nil:
		if done, err := r.until(ctx, r.inv, output); err != nil {
			return true, fmt.Errorf("whether the loop is over: %w", err)
		} else if done {
			return true, nil
		}
	}
	switch {
	case (n-1)/len(r.steps) < r.limit:
		return false, nil
	case r.strict:
		return true, &agent.RunError{Agent: r.name, Code: noticeLimit, Err: fmt.Errorf("%w: %d", ErrLoopLimit, r.limit)}
	}
	r.notice = &event.Notice{Code: noticeLimit, Message: fmt.Sprintf("the loop %s has had %d rounds, which is its limit", r.name, r.limit)}
	return true, nil
}

// together runs the children side by side.
func (r *run) together(ctx context.Context, input json.RawMessage) error {
	for next, cause := 1, r.runs[0]+":harness_start"; ; {
		for n := 1; n <= len(r.steps); n++ {
			s := r.step(n)
			if err := s.Failure(); s.over() && err != nil && s.Reason != event.FinishReasonCanceled && (!r.collect || s.Reason == event.FinishReasonLimit) {
				r.group.Stop()
				return r.failed(n, err)
			}
		}
		for ; next <= len(r.steps) && (r.concurrency == 0 || r.live < r.concurrency); next++ {
			if !r.step(next).over() {
				r.begin(next, input, cause)
			}
		}
		if r.live == 0 {
			break
		}
		if err := r.await(ctx); err != nil {
			return err
		}
	}
	out, words := []byte{'{'}, make([]string, len(r.steps))
	for i := range r.steps {
		s, name := r.past[i+1], r.child(i+1)
		if r.waits = r.waits || s.waits(); r.waits {
			return nil
		}
		given := s.Output
		if err := s.Failure(); err != nil {
			given = event.EncodeJSON(map[string]string{"error": err.Error()})
		} else if s.exits {
			r.exit(i + 1)
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, event.EncodeJSON(name)...), ':'), given...)
		words[i] = name + ": " + event.OutputText(given)
	}
	r.output, r.words = append(out, '}'), strings.Join(words, "\n\n")
	return nil
}

// begin makes a child ready to be started: anew, or where it was cut off or waits.
func (r *run) begin(n int, input json.RawMessage, cause string) {
	s := r.step(n)
	s.child = workflow.Child{Tree: r.steps[(n-1)%len(r.steps)], Key: strconv.Itoa(n) + "/" + r.child(n), Order: n, Cause: cause, Input: input,
		Resume: s.scope != "", Scope: s.scope, Timeout: r.timeout, Data: s}
	r.live++
	r.batch = append(r.batch, &s.child)
}

// await starts what is ready, and takes in which children have ended.
func (r *run) await(ctx context.Context) error {
	if err := r.group.Start(r.batch...); err != nil {
		return err
	}
	r.batch = r.batch[:0]
	ended, err := r.group.Next(0)
	if err == nil {
		err = r.read(ctx) // what they have done
	}
	for _, e := range ended {
		r.live--
		e.Child.Data.(*step).ended(e)
	}
	return err
}

func (r *run) child(n int) string { return r.steps[(n-1)%len(r.steps)].Root().Agent.Name() }

func (r *run) exit(n int) {
	r.notice = &event.Notice{Code: noticeExit, Message: r.child(n) + " has ended the loop"}
}

func (r *run) failed(n int, err error) error {
	return &agent.RunError{Agent: r.child(n), Code: cmp.Or(r.past[n].Code, "workflow_failed"), Err: err}
}
