package chats

import (
	"crypto/sha256"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/session"
)

// Said is one message of a conversation as a client sends it along.
type Said struct {
	Assistant bool
	Text      string
}

// History stands for a conversation: the texts of user and assistant, chained.
type History [16]byte

// historyOf begins a chain. Those of two users, or of two agents, never meet.
func historyOf(key session.Key, all ...Said) History {
	h := History{}
	return h.With(Said{Text: key.App + "\x00" + key.User}).With(all...)
}

// With goes on with messages. Space around a text does not count: some clients cut it off.
func (h History) With(all ...Said) History {
	for _, m := range all {
		sum := sha256.New()
		sum.Write(h[:])
		if m.Assistant {
			sum.Write([]byte{1})
		}
		sum.Write([]byte("\x00" + strings.TrimSpace(strings.ReplaceAll(m.Text, "\r\n", "\n"))))
		h = History(sum.Sum(nil)[:len(h)])
	}
	return h
}

// Seen is where a client stands that has a certain history.
type Seen struct {
	Key   session.Key
	Turn  string // its last one
	First int64  // the position of the words that began it
	After int64  // where its answer begins
	// Seq is where the log ended when the client had the whole answer; 0 if it had not.
	Seq int64
	// Waits says that it was asked something.
	Waits bool
}

// maxHistories bounds what is remembered; the oldest is forgotten first.
const maxHistories = 16384

// histories remembers where conversations stand that clients send along without saying which session they are
// of. What is forgotten costs no words: the conversation is imported anew. It is safe for concurrent use.
type histories struct {
	mu    sync.Mutex
	max   int
	known map[History]Seen
	order []History // as they came, a ring once it is full
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
