package view

import (
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// LeftOut is the first message of a view after a compaction without a summary.
// SummaryHead is put before the summary of one that has it.
const (
	LeftOut     = "[The earlier part of this conversation was left out.]"
	SummaryHead = "[Summary of the earlier part of this conversation]\n"
)

// dropped is what the compactions so far have left out.
type dropped struct {
	upTo    int64
	summary string // of the last compaction, as the log has it
	at      int64  // the seq of the last compaction
	tries   int    // compactions since the agent's last answer
	failed  int    // summaries that failed since then
	since   int    // answers of the agent since the last of them
}

// compact drops all groups of events that end at or before the compaction's
// UpTo, except the user's last message, and puts its summary at the front. A
// group is a user's message, an answer with the results of all its calls, or a
// line about a transfer: dropped as a whole or not at all. A compaction that
// reaches less far than the one before it replaces its summary only.
func (v *View) compact(c *event.Compaction, seq int64) {
	v.dropped.upTo = max(v.dropped.upTo, min(c.UpTo, seq))
	v.dropped.summary, v.dropped.at = c.Summary, seq
	v.dropped.tries++
	v.dropped.failed = 0
	v.use.reported = 0
	front := llm.UserText(LeftOut)
	if c.Summary != "" {
		front.Text = SummaryHead + v.attribute("summary", v.policy.redactText(c.Summary), false)
	}
	v.shown.keep(&front, v.shown.after(v.dropped.upTo))
}

// Summary returns the summary at the front of the view, as it is in the log; ""
// if there is none.
func (v *View) Summary() string { return v.dropped.summary }

// Compactions says how often the view was compacted since the agent's last
// answer.
func (v *View) Compactions() int { return v.dropped.tries }

// SummaryDue reports whether a summary may be tried. After one that failed, it is tried again after the agent's next
// answer, then after two more, after four more, and so on.
func (v *View) SummaryDue() bool {
	return v.dropped.failed == 0 || v.dropped.since >= 1<<min(v.dropped.failed-1, 30)
}

// Oldest proposes what to drop so that the messages that stay have at most keep
// tokens: the position to which a compaction has to reach, and the messages that
// it drops or replaces, an earlier summary among them. It returns 0 if nothing
// can be dropped. The slice is shared and must not be changed.
//
// Whole turns go first, and the current one stays. If that alone has more than
// most tokens, answers with their results go as well, oldest first: the user's
// message stays, though it is among the messages returned, and the newest
// answer, because the agent has not yet seen its results.
func (v *View) Oldest(keep, most int) (upTo int64, messages []llm.Message) {
	v.Messages() // takes in an answer that is complete
	s := &v.shown
	front, user := s.front(), s.lastTurn()
	cut, left := front, s.tokens
	if front > 0 {
		left -= int(s.marks[0].tokens) // another takes its place
	}
	for cut < user && left > keep {
		for more := true; more; more = cut < user && !s.marks[cut].turn {
			left -= int(s.marks[cut].tokens)
			cut++
		}
	}
	drops := cut - front
	if left > most {
		for group := max(user+1, front); left > keep; {
			next := s.group(group)
			if next >= len(s.marks) {
				break
			}
			for ; group < next; group++ {
				left -= int(s.marks[group].tokens)
				drops++
			}
			cut = next
		}
	}
	if drops <= 0 {
		return 0, nil
	}
	return s.marks[cut-1].seq, s.msgs[:cut:cut]
}

// group returns the index after the group to which message i belongs.
func (s *shown) group(i int) int {
	end := i + 1
	for end < len(s.marks) && s.marks[end].seq == s.marks[i].seq {
		end++
	}
	return end
}
