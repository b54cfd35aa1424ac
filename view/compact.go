package view

import (
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// LeftOut is the first message of a view after a compaction without a summary. SummaryHead is the text before the
// summary of a compaction that has one.
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
func (v *page) compact(c *event.Compaction, seq int64) {
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

// refusedText is the end of the line that replaces an image or a file after the endpoint has refused a request with it.
const refusedText = ", which the model's endpoint refused"

// leaveOutMedia replaces images and files by lines, after the endpoint has refused the requests of the turn, because it
// would refuse all later ones with them. If the turn brought any, the others stay.
func (v *page) leaveOutMedia() {
	s := &v.shown
	media := func(m llm.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p llm.Part) bool { _, ok := p.(llm.Media); return ok })
	}
	from := max(s.lastTurn(), 0)
	if !slices.ContainsFunc(s.msgs[from:], media) {
		from = 0
	}
	if !slices.ContainsFunc(s.msgs[from:], media) {
		return
	}
	s.msgs, s.seen, s.files = slices.Clone(s.msgs), 0, false
	for i := from; i < len(s.msgs); i++ {
		if media(s.msgs[i]) {
			s.msgs[i].Content = describeMedia(s.msgs[i].Content, refusedText)
		}
	}
	s.recount(s.count)
	v.use.reported = 0
}

// Summary returns the summary of the last compaction as it is in the log, or "" if there is none.
func (v *View) Summary() string { return v.dropped.summary }

// Compactions returns how often the view was compacted since the agent's last answer.
func (v *View) Compactions() int { return v.dropped.tries }

// SummaryDue reports whether a summary may be requested. After a failed one, it is requested again after the agent's
// next answer, then after two more, after four more, and so on.
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
	v.messages() // adds an answer that is complete
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

// use is what is known of the tokens of the agent's last request.
type use struct {
	reported int // input tokens by the endpoint, 0 if unknown
	counted  int // what the view counted for its messages then
}

// Count makes the view count the tokens of its messages, those that it already has included. nil is an estimate.
func (v *View) Count(count llm.TokenCounter) {
	if count == nil {
		count = llm.EstimateTokens
	}
	v.shown.recount(count)
	v.use = use{}
}

// Kept returns the tokens of the messages that no compaction drops: the user's last message, and the newest answer
// with its results.
func (v *View) Kept() (tokens int) {
	v.messages() // adds an answer that is complete
	s := &v.shown
	user := s.lastTurn()
	if user >= 0 {
		tokens = int(s.marks[user].tokens)
	}
	for i := len(s.marks) - 1; i > user && s.marks[i].seq == s.marks[len(s.marks)-1].seq; i-- {
		tokens += int(s.marks[i].tokens)
	}
	return tokens
}

// Tokens returns how many tokens the messages have by the view's counter, 0
// without one, and what is known of the whole next request, system message and
// tools included: the input tokens that the endpoint reported for the last one,
// and the count of what came since. That is 0 if no request was reported, or
// if the view was trimmed or compacted since.
func (v *View) Tokens() (messages, request int) {
	v.messages() // adds an answer that is complete
	messages = v.shown.tokens
	if v.use.reported > 0 {
		request = v.use.reported + messages - v.use.counted
	}
	return messages, request
}

// usage applies the event that closes an answer.
func (v *progress) usage(u *event.Usage, seq int64, mine bool) {
	if !v.open.waits() && len(v.open.calls) > 0 {
		v.flush() // an earlier answer, to which this one added nothing
	}
	if mine && seq != v.dropped.at+1 { // else it is that of the model that summarised
		v.dropped.since++
		v.dropped.tries, v.run.Empty, v.run.WrongForm, v.run.Correction, v.run.Answered = 0, false, false, "", true
		if reported := u.Counted().InputTokens; reported > 0 {
			v.use = use{reported: reported, counted: v.shown.tokens}
		}
	}
	if len(v.open.calls) == 0 {
		v.flush()
	}
}
