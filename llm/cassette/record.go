package cassette

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Recorder forwards requests and records them. It is an http.RoundTripper that is safe for concurrent use. The zero
// value is not usable; see [Record].
type Recorder struct {
	base http.RoundTripper

	mu   sync.Mutex
	file *os.File
	err  error
}

// Record returns a recorder that writes to a file and replaces its content. It forwards requests to base, or to
// [http.DefaultTransport] if base is nil. Only the owner of the file can read it, because it contains conversations.
// The recorder writes an exchange when the response was read to its end or closed.
func Record(path string, base http.RoundTripper) (*Recorder, error) {
	if base == nil {
		base = http.DefaultTransport
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cassette: %w", err)
	}
	return &Recorder{base: base, file: f}, nil
}

// Close closes the file. It returns the first error of writing to it: a recording is then missing.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.err, r.file.Close()); err != nil {
		return fmt.Errorf("cassette: %w", err)
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	asked, hide := requestOf(req, body)
	out := req.Clone(req.Context())
	if req.Body != nil {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	out.Header.Del("Accept-Encoding") // the file must contain the bytes that the client reads
	res, err := r.base.RoundTrip(out)
	if err != nil {
		if req.Context().Err() == nil {
			r.write(exchange{Request: asked, Response: response{Error: hide.text(err.Error())}})
		}
		return nil, err
	}
	answer := response{Status: res.StatusCode}
	for _, name := range kept {
		if v := res.Header.Get(name); v != "" {
			if answer.Header == nil {
				answer.Header = make(map[string]string)
			}
			answer.Header[name] = hide.text(v)
		}
	}
	res.Body = &recorded{ReadCloser: res.Body, recorder: r, exchange: exchange{Request: asked, Response: answer}, hide: hide, since: time.Now(),
		stream: strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")}
	return res, nil
}

// readBody reads the body of a request, and closes it as transports do.
func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	return body, errors.Join(err, req.Body.Close())
}

func (r *Recorder) write(e exchange) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	r.mu.Lock()
	defer r.mu.Unlock()
	err := enc.Encode(e)
	if err == nil {
		_, err = r.file.Write(text.Bytes())
	}
	if r.err == nil {
		r.err = err
	}
}

// recorded is the body of a response while it is read.
type recorded struct {
	io.ReadCloser
	recorder *Recorder
	exchange exchange
	hide     secrets
	stream   bool
	since    time.Time // the time of the last piece

	mu   sync.Mutex
	held []byte // was read but is in no piece yet
	once sync.Once
}

func (b *recorded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	b.held = append(b.held, p[:n]...)
	for b.stream {
		end := bytes.Index(b.held, []byte("\n\n"))
		if end < 0 {
			break
		}
		b.piece(end + 2)
	}
	b.mu.Unlock()
	if err != nil {
		b.end(!errors.Is(err, io.EOF))
	}
	return n, err
}

// piece adds the first n pending bytes as a piece.
func (b *recorded) piece(n int) {
	now := time.Now()
	after := now.Sub(b.since).Milliseconds()
	b.since = now
	b.exchange.Response.Stream = append(b.exchange.Response.Stream, piece{After: milliseconds(after), data: dataOf(b.hide.bytes(b.held[:n]))})
	b.held = b.held[n:]
}

// Close implements io.Closer. The recording does not contain bytes that were not read.
func (b *recorded) Close() error {
	err := b.ReadCloser.Close()
	b.end(true)
	return err
}

func (b *recorded) end(cut bool) {
	b.once.Do(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		answer := &b.exchange.Response
		answer.Cut = cut
		switch {
		case b.stream && len(b.held) > 0:
			b.piece(len(b.held))
		case !b.stream && len(b.held) > 0:
			d := dataOf(b.hide.bytes(b.held))
			answer.Body = &d
		}
		b.recorder.write(b.exchange)
	})
}
