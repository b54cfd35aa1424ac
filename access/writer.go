package access

import (
	"net/http"
	"time"
)

// Harden sets the limits of an HTTP server that are unset, so that a client that sends
// its request byte by byte, sends endless headers or keeps idle connections cannot use it up:
// ten seconds for the headers, 64 KiB of them, two minutes of idleness. It sets no limit for the
// time of a request or an answer, because streams last; a [Guard] bounds the time of a body,
// and a [Writer] that of each piece of an answer.
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

// Writer gives the client a bounded time for each piece of an answer. Without it a client
// that stops reading keeps the handler, its goroutine and its buffers for as long as it likes.
// A deadline is left behind on purpose: what net/http itself still has to write at the end is
// bounded too, and net/http removes it before the next request.
//
// It is an http.Flusher, and like any other http.ResponseWriter belongs to one goroutine at a
// time.
type Writer struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	status  int
}

// pieceSize is how much is written below one deadline: even a slow client takes it in time.
const pieceSize = 64 << 10

// NewWriter makes a writer that gives the client so much time for 64 KiB; 0 is 30 seconds.
func NewWriter(w http.ResponseWriter, timeout time.Duration) *Writer {
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	return &Writer{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
}

// Status is the status that was answered, 0 if nothing was answered yet.
func (w *Writer) Status() int { return w.status }

func (w *Writer) extend() {
	// Writers of tests and of some middleware have no deadlines; then there is none.
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	written := 0
	for {
		piece := data[written:min(len(data), written+pieceSize)]
		w.extend()
		n, err := w.ResponseWriter.Write(piece)
		written += n
		if err != nil || written >= len(data) {
			return written, err
		}
	}
}

// FlushError sends what is buffered.
func (w *Writer) FlushError() error {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.extend()
	return w.control.Flush()
}

// Flush implements http.Flusher, as handlers of other packages ask for one.
func (w *Writer) Flush() { _ = w.FlushError() }

// Unwrap is for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
