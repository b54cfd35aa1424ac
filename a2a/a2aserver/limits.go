package a2aserver

import (
	"net/http"
	"time"
)

// Harden sets the limits of an HTTP server that are unset, so that a client that sends
// its request byte by byte, sends endless headers or keeps idle connections cannot use it up:
// ten seconds for the headers, 64 KiB of them, two minutes of idleness. It sets no limit for the
// time of a request or an answer, because streams last; the front of a [Server] bounds the
// time of a body and of each piece of an answer itself.
func Harden(s *http.Server) {
	if s.ReadHeaderTimeout == 0 {
		s.ReadHeaderTimeout = 10 * time.Second
	}
	if s.IdleTimeout == 0 {
		s.IdleTimeout = 2 * time.Minute
	}
	if s.MaxHeaderBytes == 0 {
		s.MaxHeaderBytes = 64 << 10
	}
}

// timedWriter gives the client a bounded time for each piece of an answer. Without it a client
// that stops reading keeps the handler, its goroutine and its buffers for as long as it likes.
// A deadline is left behind on purpose: what net/http itself still has to write at the end is
// bounded too, and net/http removes it before the next request.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	status  int // 0: nothing was answered yet
}

// pieceSize is how much is written below one deadline: even a slow client takes it in time.
const pieceSize = 64 << 10

func newTimedWriter(w http.ResponseWriter, timeout time.Duration) *timedWriter {
	return &timedWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
}

func (t *timedWriter) extend() {
	// Writers of tests and of some middleware have no deadlines; then there is none.
	_ = t.control.SetWriteDeadline(time.Now().Add(t.timeout))
}

func (t *timedWriter) WriteHeader(status int) {
	if t.status == 0 && status >= 200 {
		t.status = status
	}
	t.extend()
	t.ResponseWriter.WriteHeader(status)
}

func (t *timedWriter) Write(data []byte) (int, error) {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	written := 0
	for {
		piece := data[written:min(len(data), written+pieceSize)]
		t.extend()
		n, err := t.ResponseWriter.Write(piece)
		written += n
		if err != nil || written >= len(data) {
			return written, err
		}
	}
}

// FlushError sends what is buffered.
func (t *timedWriter) FlushError() error {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	t.extend()
	return t.control.Flush()
}

// Flush makes it a http.Flusher, as handlers of other packages ask for one.
func (t *timedWriter) Flush() { _ = t.FlushError() }

// Unwrap is for http.ResponseController.
func (t *timedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }
