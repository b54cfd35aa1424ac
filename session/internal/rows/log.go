package rows

import (
	"context"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// A page of a log begins small, since many callers break out early, and grows to LastPage events, or to as many
// as pageBytes hold if they are as large as the last ones.
const (
	firstPage = 64
	LastPage  = 512
	pageBytes = 1 << 20
)

// Segment is a part of a log that is in one session's rows.
type Segment struct{ Row, End int64 }

// Log is a log that is read page by page. Nothing of the database is held while a page is yielded.
type Log struct {
	Key   session.Key
	After int64 // the position up to which events were yielded
	Size  int64 // how many events the next page may have

	page    []*event.Event
	bytes   int // of the page's lines
	decoder event.Decoder
}

// NewLog returns a log from after a position on.
func NewLog(key session.Key, after int64) *Log { return &Log{Key: key, After: after, Size: firstPage} }

// Segments yields what is in the rows of segments, in order, as read reads it: each call reads the next page of a segment. It
// reads what is there already first. A session that is deleted meanwhile ends it with an error that is [agent.ErrConflict].
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

// Deleted returns the error of a log that is gone while it is read.
func Deleted(key session.Key) error {
	return fmt.Errorf("session %s was deleted while it was loaded: %w", key, agent.ErrConflict)
}

// Clear begins a page.
func (l *Log) Clear() { l.page, l.bytes = l.page[:0], 0 }

// Take adds an event to the page. The line is not kept.
func (l *Log) Take(seq int64, line []byte) error {
	if want := l.After + int64(len(l.page)) + 1; seq != want {
		return fmt.Errorf("session %s: the log is damaged: it has event %d where %d should be", l.Key, seq, want)
	}
	l.page = append(l.page, l.decoder.DecodeLine(seq, line))
	l.bytes += len(line)
	return nil
}

// Full reports whether the page is so large that it should be yielded.
func (l *Log) Full() bool { return l.bytes >= pageBytes }

// Yield gives the page to the caller of a load. It reports whether the caller wants more.
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
