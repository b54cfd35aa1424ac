package access

import (
	"net/http"
	"time"
)

// Harden sets limits of an HTTP server that are not set, so that slow, endless or idle clients cannot exhaust it: 10
// seconds and 64 KiB for the headers of a request, and 2 minutes for idle connections. It does not limit the time of a
// request or an answer, because streams last long. A [Guard] limits the time of a body, and a [Writer] that of each piece
// of an answer.
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

// Writer limits the time in which a client must accept each piece of an answer. Without it, a client that stops reading
// keeps the handler, its goroutine and its buffers forever. A Writer does not remove the last deadline, so that it also
// applies to what net/http writes at the end; net/http removes it before the next request.
//
// It is an http.Flusher. Like other response writers, it is not safe for concurrent use. The zero value is not usable; see
// [NewWriter].
type Writer struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	status  int
}

// pieceSize is the number of bytes for one deadline. Slow clients can accept it in time.
const pieceSize = 64 << 10

// NewWriter returns a writer whose client must accept 64 KiB within timeout. 0 is 30 seconds.
func NewWriter(w http.ResponseWriter, timeout time.Duration) *Writer {
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	return &Writer{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
}

// Status returns the status of the answer, or 0 before one was written.
func (w *Writer) Status() int { return w.status }

func (w *Writer) extend() {
	// Response writers of tests and of some middleware do not support deadlines.
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

// FlushError sends buffered data, as http.ResponseController calls it.
func (w *Writer) FlushError() error {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.extend()
	return w.control.Flush()
}

// Flush implements http.Flusher.
func (w *Writer) Flush() { _ = w.FlushError() }

// Unwrap returns the wrapped writer for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
