package conversation

import (
	"encoding/json"
	"sync/atomic"

	"github.com/agentarbor/arbor/agent"
)

// words are the content of a block of text that came in several pieces: the
// inside of a JSON string, escapes and all, because a piece may end in half of a
// surrogate pair. The zero value has none. It is safe for concurrent use.
//
// Pieces are written behind each other into one buffer. Every value knows how
// much of it is its own, and only the longest one can be extended in place.
type words struct {
	buf *buffer
	n   int
}

type buffer struct {
	used atomic.Int64
	data []byte // of fixed length
}

// plus returns the words with a piece behind them.
func (w words) plus(piece []byte) words {
	n := w.n + len(piece)
	if w.buf == nil || n > len(w.buf.data) || !w.buf.used.CompareAndSwap(int64(w.n), int64(n)) {
		next := &buffer{data: make([]byte, max(64, 2*n))}
		next.used.Store(int64(n))
		if w.buf != nil {
			copy(next.data, w.buf.data[:w.n])
		}
		w.buf = next
	}
	copy(w.buf.data[w.n:], piece)
	return words{w.buf, n}
}

// json returns the words as a JSON string.
func (w words) json() json.RawMessage {
	out := make([]byte, 0, w.n+2)
	out = append(out, '"')
	out = append(out, w.buf.data[:w.n]...)
	return append(out, '"')
}

// inside returns what stands between the quotes of a JSON string.
func inside(s json.RawMessage) []byte { return s[1 : len(s)-1] }

// quote is the inverse of unquote.
func quote(s string) json.RawMessage { return agent.EncodeJSON(s) }

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
