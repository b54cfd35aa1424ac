package a2a

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/event"
)

// answer assembles what a remote agent sends in one exchange, from messages, tasks and stream updates in any mixture.
// It identifies artifacts by their ids, so that a snapshot replaces the text that its deltas built and duplicates
// nothing. The work grows with the number of bytes received, and the number of bytes kept is bounded.
type answer struct {
	limit   int          // the maximum number of bytes to keep; 0: no limit
	secrets *credentials // redacted from texts, names and addresses; nil: nothing is

	taskID       sdk.TaskID
	contextID    string
	state        sdk.TaskState // "" until there is a task
	message      bool          // the answer is a message, without a task
	blocks       textList      // artifacts
	statusTexts  textList      // the texts of earlier states, by message id
	final        string        // the text of the status that ended the exchange
	question     string        // the id of the message of that status, if it asks something
	earlier      map[string]string
	said         []string // the logged texts of the last task, whose id the peer uses again; its first snapshot has them
	omitRepeated bool     // do not repeat a question that was asked before
	usage        []event.Usage
	files        fileList

	shown      []byte // what next has returned
	pending    []byte // what next has yet to return
	diverged   bool   // the answer no longer begins with what was shown
	compared   int    // length of the answer when it was last compared
	credit     int    // how many bytes may be compared
	incomplete bool   // deltas may be missing, until the next snapshot
}

// maxID bounds the ids of tasks and contexts in bytes, because the log keeps them. A longer id, or one that contains a
// secret, is ignored.
const maxID = 1024

// complete reports whether the answer is complete.
func (a *answer) complete() bool {
	return a.message || a.state.Terminal() || interrupted(a.state)
}

func interrupted(s sdk.TaskState) bool {
	return s == sdk.TaskStateInputRequired || s == sdk.TaskStateAuthRequired
}

// progress is the part of an answer that changes when the peer sends more.
type progress struct {
	state sdk.TaskState
	size  int
}

func (a *answer) progress() progress {
	return progress{a.state, a.blocks.size + a.statusTexts.size + a.files.size}
}

// tooLarge reports whether the answer exceeds the limit.
func (a *answer) tooLarge() bool {
	return a.limit > 0 && a.blocks.size+a.statusTexts.size+a.files.size+len(a.final) > a.limit
}

// excludeTask notes what a task contained before it received a new message, which is no part of the answer to it.
func (a *answer) excludeTask(t *sdk.Task) {
	a.earlier = make(map[string]string)
	for _, artifact := range t.Artifacts {
		if artifact != nil {
			a.earlier["artifact "+string(artifact.ID)] = a.redactedText(artifact.Parts)
		}
	}
	for _, m := range append(slices.Clone(t.History), t.Status.Message) {
		if m != nil {
			a.earlier["message "+m.ID] = a.redactedText(m.Parts)
		}
	}
}

// excludeLogged is excludeTask for a task that the run resumes: it notes the texts of the task that the log already
// contains.
func (a *answer) excludeLogged(t *sdk.Task, said []string) {
	a.earlier = make(map[string]string)
	known := make([]int, len(t.Artifacts)) // how many bytes of each the log contains
	texts := make([]string, len(t.Artifacts))
	for i, artifact := range t.Artifacts {
		if artifact != nil {
			texts[i] = a.redactedText(artifact.Parts)
		}
	}
	for _, rest := range said {
		for i, text := range texts {
			left := text[known[i]:]
			if left == "" {
				continue
			}
			n := commonPrefix(left, rest)
			if n < len(left) && rest[n:] != "" && !strings.HasPrefix(rest[n:], separator) {
				break // the log has another text
			}
			known[i] += n
			rest = strings.TrimPrefix(rest[n:], separator)
			if n < len(left) {
				break
			}
		}
	}
	for i, artifact := range t.Artifacts {
		if known[i] > 0 {
			a.earlier["artifact "+string(artifact.ID)] = texts[i][:known[i]]
		}
	}
	messages := append(slices.Clone(t.History), t.Status.Message)
	for _, m := range messages {
		if m == nil || m.Role == sdk.MessageRoleUser {
			continue
		}
		if text := a.redactedText(m.Parts); slices.ContainsFunc(said, func(s string) bool { return endsWithParagraph(s, text) }) {
			a.earlier["message "+m.ID] = text
		}
	}
}

// commonPrefix returns the length in bytes of the longest common prefix of two texts.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// endsWithParagraph reports whether said ends with text as a separate paragraph.
func endsWithParagraph(said, text string) bool {
	head, ok := strings.CutSuffix(said, text)
	return ok && text != "" && (head == "" || strings.HasSuffix(head, separator))
}

// add applies the next event. It ignores events of unknown kinds.
func (a *answer) add(e sdk.Event) {
	if isNilEvent(e) {
		return
	}
	if m, ok := e.(*sdk.Message); ok && m.Role == sdk.MessageRoleUser {
		return // an echo of our own message
	}
	info := e.TaskInfo()
	if a.isID(info.ContextID) {
		a.contextID = info.ContextID
	}
	if a.taskID == "" && a.isID(string(info.TaskID)) { // an exchange has one task
		a.taskID = info.TaskID
	}
	snapshot := false
	switch e := e.(type) {
	case *sdk.Message:
		if e.TaskID != "" && a.state != "" { // a message about the task does not replace it
			a.addStatusText(e)
			break
		}
		a.message = true
		a.final = a.redactedText(e.Parts)
		a.files.put("", e.Parts, false)
		a.readUsage(e.Metadata)
	case *sdk.Task:
		snapshot, a.incomplete = true, false
		if a.said != nil {
			a.excludeLogged(e, a.said)
			a.said = nil
		}
		for _, artifact := range e.Artifacts {
			if artifact != nil {
				a.putArtifact(artifact, false)
			}
		}
		a.status(e.Status)
		a.readUsage(e.Metadata)
		if a.complete() && a.final == "" && len(a.blocks.blocks) == 0 {
			for _, m := range e.History {
				if m != nil && m.Role == sdk.MessageRoleAgent {
					a.addStatusText(m)
				}
			}
		}
	case *sdk.TaskStatusUpdateEvent:
		a.status(e.Status)
		a.readUsage(e.Metadata)
	case *sdk.TaskArtifactUpdateEvent:
		if e.Artifact != nil {
			a.putArtifact(e.Artifact, e.Append)
			snapshot = !e.Append
		}
	}
	a.compare(snapshot || a.complete())
}

// isID reports whether a text is acceptable as the id of a task or a context.
func (a *answer) isID(id string) bool {
	return id != "" && len(id) <= maxID && a.secrets.redactAnswer(id) == id
}

// isNilEvent reports whether a client yielded a nil event.
func isNilEvent(e sdk.Event) bool { return e == nil || reflect.ValueOf(e).IsNil() }

// status applies a task status. The text of a state that ends the exchange belongs to the answer; the texts of earlier
// states report progress. An unknown state counts as progress.
func (a *answer) status(s sdk.TaskStatus) {
	if s.State != "" && !a.complete() {
		a.state = canonicalState(s.State)
	}
	if s.Message == nil {
		return
	}
	if !a.complete() {
		a.addStatusText(s.Message)
		return
	}
	if interrupted(a.state) && a.isID(s.Message.ID) {
		a.question = s.Message.ID
	}
	a.files.put("message "+s.Message.ID, s.Message.Parts, false)
	if text := a.redactedText(s.Message.Parts); text != a.earlier["message "+s.Message.ID] || text == "" {
		a.final = text
	} else if interrupted(a.state) && !a.omitRepeated {
		a.final = text // the peer repeats its question
	}
}

// canonicalState returns a state under its name in A2A 1.0, even if a peer writes it as older versions do: "completed",
// "input-required".
func canonicalState(s sdk.TaskState) sdk.TaskState {
	if strings.HasPrefix(string(s), "TASK_STATE_") {
		return s
	}
	name := strings.ToUpper(strings.ReplaceAll(string(s), "-", "_"))
	if name == "CANCELLED" {
		name = "CANCELED"
	}
	switch full := sdk.TaskState("TASK_STATE_" + name); full {
	case sdk.TaskStateSubmitted, sdk.TaskStateWorking, sdk.TaskStateInputRequired, sdk.TaskStateAuthRequired,
		sdk.TaskStateCompleted, sdk.TaskStateFailed, sdk.TaskStateRejected, sdk.TaskStateCanceled:
		return full
	}
	return s
}

func (a *answer) addStatusText(m *sdk.Message) {
	if slices.Contains(m.Extensions, Extension) { // metadata of our own agents
		return
	}
	text := a.redactedText(m.Parts)
	if old, known := a.earlier["message "+m.ID]; text == "" || known && old == text {
		return
	}
	a.statusTexts.set(m.ID, text)
}

func (a *answer) putArtifact(artifact *sdk.Artifact, more bool) {
	id, text := string(artifact.ID), a.redactedText(artifact.Parts)
	a.files.put("artifact "+id, artifact.Parts, more)
	if !more {
		text = strings.TrimPrefix(text, a.earlier["artifact "+id])
	}
	a.credit += len(text)
	i := a.blocks.find(id)
	switch {
	case i < 0 && text == "":
	case i < 0:
		a.blocks.set(id, text)
		if !a.diverged {
			if len(a.shown)+len(a.pending) > 0 {
				a.pending = append(a.pending, separator...)
			}
			a.pending = append(a.pending, text...)
		}
	case more:
		a.blocks.append(i, text)
		switch {
		case i < len(a.blocks.blocks)-1:
			a.diverge()
		case !a.diverged:
			a.pending = append(a.pending, text...)
		}
	case string(a.blocks.blocks[i].text) != text:
		a.blocks.set(id, text)
		a.diverge()
	}
}

const separator = "\n\n"

func (a *answer) diverge() { a.diverged, a.pending = true, a.pending[:0] }

// eventCredit is the number of bytes that may be compared for each event on average, in addition to the event's own.
// Without a bound, each byte that a peer sends could cause the comparison of a long answer.
const eventCredit = 64 << 10

// compare checks whether the answer again begins with what was shown, after a block other than the last has changed. If
// so, the rest can be shown. While the answer grows, it is compared only from time to time.
func (a *answer) compare(now bool) {
	a.credit += eventCredit
	if !a.diverged {
		return
	}
	n := a.blocks.length()
	if n < len(a.shown) || !now && n < a.compared+a.compared/8 || n > a.credit && !a.complete() {
		return
	}
	a.compared, a.credit = n, max(0, a.credit-n)
	if rest, ok := strings.CutPrefix(a.secrets.redactAnswer(string(a.blocks.joined())), string(a.shown)); ok {
		a.diverged, a.pending = false, append(a.pending[:0], rest...)
	}
}

// markIncomplete notes that events may have been lost.
func (a *answer) markIncomplete() { a.incomplete = true }

// nextDelta returns the text that can be shown after what was shown before. It holds back what may be the beginning of a
// secret.
func (a *answer) nextDelta() string {
	if a.incomplete || a.diverged || len(a.pending) == 0 {
		return ""
	}
	delta := a.secrets.redactAnswer(string(a.pending))
	n := len(delta) - a.secrets.partialSecret(delta)
	a.shown, a.pending = append(a.shown, delta[:n]...), append(a.pending[:0], delta[n:]...)
	return delta[:n]
}

// text returns the whole answer.
func (a *answer) text() string {
	text := string(a.blocks.joined())
	switch {
	case a.final == "" || strings.Contains(text, a.final): // many peers repeat their artifact in the last status
	case text == "":
		text = a.final
	default:
		text += separator + a.final
	}
	if text == "" {
		text = string(a.statusTexts.joined())
	}
	return strings.ToValidUTF8(a.secrets.redactAnswer(text), "\uFFFD")
}

// textList is a list of texts with ids, in the order of arrival.
type textList struct {
	blocks []block
	at     map[string]int
	text   int // total length of the texts in bytes
	size   int // bytes kept, ids included
}

type block struct {
	id   string
	text []byte
}

// find returns the index of the text with an id, or -1.
func (l *textList) find(id string) int {
	if i, ok := l.at[id]; ok {
		return i
	}
	return -1
}

func (l *textList) set(id, text string) {
	i := l.find(id)
	if i < 0 {
		if l.at == nil {
			l.at = make(map[string]int)
		}
		i = len(l.blocks)
		l.at[id] = i
		l.blocks = append(l.blocks, block{id: id})
		l.size += len(id) + 64 // the approximate overhead of an entry
	}
	b := &l.blocks[i]
	l.text += len(text) - len(b.text)
	l.size += len(text) - len(b.text)
	b.text = append(b.text[:0], text...)
}

func (l *textList) append(i int, text string) {
	l.text += len(text)
	l.size += len(text)
	l.blocks[i].text = append(l.blocks[i].text, text...)
}

// length returns the length of all texts joined, in bytes.
func (l *textList) length() int { return l.text + max(0, len(l.blocks)-1)*len(separator) }

func (l *textList) joined() []byte {
	joined := make([]byte, 0, l.length())
	for i := range l.blocks {
		if i > 0 {
			joined = append(joined, separator...)
		}
		joined = append(joined, l.blocks[i].text...)
	}
	return joined
}

// redactedText returns the text of parts without secrets.
func (a *answer) redactedText(parts sdk.ContentParts) string {
	return a.secrets.redactAnswer(partsText(parts))
}

// partsText returns the text of parts: data parts as JSON, file parts omitted. Arbor's own servers ask for an approval
// with a text part and a data part for programs; the data part is omitted after a text.
func partsText(parts sdk.ContentParts) string {
	if len(parts) == 1 && parts[0] != nil {
		if text, ok := parts[0].Content.(sdk.Text); ok {
			return string(text)
		}
	}
	var b strings.Builder
	for _, p := range parts {
		if p == nil {
			continue
		}
		switch c := p.Content.(type) {
		case sdk.Text:
			b.WriteString(string(c))
			continue
		case sdk.Data:
			if said := b.String(); said != "" {
				if asksForApproval(c.Value) {
					continue
				}
				if !strings.HasSuffix(said, " ") && !strings.HasSuffix(said, "\n") {
					b.WriteString("\n")
				}
			}
			if data, err := json.Marshal(c.Value); err == nil {
				b.Write(data)
			}
		}
	}
	return b.String()
}

func asksForApproval(v any) bool {
	m, _ := v.(map[string]any)
	_, call := m["callId"].(string)
	_, tool := m["tool"].(string)
	return call && tool
}
