package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// Colleague is what people read in a chat who may not decide about a call. The call keeps waiting.
const Colleague = "A colleague has to approve this; the call keeps waiting."

// DeciderError is the error of a caller who may not decide about a call. It is an access.ErrForbidden.
type DeciderError struct {
	CallID string
	// Needs are the rights that are needed, or event.ByUser.
	Needs []string
}

func (e *DeciderError) Error() string {
	if e.Needs[0] == event.ByUser {
		return fmt.Sprintf("the user of the session has to decide about call %.64q", e.CallID)
	}
	return fmt.Sprintf("a colleague has to approve this: a decision about call %.64q needs %q", e.CallID, e.Needs)
}

func (e *DeciderError) Unwrap() error { return access.ErrForbidden }

// Deciders decides who may answer the questions of turns. The zero value is ready for use.
type Deciders struct {
	// Standard is who may where a question leaves it open; the zero value is tools.ByStaff.
	Standard tools.By
}

// May is the one rule about who may decide, which every API asks. It returns the rights by which a
// caller may decide about a question in a session, for the log:
//
//   - about a question for the user, the user of the session, callers with the right "act", and
//     a caller without a name, in whatever session they reach;
//   - about one for staff, callers who have each of the rights that it needs.
//
// The error is a *[DeciderError], or access.ErrRevoked for a caller who has lost a right since they
// signed in.
func (d Deciders) May(u access.User, key session.Key, asked *event.Relay) (rights []string, err error) {
	needs := asked.By
	if len(needs) == 0 && asked.Kind == event.RelayInput {
		needs = tools.ByUser().Needs()
	} else if len(needs) == 0 {
		needs = d.Standard.Or(tools.ByStaff()).Needs()
	}
	switch user := needs[0] == event.ByUser; {
	case u.Revoked():
		return nil, access.ErrRevoked
	case user && (u.Name == "" || u.Name == key.User):
		return needs, nil
	case user && u.May(access.Act):
		return access.Act.Names(), nil
	case user || slices.ContainsFunc(needs, func(right string) bool { return !u.Has(right) }):
		return nil, &DeciderError{asked.ToolCallID, needs}
	}
	return needs, nil
}

// Sign looks whether a caller may decide what is asked in a session, and returns the decisions with
// the caller and their rights, each bound to its question. Decisions about calls that nobody asks
// about stay as they are: a runner tells what became of them, and nothing runs.
func (d Deciders) Sign(u access.User, key session.Key, asked []*event.Relay, decisions []runner.Decision) ([]runner.Decision, error) {
	signed := slices.Clone(decisions)
	for i := range signed {
		s := &signed[i]
		n := slices.IndexFunc(asked, func(q *event.Relay) bool { return q.ToolCallID == s.CallID })
		if s.By, s.Rights = cmp.Or(u.Name, s.By), nil; n < 0 {
			s.Digest = "none" // if it is asked about meanwhile, this is no decision about that
			continue
		}
		rights, err := d.May(u, key, asked[n])
		if err != nil {
			return nil, err
		}
		s.Rights, s.Digest = rights, cmp.Or(s.Digest, asked[n].Digest)
	}
	return signed, nil
}

// WithApprover says who may decide about the calls of all agents where agent, tool and rule leave it open. The default is
// tools.ByStaff.
func WithApprover(by tools.By) Option { return func(t *Turns) { t.deciders.Standard = by } }

// MayDecide reports whether the caller of a context may decide what a session asks: see [Deciders.May].
func (l *logs) MayDecide(ctx context.Context, key session.Key, asked *event.Relay) bool {
	_, err := l.deciders.May(access.UserOf(ctx), key, asked)
	return err == nil
}

// Asked returns the first of the questions that the caller of a context may decide, and the first
// of all if there is none.
func (l *logs) Asked(ctx context.Context, key session.Key, pending []*event.Relay) (asked *event.Relay, may bool) {
	for _, q := range pending {
		if l.MayDecide(ctx, key, q) {
			return q, true
		}
	}
	return pending[0], false
}

// sign is Sign for the caller of a context, about what a session asks now.
func (l *logs) sign(ctx context.Context, key session.Key, decisions []runner.Decision) (signed []runner.Decision, err error) {
	if len(decisions) == 0 {
		return nil, nil
	}
	err = l.reader(key).Glance(ctx, key, func(f *session.Fold) (err error) {
		signed, err = l.deciders.Sign(access.UserOf(ctx), key, f.Questions(), decisions)
		return err
	})
	return signed, err
}
