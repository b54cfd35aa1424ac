// Package outbound posts to webhooks, whose addresses others have chosen: never past the guard of
// package dialguard, again after failures that may pass by themselves, and without URLs in errors.
package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/agentarbor/arbor/internal/dialguard"
)

// Poster posts to webhooks. Its fields are set before it is used; then it is safe for concurrent
// use.
type Poster struct {
	Client      *http.Client
	Timeout     time.Duration // of one attempt
	GiveUpAfter time.Duration // bounds all attempts
	First, Most time.Duration // the pauses between attempts
	Answer      int64         // how many bytes of an answer's body are read
	Now         func() time.Time
}

// New makes a poster whose client has no proxy, which would connect in its place and past the
// guard, and follows no redirects, which would take tokens elsewhere. It pauses for a second and
// then longer, up to a minute. A nil config of TLS and a nil resolver are the system's.
func New(guard *dialguard.Guard, timeout, giveUpAfter time.Duration, tls *tls.Config, resolver *net.Resolver) *Poster {
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second, Control: guard.Control, Resolver: resolver}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    timeout,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 16 << 10,
		DisableCompression:     true,
	}
	if tls != nil {
		t.TLSClientConfig = tls.Clone()
	}
	return &Poster{
		Client: &http.Client{
			Transport:     t,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Timeout: timeout, GiveUpAfter: giveUpAfter, First: time.Second, Most: time.Minute, Answer: 4 << 10, Now: time.Now,
	}
}

// Host checks the URL of a webhook and returns the host in it, without its port. The error goes on
// after words for the URL, which it does not hold.
func Host(to string, allowHTTP bool) (string, error) {
	switch u, err := url.Parse(to); {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return "", errors.New("is not absolute, with a host")
	case u.Scheme != "https" && (u.Scheme != "http" || !allowHTTP):
		return "", errors.New("must be https")
	case u.User != nil:
		return "", errors.New("must not hold credentials")
	default:
		return u.Hostname(), nil
	}
}

// StatusError is an answer that is not success.
type StatusError struct{ Code int }

func (e *StatusError) Error() string { return fmt.Sprintf("the webhook answered %d", e.Code) }

// Temporary says whether the same may be taken when it is posted again.
func (e *StatusError) Temporary() bool {
	switch e.Code {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusTooEarly:
		return true
	default:
		return e.Code >= 500
	}
}

// Post posts until it is taken, or refused, or too much time has gone by, and returns the
// beginning of the answer. Each attempt has the headers that are set for it. No error holds the
// URL, whose query may be a secret.
func (p *Poster) Post(ctx context.Context, to string, body []byte, set func(http.Header)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.GiveUpAfter)
	defer cancel()
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = p.First, p.Most
	var last error
	answer, err := backoff.Retry(ctx, func() (answer []byte, err error) {
		answer, err = p.attempt(ctx, to, body, set)
		if ctx.Err() == nil {
			last = err
		}
		return answer, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(p.GiveUpAfter))
	if err != nil && ctx.Err() != nil && last != nil {
		err = fmt.Errorf("%w: before that %w", ctx.Err(), last)
	}
	return answer, err
}

func (p *Poster) attempt(ctx context.Context, to string, body []byte, set func(http.Header)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, backoff.Permanent(errors.New("its URL is not valid"))
	}
	set(req.Header)
	resp, err := p.Client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // without the URL
		}
		if _, refused := errors.AsType[*dialguard.Error](err); refused {
			return nil, backoff.Permanent(err)
		}
		return nil, err
	}
	defer resp.Body.Close()
	// It is read to use the connection again, too.
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, p.Answer))
	return answer, answered(resp, p.Now())
}

// answered judges the status of an answer: nil is success, and only what may
// pass by itself is tried again.
func answered(resp *http.Response, now time.Time) error {
	code := resp.StatusCode
	err := &StatusError{Code: code}
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return backoff.Permanent(fmt.Errorf("%w, and redirects are not followed", err))
	case err.Temporary():
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
