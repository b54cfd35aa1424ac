package chats

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Ask is what a client says, and where.
type Ask struct {
	// Key names the session, or if its ID is "" whose session it would be.
	Key session.Key
	// Agent is who answers in a new session.
	Agent *agent.Node
	// Past is the conversation that the client sends along, and Now what it says; a user who writes twice has one
	// answer. Place adds to Now what others called and said after the user's words.
	Past, Now []llm.Message
	Metadata  map[string]any
	// Decisions are given in place of words. Those with a content are the results of calls that the client has run.
	Decisions []runner.Decision
	// ID is the client's name for the request, "" if it has none. Repeats says that it may have been sent before, and Sum,
	// which Place makes, is the same for the same request.
	ID      string
	Repeats bool
	Sum     [sha256.Size]byte
	Wait    time.Duration
	// At is what the client has seen of the session, which Place finds out; nil is what there is.
	At *Seen

	past    History
	said    int // how much of Now the session has already
	content llm.Content
	unseen  int64 // where the client's turn ended for it, if something was said in it since
}

// Answer is that part of a turn which answers a client.
type Answer struct {
	Seen
	// Again is what the client is asked once more, because what it said was no answer; nothing was begun then.
	Again  *live.Report
	Refuse string // why, if it was an answer that the question does not allow
	// Unseen is where words before the turn begin that the client has not seen; 0 if there are none.
	Unseen int64

	past History
}

// requestSum is in the metadata of words that came through this door: what their request was.
const requestSum = "arbor.openai"

// DecisionPrefix begins the ids of decisions that clients have given here.
const DecisionPrefix = "openai-"

// name is the sum as an id of an event.
func (q *Ask) name() string { return DecisionPrefix + hex.EncodeToString(q.Sum[:16]) }

// newID makes the id of a session, for a request with a name the same each time.
func (q *Ask) newID() string {
	if q.ID == "" {
		return strings.ToLower(rand.Text())
	}
	sum := sha256.Sum256([]byte(q.Key.App + "\x00" + q.Key.User + "\x00" + q.ID))
	return hex.EncodeToString(sum[:13])
}

// Begin does what a client asks for: it begins a turn, or gives what a turn waits for. Where the session has gone on
// since the client saw it, that happens in a fork. What the same request has begun before is its answer.
func (c *Chats) Begin(ctx context.Context, q *Ask) (*Answer, error) {
	a, err := c.begin(ctx, q)
	if err != nil {
		return nil, err
	}
	a.past = q.past.With(saidIn(q.Now)...)
	c.seen.note(History(q.Sum[:16]), a.Seen)
	c.seen.note(a.past, a.Seen)
	if a.Again != nil {
		a.Seq, a.Waits = a.Again.Seq, true
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
	r := live.Request{ID: q.ID, Wait: q.Wait, Metadata: map[string]any{requestSum: q.name()}}
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
		if errors.Is(moved, live.ErrNoTurn) { // somebody has deleted the session
			q.At, q.Key.ID = nil, q.newID()
			return c.begin(ctx, q)
		} else if moved != nil {
			return nil, moved
		} else if rep != nil && rep.State == live.Running { // the client went on without waiting for its answer
			if err := c.turns.Abandon(ctx, q.Key, rep.ID); err != nil {
				return nil, err
			}
		}
		r.Wait = max(q.Wait, time.Second) // who has just ended a turn holds the session for a moment longer
	}
}

// importPast begins a session with what the client remembers. A greeting before the user's first words is left out,
// because no agent of a log speaks unasked.
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
		return nil // by the same request, before
	}
	return err
}

// catchUp brings what the client has seen to where the session is now if its turn is still the last one, as when a
// person has said something since, and to a fork if it is not. The report is that of the turn, nil for a fork.
func (c *Chats) catchUp(ctx context.Context, q *Ask) (*live.Report, error) {
	rep, err := c.turns.Report(ctx, q.Key, "")
	if err != nil {
		return nil, err
	}
	if at := *q.At; rep.ID == at.Turn {
		q.unseen, at.Seq = cmp.Or(q.unseen, at.Seq), rep.Seq
		q.At = &at
		return rep, nil
	}
	to := q.Key
	to.ID = q.newID()
	err = c.sessions.Fork(ctx, q.Key, q.At.Seq, to)
	if errors.Is(err, agent.ErrConflict) && q.ID != "" { // the same request has made it before
		err = nil
	}
	q.Key = to
	return nil, err
}

// repeated finds the turn, or the decision, that the same request has brought about before: in the session where it
// would go on, or where it has been, or else in one of the user's latest. A turn that was cut off goes on.
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
		var after int64
		if rep.User.Metadata[requestSum] == q.name() {
			after = rep.First
		}
		for _, e := range rep.Decisions() {
			if e.ID == q.name() {
				after = e.Seq
			}
		}
		if after == 0 {
			continue
		}
		err = c.turns.ResumeInterrupted(ctx, key)
		return &Answer{Seen: Seen{Key: key, Turn: rep.ID, First: rep.First, After: after}}, err
	}
	return nil, nil
}

// SumOf stands for what a request says, and where.
func SumOf(parts ...any) [sha256.Size]byte { return sha256.Sum256(event.EncodeJSON(parts)) }
