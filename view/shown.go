package view

import (
	"cmp"
	"slices"

	"github.com/agentarbor/arbor/llm"
)

// shown is the list of messages that a view hands out, with what it must know of
// each. Messages are only appended: what is dropped makes a new list, because the
// old one is shared with requests under way.
type shown struct {
	msgs  []llm.Message
	marks []mark // one for each message; not shared
	turns int    // how many marks begin a turn

	count  llm.TokenCounter // nil: tokens are not counted
	tokens int              // of all messages

	seen  int  // how many messages were looked at for files that they name
	files bool // one of them names a file
}

// mark says where a message comes from. The messages of one group, such as an
// answer with the results of its calls, have the same seq: that of the group's
// last event. Marks ascend; 0 is the message at the front that replaces what
// was dropped.
type mark struct {
	seq    int64
	tokens int32
	turn   bool // it begins a user turn
}

// spoke reports whether the last message is the agent's own, after which no request may end.
func (s *shown) spoke() bool {
	n := len(s.msgs)
	return n > 0 && s.msgs[n-1].Role == llm.RoleAssistant
}

func (s *shown) messages() []llm.Message { return s.msgs[:len(s.msgs):len(s.msgs)] }

// nameFiles reports whether a message names a file. It looks at each message once.
func (s *shown) nameFiles() bool {
	for ; s.seen < len(s.msgs) && !s.files; s.seen++ {
		s.files = slices.ContainsFunc(s.msgs[s.seen].Parts, func(p llm.Part) bool { _, ok := fileNamed(p); return ok })
	}
	return s.files
}

func (s *shown) add(m llm.Message, seq int64, turn bool) {
	s.addMark(s.measure(&m, mark{seq: seq, turn: turn}))
	s.msgs = append(s.msgs, m)
}

// join adds a message to the group of the last one, so that a compaction drops both or neither. It does nothing if
// there is none.
func (s *shown) join(m llm.Message) {
	if n := len(s.marks); n > 0 {
		s.add(m, s.marks[n-1].seq, false)
	}
}

func (s *shown) measure(m *llm.Message, k mark) mark {
	if s.count != nil {
		k.tokens = int32(min(llm.CountMessage(m, s.count), 1<<30))
	}
	return k
}

func (s *shown) addMark(k mark) {
	s.marks = append(s.marks, k)
	s.tokens += int(k.tokens)
	if k.turn {
		s.turns++
	}
}

// dropLast removes the last message, which begins a turn and is in no request yet.
func (s *shown) dropLast() {
	n := len(s.msgs) - 1
	s.tokens -= int(s.marks[n].tokens)
	s.turns--
	s.msgs, s.marks = s.msgs[:n], s.marks[:n]
}

// trim keeps the last turns.
func (s *shown) trim(turns int) {
	if i := s.turn(turns); i >= 0 {
		s.keep(nil, i)
	}
}

// turn returns where the n-th turn from the end begins, -1 if there are fewer.
func (s *shown) turn(n int) int {
	for i := len(s.marks) - 1; i >= 0; i-- {
		if s.marks[i].turn {
			if n--; n == 0 {
				return i
			}
		}
	}
	return -1
}

// front reports how many messages replace what was dropped: 0 or 1.
func (s *shown) front() int {
	if len(s.marks) > 0 && s.marks[0].seq == 0 {
		return 1
	}
	return 0
}

// keep begins a new list with a message for what is dropped, if there is one,
// the user's last message, and all messages from index first on.
func (s *shown) keep(front *llm.Message, first int) {
	msgs, marks, user := s.msgs, s.marks, s.lastTurn()
	s.msgs = make([]llm.Message, 0, len(msgs)-first+8)
	s.marks = make([]mark, 0, len(msgs)-first+8)
	s.tokens, s.turns, s.seen, s.files = 0, 0, 0, false
	if front != nil {
		s.addMark(s.measure(front, mark{}))
		s.msgs = append(s.msgs, *front)
	}
	if user >= 0 && user < first {
		s.addMark(marks[user])
		s.msgs = append(s.msgs, msgs[user])
	}
	for i := first; i < len(msgs); i++ {
		s.addMark(marks[i])
		s.msgs = append(s.msgs, msgs[i])
	}
}

// lastTurn returns where the newest turn begins, -1 if none does.
func (s *shown) lastTurn() int { return s.turn(1) }

// after returns the index of the first message of the groups that end after seq.
func (s *shown) after(seq int64) int {
	i, _ := slices.BinarySearchFunc(s.marks, seq+1, func(k mark, seq int64) int { return cmp.Compare(k.seq, seq) })
	return i
}

// fileNamed returns a part of a message that names a file, whose bytes it has not got.
func fileNamed(p llm.Part) (m llm.Media, ok bool) {
	m, ok = p.(llm.Media)
	return m, ok && m.Digest != "" && m.Data == nil
}
