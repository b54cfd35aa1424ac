package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// Colleague is the text for a person in a chat who may not decide about a call. The call stays open.
const Colleague = "A colleague has to approve this; the call keeps waiting."

// DeciderError reports that the caller may not decide about a call. It is an access.ErrForbidden.
type DeciderError struct {
	CallID string
	// Needs are the rights that a caller needs, all of them, or event.ByUser alone.
	Needs []string
}

func (e *DeciderError) Error() string {
	if len(e.Needs) == 1 && e.Needs[0] == event.ByUser {
		return fmt.Sprintf("the user of the session has to decide about call %.64q", e.CallID)
	}
	return fmt.Sprintf("a colleague has to approve this: a decision about call %.64q needs %q", e.CallID, e.Needs)
}

func (e *DeciderError) Unwrap() error { return access.ErrForbidden }

// Deciders decides which callers may answer the questions of turns. The zero value is ready to use. It is safe for
// concurrent use as long as Standard does not change.
type Deciders struct {
	// Standard says who may answer a permission question that does not say so itself. Defaults to tools.ByStaff.
	Standard tools.By
}

// May is the only rule about who may decide; all APIs use it. It returns the rights by which a caller may decide
// about a question in a session, for the log:
//
//   - A question for the user: the user of the session, callers with the right "act", and, in any session that
//     they can reach, callers without a name.
//   - A question for staff: callers who have all of the rights that it needs.
//
// If the caller may not decide, the error is a *[DeciderError]. If the caller has lost a right since they signed in,
// it is access.ErrRevoked.
func (d Deciders) May(u access.User, key session.Key, asked *event.Relay) (rights []string, err error) {
	needs := asked.By
	if len(needs) == 0 && asked.Kind == event.RelayInput {
		needs = tools.ByUser().Needs()
	} else if len(needs) == 0 {
		needs = d.Standard.Or(tools.ByStaff()).Needs()
	}
	switch user := len(needs) == 1 && needs[0] == event.ByUser; { // next to rights it is a right that no user has
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

// Sign checks whether a caller may answer the questions of a session, and returns the decisions with the caller and
// their rights. Each is bound to its question. A decision about a call without an open question gets no rights: the
// runner refuses it, and the call does not run. Sign does not change the given decisions. It returns the errors of
// [Deciders.May].
func (d Deciders) Sign(u access.User, key session.Key, asked []*event.Relay, decisions []runner.Decision) ([]runner.Decision, error) {
	signed := slices.Clone(decisions)
	for i := range signed {
		s := &signed[i]
		n := slices.IndexFunc(asked, func(q *event.Relay) bool { return q.ToolCallID == s.CallID })
		if s.By, s.Rights = cmp.Or(u.Name, s.By), nil; n < 0 {
			s.Digest = "none" // the decision must not fit a question that is asked meanwhile
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

// WithApprover sets who may approve calls of all agents if neither the agent, nor the tool, nor a rule says so.
// Defaults to tools.ByStaff.
func WithApprover(by tools.By) Option { return func(t *Turns) { t.deciders.Standard = by } }

// MayDecide reports whether the caller of a context may answer a question of a session: see [Deciders.May].
func (l *logs) MayDecide(ctx context.Context, key session.Key, asked *event.Relay) bool {
	_, err := l.deciders.May(access.UserOf(ctx), key, asked)
	return err == nil
}

// Asked returns the first question that the caller of a context may answer, and true. If there is none, it returns
// the first question, and false. pending must not be empty.
func (l *logs) Asked(ctx context.Context, key session.Key, pending []*event.Relay) (asked *event.Relay, may bool) {
	for _, q := range pending {
		if l.MayDecide(ctx, key, q) {
			return q, true
		}
	}
	return pending[0], false
}

// sign is Sign for the caller of a context and the session's open questions.
func (l *logs) sign(ctx context.Context, key session.Key, decisions []runner.Decision) (signed []runner.Decision, err error) {
	if len(decisions) == 0 {
		return nil, nil
	}
	err = l.reader(key).ReadFold(ctx, key, func(f *session.Fold) (err error) {
		signed, err = l.deciders.Sign(access.UserOf(ctx), key, f.Questions(), decisions)
		for i := range signed { // the next try must not answer what the call asks then
			if c, _ := f.Call(signed[i].CallID); c != nil && c.Open() {
				signed[i].RelayID = cmp.Or(signed[i].RelayID, c.Relay)
			}
		}
		return err
	})
	return signed, err
}
