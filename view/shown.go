package view

import (
	"cmp"
	"slices"

	"github.com/agentarbor/arbor/llm"
)

// shown is the list of messages that a view returns, with a mark for each. Messages are only appended. If messages are
// dropped, a new list is created, because requests under way share the old one.
type shown struct {
	msgs  []llm.Message
	marks []mark // one for each message; not shared
	turns int    // the number of marks that begin a turn

	count  llm.TokenCounter // nil: tokens are not counted
	tokens int              // of all messages

	seen  int  // the number of messages that nameFiles has read
	files bool // one of them names a file
}

// mark says where a message comes from. The messages of one group, such as an answer with the results of its calls,
// have the same seq, that of the group's last event. Marks ascend by seq. The seq is 0 for the summary of dropped
// messages at the front.
type mark struct {
	seq    int64
	tokens int32
	turn   bool // it begins a user turn
}

// spoke reports whether the last message is the agent's own. A request must not end with such a message.
func (s *shown) spoke() bool {
	n := len(s.msgs)
	return n > 0 && s.msgs[n-1].Role == llm.RoleAssistant
}

func (s *shown) messages() []llm.Message { return s.msgs[:len(s.msgs):len(s.msgs)] }

// nameFiles reports whether a message names a file. It reads each message once.
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

// join adds a message to the group of the last message, so that a compaction drops both or neither. Without messages it
// does nothing.
func (s *shown) join(m llm.Message) {
	if n := len(s.marks); n > 0 {
		s.add(m, s.marks[n-1].seq, false)
	}
}

// measure returns the mark with the tokens of the message, if tokens are counted.
func (s *shown) measure(m *llm.Message, k mark) mark {
	if s.count != nil {
		k.tokens = int32(min(llm.CountMessage(m, s.count), 1<<30))
	}
	return k
}

// recount counts the tokens of all messages.
func (s *shown) recount(count llm.TokenCounter) {
	s.count, s.tokens, s.marks = count, 0, slices.Clone(s.marks)
	for i := range s.marks {
		s.marks[i] = s.measure(&s.msgs[i], s.marks[i])
		s.tokens += int(s.marks[i].tokens)
	}
}

func (s *shown) addMark(k mark) {
	s.marks = append(s.marks, k)
	s.tokens += int(k.tokens)
	if k.turn {
		s.turns++
	}
}

// dropLast removes the last message. The message must begin a turn, and no request may share it.
func (s *shown) dropLast() {
	n := len(s.msgs) - 1
	s.tokens -= int(s.marks[n].tokens)
	s.turns--
	s.msgs, s.marks = s.msgs[:n], s.marks[:n]
}

// trim keeps only the last turns. If there are fewer, it does nothing.
func (s *shown) trim(turns int) {
	if i := s.turn(turns); i >= 0 {
		s.keep(nil, i)
	}
}

// turn returns the index of the message that begins the n-th turn from the end, -1 if there are fewer turns.
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

// front returns 1 if the first message is the summary of dropped messages, and 0 otherwise.
func (s *shown) front() int {
	if len(s.marks) > 0 && s.marks[0].seq == 0 {
		return 1
	}
	return 0
}

// keep creates a new list of the front message, if it is not nil, the user's last message, and all messages from index
// first on.
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

// lastTurn returns the index of the message that begins the last turn, -1 without one.
func (s *shown) lastTurn() int { return s.turn(1) }

// after returns the index of the first message of a group that ends after seq.
func (s *shown) after(seq int64) int {
	i, _ := slices.BinarySearchFunc(s.marks, seq+1, func(k mark, seq int64) int { return cmp.Compare(k.seq, seq) })
	return i
}

// fileNamed returns the part as media, and reports whether it names a file by digest and has no bytes.
func fileNamed(p llm.Part) (m llm.Media, ok bool) {
	m, ok = p.(llm.Media)
	return m, ok && m.Digest != "" && m.Data == nil
}
