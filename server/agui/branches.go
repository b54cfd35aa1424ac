package agui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/session"
)

const (
	// lookBack is the number of recent turns searched for the messages of a page that has answers, and lookBackAlone for
	// those of a page that sends only the user's.
	lookBack, lookBackAlone = 256, 64
	// maxSearched is the number of a thread's latest branches that are searched.
	maxSearched = 16
)

// branches returns the sessions of a thread, the one that was changed last first: the session with the thread's id, and
// its forks, which have the same id with ~1, ~2 and so on. A session of such a name that is no fork of the thread is no
// branch. free is the key of the next fork.
func (h *Handler) branches(ctx context.Context, thread session.Key) (all []session.Info, free session.Key, err error) {
	family := make(map[session.Key]bool)
	free = thread
	for n := 1; ; n++ {
		info, ok, err := session.Find(ctx, h.turns.Store(), free)
		if err != nil {
			return nil, free, err
		}
		if ok && (n == 1 || family[info.Parent]) {
			family[free] = true
			all = append(all, info)
		}
		if !ok && n > 1 {
			break
		}
		if free.ID = fmt.Sprintf("%s~%d", thread.ID, n); !ok {
			break
		}
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b session.Info) int { return b.Updated.Compare(a.Updated) })
	return all, free, nil
}

// current returns the branch that a thread is in.
func (h *Handler) current(ctx context.Context, thread session.Key) (session.Key, error) {
	all, _, err := h.branches(ctx, thread)
	if err != nil || len(all) == 0 {
		return thread, err
	}
	return all[0].Key, nil
}

// spot is where the messages of a page belong in a thread.
type spot struct {
	branches []session.Info
	free     session.Key // of the next one

	key  session.Key // the branch
	end  int64       // of its log
	cut  int64       // where the page's history ends in the log; end if the page has all of it
	turn string      // the turn with the last message that both have
	// known is the number of the page's messages up to the last one that the log has. from is the index of the first
	// message that is new, or that is to be answered again; then again is true.
	known, from int
	again       bool
	sure        bool // the log has the answer that the page has before its last known words, or has that known message
	repeated    bool // the run has begun a turn before
}

// place finds the branch that has most of a page's messages.
func (h *Handler) place(ctx context.Context, thread session.Key, in *input) (*spot, error) {
	all, free, err := h.branches(ctx, thread)
	best := &spot{key: thread, from: in.tail()}
	for i, info := range all[:min(len(all), maxSearched)] {
		p, err := h.find(ctx, info, in)
		if err != nil {
			return nil, err
		}
		if i == 0 || p.better(best) {
			best = p
		}
		if p.repeated || p.sure && p.cut == p.end && info.Seq > info.ParentSeq { // else the run may have begun in another one
			break
		}
	}
	best.branches, best.free = all, free
	return best, err
}

// better reports whether the page's messages belong to a branch rather than to one that was changed later.
func (p *spot) better(than *spot) bool {
	switch {
	case p.repeated || p.sure != than.sure:
		return p.repeated || p.sure
	case p.known != than.known:
		return p.known > than.known
	}
	return p.cut == p.end && than.cut < than.end
}

// find finds the last message of a page that a branch has. Messages are known by their ids, and the answers to a known
// message also by their texts, because some clients name them themselves.
func (h *Handler) find(ctx context.Context, branch session.Info, in *input) (*spot, error) {
	words, others := in.places()
	p := &spot{key: branch.Key, end: branch.Seq, cut: branch.Seq, from: in.tail()}
	most, end := lookBack, branch.Seq // of the turn
	if p.from == 0 {
		most = lookBackAlone
	}
	var texts []string // of the turn
	before := -1       // the index of the answer before the words that were found
	for e, err := range session.Backward(ctx, h.turns.Store(), branch.Key, branch.Seq+1) {
		if err != nil {
			return nil, err
		}
		u, begins := e.Data.(*event.User)
		at, known := others[e.ID]
		switch {
		case p.known > 0 && (begins || known):
			p.sure = at == before && known
			return p, nil
		case p.known > 0:
		case known:
			p.turn, p.known, p.cut, p.from, p.sure = e.TurnID, at+1, end, in.next(at+1, "user"), true
			return p, nil
		case begins:
			p.repeated = live.RequestID(u) == in.Run
			if before = in.said(p, words, idsOf(e, u), texts, e.Seq-1, end); p.known > 0 {
				p.turn = e.TurnID
			}
			if most--; p.repeated || p.sure || most == 0 {
				return p, nil
			}
			texts, end = nil, e.Seq-1
		case e.Type() == event.TypeText:
			texts = append(texts, e.Data.(*event.Text).Content)
		}
	}
	return p, nil
}

// said completes a spot if the page has messages of the user's with which a turn begins. start is where the turn begins in
// the log, and end is where the turn ends. said returns the index of the answer before these messages, or -1.
func (in *input) said(p *spot, words map[string]int, ids, texts []string, start, end int64) (before int) {
	first, last, missing := len(in.Messages), -1, false
	for _, id := range ids {
		at, ok := words[id]
		if missing = missing || !ok; ok {
			first, last = min(first, at), max(last, at)
		}
	}
	if last < 0 {
		return -1
	}
	for before = first - 1; before >= 0 && in.Messages[before].Role != "assistant" && in.Messages[before].Role != "tool"; {
		before--
	}
	p.known, p.cut, p.from, p.sure = last+1, start, first, before < 0
	if p.repeated {
		return before
	}
	next, answer := in.next(last+1, "user"), in.next(last+1, "assistant", "tool")
	shown := in.shows(answer, next, texts)
	switch {
	case missing || next == len(in.Messages) && answer == next:
		p.again = true // or some of the words have changed
	case answer > next || next < len(in.Messages) && len(texts) == 0:
		p.cut, p.from = end, next
	case shown:
		p.known, p.cut, p.from, p.sure = next, end, next, false
		return -1
	}
	return before
}

// places returns the indices of messages: of the user's by their ids, and of others by the ids of the events that they
// show. All calls of a message have the index of the last of their results.
func (in *input) places() (words, others map[string]int) {
	words, others = make(map[string]int), make(map[string]int)
	for i, m := range in.Messages {
		switch m.Role {
		case "user":
			words[m.ID] = i
		case "assistant", "tool":
			others[strings.TrimSuffix(m.ID, ":result")] = i
			for _, c := range m.Calls {
				others[c.ID] = i
			}
			others[m.Call] = i
		}
	}
	for _, m := range in.Messages {
		last := 0
		for _, c := range m.Calls {
			last = max(last, others[c.ID])
		}
		for _, c := range m.Calls {
			others[c.ID] = last
		}
	}
	delete(words, "")
	delete(others, "")
	return words, others
}

// next returns the index of the first message from a place on that has one of the roles.
func (in *input) next(from int, roles ...string) int {
	for i, m := range in.Messages[from:] {
		if slices.Contains(roles, m.Role) {
			return from + i
		}
	}
	return len(in.Messages)
}

// shows reports whether the assistant's messages between two places have texts, and all of them are among those of a turn.
func (in *input) shows(from, to int, texts []string) bool {
	some := false
	for i := from; i < to; i++ {
		if m := in.Messages[i]; m.Role == "assistant" {
			parts, err := partsOf(i, m.Content)
			said := strings.TrimSpace(user(parts).PlainText())
			if err != nil || said == "" {
				continue
			}
			if some = true; !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, said) }) {
				return false
			}
		}
	}
	return some
}

// begins returns the key of the branch to begin a turn in, which ends where the page's history ends: that of the place,
// or a fork. While a turn of the branch runs that the fork would not have, the error is agent.ErrSessionBusy. But a page that
// asks again for the answer of this turn stops it, if no other page watches.
func (h *Handler) begins(ctx context.Context, p *spot, wait time.Duration) (session.Key, error) {
	if p.cut == p.end || p.repeated {
		return p.key, nil
	}
	if p.again { // the server may not have noticed yet that the page has left the answer
		wait = max(wait, time.Second)
	}
	for deadline := time.Now().Add(wait); ; {
		now, err := h.turns.Look(ctx, p.key)
		switch {
		case err != nil:
			return p.key, err
		case now.State != live.Running:
			return h.fork(ctx, p)
		case p.again && now.Turn == p.turn:
			err = h.turns.Abandon(ctx, p.key, p.turn)
			if now, failed := h.turns.Look(ctx, p.key); err == nil && failed == nil && now.State != live.Running {
				continue
			}
		}
		if err == nil && !time.Now().Before(deadline) {
			err = agent.ErrSessionBusy
		}
		if err == nil {
			err = h.turns.WaitFree(ctx, p.key, deadline)
		}
		if err != nil {
			return p.key, err
		}
	}
}

// fork returns a fork of a branch. One that an earlier request has made and begun no turn in is used again. The error is
// agent.ErrConflict if another request is faster.
func (h *Handler) fork(ctx context.Context, p *spot) (session.Key, error) {
	last, err := h.idAt(ctx, p.key, p.cut)
	for _, info := range p.branches {
		if err == nil && info.Seq == p.cut {
			var id string
			if id, err = h.idAt(ctx, info.Key, p.cut); err == nil && id == last {
				return info.Key, nil
			}
		}
	}
	if err == nil {
		err = h.sessions.Fork(ctx, p.key, p.cut, p.free)
	}
	return p.free, err
}

// idAt returns the id of the event at a position, "" at 0.
func (h *Handler) idAt(ctx context.Context, key session.Key, seq int64) (string, error) {
	if seq == 0 {
		return "", nil
	}
	for e, err := range h.turns.Store().Load(ctx, key, seq-1) {
		if err != nil {
			return "", err
		}
		return e.ID, nil
	}
	return "", agent.ErrConflict
}
