package chats

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
)

// Ask is a request of a client: what it says, and in which conversation.
type Ask struct {
	// Key is the key of the session. If its ID is "", the client named no session, and Place sets it.
	Key session.Key
	// Agent is the agent that answers first in a new session.
	Agent *agent.Node
	// Past is the conversation that the client sends along, and Now the new messages, which get one answer. Place
	// adds to Now the calls and texts of others after the user's last message.
	Past, Now []llm.Message
	// Added is a conversation that a new turn gets with its message, as a claim of the client.
	Added    []llm.Message
	Metadata map[string]any
	// Decisions answer questions, in place of new messages. Those with a content are results of calls that the client
	// has run.
	Decisions []runner.Decision
	// Results are results of calls that the client sends together with new messages.
	Results []runner.Decision
	// ID is the client's id for the request, or "". Repeats says that the request may have been sent before. Place sets
	// Sum, which is equal for equal requests.
	ID      string
	Repeats bool
	Sum     [sha256.Size]byte
	Wait    time.Duration
	// At is the part of the session that the client has seen. Place sets it. nil is the whole session.
	At *Seen

	past    History
	said    int    // the number of messages of Now that the session has already
	has     int64  // of a client that named the session: the position at which it had the whole answer, or 0 if unknown
	texts   []Said // of the conversation that the client sends along
	last    string // the text of an assistant with which it ends, or ""
	content llm.Content
	unseen  int64 // the position at which the client's turn ended for it, if the turn got events since
}

// Answer is the part of a turn that answers a client.
type Answer struct {
	Seen
	// Unanswered is set if the message does not answer the open question. It has the question, and no turn was started.
	Unanswered *live.Report
	Refuse     string // the reason, if the question does not allow the answer
	// Unseen is the position after which the session has events before the turn that the client has not seen, or 0.
	Unseen int64

	past    History
	decided bool    // a decision started this part
	again   History // the request, if this part repeats an answer although the text may be about the open question
}

// requestSum is the metadata key of a user's message for the name of the request that stored it; see [Ask.name].
const requestSum = "arbor.openai"

// DecisionPrefix is the prefix of the ids of decisions that clients of Chats made.
const DecisionPrefix = "openai-"

// name returns the sum as an id of an event.
func (q *Ask) name() string { return DecisionPrefix + hex.EncodeToString(q.Sum[:16]) }

// decisionID returns the id of the event of the request's decision about a question, by the id of the question's event,
// or about a call, by the id of the call.
func (q *Ask) decisionID(about string) string {
	sum := SumOf(q.Sum[:], about)
	return DecisionPrefix + hex.EncodeToString(sum[:16])
}

// idPrefix starts the ids of sessions that clients of OpenAI's APIs begin. Some clients, such as Microsoft's Agent
// Framework, tell conversations from responses by it.
const idPrefix = "conv_"

// NewID returns the id of a new session of the key's user. Every request with the same ID gets the same one.
func NewID(of session.Key, request string) string {
	if request == "" {
		return idPrefix + strings.ToLower(rand.Text())
	}
	sum := sha256.Sum256([]byte(of.App + "\x00" + of.User + "\x00" + request))
	return idPrefix + hex.EncodeToString(sum[:13])
}

// Begin starts a turn, or answers the question of a turn that waits. If the session got other turns since the client
// saw it, Begin does so in a fork. If an equal request started a turn before, Begin returns that turn.
func (c *Chats) Begin(ctx context.Context, q *Ask) (*Answer, error) {
	a, err := c.begin(ctx, q)
	if err != nil {
		return nil, err
	}
	a.past = q.past.With(saidIn(q.Now)...)
	c.seen.note(History(q.Sum[:16]), a.Seen)
	c.seen.note(a.past, a.Seen)
	if a.Unanswered != nil {
		a.Seq, a.Waits = a.Unanswered.Seq, true
	}
	return a, nil
}

func (c *Chats) begin(ctx context.Context, q *Ask) (*Answer, error) {
	now := q.Now
	if q.At != nil && q.said > 0 {
		now = now[q.said:]
	}
	content, mark, err := Join(now)
	if err != nil {
		return nil, err
	}
	q.content = content
	maps.Copy(q.Metadata, mark)
	if q.Repeats {
		if a, err := c.repeated(ctx, q); a != nil || err != nil {
			return a, err
		}
		if _, before := c.seen.find(History(q.Sum[:16])); before {
			q.has = 0 // the client sent this before it had the question that the first answer repeated
		}
	}
	if q.At == nil && q.Decisions == nil {
		if err := c.importPast(ctx, q); err != nil {
			return nil, err
		}
	}
	if q.At == nil || q.At.Waits || q.Decisions != nil {
		if a, err := c.decide(ctx, q); a != nil || err != nil {
			return a, err
		}
	}
	if q.Decisions != nil {
		return nil, notWaited(q.Decisions[0])
	}
	if len(q.Added) > 0 {
		u, err := checkpoint.Claimed(content, q.Added)
		if err != nil {
			return nil, err
		}
		q.content = u.Content
		maps.Copy(q.Metadata, u.Metadata)
	}
	for i := range q.Results {
		q.Results[i].ID = q.decisionID(q.Results[i].CallID)
	}
	return c.beginTurn(ctx, q)
}

// beginTurn starts a turn with the content of the request. If the session has other turns by then, it starts one in a
// fork, and in a new session if the session was deleted.
func (c *Chats) beginTurn(ctx context.Context, q *Ask) (*Answer, error) {
	r := live.Request{ID: q.ID, Wait: q.Wait, Metadata: map[string]any{requestSum: q.name()}, Options: []runner.TurnOption{runner.WithResults(q.Results...)}}
	for k, v := range q.Metadata {
		r.Metadata[k] = v
	}
	for tries := 1; ; tries++ {
		if q.At != nil {
			r.At = &q.At.Seq
		}
		b, err := c.turns.BeginOnce(ctx, q.Key, llm.Message{Role: llm.RoleUser, Content: q.content}, r)
		switch {
		case err == nil:
			return &Answer{Seen: Seen{Key: q.Key, Turn: b.ID, First: b.First, After: b.First}, Unseen: q.unseen}, nil
		case q.At == nil || tries == 4 || !errors.Is(err, agent.ErrConflict) && !errors.Is(err, agent.ErrSessionBusy):
			return nil, err
		}
		rep, moved := c.catchUp(ctx, q)
		if errors.Is(moved, live.ErrNoTurn) { // the session was deleted
			q.At, q.Key.ID = nil, NewID(q.Key, q.ID)
			return c.begin(ctx, q)
		} else if moved != nil {
			return nil, moved
		} else if rep != nil && rep.State == live.Running { // the client did not wait for its answer
			if err := c.turns.Abandon(ctx, q.Key, rep.ID); err != nil {
				return nil, err
			}
		}
		r.Wait = max(q.Wait, time.Second) // a turn that has just ended holds the session for a moment
	}
}

// importPast creates a session with the conversation that the client sends along. It omits a greeting before the
// user's first message, because in a log no agent speaks first.
func (c *Chats) importPast(ctx context.Context, q *Ask) error {
	var messages []llm.Message
	for _, m := range q.Past {
		if m.Role == llm.RoleUser || len(messages) > 0 && (strings.TrimSpace(m.Text) != "" || len(m.Parts) > 0) {
			messages = append(messages, m)
		}
	}
	if len(messages) == 0 {
		return nil
	}
	err := c.sessions.ImportClaims(ctx, q.Key, q.Agent.Agent.Name(), messages)
	if errors.Is(err, agent.ErrConflict) && q.ID != "" {
		return nil // an equal request created it
	}
	return err
}

// catchUp moves At to the end of the session if the client's turn is still the last one: a person at a desk may have
// written since. Otherwise it creates a fork at the end of that turn and sets Key to it. The report is that of the
// turn, or nil for a fork.
func (c *Chats) catchUp(ctx context.Context, q *Ask) (*live.Report, error) {
	rep, err := c.turns.Report(ctx, q.Key, "")
	if err != nil {
		return nil, err
	}
	if at := *q.At; rep.ID == at.Turn {
		q.unseen, at.Seq, at.Part = cmp.Or(q.unseen, at.Seq), rep.Seq, true
		q.At = &at
		return rep, nil
	}
	to := q.Key
	to.ID = NewID(q.Key, q.ID)
	err = c.sessions.Fork(ctx, q.Key, q.At.Seq, to)
	if errors.Is(err, agent.ErrConflict) && q.ID != "" { // an equal request created it
		err = nil
	}
	q.Key = to
	return nil, err
}

// storedIn returns the positions of what equal requests have stored in the turn: the first and the last decision, or the
// message. It returns 0 if there is neither.
func (q *Ask) storedIn(rep *live.Report) (first, last int64) {
	if rep.User.Metadata[requestSum] == q.name() {
		first, last = rep.First, rep.First
	}
	for _, e := range rep.Decisions() {
		if slices.ContainsFunc(rep.Log.Asked, func(asked *event.Event) bool { return e.ID == q.decisionID(asked.ID) }) {
			if last = e.Seq; first <= rep.First {
				first = last
			}
		}
	}
	return first, last
}

// repeated returns the turn that an equal request started or answered before, or nil. It searches the session of the
// request, the session that it used as far as that is known, or else the user's latest ones. It resumes a turn that was
// interrupted.
func (c *Chats) repeated(ctx context.Context, q *Ask) (*Answer, error) {
	var keys []session.Key
	if q.At == nil {
		keys = append(keys, q.Key)
	}
	if s, ok := c.seen.find(History(q.Sum[:16])); ok {
		keys = append(keys, s.Key)
	} else {
		infos, err := c.turns.Store().List(ctx, session.Key{App: q.Key.App, User: q.Key.User}, session.Page{Limit: maxSearched})
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			keys = append(keys, info.Key)
		}
	}
	for _, key := range keys {
		rep, err := c.turns.Report(ctx, key, "")
		if errors.Is(err, live.ErrNoTurn) {
			continue
		} else if err != nil {
			return nil, err
		}
		after, _ := q.storedIn(rep)
		if after == 0 {
			continue
		}
		err = c.turns.ResumeInterrupted(ctx, key)
		seen := Seen{Key: key, Turn: rep.ID, First: rep.First, After: after}
		return &Answer{Seen: seen, decided: after > rep.First}, err
	}
	return nil, nil
}

// SumOf returns a hash of values.
func SumOf(parts ...any) [sha256.Size]byte { return sha256.Sum256(event.EncodeJSON(parts)) }
