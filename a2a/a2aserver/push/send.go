package push

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/cenkalti/backoff/v5"

	"github.com/agentarbor/arbor/internal/dialguard"
)

// tokenHeader carries the token of a config, by which the receiver knows
// that the notification is of its own making.
const tokenHeader = "X-A2A-Notification-Token"

// maxAnswer is how much of an answer's body is read, to use the connection
// again. It is never looked at.
const maxAnswer = 4 << 10

// retryTimes are the pauses between attempts.
type retryTimes struct{ first, most time.Duration }

// newClient makes a client without a proxy, which would connect in its place
// and past the guard, and without redirects, which would take tokens elsewhere.
func newClient(opts Options, guard *dialguard.Guard) *http.Client {
	dialer := &net.Dialer{Timeout: opts.Timeout, KeepAlive: 30 * time.Second, Control: guard.Control, Resolver: opts.resolver}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    opts.Timeout,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 16 << 10,
		DisableCompression:     true,
	}
	if opts.TLS != nil {
		t.TLSClientConfig = opts.TLS.Clone()
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// work posts what waits for the webhook, one after the other, until nothing does.
func (p *Sender) work(w *webhook) {
	defer p.wg.Done()
	for {
		e, r, ok := w.next()
		if !ok {
			return
		}
		err := p.deliver(w.ctx, r, e)
		if w.ctx.Err() != nil {
			return // deleted, or the server closes: then the end is told after a restart
		}
		if err != nil {
			w.lost()
			p.log.Warn("a push notification could not be delivered", "task", w.task.Task, "config", w.id,
				"host", hostOf(r.Config.URL), "error", err)
		}
		if endsTask(e) {
			p.ended(w)
		}
	}
}

// deliver posts one event until it is taken, or refused, or too much time has
// gone by.
func (p *Sender) deliver(ctx context.Context, r Record, e sdk.Event) error {
	body, contentType, err := p.encode(r.Protocol, e)
	if err != nil {
		return fmt.Errorf("the event has no JSON form: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.GiveUpAfter)
	defer cancel()
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = p.retry.first, p.retry.most
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		return struct{}{}, p.attempt(ctx, &r.Config, body, contentType)
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(p.opts.GiveUpAfter))
	return err
}

func (p *Sender) encode(v sdk.ProtocolVersion, e sdk.Event) (body []byte, contentType string, err error) {
	if isLegacy(v) {
		if p.legacy == nil {
			return nil, "", errors.New("protocol 0.3 is off")
		}
		return p.legacy(e)
	}
	body, err = json.Marshal(sdk.StreamResponse{Event: e})
	return body, "application/a2a+json", err
}

func (p *Sender) attempt(ctx context.Context, c *sdk.PushConfig, body []byte, contentType string) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return backoff.Permanent(errors.New("its URL is not valid"))
	}
	req.Header.Set("Content-Type", contentType)
	if c.Token != "" {
		req.Header.Set(tokenHeader, c.Token)
	}
	if c.Auth != nil && c.Auth.Scheme != "" && c.Auth.Credentials != "" {
		req.Header.Set("Authorization", c.Auth.Scheme+" "+c.Auth.Credentials)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // without the URL, whose query may be a secret
		}
		if _, refused := errors.AsType[*dialguard.Error](err); refused {
			return backoff.Permanent(err)
		}
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	return answered(resp, p.now())
}

// answered judges the status of an answer: nil is success, and only what may
// pass by itself is tried again.
func answered(resp *http.Response, now time.Time) error {
	code := resp.StatusCode
	err := fmt.Errorf("the webhook answered %d", code)
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return backoff.Permanent(fmt.Errorf("%w, and redirects are not followed", err))
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code == http.StatusTooEarly, code >= 500:
		if d := retryAfter(resp.Header.Get("Retry-After"), now); d > 0 {
			return fmt.Errorf("%w: %w", err, &backoff.RetryAfterError{Duration: d})
		}
		return err
	default:
		return backoff.Permanent(err)
	}
}

// retryAfter reads the header, which holds seconds or a date (RFC 9110, section
// 10.2.3); 0 is nothing that can be used.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(s); err == nil {
		return min(time.Duration(max(n, 0)), 24*60*60) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

func hostOf(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return cmp.Or(u.Hostname(), "?")
}
