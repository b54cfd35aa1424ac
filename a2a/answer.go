package a2a

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// answer puts together what a remote agent says in one exchange, from messages,
// tasks, and the updates of a stream in any mixture. Artifacts are known by their
// ids, so that a snapshot replaces what its deltas built and doubles nothing.
type answer struct {
	taskID    sdk.TaskID
	contextID string
	state     sdk.TaskState // "" until there is a task
	message   bool          // the answer is a message, without a task
	blocks    []block       // artifacts in the order of their arrival
	final     string        // the words of the status that ended the exchange
	said      []block       // the words of earlier states, by message id
	old       map[string]string

	shown    string // what was given out by next
	diverged bool   // what was shown is not how the answer begins any more
	pending  string // to be given out by next
}

type block struct{ id, text string }

// settled reports whether nothing more is to come.
func (a *answer) settled() bool {
	return a.message || a.state.Terminal() || interrupted(a.state)
}

func interrupted(s sdk.TaskState) bool {
	return s == sdk.TaskStateInputRequired || s == sdk.TaskStateAuthRequired
}

// baseline notes what a task held before it was given new words, which is no
// part of the answer to them.
func (a *answer) baseline(t *sdk.Task) {
	a.old = make(map[string]string)
	for _, artifact := range t.Artifacts {
		if artifact != nil {
			a.old["artifact "+string(artifact.ID)] = partsText(artifact.Parts)
		}
	}
	if m := t.Status.Message; m != nil {
		a.old["message "+m.ID] = partsText(m.Parts)
	}
	for _, m := range t.History {
		if m != nil {
			a.old["message "+m.ID] = partsText(m.Parts)
		}
	}
}

// add takes in the next event.
func (a *answer) add(e sdk.Event) {
	if e == nil {
		return
	}
	info := e.TaskInfo()
	if info.ContextID != "" {
		a.contextID = info.ContextID
	}
	if info.TaskID != "" {
		a.taskID = info.TaskID
	}
	switch e := e.(type) {
	case *sdk.Message:
		if e.TaskID != "" && a.state != "" { // a message about the task, not instead of one
			a.say(e)
			break
		}
		a.message = true
		a.final = partsText(e.Parts)
	case *sdk.Task:
		for _, artifact := range e.Artifacts {
			if artifact != nil {
				a.put(artifact, false)
			}
		}
		a.status(e.Status)
		if a.settled() && a.final == "" && len(a.blocks) == 0 {
			for _, m := range e.History {
				if m != nil && m.Role == sdk.MessageRoleAgent {
					a.say(m)
				}
			}
		}
	case *sdk.TaskStatusUpdateEvent:
		a.status(e.Status)
	case *sdk.TaskArtifactUpdateEvent:
		if e.Artifact != nil {
			a.put(e.Artifact, e.Append)
		}
	}
	a.compare()
}

// status takes in a state. The words of a state that ends the exchange belong to
// the answer; those of earlier states tell of progress.
func (a *answer) status(s sdk.TaskStatus) {
	if s.State != "" {
		a.state = s.State
	}
	if s.Message == nil {
		return
	}
	if !a.settled() {
		a.say(s.Message)
		return
	}
	if text := partsText(s.Message.Parts); text != a.old["message "+s.Message.ID] || text == "" {
		a.final = text
	} else if interrupted(a.state) {
		a.final = text // it asks the same again
	}
}

func (a *answer) say(m *sdk.Message) {
	text := partsText(m.Parts)
	if old, known := a.old["message "+m.ID]; text == "" || known && old == text {
		return
	}
	for i := range a.said {
		if a.said[i].id == m.ID {
			a.said[i].text = text
			return
		}
	}
	a.said = append(a.said, block{m.ID, text})
}

func (a *answer) put(artifact *sdk.Artifact, more bool) {
	id, text := string(artifact.ID), partsText(artifact.Parts)
	i := 0
	for i < len(a.blocks) && a.blocks[i].id != id {
		i++
	}
	if !more {
		text = strings.TrimPrefix(text, a.old["artifact "+id])
	}
	switch {
	case i == len(a.blocks) && text == "":
	case i == len(a.blocks):
		a.blocks = append(a.blocks, block{id, text})
		if !a.diverged {
			if len(a.shown)+len(a.pending) > 0 {
				a.pending += separator
			}
			a.pending += text
		}
	case more && i == len(a.blocks)-1:
		a.blocks[i].text += text
		if !a.diverged {
			a.pending += text
		}
	case more:
		a.blocks[i].text += text
		a.diverged = true
	case a.blocks[i].text != text:
		a.blocks[i].text = text
		a.diverged = true
	}
}

const separator = "\n\n"

// compare finds the way back after blocks did not only grow at the end.
func (a *answer) compare() {
	if !a.diverged {
		return
	}
	if rest, ok := strings.CutPrefix(a.artifacts(), a.shown); ok {
		a.diverged, a.pending = false, rest
	} else {
		a.pending = ""
	}
}

// next returns what can be shown beyond what was shown before.
func (a *answer) next() string {
	delta := a.pending
	a.pending = ""
	a.shown += delta
	return delta
}

func (a *answer) artifacts() string {
	texts := make([]string, len(a.blocks))
	for i, b := range a.blocks {
		texts[i] = b.text
	}
	return strings.Join(texts, separator)
}

// text returns the whole answer.
func (a *answer) text() string {
	text := a.artifacts()
	switch {
	case a.final == "" || strings.Contains(text, a.final): // many repeat their artifact in the last status
	case text == "":
		text = a.final
	default:
		text += separator + a.final
	}
	if text == "" {
		texts := make([]string, len(a.said))
		for i, b := range a.said {
			texts[i] = b.text
		}
		text = strings.Join(texts, separator)
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// partsText returns parts as text: data as JSON, of files the names.
func partsText(parts sdk.ContentParts) string {
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
			if data, err := json.Marshal(c.Value); err == nil {
				b.Write(data)
			}
		case sdk.Raw, sdk.URL:
			b.WriteString("[file")
			for _, s := range []string{p.Filename, p.MediaType, string(p.URL())} {
				if s != "" {
					b.WriteString(" " + s)
				}
			}
			b.WriteString("]")
		}
	}
	return b.String()
}

// clip cuts s to at most n bytes at the border of a character, and says so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
