package conversation

import (
	"encoding/json"
	"sync/atomic"

	"github.com/agentarbor/arbor/event"
)

// words is the content of a block that arrived in several deltas. It is the inside of a JSON string with its escapes,
// because a delta may end in the middle of a surrogate pair. The zero value is empty. words is immutable and safe for
// concurrent use.
//
// The deltas are in a list of buffers. Values share buffers, and each value knows which part of its last buffer it has.
// Only the longest value can append to a buffer; any other value begins a new buffer. So an append copies nothing but
// the delta.
type words struct {
	last *buffer
	n    int // the number of bytes in the last buffer
}

type buffer struct {
	before words
	used   atomic.Int64
	data   []byte // of fixed length
}

// The limits of the length of a buffer in bytes. Each buffer is twice as long as the one before.
const (
	minBuffer = 64
	maxBuffer = 32 << 10
)

// plus returns the words with a piece at the end.
func (w words) plus(piece []byte) words {
	length := minBuffer
	if w.last != nil {
		n := w.n + len(piece)
		if n <= len(w.last.data) && w.last.used.CompareAndSwap(int64(w.n), int64(n)) {
			copy(w.last.data[w.n:], piece)
			return words{w.last, n}
		}
		if n > len(w.last.data) {
			length = min(2*len(w.last.data), maxBuffer)
		}
	}
	next := &buffer{before: w, data: make([]byte, max(length, len(piece)))}
	next.used.Store(int64(len(piece)))
	copy(next.data, piece)
	return words{next, len(piece)}
}

// json returns the words as a JSON string.
func (w words) json() json.RawMessage {
	length := 2
	for part := w; part.last != nil; part = part.last.before {
		length += part.n
	}
	out := make([]byte, length)
	out[0], out[length-1] = '"', '"'
	end := length - 1
	for part := w; part.last != nil; part = part.last.before {
		end -= part.n
		copy(out[end:], part.last.data[:part.n])
	}
	return out
}

// inside returns the part of a JSON string between its quotes.
func inside(s json.RawMessage) []byte { return s[1 : len(s)-1] }

// quote is the inverse of unquote.
func quote(s string) json.RawMessage { return event.EncodeJSON(s) }

// unquote returns the value of a JSON string, and "" for any other value.
func unquote(raw json.RawMessage) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	for _, b := range raw[1 : len(raw)-1] {
		if b == '\\' || b < ' ' || b > '~' {
			var s string
			_ = json.Unmarshal(raw, &s) // without an error, because raw is valid; invalid UTF-8 becomes U+FFFD
			return s
		}
	}
	return string(raw[1 : len(raw)-1])
}
