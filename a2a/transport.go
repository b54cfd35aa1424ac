package a2a

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxRedirects bounds the number of redirects of one request.
const maxRedirects = 5

// newClient returns the HTTP client for calls, or with a nil mend the one for cards.
func (r *remote) newClient(mend func(answer []byte) []byte) *http.Client {
	client := &http.Client{}
	if r.base != nil {
		*client = *r.base
	}
	client.Transport = &transport{connections: r.connections, credentials: r.credentials, maxBody: r.maxBody, mend: mend}
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errRedirects
		}
		if from, to := origin(via[0].URL), origin(req.URL); from != to {
			return fmt.Errorf("%w, from %s to %s", errRedirect, from, to)
		}
		return nil
	}
	return client
}

var (
	errRedirects = fmt.Errorf("stopped after %d redirects", maxRedirects)
	errRedirect  = errors.New("a redirect to another origin is not followed")
)

// newTokenClient returns the HTTP client for the token endpoint. It follows no redirects, because one would send the
// secret elsewhere. The OAuth library bounds the size of the answers.
func (r *remote) newTokenClient(c *connections) *http.Client {
	client := &http.Client{}
	if r.base != nil {
		client.Timeout = r.base.Timeout
	}
	client.Transport = c.others
	if r.credentials.trusts(r.credentials.tokens.url) {
		client.Transport = c.trusted
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return errTokenRedirect }
	return client
}

var errTokenRedirect = errors.New("a redirect of the token endpoint is not followed")

// transport adds the credentials for trusted origins, refuses requests to forbidden addresses, bounds the size of
// responses, and rewrites responses that the SDK would misread.
type transport struct {
	*connections
	credentials *credentials
	maxBody     int64
	mend        func(answer []byte) []byte // nil for cards
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.send(req)
	if err != nil {
		return nil, err
	}
	limited := &limitedBody{body: resp.Body, limit: t.maxBody, left: t.maxBody}
	limited.watch, _ = req.Context().Value(idleTimerKey{}).(*idleTimer)
	limited.watch.reset()
	resp.Body = limited
	return readable(req, resp, t.mend)
}

// send sends a request, with credentials if its target is trusted.
func (t *transport) send(req *http.Request) (*http.Response, error) {
	if err := t.dialer.check(req.URL.Hostname()); err != nil {
		closeBody(req)
		return nil, err
	}
	if !t.credentials.trusts(req.URL) {
		return t.others.RoundTrip(req)
	}
	for again := false; ; again = true {
		signed, err := t.credentials.sign(req)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		resp, err := t.trusted.RoundTrip(signed)
		if again || err != nil || resp.StatusCode != http.StatusUnauthorized || t.credentials.tokens == nil || req.Body != nil && req.GetBody == nil {
			return resp, err
		}
		// The token may have been revoked before it expired. The peer refused it before doing anything, so the request
		// can be sent again.
		_, _ = io.CopyN(io.Discard, resp.Body, 4096)
		_ = resp.Body.Close()
		t.credentials.refused(signed.Header)
		if req = req.Clone(req.Context()); req.Body != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// closeBody closes the body of a request that is not sent, as http.RoundTripper requires.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
