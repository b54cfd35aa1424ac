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
)

// get makes a request that reads what is at a path, whose parts are not escaped.
func (c *Client) get(path ...string) *http.Request {
	u := *c.base
	for _, part := range path {
		escaped := url.PathEscape(part)
		if strings.Trim(part, ".") == "" { // which would lead elsewhere
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

// query adds to what a request asks for; "" adds nothing.
func query(r *http.Request, name, value string) *http.Request {
	if value != "" {
		r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&"+name+"="+url.QueryEscape(value), "&")
	}
	return r
}

// post makes a request under a name: sent twice it is done once. "" has a name made.
func (c *Client) post(name string, in any, path ...string) (*http.Request, error) {
	r := c.get(path...)
	r.Method = http.MethodPost
	r.Header.Set("Idempotency-Key", cmp.Or(name, crypto.Text()))
	if in == nil {
		return r, nil
	}
	body, err := json.Marshal(in)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return r, err
}

// do makes a request, again while the server is away, and decodes the answer; into a *[]byte it
// is read as it is.
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
				err = c.broken(ctx, err)
			case ok:
				*raw = data
				return nil
			case json.Unmarshal(data, out) != nil:
				return c.stranger(resp)
			default:
				return nil
			}
		}
		if err = away.wait(ctx, err); err != nil {
			return err
		}
	}
}

// send makes a request once. The answer is one of success.
func (c *Client) send(ctx context.Context, r *http.Request) (*http.Response, error) {
	if r = r.Clone(ctx); r.GetBody != nil {
		r.Body, _ = r.GetBody()
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, c.refusal(resp)
	}
	c.met.Store(true)
	return resp, nil
}

// broken makes the error of a connection.
func (c *Client) broken(ctx context.Context, err error) error {
	var outer *url.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &outer):
		err = outer.Err // the rest is the whole URL
	}
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, c.address, err)
}

// outage is a time in which the server does not answer as it should.
type outage struct {
	c     *Client
	since time.Time // zero before it begins
	pause time.Duration
}

// wait waits until it is time to try again. It returns the error if that is of no use: nothing
// will change, or the server has never answered, or not for too long.
func (o *outage) wait(ctx context.Context, err error) error {
	begins := o.since.IsZero()
	if begins {
		o.since = time.Now()
	}
	if !passing(err) || !o.c.met.Load() || time.Since(o.since) >= o.c.patience {
		return err
	}
	if begins {
		o.c.lost(err)
	}
	o.pause = min(max(2*o.pause, 100*time.Millisecond), 5*time.Second)
	pause := o.pause/2 + rand.N(o.pause/2) // clients that were lost together do not come back together
	if refused := (*Error)(nil); errors.As(err, &refused) {
		pause = max(pause, refused.RetryAfter)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
