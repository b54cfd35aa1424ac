package live

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Last is [Turns.Report] for a caller that acts on a turn, which must be the last one of its session. If it is an
// earlier one, the error is runner.ErrTurnOver. If the session has no such turn, it is [ErrNoTurn].
func (l *logs) Last(ctx context.Context, key session.Key, turn string) (*Report, error) {
	r, err := l.Report(ctx, key, "")
	if err != nil || r.ID == turn {
		return r, err
	}
	if _, err := l.find(ctx, key, turn); err != nil {
		return nil, err
	}
	return nil, runner.ErrTurnOver
}

// DecideOnce is [Turns.Resume] with decisions about the last turn of the session, for a request that may be sent
// twice. If a request with the same ID and the same decisions was sent before, DecideOnce sets Repeated and stores
// nothing, also if other turns have followed; if the turn is the last one and was interrupted since, DecideOnce resumes
// it. If the request has an ID, it replaces the IDs of the decisions. Only ID and Wait of the request are used. In
// addition to the errors of Resume and [Turns.Last] it returns [ErrMismatch], or runner.ErrNoApproval if the turn has no
// open question about one of the calls, or if the question was asked while DecideOnce waited for another request or for
// the session.
func (t *Turns) DecideOnce(ctx context.Context, key session.Key, turn string, req Request, decisions ...runner.Decision) (*Begun, error) {
	decisions = slices.Clone(decisions)
	find := func() (r *Report, over, err error) { // over: other turns have followed
		if r, err = t.Last(ctx, key, turn); errors.Is(err, runner.ErrTurnOver) && req.ID != "" {
			over = err
			r, err = t.Report(ctx, key, turn)
		}
		return r, over, err
	}
	var arrived *Report // before the request waits for anything
	look := func() (err error) {
		if arrived == nil {
			arrived, _, err = find()
		}
		return err
	}
	return t.retryBusy(ctx, key, req, func(refused error) (*Begun, error) {
		unlock, err := t.Lock(ctx, key, look)
		if err != nil {
			return nil, err
		}
		defer unlock()
		r, over, err := find()
		if err != nil {
			return nil, err
		}
		arrived = cmp.Or(arrived, r)
		b := &Begun{ID: r.ID, First: r.First, From: r.Seq}
		if req.ID != "" {
			if b.From, err = r.named(requestName(r.ID, req.ID), decisions); err != nil {
				return nil, err
			}
			if b.Repeated = b.From > 0; b.Repeated {
				if over == nil {
					err = t.ResumeInterrupted(ctx, key)
				}
				return b, err
			}
			b.From = r.Seq
		}
		if refused = cmp.Or(over, refused); refused != nil {
			return nil, refused
		}
		for i := range decisions {
			d := &decisions[i]
			unnamed := CheckNamed(&r.Log, *d)
			of := func(e *event.Event) bool { return e.Data.(*event.Relay).ToolCallID == d.CallID }
			if n := slices.IndexFunc(arrived.Questions(), of); n >= 0 {
				d.RelayID = cmp.Or(d.RelayID, arrived.Questions()[n].ID)
			}
			if !slices.ContainsFunc(r.Log.Asked, of) {
				return nil, fmt.Errorf("call %.64q: %w", d.CallID, runner.ErrNoApproval)
			}
			if !slices.ContainsFunc(r.Questions(), func(e *event.Event) bool { return of(e) && e.ID == d.RelayID }) {
				return nil, fmt.Errorf("the question about call %.64q was already answered or withdrawn: %w", d.CallID, runner.ErrNoApproval)
			}
			if unnamed != nil {
				return nil, unnamed
			}
		}
		b.Turn, err = t.Resume(ctx, key, decisions...)
		return b, err
	})
}

// CheckNamed returns runner.ErrNoApproval if a decision about an open question allows a call that has asked to run as
// something else before in the turn of the log, and names neither the question's event nor its digest: the user
// may have seen only the earlier question. If the call asks for input, CheckNamed returns nil.
func CheckNamed(log *session.Reader, d runner.Decision) error {
	digests, input := make(map[string]bool), false // input: the last question asks for input
	for _, e := range log.Asked {
		q := e.Data.(*event.Relay)
		if q.ToolCallID != d.CallID {
			continue
		}
		if input = q.Kind == event.RelayInput; !input {
			digests[q.Digest] = true
		}
	}
	if len(digests) < 2 || input || !d.Approved || d.Content != nil || d.Digest != "" || d.RelayID != "" {
		return nil
	}
	return fmt.Errorf("call %.64q asks again, because its tool or its arguments have changed: approve its last question by that one's digest or id; "+
		"an approval without them is about an earlier question: %w", d.CallID, runner.ErrNoApproval)
}

// CheckNamedIn is [CheckNamed] for decisions about the turn whose first event is at a position of a log. It reads the turn
// only if a decision names no question. If inputs is true, it also refuses an answer to a question for input that names
// none, if the call has asked for input before: it may be the answer to that question, sent again.
func CheckNamedIn(ctx context.Context, store session.Store, key session.Key, first int64, inputs bool, decisions []runner.Decision) error {
	unnamed := slices.DeleteFunc(slices.Clone(decisions), func(d runner.Decision) bool { return d.Digest != "" || d.RelayID != "" })
	if len(unnamed) == 0 {
		return nil
	}
	var log session.Reader
	for e, err := range store.Load(ctx, key, first-1) {
		if err != nil {
			return err
		}
		log.Next(e)
	}
	for _, d := range unnamed {
		if err := CheckNamed(&log, d); err != nil {
			return err
		}
		asked := slices.DeleteFunc(slices.Clone(log.Asked), func(e *event.Event) bool {
			q := e.Data.(*event.Relay)
			return q.ToolCallID != d.CallID || q.Kind != event.RelayInput
		})
		if inputs && d.Content != nil && len(asked) > 1 {
			return fmt.Errorf("call %.64q has asked before: answer its last question with that one's digest: %w", d.CallID, runner.ErrNoApproval)
		}
	}
	return nil
}

// Decided reports whether a request with an ID has stored decisions in the turn.
func (r *Report) Decided(request string) bool {
	name := requestName(r.ID, request)
	return slices.ContainsFunc(r.decided, func(e *event.Event) bool { return strings.HasPrefix(e.ID, name) })
}

// requestName returns the prefix of the ids of a request's decisions about a turn. It contains the turn, because
// clients may use an ID again for another turn, and ids are unique in a log.
func requestName(turn, id string) string {
	sum := sha256.Sum256([]byte(turn + "/" + id))
	return "req-" + hex.EncodeToString(sum[:16]) + "-"
}

// named sets the ids of decisions, which start with the name of their request. It returns the position before the
// first decision that was stored with that name, or 0 if there is none. If other decisions were stored with the name,
// the error is ErrMismatch.
func (r *Report) named(name string, decisions []runner.Decision) (from int64, err error) {
	for i := range decisions {
		decisions[i].ID = name + strconv.Itoa(i)
	}
	stored := 0
	for _, e := range r.decided {
		n, ok := strings.CutPrefix(e.ID, name)
		if !ok {
			continue
		}
		if stored++; stored == 1 {
			from = e.Seq - 1
		}
		i, err := strconv.Atoi(n)
		if err != nil || i < 0 || i >= len(decisions) || !r.same(e.Data.(*event.RelayResolved), decisions[i]) {
			return 0, ErrMismatch
		}
	}
	if stored > 0 && stored != len(decisions) {
		return 0, ErrMismatch
	}
	return from, nil
}

// same reports whether a stored decision is equal to the given one.
func (r *Report) same(stored *event.RelayResolved, d runner.Decision) bool {
	asked := slices.IndexFunc(r.Log.Asked, func(e *event.Event) bool { return e.ID == stored.RelayID })
	return asked >= 0 && r.Log.Asked[asked].Data.(*event.Relay).ToolCallID == d.CallID && d.Equals(stored)
}

// retryBusy calls try again while the session is busy, as long as the request's Wait allows, and up to ten times after
// a conflict if the request does not set At. If another process may have begun the same request meanwhile, the last
// call gets the error: it only looks for the request, and returns that error if the log does not have it.
func (t *Turns) retryBusy(ctx context.Context, key session.Key, req Request, try func(refused error) (*Begun, error)) (*Begun, error) {
	for deadline, conflicts := time.Now().Add(req.Wait), 0; ; {
		b, err := try(nil)
		moved, busy := errors.Is(err, agent.ErrConflict), errors.Is(err, agent.ErrSessionBusy)
		switch {
		case moved && req.At == nil && conflicts < 10:
			conflicts++
		case busy && time.Now().Before(deadline):
			_ = t.WaitFree(ctx, key, deadline)
		case (moved || busy) && req.ID != "":
			return try(err)
		default:
			return b, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}
