package access

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// ErrClientGone is why a stream has ended whose client is away, or does not take in time what
// it is sent.
var ErrClientGone = errors.New("the client does not read its stream")

// Stream writes server-sent events to one client (text/event-stream of the HTML standard).
// Nothing is written before [Stream.Begin] or the first frame, so that an error in their place
// can still be a plain answer with a status; from then on comments fill long silences, and find
// clients that went away. Its methods are safe for concurrent use.
type Stream struct {
	w         *Writer
	keepAlive time.Duration
	ctx       context.Context
	cancel    context.CancelCauseFunc

	mu    sync.Mutex // the timer writes too
	begun bool
	ended bool
	frame []byte // the last one, to be written over
	timer *time.Timer
}

// Frame is one event of a stream.
type Frame struct {
	// ID is what the client sends as Last-Event-ID when it comes back; "" sends none.
	ID string
	// Event is the type of the event; "" is message, which browsers give to onmessage.
	Event string
	// Data is the text of the event, in any number of lines.
	Data []byte
}

// NewStream makes a stream below a request's context. Silence longer than keepAlive is filled
// with a comment; 0 is 15 seconds, and a negative one sends none. A writer that is no [Writer]
// gets the bounds of one. Who makes a stream calls [Stream.Close] before the handler returns.
func NewStream(ctx context.Context, w http.ResponseWriter, keepAlive time.Duration) *Stream {
	timed, ok := w.(*Writer)
	if !ok {
		timed = NewWriter(w, 0)
	}
	if keepAlive == 0 {
		keepAlive = 15 * time.Second
	}
	s := &Stream{w: timed, keepAlive: keepAlive}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// Context ends when the request does, and when the client cannot be written to any more: its
// cause is then [ErrClientGone].
func (s *Stream) Context() context.Context { return s.ctx }

// Begin answers 200 and sends the header, for clients that wait for it longer than for the first
// frame. Without it the first frame takes the header along.
func (s *Stream) Begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(nil)
}

// Send writes one frame, at once. An error says that the client is gone; the stream is over
// then. An id or a type with a line break is an error, too, and sends nothing.
func (s *Stream) Send(f Frame) error {
	if strings.ContainsAny(f.ID+f.Event, "\r\n\x00") {
		return errors.New("access: the id or the type of a frame has a line break or NUL in it")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.frame[:0]
	if f.ID != "" {
		out = append(append(append(out, "id: "...), f.ID...), '\n')
	}
	if f.Event != "" {
		out = append(append(append(out, "event: "...), f.Event...), '\n')
	}
	data := f.Data
	if bytes.IndexByte(data, '\r') >= 0 { // it ends a line as well
		data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		out = append(append(append(out, "data: "...), line...), '\n')
	}
	out = append(out, '\n')
	if s.frame = out; cap(out) > 4<<10 {
		s.frame = nil // a silent stream keeps little
	}
	return s.write(out)
}

// SendJSON is Send for a value of which the data is the JSON.
func (s *Stream) SendJSON(id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.Send(Frame{ID: id, Data: data})
}

// write sends text and, before the first, the header. If the client does not take it in time
// the stream is over.
func (s *Stream) write(text []byte) error {
	if s.ended {
		return ErrClientGone
	}
	if !s.begun {
		s.begin()
	}
	_, err := s.w.Write(text)
	if err == nil {
		err = s.w.FlushError()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) { // behind middleware that buffers events arrive late
		s.ended = true
		s.cancel(ErrClientGone)
		return err
	}
	if s.timer != nil {
		s.timer.Reset(s.keepAlive)
	}
	return nil
}

func (s *Stream) begin() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("X-Accel-Buffering", "no") // or nginx holds events back
	s.w.WriteHeader(http.StatusOK)
	s.begun = true
	if s.keepAlive > 0 {
		s.timer = time.AfterFunc(s.keepAlive, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			_ = s.write([]byte(": keep-alive\n\n"))
		})
	}
}

// Close ends the stream; nothing is written afterwards.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.cancel(nil)
}
