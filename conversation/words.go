package conversation

import (
	"encoding/json"
	"sync/atomic"

	"github.com/agentarbor/arbor/event"
)

// words are the content of a block of text that came in several pieces: the
// inside of a JSON string, escapes and all, because a piece may end in half of a
// surrogate pair. The zero value has none. It is safe for concurrent use.
//
// Pieces are written behind each other into a buffer, and a full buffer is
// followed by another one. Every value knows how much of its last buffer is its
// own, and only the longest one can write behind that; another one begins a
// buffer of its own there. So nothing is ever copied to append something.
type words struct {
	last *buffer
	n    int // bytes of the last buffer
}

type buffer struct {
	before words
	used   atomic.Int64
	data   []byte // of fixed length
}

// The length of buffers, in bytes: they double, within limits.
const (
	minBuffer = 64
	maxBuffer = 32 << 10
)

// plus returns the words with a piece behind them.
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

// inside returns what is between the quotes of a JSON string.
func inside(s json.RawMessage) []byte { return s[1 : len(s)-1] }

// quote is the inverse of unquote.
func quote(s string) json.RawMessage { return event.EncodeJSON(s) }

// unquote returns the value of a JSON string, "" of anything else.
func unquote(raw json.RawMessage) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	for _, b := range raw[1 : len(raw)-1] {
		if b == '\\' || b < ' ' || b > '~' {
			var s string
			_ = json.Unmarshal(raw, &s) // it was checked when it came; what is not UTF-8 becomes U+FFFD
			return s
		}
	}
	return string(raw[1 : len(raw)-1])
}
