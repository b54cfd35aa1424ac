package rows

import (
	"context"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// The first page of a log is small, because many callers stop early. Each page has up to twice as many events as the
// one before, at most LastPage, and fewer if the last page shows that they would exceed pageBytes.
const (
	firstPage = 64
	// LastPage is the largest number of events in a page.
	LastPage  = 512
	pageBytes = 1 << 20
)

// Segment is the part of a log up to the position End that a session's row contains.
type Segment struct{ Row, End int64 }

// Log reads a log page by page. While it yields a page, it holds nothing of the database.
type Log struct {
	Key   session.Key
	After int64 // the position up to which events were yielded
	Size  int64 // the maximal number of events in the next page

	page    []*event.Event
	bytes   int // the size of the page's lines
	decoder event.Decoder
}

// NewLog returns a log that starts after a position.
func NewLog(key session.Key, after int64) *Log { return &Log{Key: key, After: after, Size: firstPage} }

// Segments yields the events of segments, in order. For each page it calls read, which adds the page's events with
// Take. If the session is deleted meanwhile, the error is [agent.ErrConflict].
func (l *Log) Segments(ctx context.Context, segments []Segment, read func(Segment) error, yield func(*event.Event, error) bool) error {
	for _, part := range segments {
		for l.After < part.End {
			l.Clear()
			if err := read(part); err != nil {
				return err
			}
			if len(l.page) == 0 {
				return Deleted(l.Key)
			}
			if more, err := l.Yield(ctx, yield); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// Deleted returns the error for a log that was deleted while it was read. It is [agent.ErrConflict].
func Deleted(key session.Key) error {
	return fmt.Errorf("session %s was deleted while it was loaded: %w", key, agent.ErrConflict)
}

// Clear starts a page.
func (l *Log) Clear() { l.page, l.bytes = l.page[:0], 0 }

// Take adds an event to the page. It does not keep the slice. It returns an error if the position is not the next
// one.
func (l *Log) Take(seq int64, line []byte) error {
	if want := l.After + int64(len(l.page)) + 1; seq != want {
		return fmt.Errorf("session %s: the log is damaged: it has event %d where %d should be", l.Key, seq, want)
	}
	l.page = append(l.page, l.decoder.DecodeLine(seq, line))
	l.bytes += len(line)
	return nil
}

// Full reports whether the page has reached its maximal size in bytes.
func (l *Log) Full() bool { return l.bytes >= pageBytes }

// Yield yields the page's events. It reports whether the caller wants more.
func (l *Log) Yield(ctx context.Context, yield func(*event.Event, error) bool) (more bool, err error) {
	for _, e := range l.page {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if !yield(e, nil) {
			return false, nil
		}
	}
	if n := int64(len(l.page)); n > 0 {
		l.After += n
		l.Size = max(1, min(2*l.Size, LastPage, n*pageBytes/int64(l.bytes)))
	}
	return true, nil
}
