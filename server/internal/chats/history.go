package chats

import (
	"crypto/sha256"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/session"
)

// Said is one message of a conversation that a client sends along.
type Said struct {
	Assistant bool
	Text      string
}

// normal returns the text without what does not count: space around it, which some clients remove.
func (s Said) normal() string { return strings.TrimSpace(strings.ReplaceAll(s.Text, "\r\n", "\n")) }

// History identifies a conversation: a chained hash of the texts of user and assistant.
type History [16]byte

// historyOf returns the history of messages. Histories of two users, or of two agents, are never equal.
func historyOf(key session.Key, all ...Said) History {
	h := History{}
	return h.With(Said{Text: key.App + "\x00" + key.User}).With(all...)
}

// With returns the history with more messages.
func (h History) With(all ...Said) History {
	for _, m := range all {
		sum := sha256.New()
		sum.Write(h[:])
		if m.Assistant {
			sum.Write([]byte{1})
		}
		sum.Write([]byte("\x00" + m.normal()))
		h = History(sum.Sum(nil)[:len(h)])
	}
	return h
}

// Seen is the part of a session that a client with a certain history has.
type Seen struct {
	Key   session.Key
	Turn  string // the last turn
	First int64  // the position of the message that started the turn
	After int64  // the position after which the answer begins
	// Seq is the position at which the log ended when the client had the whole answer, or 0 if it did not have it.
	Seq int64
	// Part reports that the client may not have the events up to Seq.
	Part bool
	// Waits reports that the turn waits for an answer of the client.
	Waits bool
}

// maxHistories is the number of histories that are kept. The oldest is forgotten first.
const maxHistories = 16384

// histories maps conversations to sessions. If one is forgotten, no text is lost: the conversation is imported into a
// new session. It is safe for concurrent use.
type histories struct {
	mu    sync.Mutex
	max   int
	known map[History]Seen
	order []History // in the order of their arrival; a ring once it is full
	next  int
}

func newHistories(limit int) *histories {
	return &histories{max: limit, known: make(map[History]Seen)}
}

func (t *histories) find(h History) (Seen, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.known[h]
	return s, ok
}

func (t *histories) note(h History, s Seen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.known[h]; !ok {
		if len(t.order) < t.max {
			t.order = append(t.order, h)
		} else {
			delete(t.known, t.order[t.next])
			t.order[t.next] = h
			t.next = (t.next + 1) % t.max
		}
	}
	t.known[h] = s
}
