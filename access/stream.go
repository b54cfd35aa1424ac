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

// ErrClientGone is why a stream has ended whose client is away, or does not take in time what
// it is sent.
var ErrClientGone = errors.New("the client does not read its stream")

// maxUnsent is how many bytes a stream holds for a client that is slow, before Send waits, and
// maxKept is the size of the buffers that a silent one keeps.
const maxUnsent, maxKept = 32 << 10, 2 << 10

// Stream writes server-sent events to one client (text/event-stream of the HTML standard).
// Nothing is written before [Stream.Begin] or the first frame, so that an error in their place
// can still be a plain answer with a status; from then on comments fill long silences, and find
// clients that went away. Its methods are safe for concurrent use.
//
// Frames leave at once, and those that are ready together leave in one write: a goroutine that
// lives as long as there is something to write takes all that has come meanwhile.
type Stream struct {
	w         *Writer
	keepAlive time.Duration
	ctx       context.Context
	cancel    context.CancelCauseFunc
	recall    func() bool // of the watch over the user

	mu           sync.Mutex
	written      sync.Cond // signaled when a write is over
	begun, ended bool
	writing      bool   // a goroutine runs drain
	unsent       []byte // what has not been handed to the connection
	spare        []byte // what unsent becomes next, to save the memory
	timer        *time.Timer
	drained      func() // drain, made once
}

// Frame is one event of a stream.
type Frame struct {
	// ID is what the client sends as Last-Event-ID when it comes back; "" sends none.
	ID string
	// Event is the type of the event; "" is message, which browsers give to onmessage.
	Event string
	// Data is the text of the event, in any number of lines. Nil and without a type, there is no
	// event.
	Data []byte
	// Retry is how long the client waits before it comes back; 0 leaves that to it.
	Retry time.Duration
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
	s.written.L, s.drained = &s.mu, s.drain
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.recall = UserOf(ctx).onRevoked(func() { s.cancel(ErrRevoked) })
	return s
}

// Context ends when the request does, when the client cannot be written to any more, with the
// cause [ErrClientGone], and when its user is revoked, with the cause [ErrRevoked]; then a last
// frame can still be sent.
func (s *Stream) Context() context.Context { return s.ctx }

// Begin answers 200 and sends the header, for clients that wait for it longer than for the first
// frame. Without it the first frame takes the header along. The error is [ErrClientGone].
func (s *Stream) Begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leave()
}

// Send sends a frame. It does not wait for the client, unless 32 KiB are on their way to it. The
// error [ErrClientGone] says that the client is gone; the stream is over then. An id or a type
// with a line break is an error, too, and sends nothing.
func (s *Stream) Send(f Frame) error {
	if strings.ContainsAny(f.ID, "\r\n\x00") || strings.ContainsAny(f.Event, "\r\n\x00") {
		return errors.New("access: the id or the type of a frame has a line break or NUL in it")
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
	if bytes.IndexByte(data, '\r') >= 0 { // it ends a line as well
		data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	if f.Data != nil || f.Event != "" {
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			out = append(append(append(out, "data: "...), line...), '\n')
		}
	}
	s.unsent = append(out, '\n')
	return s.leave()
}

// SendJSON is Send for a value of which the data is the JSON.
func (s *Stream) SendJSON(id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.Send(Frame{ID: id, Data: data})
}

// leave sees to it that what is unsent is written, after the header.
func (s *Stream) leave() error {
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

// drain writes what is unsent until there is nothing left. If the client does not take it in
// time the stream is over.
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
	s.unsent = s.spare[:0] // a silent stream keeps little
	if s.spare = nil; cap(s.unsent) > maxKept {
		s.unsent = nil
	}
}

// write hands text to the connection. A writer that panics is one that cannot be written to:
// net/http would recover here, if this were the handler's goroutine.
func (s *Stream) write(text []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = ErrClientGone
		}
	}()
	if _, err = s.w.Write(text); err == nil {
		err = s.w.FlushError()
	}
	if errors.Is(err, http.ErrNotSupported) { // behind middleware that buffers events arrive late
		return nil
	}
	return err
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
			if !s.ended && !s.writing {
				s.unsent = append(s.unsent, ": keep-alive\n\n"...)
				_ = s.leave()
			}
		})
	}
}

// Close sends what is unsent and ends the stream; nothing is written afterwards.
func (s *Stream) Close() {
	s.recall()
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
