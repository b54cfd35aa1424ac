// Package chats serves clients that send the whole conversation with each request and name no session. It finds the
// session that the conversation belongs to, and continues there, in a fork, or in a new session. A repeated request is
// executed once. If a client disconnects, its turn stops after a while.
//
// Chats keeps in memory which conversation belongs to which session. If this is lost, the conversation is imported into
// a new session. The package depends on no protocol.
package chats

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/turntext"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
)

// Chats are the conversations of clients with one tree. They are safe for concurrent use.
type Chats struct {
	turns    *live.Turns
	sessions *checkpoint.Sessions
	seen     *histories
	patience time.Duration
}

// New returns Chats. A turn whose client has disconnected continues for the patience.
func New(turns *live.Turns, patience time.Duration) (*Chats, error) {
	if patience <= 0 {
		return nil, errors.New("the patience must be positive")
	}
	sessions, err := checkpoint.New(turns.Store())
	return &Chats{turns: turns, sessions: sessions, seen: newHistories(maxHistories), patience: patience}, err
}

// Place finds the session of a request and sets Key, At and Sum: the session that the client names, or the one with the
// history that it sends, or a new one.
func (c *Chats) Place(ctx context.Context, q *Ask) error {
	texts := saidIn(q.Past)
	q.past, q.texts = historyOf(q.Key, texts...), texts
	if n := len(texts) - 1; n >= 0 && texts[n].Assistant {
		q.last = texts[n].normal()
	}
	q.Sum = SumOf(q.Key.App, q.Key.User, q.Key.ID, q.past, q.Now, q.Metadata, q.ID, q.Decisions, q.Results)
	if q.Key.ID != "" {
		_, known, err := session.Find(ctx, c.turns.Store(), q.Key)
		if known {
			q.Past = nil
			of := ofSession(q.Key)
			if slices.ContainsFunc(texts, func(s Said) bool { return s.Assistant }) {
				of = q.past
			}
			if s, ok := c.seen.find(of); ok && s.Key == q.Key {
				q.has = s.Seq
			}
		} else if q.Decisions != nil {
			q.claim()
		}
		return err
	}
	var err error
	if q.At, err = c.where(ctx, q, texts); err == nil && q.Decisions != nil {
		err = c.caller(ctx, q)
	}
	if err != nil {
		return err
	}
	asked := func(d runner.Decision) bool { return c.asked(q.Key, d.CallID) }
	if q.At == nil && q.Decisions != nil && !slices.ContainsFunc(q.Decisions, asked) {
		texts = q.claim()
		q.At, err = c.where(ctx, q, texts)
	}
	if q.At != nil {
		q.Key = q.At.Key
	} else {
		q.Key.ID = NewID(q.Key, q.ID)
	}
	return err
}

// ofSession returns the key among the histories of what clients that name a session and send no answers along have seen
// of it. These clients cannot be told apart.
func ofSession(key session.Key) History {
	sum := SumOf("session", key.App, key.User, key.ID)
	return History(sum[:16])
}

// claim changes a request with results of calls that no agent of this tree has made: its new messages are the user's
// last ones, with the calls and the results as a claim of the client. It returns the texts before them.
func (q *Ask) claim() []Said {
	n := len(q.Past)
	for n > 0 && q.Past[n-1].Role != llm.RoleUser {
		n--
	}
	for n > 0 && q.Past[n-1].Role == llm.RoleUser {
		n--
	}
	texts := saidIn(q.Past[:n])
	if n < len(q.Past) && q.Past[n].Role == llm.RoleUser {
		q.Past, q.Now, q.Decisions = q.Past[:n], q.Past[n:], nil
		q.past = historyOf(q.Key, texts...)
	}
	return texts
}

// maxSearched is the number of a user's latest sessions, in total or with one status, in which a request without a
// session is searched.
const maxSearched = 16

// caller finds the session that waits for a result of the client's: the session with the client's history, or one of the
// user's latest sessions that wait if another process sent the call to the client. The other results have been given
// before. If no session waits for a result, caller sets At to nil.
func (c *Chats) caller(ctx context.Context, q *Ask) error {
	var keys []session.Key
	if q.At != nil {
		keys = append(keys, q.At.Key)
	}
	for _, status := range []session.Status{session.StatusWaiting, session.StatusOpen} { // open if its process died
		page := session.Page{Limit: maxSearched, Status: status}
		infos, err := c.turns.Store().List(ctx, session.Key{App: q.Key.App, User: q.Key.User}, page)
		if err != nil {
			return err
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
			return err
		}
		if given := waited(front.OpenQuestions(rep), q.Decisions); len(given) > 0 {
			q.Decisions = given
			q.At = &Seen{Key: key, Turn: rep.ID, First: rep.First, Seq: rep.Seq, Waits: true}
			return nil
		}
	}
	q.At = nil
	return nil
}

// waited returns the results for which one of the open questions waits, the first one for each call.
func waited(open []*event.Relay, results []runner.Decision) []runner.Decision {
	waits := front.ClientCalls(open)
	return slices.DeleteFunc(slices.Clone(results), func(d runner.Decision) bool {
		i := slices.IndexFunc(waits, func(asked *event.Relay) bool { return asked.ToolCallID == d.CallID })
		if i >= 0 {
			waits = slices.Delete(waits, i, i+1)
		}
		return i < 0
	})
}

// asked reports whether a client of the user was asked for the result of a call. If this was forgotten, a late result
// counts as that of another model's call.
func (c *Chats) asked(key session.Key, callID string) bool {
	_, ok := c.seen.find(ofCall(key, callID))
	return ok
}

// ofCall returns the key of a question among the histories.
func ofCall(key session.Key, callID string) History {
	sum := SumOf("call", key.App, key.User, callID)
	return History(sum[:16])
}

// where returns the part of a session that the client has seen, or nil if its history is not known. Messages that got
// no answer yet are in the log already. If the client has only the beginning of an answer, that is enough.
func (c *Chats) where(ctx context.Context, q *Ask, past []Said) (*Seen, error) {
	if n := len(q.Now) - 1; n > 0 && q.Now[n].Role == llm.RoleUser {
		if s, ok := c.seen.find(q.past.With(saidIn(q.Now[:n])...)); ok {
			q.said = n
			return c.stands(ctx, s, "")
		}
	}
	if len(past) == 0 {
		return nil, nil
	}
	if s, ok := c.seen.find(q.past); ok && s.Seq > 0 {
		return &s, nil
	} else if ok {
		return c.stands(ctx, s, "")
	}
	last := len(past) - 1
	if s, ok := c.seen.find(historyOf(q.Key, past[:last]...)); ok && past[last].Assistant {
		return c.stands(ctx, s, past[last].Text)
	}
	return nil, nil
}

// stands completes what is known of a turn of which the client has seen a part of the answer. It returns nil if the
// answer does not begin with the part.
func (c *Chats) stands(ctx context.Context, s Seen, part string) (*Seen, error) {
	var said turntext.Joiner
	var reader turntext.Reader
	a := &Answer{Seen: s}
	rep, err := c.turns.Report(ctx, s.Key, s.Turn)
	if err == nil && rep.State == live.Done && part != "" {
		reader.Begin(rep.User)
		_, err = c.Follow(ctx, a, true, func(en session.Entry, _ *live.Report) error {
			for _, p := range reader.Next(en) {
				_, _ = said.Add(p) // no client reads along
			}
			return nil
		})
		if err == nil && !strings.HasPrefix(string(said.Text()), strings.TrimSpace(part)) {
			return nil, nil
		}
	}
	if errors.Is(err, live.ErrNoTurn) {
		return nil, nil // the session was deleted
	} else if err != nil {
		return nil, err
	}
	s.Seq, s.Part, s.Waits = rep.Seq, true, rep.State == live.Waiting
	return &s, nil
}

// Sent records the messages that a client received as an answer, so that its next request continues there.
func (c *Chats) Sent(a *Answer, texts ...string) {
	h := a.past
	for _, text := range texts {
		h = h.With(Said{true, text})
	}
	if len(texts) > 0 && a.past != (History{}) { // else another client started the turn
		c.seen.note(h, a.Seen)
	}
}

// Shown records that a client received the whole answer, so that its next text answers the question at the end, also if
// the client sends no answers along. A question that follows a decision does not count: such a client may send the same
// text again because it lost the answer, or it may be another one that was shown the question before. It gets the
// answer once more, and that counts. So does the answer that a client with only the end of its history gets once more,
// because the same text may be about an equal question.
func (c *Chats) Shown(a *Answer) {
	if a.again != (History{}) {
		c.seen.note(a.again, a.Seen)
	}
	if !a.decided && a.past != (History{}) {
		c.seen.note(ofSession(a.Key), a.Seen)
	}
}

// saidIn returns the texts of messages, without calls and results of tools. A user's message may be only an image.
func saidIn(messages []llm.Message) (all []Said) {
	for _, m := range messages {
		if text := m.PlainText(); text != "" || m.Role == llm.RoleUser {
			all = append(all, Said{m.Role == llm.RoleAssistant, text})
		}
	}
	return all
}

// Join returns the content of several messages as one, because messages that a user sends together get one answer.
// Texts and calls of others after the user's message follow it as a claim of the client, which the metadata marks.
func Join(messages []llm.Message) (said llm.Content, metadata map[string]any, err error) {
	var contents []llm.Content
	for len(messages) > 0 {
		n := slices.IndexFunc(messages, func(m llm.Message) bool { return m.Role != llm.RoleUser })
		if n < 0 {
			n = len(messages)
		}
		for _, m := range messages[:n] {
			contents = append(contents, m.Content)
		}
		messages = messages[n:]
		if n = slices.IndexFunc(messages, func(m llm.Message) bool { return m.Role == llm.RoleUser }); n < 0 {
			n = len(messages)
		}
		if n > 0 {
			u, err := checkpoint.Claimed(join(contents), messages[:n])
			if err != nil {
				return said, nil, err
			}
			contents, metadata, messages = []llm.Content{u.Content}, u.Metadata, messages[n:]
		}
	}
	return join(contents), metadata, nil
}

func join(contents []llm.Content) (c llm.Content) {
	if len(contents) == 1 {
		return contents[0]
	}
	for _, one := range contents {
		if c.Parts = append(c.Parts, one.Stored().Parts...); len(one.Parts) == 0 {
			c.Parts = append(c.Parts, llm.TextPart{Text: one.Text})
		}
	}
	return c
}

// Follow calls take with each entry of an answer and the report that includes it, until the turn has ended or waits. If
// the client disconnects (ctx ends, or take returns an error), the turn continues for the patience, or to its end if
// stays is true.
func (c *Chats) Follow(ctx context.Context, a *Answer, stays bool, take func(session.Entry, *live.Report) error) (*live.Report, error) {
	rep, after := &live.Report{}, ""
	if a.After > a.First {
		after = session.Position{Seq: a.After}.String()
		err := c.load(ctx, a.Key, a.First-1, a.After, func(e *event.Event) error {
			rep.Apply(e)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if a.Unseen > 0 {
		err := c.load(ctx, a.Key, a.Unseen, a.First-1, func(e *event.Event) error {
			return take(session.Entry{ID: session.Position{Seq: e.Seq}.String(), Event: e}, rep)
		})
		if err != nil {
			return nil, err
		}
	}
	for en, err := range c.turns.Watch(ctx, a.Key, a.First, after) {
		if err == nil {
			rep.Apply(en.Event)
			err = take(en, rep)
		}
		if err != nil && ctx.Err() != nil && !stays {
			c.leave(a)
		}
		if err != nil {
			return rep, err
		}
	}
	a.Seq, a.Waits = rep.Seq, rep.State == live.Waiting
	for _, asked := range slices.Concat(rep.Pending, front.OpenQuestions(rep)) {
		c.seen.note(ofCall(a.Key, asked.ToolCallID), a.Seen)
	}
	return rep, nil
}

// load calls take with the events after a position, up to another one.
func (c *Chats) load(ctx context.Context, key session.Key, after, until int64, take func(*event.Event) error) error {
	for e, err := range c.turns.Store().Load(ctx, key, after) {
		if err == nil && e.Seq > until {
			break
		}
		if err == nil {
			err = take(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leave stops a turn after the patience, unless a client watches it by then.
func (c *Chats) leave(a *Answer) {
	time.AfterFunc(c.patience, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = c.turns.Abandon(ctx, a.Key, a.Turn) // after an error, the turn can still be resumed
	})
}
