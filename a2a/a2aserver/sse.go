package a2aserver

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

var (
	errClientGone  = errors.New("the client does not read its stream")
	errEmptyStream = errors.New("the stream ended before its first event")
)

// sseStream writes events to one client (text/event-stream of the HTML standard). Nothing is
// written before the first event, so that an error in its place can still be a plain
// answer with a status; from then on comments fill long silences.
type sseStream struct {
	w         *timedWriter
	keepAlive time.Duration
	cancel    context.CancelCauseFunc

	mu    sync.Mutex // the timer writes too
	begun bool
	ended bool
	timer *time.Timer
}

// serveStream writes what the events are encoded to. An error that comes before the first event
// is returned and nothing was written; a later one is encoded by failure into a last frame.
func serveStream(ctx context.Context, w *timedWriter, keepAlive time.Duration, begin func(),
	events func(context.Context) iter.Seq2[sdk.Event, error],
	encode func(sdk.Event) ([]byte, error), failure func(error) []byte,
) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &sseStream{w: w, keepAlive: keepAlive, cancel: cancel}
	defer s.end()
	defer func() {
		if v := recover(); v != nil {
			if err = panicked(v); s.begun {
				_ = s.write(failure(err))
				err = nil
			}
		}
	}()
	for event, err := range events(ctx) {
		var data []byte
		if err == nil {
			data, err = encode(event)
		}
		if err != nil && !s.begun {
			return err
		}
		if err != nil {
			_ = s.write(failure(err)) // the stream ends either way
			return nil
		}
		if !s.begun {
			begin()
			s.begin()
		}
		if s.write(append(append([]byte("data: "), data...), "\n\n"...)) != nil {
			return nil
		}
	}
	if !s.begun {
		return errEmptyStream
	}
	return nil
}

// begin answers 200; the first frame follows at once and takes the header along.
func (s *sseStream) begin() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("X-Accel-Buffering", "no") // or nginx holds events back
	s.w.WriteHeader(http.StatusOK)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	if s.keepAlive > 0 {
		s.timer = time.AfterFunc(s.keepAlive, s.comment)
	}
}

// write sends one frame. If the client does not take it in time the stream is over.
func (s *sseStream) write(frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errClientGone
	}
	_, err := s.w.Write(frame)
	if err == nil {
		err = s.w.FlushError()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) { // behind middleware that buffers events arrive late
		s.ended = true
		s.cancel(errClientGone)
		return err
	}
	if s.timer != nil {
		s.timer.Reset(s.keepAlive)
	}
	return nil
}

// comment keeps proxies from closing a silent connection, and finds clients that went away.
func (s *sseStream) comment() { _ = s.write([]byte(": keep-alive\n\n")) }

// end is called before the handler returns: nothing may write afterwards.
func (s *sseStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
}
