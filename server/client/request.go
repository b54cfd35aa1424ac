package client

import (
	"bytes"
	"cmp"
	"context"
	crypto "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/sleep"
)

// get returns a GET request for a path. The parts are not escaped.
func (c *Client) get(path ...string) *http.Request {
	u := *c.base
	for _, part := range path {
		escaped := url.PathEscape(part)
		if strings.Trim(part, ".") == "" { // servers and proxies resolve "." and ".."
			escaped = strings.ReplaceAll(part, ".", "%2E")
		}
		u.RawPath = u.EscapedPath() + "/" + escaped
		u.Path += "/" + part
	}
	r := &http.Request{Method: http.MethodGet, URL: &u, Header: http.Header{"Accept": {"application/json, */*"}}}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return query(r, "user", c.user)
}

// query adds a parameter to a request, unless the value is "".
func query(r *http.Request, name, value string) *http.Request {
	if value != "" {
		r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&"+name+"="+url.QueryEscape(value), "&")
	}
	return r
}

// post returns a POST request with an id, which the server executes once. "" generates an id.
func (c *Client) post(id string, in any, path ...string) (*http.Request, error) {
	r := c.get(path...)
	r.Method = http.MethodPost
	r.Header.Set("Idempotency-Key", cmp.Or(id, crypto.Text()))
	if in == nil {
		return r, nil
	}
	body, err := json.Marshal(in)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return r, err
}

// do sends a request, again while the server does not answer, and decodes the JSON of the answer into out. If out is a
// *[]byte, it receives the bytes of the answer.
func (c *Client) do(ctx context.Context, r *http.Request, out any) error {
	for away := (outage{c: c}); ; {
		resp, err := c.send(ctx, r)
		if err == nil {
			var data []byte
			data, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			raw, ok := out.(*[]byte)
			switch {
			case err != nil:
				err = c.connectionError(ctx, err)
			case ok:
				*raw = data
				return nil
			case json.Unmarshal(data, out) != nil:
				return c.notArbor(resp)
			default:
				return nil
			}
		}
		if err = away.wait(ctx, err); err != nil {
			return err
		}
	}
}

// send sends a request once. It returns an error for an answer without a 2xx status.
func (c *Client) send(ctx context.Context, r *http.Request) (*http.Response, error) {
	if r = r.Clone(ctx); r.GetBody != nil {
		r.Body, _ = r.GetBody()
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.connectionError(ctx, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, c.readError(resp)
	}
	c.answered.Store(true)
	return resp, nil
}

// connectionError returns the error of a connection.
func (c *Client) connectionError(ctx context.Context, err error) error {
	var outer *url.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &outer):
		err = outer.Err // the outer error contains the whole URL
	}
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, c.address, err)
}

// outage is a period without a successful answer of the server.
type outage struct {
	c     *Client
	since time.Time // the start; zero before it
	pause time.Duration
}

// wait waits until the next attempt. It returns the error if the client should not retry: a retry cannot succeed, the
// server has never answered, or the patience is over.
func (o *outage) wait(ctx context.Context, err error) error {
	begins := o.since.IsZero()
	if begins {
		o.since = time.Now()
	}
	if !temporary(err) || !o.c.answered.Load() || time.Since(o.since) >= o.c.patience {
		return err
	}
	if begins {
		o.c.lost(err)
	}
	o.pause = min(max(2*o.pause, 100*time.Millisecond), 5*time.Second)
	pause := o.pause/2 + rand.N(o.pause/2) // spread the retries of clients that lost their connections together
	if refused := (*Error)(nil); errors.As(err, &refused) {
		pause = max(pause, refused.RetryAfter)
	}
	return sleep.For(ctx, pause)
}
