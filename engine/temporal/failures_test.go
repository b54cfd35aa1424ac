package temporal_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/engine/temporal"
	"github.com/agentarbor/arbor/event"
	mustpkg "github.com/agentarbor/arbor/internal/testing/must" // page_test.go has a function must
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// workflow returns the session's last workflow: its history, when it has ended, and how it stands.
func (d *desk) workflow() (events []*history.HistoryEvent, status enums.WorkflowExecutionStatus) {
	id := temporal.WorkflowID(d.key)
	for i := d.client.GetWorkflowHistory(context.Background(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); i.HasNext(); {
		e, err := i.Next()
		require.NoError(d, err)
		events = append(events, e)
	}
	info, err := d.client.DescribeWorkflowExecution(context.Background(), id, "")
	require.NoError(d, err)
	return events, info.WorkflowExecutionInfo.Status
}

// closes waits until the session's last workflow has ended, and returns its status.
func (d *desk) closes() (status enums.WorkflowExecutionStatus) {
	d.Helper()
	mustpkg.Wait(d, func() bool {
		_, status = d.workflow()
		return status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
	return status
}

// over waits until the turn is over by the log.
func (d *desk) over() (state runner.TurnState) {
	d.Helper()
	mustpkg.Wait(d, func() (over bool) {
		var err error
		state, err = d.runner.State(context.Background(), d.key)
		return err == nil && state.Over && state.Turn != ""
	})
	return state
}

// call is the id of a call, from 0.
func (d *desk) call(n int) string {
	for _, e := range d.log() {
		if e.Type() != event.TypeToolCall {
			continue
		}
		if n == 0 {
			return e.ID
		}
		n--
	}
	return ""
}

// unknown reports whether the log has a tool whose outcome is unknown.
func (d *desk) unknown() bool {
	for _, e := range d.log() {
		if r, ok := e.Data.(*event.ToolResult); ok && strings.Contains(string(r.Output), "unknown") {
			return true
		}
	}
	return false
}

// TestHistory: what Temporal keeps of turns has no word of them, and few events a step.
func TestHistory(t *testing.T) {
	d := open(t, nil, nil, nil, refunds, pays, scripted.Reply(scripted.Text("secret: "), scripted.Fail(errors.New("secret: broken"))))
	_, err := d.say("secret: Money back", runner.WithMetadata(map[string]any{"secret": "secret"}), runner.WithState(map[string]any{"secret": "secret"}))
	require.NoError(t, err)
	deny := runner.Deny(d.call(0), "secret: not today")
	deny.By = "secret: Bob"
	_, err = d.resume(deny)
	require.NoError(t, err)
	d.closes()
	all, _ := d.workflow()

	_, err = d.say("secret: Pay it.")
	require.NoError(t, err)
	d.closes()
	paid, _ := d.workflow()
	acts := 0
	for _, e := range paid {
		if e.EventType == enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
			acts++
		}
	}
	require.Equal(t, 3, acts, "a model, a tool, and the model again")
	require.LessOrEqual(t, len(paid), 8*acts)
	require.LessOrEqual(t, len(paid)-5, 6*acts, "what a workflow costs aside")
	all = append(all, paid...)

	_, err = d.say("secret: Break")
	require.ErrorAs(t, err, new(*agent.RunError))
	d.closes()
	broken, _ := d.workflow()
	for _, e := range append(all, broken...) {
		text, err := proto.Marshal(e)
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret", "%s", e)
		require.NotContains(t, string(text), "Bob", "%s", e)
	}
	text := 0
	for _, e := range d.log() {
		data, err := e.MarshalJSON()
		require.NoError(t, err)
		text += strings.Count(string(data), "secret")
	}
	require.Greater(t, text, 10, "the log has what Temporal has not")
}

// TestApproval: a turn waits, in no worker, and goes on with a decision, which may be repeated.
func TestApproval(t *testing.T) {
	d := open(t, nil, nil, nil, refunds)
	events, err := d.say("Money back")
	require.NoError(t, err)
	require.Equal(t, event.FinishReasonInputRequired, last(events))
	require.ErrorIs(t, d.engine.Decide(t.Context(), d.key, runner.Approve("another")), runner.ErrNoApproval)
	require.ErrorIs(t, d.engine.Decide(t.Context(), d.key, runner.Answer(d.call(0), "yes")), agent.ErrBadInput)

	require.NoError(t, d.engine.Decide(t.Context(), d.key, runner.Approve(d.call(0))))
	require.NoError(t, d.engine.Decide(t.Context(), d.key, runner.Approve(d.call(0))))
	require.Equal(t, event.FinishReasonStop, d.over().Finish)
	require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, d.closes())
	require.EqualValues(t, 1, d.paid.Load())

	again, err := d.resume(runner.Approve(d.call(0)))
	require.NoError(t, err)
	require.Equal(t, []string{event.TypeToolResult}, types(again), "the recorded result")
	again, err = d.resume()
	require.NoError(t, err)
	require.Empty(t, again)
	require.EqualValues(t, 1, d.paid.Load())
}

// TestApprovalFollowed: who decides sees what follows.
func TestApprovalFollowed(t *testing.T) {
	d := open(t, nil, nil, nil, scripted.Reply(scripted.Call("refund", "{}"), scripted.Call("refund", "{}")))
	begun, err := d.say("Money back")
	require.NoError(t, err)
	first, err := d.resume(runner.Approve(d.call(0)))
	require.NoError(t, err)
	require.Equal(t, event.FinishReasonInputRequired, last(first), "the other one still waits")
	second, err := d.resume(runner.Deny(d.call(1), "no"))
	require.NoError(t, err)
	require.Equal(t, event.FinishReasonStop, last(second))
	require.Equal(t, d.log(), append(append(begun, first...), second...))
	require.EqualValues(t, 1, d.paid.Load())
	require.False(t, d.unknown())
}

// TestApprovalTimeout: what nobody decides is denied.
func TestApprovalTimeout(t *testing.T) {
	d := open(t, nil, nil, []temporal.Option{temporal.WithApprovalTimeout(100 * time.Millisecond)}, refunds)
	_, err := d.say("Money back")
	require.NoError(t, err)
	require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, d.closes())
	require.Equal(t, event.FinishReasonStop, d.over().Finish)
	require.Zero(t, d.paid.Load())
	var by string
	for _, e := range d.log() {
		if r, ok := e.Data.(*event.RelayResolved); ok {
			require.False(t, r.Approved)
			by = r.By
		}
	}
	require.Equal(t, "timeout", by)
}

// late approves the call that waits when the lease is taken to deny it.
type late struct {
	session.Store
	approve func() error
	done    atomic.Bool
}

func (s *late) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	for e, err := range s.Store.Load(ctx, key, 0) {
		if err != nil {
			return session.Lease{}, err
		}
		if _, asked := e.Data.(*event.Relay); asked && w.Acquires() && s.done.CompareAndSwap(false, true) {
			if err := s.approve(); err != nil {
				return session.Lease{}, err
			}
		}
	}
	return s.Store.Write(ctx, key, w)
}

// TestApprovalAtTheTimeout: a call that somebody approves while it is being denied runs, and its turn ends.
func TestApprovalAtTheTimeout(t *testing.T) {
	store := &late{Store: sessiontest.Memory(t)}
	d := open(t, store, nil, []temporal.Option{temporal.WithApprovalTimeout(100 * time.Millisecond)}, refunds)
	store.approve = func() error { return d.engine.Decide(t.Context(), d.key, runner.Approve(d.call(0))) }
	_, err := d.say("Money back")
	require.NoError(t, err)
	require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, d.closes())
	require.Equal(t, event.FinishReasonStop, d.over().Finish)
	require.EqualValues(t, 1, d.paid.Load())
}

// TestAnotherTurn: words instead of a decision begin a turn, and what waited is withdrawn.
func TestAnotherTurn(t *testing.T) {
	d := open(t, nil, nil, nil, refunds, asIs)
	_, err := d.say("Money back")
	require.NoError(t, err)
	events, err := d.say("Never mind")
	require.NoError(t, err)
	require.Equal(t, event.FinishReasonStop, last(events))
	require.ErrorIs(t, d.engine.Decide(t.Context(), d.key, runner.Approve(d.call(0))), runner.ErrNoApproval)
	require.Zero(t, d.paid.Load(), "it was withdrawn")
}

// faulty is a store whose next leases cannot be had.
type faulty struct {
	session.Store
	fails  atomic.Int64
	after  atomic.Int64 // so many that can
	err    error
	stalls func() // is called before the first lease is taken
	once   sync.Once
}

func (s *faulty) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if !w.Acquires() {
		return s.Store.Write(ctx, key, w)
	}
	if s.stalls != nil {
		s.once.Do(s.stalls)
	}
	if s.after.Add(-1) < 0 && s.fails.Add(-1) >= 0 {
		return session.Lease{}, s.err
	}
	return s.Store.Write(ctx, key, w)
}

// TestBusy: a lease that cannot be had is waited for, in the activity or by Temporal, and the tool that runs then is in
// its first try.
func TestBusy(t *testing.T) {
	for name, fault := range map[string]error{"busy": agent.ErrSessionBusy, "down": errors.New("secret: connection refused")} {
		for where, wait := range map[string]time.Duration{"here": time.Minute, "there": 0} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				store := &faulty{Store: sessiontest.Memory(t), err: fault}
				d := open(t, store, nil, []temporal.Option{temporal.WithWait(wait), temporal.WithTries(2)}, pays)
				store.fails.Store(3)
				store.after.Store(2) // of the words, and the model's answer
				events, err := d.say("Pay it.")
				require.NoError(t, err)
				require.Equal(t, event.FinishReasonStop, last(events))
				require.EqualValues(t, 1, d.paid.Load())
				require.False(t, d.unknown())
			})
		}
	}
}

// TestStalledBegin: the workflow is there before the words are. Who has not stored them in time starts another one.
func TestStalledBegin(t *testing.T) {
	store := &faulty{Store: sessiontest.Memory(t)}
	d := open(t, store, nil, []temporal.Option{temporal.WithTimeToBegin(100 * time.Millisecond)}, pays)
	store.stalls = func() {
		require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, d.closes(), "nothing was begun")
	}
	events, err := d.say("Pay it.")
	require.NoError(t, err)
	require.Equal(t, event.FinishReasonStop, last(events))
	require.EqualValues(t, 1, d.paid.Load())
	require.Equal(t, d.log(), events)
}

// TestFollowerGone: the turn is the workflow's, whatever becomes of who began it.
func TestFollowerGone(t *testing.T) {
	d := unmanned(t, nil, nil, nil, pays)
	for e, err := range d.engine.Run(t.Context(), d.key, llm.UserText("Pay it."), runner.WithTurnID("t1", 1)) {
		require.NoError(t, err)
		require.IsType(t, &event.User{}, e.Data)
		break
	}
	_, err := d.say("Something else")
	require.ErrorIs(t, err, agent.ErrSessionBusy)
	d.worker()
	rest, err := d.say("Pay it.", runner.WithTurnID("t1", 2))
	require.NoError(t, err, "who says it again follows")
	d.over()
	require.Equal(t, d.log()[len(d.log())-len(rest):], rest)
	require.EqualValues(t, 1, d.paid.Load())
	rest, err = d.say("Pay it.", runner.WithTurnID("t1", 3))
	require.NoError(t, err)
	require.Empty(t, rest, "it is over")
	require.EqualValues(t, 1, d.paid.Load())
}

// TestResume: a turn that was begun without an engine, and cut off, goes on as a workflow.
func TestResume(t *testing.T) {
	d := open(t, nil, nil, nil, pays)
	_, state, err := d.runner.Begin(t.Context(), d.key, llm.UserText("Pay it."))
	require.NoError(t, err)
	_, state, err = d.runner.Advance(t.Context(), d.key, runner.Step{Seq: state.Seq})
	require.NoError(t, err)
	require.False(t, state.Over)
	events, err := d.resume()
	require.NoError(t, err)
	require.Equal(t, event.FinishReasonStop, last(events))
	require.Zero(t, d.paid.Load())
	require.True(t, d.unknown(), "it may have run")
}

// TestModelErrors: what may go away is asked again, so often; what does not is the turn's result.
func TestModelErrors(t *testing.T) {
	overloaded := scripted.Reply(scripted.Fail(&llm.Error{Code: llm.CodeRateLimited, Retryable: true, RetryAfter: time.Millisecond}))
	broken := scripted.Reply(scripted.Fail(errors.New("secret: broken")))
	for name, steps := range map[string]int{"step": 1, "turn": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, nil, nil, []temporal.Option{temporal.WithTries(3), temporal.WithStepsPerActivity(steps)}, overloaded, overloaded, asIs, overloaded, overloaded, overloaded, broken, asIs)
			events, err := d.say("Now?")
			require.NoError(t, err)
			require.Equal(t, event.FinishReasonStop, last(events))
			var run *agent.RunError
			_, err = d.say("Now?")
			require.ErrorAs(t, err, &run)
			require.Equal(t, string(llm.CodeRateLimited), run.Code, "after three tries")
			require.Equal(t, event.FinishReasonError, d.over().Finish)
			require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, d.closes())
			_, err = d.say("Now?")
			require.ErrorAs(t, err, &run)
			require.ErrorContains(t, err, "broken")
			require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, d.closes())
			events, err = d.say("Now?")
			require.NoError(t, err)
			require.Equal(t, event.FinishReasonStop, last(events))
		})
	}
}

// TestLimit: an error that the log has is what a plain runner's is.
func TestLimit(t *testing.T) {
	d := open(t, nil, []runner.Option{runner.WithLimits(runner.Limits{ModelCalls: 1})}, nil, pays)
	_, err := d.say("Pay it.")
	require.ErrorAs(t, err, new(*agent.RunError))
	require.ErrorIs(t, err, agent.ErrLimit)
	require.Equal(t, event.FinishReasonLimit, d.over().Finish)
}

// TestBadInput: what can never be done is said at once, and tried once.
func TestBadInput(t *testing.T) {
	d := open(t, nil, nil, nil, asIs)
	for name, run := range map[string]func() error{
		"no words":      func() error { _, err := d.say(""); return err },
		"no option":     func() error { _, err := d.say("Hello", nil); return err },
		"another place": func() error { _, err := d.say("Hello", runner.At(7)); return err },
		"no key": func() error {
			_, err := collect(d.engine.Run(t.Context(), session.Key{}, llm.UserText("Hello")))
			return err
		},
		"no key to resume": func() error { _, err := collect(d.engine.Resume(t.Context(), session.Key{})); return err },
		"no key to cancel": func() error { _, err := d.engine.Cancel(t.Context(), session.Key{}); return err },
	} {
		if err := run(); name == "another place" {
			require.ErrorIs(t, err, agent.ErrConflict, name)
		} else {
			require.ErrorIs(t, err, agent.ErrBadInput, name)
		}
	}
	events, err := d.say("Hello")
	require.NoError(t, err, "nothing is left of them")
	require.Equal(t, event.FinishReasonStop, last(events))

	run, err := d.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "bad " + t.Name(), TaskQueue: d.engine.Queue()}, "arbor.turn",
		map[string]any{"k": session.Key{App: "a"}, "id": "t", "h": 2e9, "t": 60e9, "n": 1})
	require.NoError(t, err)
	err = run.Get(t.Context(), nil)
	var app *sdk.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, "bad_input", app.Type())
	require.True(t, app.NonRetryable())
}

// deaf is a model that does not heed its context.
func deaf(t *testing.T) (answer scripted.Answer, asked chan struct{}) {
	hangs, asked := make(chan struct{}), make(chan struct{}, 10)
	t.Cleanup(func() { close(hangs) })
	return scripted.Reply(scripted.Text("half "), scripted.Wait(func(context.Context) error { asked <- struct{}{}; <-hangs; return nil }), scripted.Text("late")), asked
}

// slow is a model that takes for ever, but heeds its context.
func slow() (answer scripted.Answer, asked chan struct{}) {
	asked = make(chan struct{}, 10)
	return scripted.Reply(scripted.Text("half "), scripted.Wait(func(ctx context.Context) error { asked <- struct{}{}; <-ctx.Done(); return ctx.Err() })), asked
}

// TestCancel: a turn ends for good, whether it waits, or a worker has it at work, and whoever says so.
func TestCancel(t *testing.T) {
	for name, how := range map[string]func(*desk) ([]*event.Event, error){
		"engine": func(d *desk) ([]*event.Event, error) { return d.engine.Cancel(d.Context(), d.key) },
		"temporal": func(d *desk) ([]*event.Event, error) {
			return nil, d.client.CancelWorkflow(d.Context(), temporal.WorkflowID(d.key), "")
		},
	} {
		for what, answer := range map[string]scripted.Answer{"waits": refunds, "works": {}} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				var asked chan struct{}
				if what == "works" {
					answer, asked = slow()
				}
				d := open(t, nil, nil, nil, answer, asIs)
				done := make(chan error, 1)
				go func() { _, err := d.say("Money back"); done <- err }()
				if what == "works" {
					<-asked
				} else {
					require.NoError(t, <-done)
				}
				before := int64(len(d.log()))
				stored, err := how(d)
				require.NoError(t, err)
				status := d.closes()
				if name == "engine" {
					require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, status)
					require.Equal(t, d.log()[before:], stored)
				} else {
					require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_CANCELED, status)
				}
				if what == "works" {
					require.NoError(t, <-done, "the follower sees the end")
				}
				require.Equal(t, event.FinishReasonCanceled, d.over().Finish)
				stored, err = d.engine.Cancel(t.Context(), d.key)
				require.NoError(t, err)
				require.Empty(t, stored)
				events, err := d.say("And now?")
				require.NoError(t, err)
				require.Equal(t, event.FinishReasonStop, last(events))
			})
		}
	}
}

// TestCancelIfUnmoved: whoever means another position cancels nothing.
func TestCancelIfUnmoved(t *testing.T) {
	d := open(t, nil, nil, nil, refunds)
	_, err := d.say("Money back")
	require.NoError(t, err)
	_, err = d.engine.Cancel(t.Context(), d.key, runner.At(1))
	require.ErrorIs(t, err, agent.ErrConflict)
	_, err = d.engine.Cancel(t.Context(), d.key, runner.At(int64(len(d.log()))))
	require.NoError(t, err)
	require.Equal(t, event.FinishReasonCanceled, d.over().Finish)
}

// TestCancelDeafModel: a model that does not heed its context keeps nobody waiting for longer than its lease.
func TestCancelDeafModel(t *testing.T) {
	var skew atomic.Int64
	answer, asked := deaf(t)
	d := open(t, sessiontest.Memory(t, session.WithClock(func() time.Time { return time.Now().Add(time.Duration(skew.Load())) })), nil, nil, answer, asIs)
	done := make(chan error, 1)
	go func() { _, err := d.say("Hello"); done <- err }()
	<-asked
	ended := make(chan error, 1)
	go func() { _, err := d.engine.Cancel(t.Context(), d.key); ended <- err }()
	mustpkg.Wait(t, func() bool { // the activity was given up, and the one that cancels waits for the session
		events, _ := d.workflow()
		for _, e := range events {
			if e.EventType == enums.EVENT_TYPE_ACTIVITY_TASK_CANCELED {
				return true
			}
		}
		return false
	})
	skew.Store(int64(session.LeaseTTL))
	require.NoError(t, <-ended)
	require.NoError(t, <-done)
	require.Equal(t, event.FinishReasonCanceled, d.over().Finish)
}

// TestLeft: a step that no worker survives is left alone after so many tries, and goes on when somebody resumes it.
func TestLeft(t *testing.T) {
	answer, asked := deaf(t)
	d := open(t, nil, nil, []temporal.Option{temporal.WithTries(1), temporal.WithStepTimeout(time.Second), temporal.WithHeartbeat(time.Second)}, answer, asIs)
	go func() { <-asked }()
	_, err := d.say("Hello")
	require.ErrorIs(t, err, runner.ErrLeft)
	require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, d.closes())
}

// TestKeys: no two sessions have the same workflow.
func TestKeys(t *testing.T) {
	parts := []string{"a", "a/b", "b", "a%2Fb", "%", "/", "ä", ".", "..", " ", "a b", "a+b"}
	ids := make(map[string]session.Key)
	for _, app := range parts {
		for _, user := range parts {
			for _, id := range parts {
				key := session.Key{App: app, User: user, ID: id}
				w := temporal.WorkflowID(key)
				require.NotContains(t, ids, w, "%v", key)
				ids[w] = key
			}
		}
	}
	long := strings.Repeat("/", 255)
	one, other := temporal.WorkflowID(session.Key{App: long, User: long, ID: long}), temporal.WorkflowID(session.Key{App: long, User: long, ID: long[1:]})
	require.NotEqual(t, one, other)
	require.LessOrEqual(t, len(one), 1000)
}
