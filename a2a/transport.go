package a2a

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// newClient returns the client for cards and calls: it adds the headers where
// they may go, bounds bodies, and turns what the protocol library would misread.
func (r *remote) newClient() *http.Client {
	c := &http.Client{}
	if r.base != nil {
		*c = *r.base
	}
	base := c.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	c.Transport = &transport{base: base, header: r.header, origins: r.origins, maxBody: r.maxBody}
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) >= 5 {
			return errors.New("too many redirects")
		}
		if origin(req.URL) != origin(via[0].URL) {
			return errors.New("a redirect to another origin is not followed")
		}
		return nil
	}
	return c
}

// headersFor returns the headers that a target may get.
func (r *remote) headersFor(target *url.URL) http.Header {
	if !slices.Contains(r.origins, origin(target)) {
		return nil
	}
	return r.header.Clone()
}

type transport struct {
	base    http.RoundTripper
	header  http.Header
	origins []string
	maxBody int64
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if slices.Contains(t.origins, origin(req.URL)) && len(t.header) > 0 {
		req = req.Clone(req.Context())
		for name, values := range t.header {
			req.Header[name] = values
		}
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	limited := &limitedBody{body: resp.Body, left: t.maxBody}
	limited.watch, _ = req.Context().Value(silenceKey{}).(*silence)
	limited.watch.heard()
	resp.Body = limited
	if resp.StatusCode >= 400 {
		resp.Body.Close()
		return nil, &statusError{resp.StatusCode}
	}
	if strings.Contains(req.Header.Get("Accept"), "text/event-stream") && isJSON(resp.Header) {
		// A peer may answer a streaming call with plain JSON, above all with an
		// error. As the only event of a stream it is understood like any other.
		var line bytes.Buffer
		line.WriteString("data: ")
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		if json.Compact(&line, data) != nil {
			return nil, errBadJSON
		}
		line.WriteString("\n\n")
		resp.Body = io.NopCloser(&line)
		resp.ContentLength = -1
	}
	return resp, nil
}

func isJSON(h http.Header) bool {
	typ, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (typ == "application/json" || strings.HasSuffix(typ, "+json"))
}

// silence calls a func when nothing was heard for a while. It is at rest until
// something is heard, and again when a response has ended. A nil silence watches
// nothing.
type silence struct {
	after time.Duration
	timer *time.Timer
}

type silenceKey struct{}

func newSilence(after time.Duration, f func()) *silence {
	s := &silence{after: after, timer: time.AfterFunc(after, f)}
	s.timer.Stop()
	return s
}

func (s *silence) heard() {
	if s != nil {
		s.timer.Reset(s.after)
	}
}

func (s *silence) over() {
	if s != nil {
		s.timer.Stop()
	}
}

// limitedBody fails, instead of ending, when a body is longer than allowed.
type limitedBody struct {
	body  io.ReadCloser
	left  int64
	watch *silence
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.body.Read(p)
	if err != nil {
		b.watch.over()
	} else if n > 0 {
		b.watch.heard()
	}
	if int64(n) > b.left {
		return int(b.left), errTooLarge
	}
	b.left -= int64(n)
	return n, err
}

func (b *limitedBody) Close() error {
	b.watch.over()
	return b.body.Close()
}
