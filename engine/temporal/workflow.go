package temporal

import (
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/agentarbor/arbor/session"
)

// turnInput is the input of a workflow: a turn, and the position of its log.
type turnInput struct {
	position
	settings
	Asked []question `json:"q,omitempty"` // the open questions, under a limit of time
}

// question is an open question of the turn.
type question struct {
	At    int64     `json:"s"` // its position in the log
	Until time.Time `json:"u"` // when it is denied
}

// position is the input of an activity.
type position struct {
	Key   session.Key `json:"k"`
	Turn  string      `json:"id"`
	Seq   int64       `json:"s,omitempty"`     // the end of the log, 0 if it is unknown
	After int64       `json:"after,omitempty"` // the log must end after this position
	Tries int         `json:"tries,omitempty"` // of the next step, by other workers
	Steps int         `json:"steps,omitempty"` // the number of steps to run; 0 means all
	Deny  []int64     `json:"deny,omitempty"`  // the positions of the questions to deny
}

// outcome is the result of an activity or a workflow.
type outcome struct {
	Seq   int64   `json:"s,omitempty"`
	From  int64   `json:"from,omitempty"` // the end of the log before a turn was cancelled
	Over  bool    `json:"over,omitempty"`
	Waits bool    `json:"waits,omitempty"`
	Asked []int64 `json:"open,omitempty"` // the positions of the open questions
	Code  string  `json:"code,omitempty"`
}

// Codes of outcomes in addition to those of errors in the log.
const (
	codeNotBegun = "not_begun" // the turn was announced but not stored
	codeTurnOver = "turn_over" // the session has started another turn
	codeLeft     = "left"      // each worker that ran the next step has died
	codeStopped  = "stopped"   // it can be resumed
	codeCanceled = "canceled"
)

// continueSignal wakes a waiting workflow, because a decision was made.
type continueSignal struct {
	After int64 `json:"after,omitempty"`
}

// turn is the workflow function.
func turn(ctx workflow.Context, o turnInput) (outcome, error) {
	work, cut := workflow.WithCancel(ctx)
	canceled := false
	workflow.Go(ctx, func(ctx workflow.Context) {
		workflow.GetSignalChannel(ctx, signalEnd).Receive(ctx, nil)
		if ctx.Err() == nil {
			canceled = true
			cut()
		}
	})
	out, err := steps(work, o)
	if !canceled && ctx.Err() == nil || err == nil && out.Over && !out.Waits { // or the turn ended first
		return out, err
	}
	free, _ := workflow.NewDisconnectedContext(ctx)
	if out, err = runActivity(free, cancelActivity, o, o.position); err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return out, err
}

// steps runs the steps of the turn until it is over.
func steps(ctx workflow.Context, o turnInput) (outcome, error) {
	for {
		out, err := runActivity(ctx, advanceActivity, o, o.position)
		if err != nil || out.Code != "" || out.Over && !out.Waits {
			return out, err
		}
		o.Seq, o.After, o.Tries = out.Seq, 0, 0
		if out.Waits {
			o.Asked = o.limit(out.Asked, workflow.Now(ctx))
			if err := awaitDecision(ctx, &o); err != nil {
				return out, err
			}
		}
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			return out, workflow.NewContinueAsNewError(ctx, turnWorkflow, o)
		}
	}
}

// limit returns the open questions with their limits of time, the first limit first. A question that is new now has the
// whole time.
func (o *turnInput) limit(asked []int64, now time.Time) (limited []question) {
	if o.Approval == 0 {
		return nil
	}
	for _, at := range asked {
		if i := slices.IndexFunc(o.Asked, func(q question) bool { return q.At == at }); i >= 0 {
			limited = append(limited, o.Asked[i])
		} else {
			limited = append(limited, question{At: at, Until: now.Add(o.Approval)})
		}
	}
	return limited
}

// awaitDecision waits for a decision, or until the time for the first question is over, which it then denies.
func awaitDecision(ctx workflow.Context, o *turnInput) error {
	var seen continueSignal
	late := false
	s := workflow.NewSelector(ctx)
	s.AddReceive(workflow.GetSignalChannel(ctx, signalLook), func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, &seen) })
	s.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	if len(o.Asked) > 0 {
		timed, stop := workflow.WithCancel(ctx)
		defer stop()
		s.AddFuture(workflow.NewTimer(timed, o.Asked[0].Until.Sub(workflow.Now(ctx))), func(f workflow.Future) { late = f.Get(ctx, nil) == nil })
	}
	s.Select(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !late {
		o.Seq, o.After = 0, seen.After
		return nil
	}
	denied := o.position
	for _, q := range o.Asked {
		if !q.Until.After(o.Asked[0].Until) {
			denied.Deny = append(denied.Deny, q.At)
		}
	}
	out, err := runActivity(ctx, denyActivity, *o, denied)
	o.Seq = out.Seq
	return err
}

// runActivity runs an activity until it returns a result. It counts the tries itself, because those that have begun
// nothing do not count.
func runActivity(ctx workflow.Context, name string, o turnInput, at position) (out outcome, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: o.Timeout,
		HeartbeatTimeout:    o.Heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute},
	})
	at.Steps = o.settings.Steps
	err = workflow.ExecuteActivity(ctx, name, at).Get(ctx, &out)
	return out, err
}
