package agui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

const (
	// lookBack is the number of recent turns searched for the messages of a page. lookBackAlone is that number for a
	// page that sends no answers of agents, and for a repeated run.
	lookBack, lookBackAlone = 256, 64
	// maxSearched is the number of a thread's latest branches that are searched.
	maxSearched = 16
)

// branches returns the sessions of a thread, the last changed one first: the session with the thread's id, and its
// forks, whose ids are the thread's id with ~1, ~2 and so on. It omits sessions with such an id that are not forks of
// the thread. free is the key of the next fork.
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

// mayBelong reports whether a session has an id of a branch of a thread.
func mayBelong(key, thread session.Key) bool {
	return key.ID == thread.ID || strings.HasPrefix(key.ID, thread.ID+"~")
}

// current returns the current branch of a thread: the last changed one.
func (h *Handler) current(ctx context.Context, thread session.Key) (session.Key, error) {
	all, _, err := h.branches(ctx, thread)
	if err != nil || len(all) == 0 {
		return thread, err
	}
	return all[0].Key, nil
}

// match is the place in a thread that the messages of a page match.
type match struct {
	branches []session.Info
	free     session.Key // of the next branch

	key  session.Key // the branch
	end  int64       // the end of the branch's log
	cut  int64       // the position in the log at which the page's history ends; end if the page has all of it
	turn string      // the turn of the last message that the page and the log have
	// known is the number of the page's messages up to the last one that the log has. from is the index of the first
	// message that is new, or that is to be answered again; then again is true.
	known, from int
	regenerate  bool
	sure        bool // the log has the page's answer before the last known user message, or that message is an answer
	repeated    bool // the run started a turn before
}

// findBranch returns the branch that has most of a page's messages.
func (h *Handler) findBranch(ctx context.Context, thread session.Key, in *input) (*match, error) {
	all, free, err := h.branches(ctx, thread)
	best := &match{key: thread, from: in.firstNew()}
	for i, info := range all[:min(len(all), maxSearched)] {
		p, err := h.matchBranch(ctx, info, in)
		if err != nil {
			return nil, err
		}
		if i == 0 || p.better(best) {
			best = p
		}
		if p.repeated || p.sure && p.cut == p.end && info.Seq > info.ParentSeq { // otherwise the run may have started in another branch
			break
		}
	}
	best.branches, best.free = all, free
	return best, err
}

// better reports whether the page's messages belong to a branch rather than to one that was changed later.
func (p *match) better(than *match) bool {
	switch {
	case p.repeated || p.sure != than.sure:
		return p.repeated || p.sure
	case p.known != than.known:
		return p.known > than.known
	}
	return p.cut == p.end && than.cut < than.end
}

// matchBranch finds the last message of a page that a branch has. It compares the ids of messages. It also compares the
// texts of the answers to a known message, because some clients give them ids of their own.
func (h *Handler) matchBranch(ctx context.Context, branch session.Info, in *input) (*match, error) {
	users, others := in.indices()
	p := &match{key: branch.Key, end: branch.Seq, cut: branch.Seq, from: in.firstNew()}
	most, end := lookBack, branch.Seq // of the turn
	if p.from == 0 {
		most = lookBackAlone
	}
	var texts []string // the agents' texts in the turn
	before := -1       // the index of the answer before the user's messages that were found
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
			if before = in.matchUser(p, users, idsOf(e, u), texts, e.Seq-1, end); p.known > 0 {
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

// matchUser completes a match if the page has the user's messages that started a turn. The log has the turn after start
// and up to end. matchUser returns the index of the answer before these messages, or -1.
func (in *input) matchUser(p *match, users map[string]int, ids, texts []string, start, end int64) (before int) {
	first, last, missing := len(in.Messages), -1, false
	for _, id := range ids {
		at, ok := users[id]
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
	shown := in.textsIn(answer, next, texts)
	switch {
	case missing || next == len(in.Messages) && answer == next:
		p.regenerate = true // also if some of the user's messages are missing
	case answer > next || next < len(in.Messages) && len(texts) == 0:
		p.cut, p.from = end, next
	case shown:
		p.known, p.cut, p.from, p.sure = next, end, next, false
		return -1
	}
	return before
}

// indices returns the indices of messages: those of the user by their ids, and others by the ids of the events that
// they show. All calls of a message have the index of the last of their results.
func (in *input) indices() (users, others map[string]int) {
	users, others = make(map[string]int), make(map[string]int)
	for i, m := range in.Messages {
		switch m.Role {
		case "user":
			users[m.ID] = i
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
	delete(users, "")
	delete(others, "")
	return users, others
}

// next returns the index of the first message from an index on that has one of the roles.
func (in *input) next(from int, roles ...string) int {
	for i, m := range in.Messages[from:] {
		if slices.Contains(roles, m.Role) {
			return from + i
		}
	}
	return len(in.Messages)
}

// textsIn reports whether the assistant's messages from one index up to another have texts that all occur in the texts
// of a turn.
func (in *input) textsIn(from, to int, texts []string) bool {
	some := false
	for i := from; i < to; i++ {
		if m := in.Messages[i]; m.Role == "assistant" {
			parts, err := partsOf(i, m.Content)
			answer := strings.TrimSpace(user(parts).PlainText())
			if err != nil || answer == "" {
				continue
			}
			if some = true; !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, answer) }) {
				return false
			}
		}
	}
	return some
}

// branchFor returns the key of the branch in which to start a turn: the matched branch, or a fork of it at the end of
// the page's history. The error is agent.ErrSessionBusy while the branch runs a turn that the fork would not contain.
// If the page asks again for the answer of the running turn, and no other page follows it, branchFor stops the turn.
func (h *Handler) branchFor(ctx context.Context, p *match, wait time.Duration) (session.Key, error) {
	if p.cut == p.end || p.repeated {
		return p.key, nil
	}
	if p.regenerate { // the server may not know yet that the page has disconnected
		wait = max(wait, time.Second)
	}
	for deadline := time.Now().Add(wait); ; {
		now, err := h.turns.Look(ctx, p.key)
		switch {
		case err != nil:
			return p.key, err
		case now.State != live.Running:
			return h.fork(ctx, p)
		case p.regenerate && now.Turn == p.turn:
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

// fork returns a fork of a branch at the end of the page's history. It reuses a fork that has no turn of its own. The
// error is agent.ErrConflict if another request creates the fork first.
func (h *Handler) fork(ctx context.Context, p *match) (session.Key, error) {
	last, err := h.eventID(ctx, p.key, p.cut)
	for _, info := range p.branches {
		if err == nil && info.Seq == p.cut {
			var id string
			if id, err = h.eventID(ctx, info.Key, p.cut); err == nil && id == last {
				return info.Key, nil
			}
		}
	}
	if err == nil {
		err = h.sessions.Fork(ctx, p.key, p.cut, p.free)
	}
	return p.free, err
}

// eventID returns the id of the event at a position, or "" for position 0.
func (h *Handler) eventID(ctx context.Context, key session.Key, seq int64) (string, error) {
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
