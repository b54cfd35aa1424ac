package access

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
)

// body is the body of a request within the limits of a guard. Every error of Read except io.EOF is a *[RefusedError].
type body struct {
	io.ReadCloser
	guard   *Guard
	refused error // set if no byte is read
}

func (b *body) Read(p []byte) (n int, err error) {
	if b.refused != nil {
		return 0, b.refused
	}
	n, err = b.ReadCloser.Read(p)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return n, b.guard.tooLarge()
	case err == nil, err == io.EOF:
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, refusef(http.StatusRequestTimeout, "the body did not arrive within %s", b.guard.opts.BodyTimeout)
	default:
		return n, refusef(http.StatusBadRequest, "the connection ended before the body was complete")
	}
}

func (g *Guard) tooLarge() error {
	return refusef(http.StatusRequestEntityTooLarge, "the body is larger than the limit of %d bytes", g.opts.MaxBody)
}

// received reads the whole body of a request, for handlers that would not report why reading failed. The error is that
// of the body.
func received(r *http.Request) (*http.Request, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return r, err
	}
	r = r.WithContext(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(data))
	return r, nil
}
