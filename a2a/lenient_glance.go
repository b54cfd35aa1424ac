package a2a

import (
	"bytes"
	"slices"
	"time"
)

// atAGlance reports whether an event, or a task alone, has nothing in it for which the
// protocol library refuses streams: parts without exactly one known content, times that
// cannot be read, events of unknown kinds. It reads every byte once, because most events
// are well, and says no where it is not sure: then the event is looked at properly.
func atAGlance(event []byte) bool {
	g := glance{data: event}
	return g.value(topLevel, 0) && (g.kinds == 1 || g.kinds == 0 && g.task) && g.next() == 0
}

// glance goes over JSON without decoding it.
type glance struct {
	data  []byte
	at    int
	kinds int  // of events that were seen
	task  bool // a task's status was seen where an event could be
}

// place says what a value stands for.
type place int

const (
	ordinary place = iota
	topLevel       // the event, or the answer of JSON-RPC around it
	result         // the event in such an answer
	opaque         // whatever the peer likes
	parts
	part
)

const maxGlance = 64

// next skips space and returns the byte that follows, 0 at the end.
func (g *glance) next() byte {
	for g.at < len(g.data) {
		switch c := g.data[g.at]; c {
		case ' ', '\t', '\n', '\r':
			g.at++
		default:
			return c
		}
	}
	return 0
}

// is skips a byte if it is the next one.
func (g *glance) is(c byte) bool {
	if g.next() != c {
		return false
	}
	g.at++
	return true
}

// text skips a string and returns what is between its quotes.
func (g *glance) text() (raw []byte, ok bool) {
	if !g.is('"') {
		return nil, false
	}
	for start := g.at; ; {
		n := bytes.IndexAny(g.data[g.at:], `"\`)
		if n < 0 {
			return nil, false
		}
		g.at += n
		if g.data[g.at] == '"' {
			g.at++
			return g.data[start : g.at-1], true
		}
		if g.at += 2; g.at > len(g.data) {
			return nil, false
		}
	}
}

func (g *glance) value(p place, depth int) bool {
	if depth > maxGlance {
		return false
	}
	switch c := g.next(); c {
	case '{':
		return g.object(p, depth)
	case '[':
		return g.list(p, depth)
	case '"':
		_, ok := g.text()
		return ok
	default: // a number, or a word
		start := g.at
		for g.at < len(g.data) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(g.data[g.at])) {
			g.at++
		}
		return g.at > start
	}
}

func (g *glance) list(p place, depth int) bool {
	g.at++
	if g.is(']') {
		return true
	}
	item := ordinary
	switch p {
	case parts:
		item = part
	case opaque:
		item = opaque
	}
	for {
		if item == part && g.next() != '{' || !g.value(item, depth+1) {
			return false
		}
		if g.is(']') {
			return true
		}
		if !g.is(',') {
			return false
		}
	}
}

func (g *glance) object(p place, depth int) bool {
	g.at++
	contents := 0
	for first := true; ; first = false {
		if g.is('}') {
			return p != part || contents == 1
		}
		if !first && !g.is(',') {
			return false
		}
		key, ok := g.text()
		if !ok || bytes.IndexByte(key, '\\') >= 0 || !g.is(':') {
			return false
		}
		if !g.field(p, string(key), &contents, depth) {
			return false
		}
	}
}

func (g *glance) field(p place, key string, contents *int, depth int) bool {
	within, c := ordinary, g.next()
	if p != opaque && c != 'n' && !begins(key, c) {
		return false
	}
	switch {
	case p == opaque, key == "metadata":
		within = opaque
	case p == part && key == "data":
		*contents++
		within = opaque
		if c == 'n' {
			return false
		}
	case p == part && (key == "text" || key == "url"):
		*contents++
		raw, ok := g.text()
		return ok && (key == "text" || len(raw) > 0)
	case p == part && key == "raw":
		return false
	case key == "parts":
		if within = parts; c != '[' {
			return false
		}
	case key == "timestamp":
		raw, ok := g.text()
		_, err := time.Parse(time.RFC3339, string(raw))
		return ok && err == nil
	case p == topLevel && key == "result":
		within = result
	case (p == topLevel || p == result) && key == "status":
		g.task = true
	case (p == topLevel || p == result) && slices.Contains(eventKinds, key):
		if g.kinds++; c != '{' {
			return false
		}
	}
	return g.value(within, depth+1)
}

// begins reports whether the value of a field can begin with a byte.
func begins(key string, c byte) bool {
	switch key {
	case "messageId", "taskId", "contextId", "artifactId", "role", "state", "name", "description", "filename", "mediaType", "text", "url", "timestamp":
		return c == '"'
	case "metadata", "status", "message", "artifact", "task":
		return c == '{'
	case "parts", "artifacts", "history", "extensions", "referenceTaskIds":
		return c == '['
	case "append", "lastChunk":
		return c == 't' || c == 'f'
	}
	return true
}
