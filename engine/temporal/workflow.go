package temporal

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/agentarbor/arbor/session"
)

// order is what a workflow begins with: a turn, and where its log stands.
type order struct {
	place
	settings
	Until time.Time `json:"u,omitzero"` // when what is asked is denied
}

// place is what an activity is given.
type place struct {
	Key   session.Key `json:"k"`
	Turn  string      `json:"id"`
	Seq   int64       `json:"s,omitempty"`     // where the log ends, 0 if that is not known
	After int64       `json:"after,omitempty"` // the log has to have grown beyond it
	Tries int         `json:"tries,omitempty"` // of the next step, by others
	Steps int         `json:"steps,omitempty"` // to take, 0 all
	Calls []string    `json:"calls,omitempty"` // to deny
}

// outcome is what an activity or a workflow says.
type outcome struct {
	Seq   int64    `json:"s,omitempty"`
	From  int64    `json:"from,omitempty"` // where the log ended before a turn was canceled
	Over  bool     `json:"over,omitempty"`
	Waits bool     `json:"waits,omitempty"`
	Asked []string `json:"asked,omitempty"`
	Code  string   `json:"code,omitempty"`
}

// Codes of outcomes beside those of errors in the log.
const (
	codeNotBegun = "not_begun" // who was about to begin the turn has not
	codeTurnOver = "turn_over" // the session has gone on with another turn
	codeLeft     = "left"      // each worker that took the next step has died
	codeStopped  = "stopped"   // it can be resumed
	codeCanceled = "canceled"
)

// look wakes a workflow that waits: somebody decides something.
type look struct {
	After int64 `json:"after,omitempty"`
}

// ending ends a workflow: with its turn, or before it, so that the turn can be resumed.
type ending struct {
	Cancel bool `json:"cancel,omitempty"`
}

// turn is the workflow.
func turn(ctx workflow.Context, o order) (outcome, error) {
	work, cut := workflow.WithCancel(ctx)
	var ends *ending
	workflow.Go(ctx, func(ctx workflow.Context) {
		var end ending
		workflow.GetSignalChannel(ctx, signalEnd).Receive(ctx, &end)
		if ctx.Err() == nil {
			ends = &end
			cut()
		}
	})
	out, err := steps(work, o)
	switch {
	case ends == nil && ctx.Err() == nil, err == nil && out.Over && !out.Waits: // or it was quicker
		return out, err
	case ends != nil && !ends.Cancel:
		return outcome{Code: codeStopped}, nil
	}
	free, _ := workflow.NewDisconnectedContext(ctx)
	if out, err = act(free, cancelActivity, o, o.place); err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return out, err
}

// steps takes the steps of the turn until it is over.
func steps(ctx workflow.Context, o order) (outcome, error) {
	for {
		out, err := act(ctx, advanceActivity, o, o.place)
		if err != nil || out.Code != "" || out.Over && !out.Waits {
			return out, err
		}
		o.Seq, o.After, o.Tries = out.Seq, 0, 0
		if !out.Waits {
			o.Until = time.Time{}
		} else if err := await(ctx, &o, out.Asked); err != nil {
			return out, err
		}
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			return out, workflow.NewContinueAsNewError(ctx, turnWorkflow, o)
		}
	}
}

// await waits until somebody decides something, or nobody has for too long.
func await(ctx workflow.Context, o *order, asked []string) error {
	if o.Until.IsZero() && o.Approval > 0 && len(asked) > 0 {
		o.Until = workflow.Now(ctx).Add(o.Approval)
	}
	var seen look
	late := false
	s := workflow.NewSelector(ctx)
	s.AddReceive(workflow.GetSignalChannel(ctx, signalLook), func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, &seen) })
	s.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	if !o.Until.IsZero() && len(asked) > 0 {
		timed, stop := workflow.WithCancel(ctx)
		defer stop()
		s.AddFuture(workflow.NewTimer(timed, o.Until.Sub(workflow.Now(ctx))), func(f workflow.Future) { late = f.Get(ctx, nil) == nil })
	}
	s.Select(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !late {
		o.Seq, o.After = 0, seen.After
		return nil
	}
	o.Until = time.Time{}
	denied := o.place
	denied.Calls = asked
	out, err := act(ctx, denyActivity, *o, denied)
	o.Seq = out.Seq
	return err
}

// act has an activity done, again and again until it says something. It bounds its tries itself, since those
// that have begun nothing do not count.
func act(ctx workflow.Context, name string, o order, at place) (out outcome, err error) {
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
