package access

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrClientGone reports a stream whose client has disconnected, or does not read it in time.
var ErrClientGone = errors.New("the client does not read its stream")

// maxUnsent is the number of unsent bytes from which Send waits for a slow client. maxKept is the maximum size of the
// buffer that a silent stream keeps.
const maxUnsent, maxKept = 32 << 10, 2 << 10

// Stream writes server-sent events to one client (text/event-stream of the HTML standard). It writes nothing before
// [Stream.Begin] or the first frame, so that the handler can still answer an error with a status. Then it sends comments
// during long silences, which also detect clients that have disconnected. It is safe for concurrent use.
//
// A goroutine writes the frames. It sends each frame at once, and frames that accumulate during a write in one write. It
// ends when there is nothing to write.
type Stream struct {
	w         *Writer
	keepAlive time.Duration
	ctx       context.Context
	cancel    context.CancelCauseFunc
	stopWatch func() bool // stops waiting for the user's revocation

	mu           sync.Mutex
	written      sync.Cond // signaled after each write
	begun, ended bool
	writing      bool   // a goroutine runs drain
	unsent       []byte // frames that are not written yet
	spare        []byte // the next buffer of unsent
	timer        *time.Timer
	drained      func() // s.drain, to allocate it once
}

// Frame is one event of a stream.
type Frame struct {
	// ID is the id that the client sends as Last-Event-ID when it reconnects. "" sends no id.
	ID string
	// Event is the type of the event. "" is the default type message, for which browsers call onmessage.
	Event string
	// Data is the text of the event, which may have several lines. If Data is nil and Event is "", the frame has no event.
	Data []byte
	// Retry is how long the client waits before it reconnects. 0 does not set it.
	Retry time.Duration
}

// NewStream returns a stream for a request with the context ctx. After a silence of keepAlive it sends a comment; 0 is 15
// seconds, and a negative value sends none. It wraps a w that is not a [Writer] by [NewWriter]. The caller must call
// [Stream.Close] before the handler returns.
func NewStream(ctx context.Context, w http.ResponseWriter, keepAlive time.Duration) *Stream {
	timed, ok := w.(*Writer)
	if !ok {
		timed = NewWriter(w, 0)
	}
	if keepAlive == 0 {
		keepAlive = 15 * time.Second
	}
	s := &Stream{w: timed, keepAlive: keepAlive}
	s.written.L, s.drained = &s.mu, s.drain
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.stopWatch = UserOf(ctx).onRevoked(func() { s.cancel(ErrRevoked) })
	return s
}

// Context returns a context that ends when the request ends, with the cause [ErrClientGone] when writing to the client
// fails, and with the cause [ErrRevoked] when the user is revoked. After ErrRevoked, the handler can still send frames.
func (s *Stream) Context() context.Context { return s.ctx }

// Begin answers 200 and sends the headers before the first frame. Without Begin, the first frame sends them. The error is
// [ErrClientGone].
func (s *Stream) Begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startWrite()
}

// Send sends a frame. It waits for the client only if 32 KiB are unsent. The error is [ErrClientGone] if the stream has
// ended. Send also returns an error, and sends nothing, if the id or the type contains a line break.
func (s *Stream) Send(f Frame) error {
	if strings.ContainsAny(f.ID, "\r\n\x00") || strings.ContainsAny(f.Event, "\r\n\x00") {
		return errors.New("access: the id or the type of a frame contains a line break or NUL")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.unsent) >= maxUnsent && !s.ended {
		s.written.Wait()
	}
	if s.ended {
		return ErrClientGone
	}
	out := s.unsent
	if f.Retry > 0 {
		out = append(strconv.AppendInt(append(out, "retry: "...), f.Retry.Milliseconds(), 10), '\n')
	}
	if f.ID != "" {
		out = append(append(append(out, "id: "...), f.ID...), '\n')
	}
	if f.Event != "" {
		out = append(append(append(out, "event: "...), f.Event...), '\n')
	}
	data := f.Data
	if bytes.IndexByte(data, '\r') >= 0 { // a carriage return also ends a line
		data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	if f.Data != nil || f.Event != "" {
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			out = append(append(append(out, "data: "...), line...), '\n')
		}
	}
	s.unsent = append(out, '\n')
	return s.startWrite()
}

// SendJSON sends a frame with an id whose data is the JSON of a value.
func (s *Stream) SendJSON(id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.Send(Frame{ID: id, Data: data})
}

// startWrite writes the headers if necessary, and starts drain unless it runs.
func (s *Stream) startWrite() error {
	if s.ended {
		return ErrClientGone
	}
	if !s.begun {
		s.begin()
	}
	if !s.writing {
		s.writing = true
		go s.drained()
	}
	return nil
}

// drain writes until nothing is unsent. If the client does not accept the data in time, drain ends the stream.
func (s *Stream) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing {
		out := s.unsent
		s.unsent, s.spare = s.spare[:0], nil
		s.mu.Unlock()
		err := s.write(out)
		s.mu.Lock()
		s.spare = out
		if err != nil {
			s.ended, s.unsent = true, nil
			s.cancel(ErrClientGone)
		}
		if s.timer != nil && !s.ended {
			s.timer.Reset(s.keepAlive)
		}
		s.writing = len(s.unsent) > 0
		s.written.Broadcast()
	}
	s.unsent = s.spare[:0] // a silent stream keeps only a small buffer
	if s.spare = nil; cap(s.unsent) > maxKept {
		s.unsent = nil
	}
}

// write writes text to the connection. It treats a panic of the writer as an error, because net/http recovers panics only
// in the handler's goroutine.
func (s *Stream) write(text []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = ErrClientGone
		}
	}()
	if _, err = s.w.Write(text); err == nil {
		err = s.w.FlushError()
	}
	if errors.Is(err, http.ErrNotSupported) { // middleware buffers the answer, so events arrive late
		return nil
	}
	return err
}

func (s *Stream) begin() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx buffers events
	s.w.WriteHeader(http.StatusOK)
	s.begun = true
	if s.keepAlive > 0 {
		s.timer = time.AfterFunc(s.keepAlive, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.ended && !s.writing {
				s.unsent = append(s.unsent, ": keep-alive\n\n"...)
				_ = s.startWrite()
			}
		})
	}
}

// Close writes all unsent frames and ends the stream. Later calls of Send fail.
func (s *Stream) Close() {
	s.stopWatch()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for s.writing {
		s.written.Wait()
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.cancel(nil)
}
