// Package outbound posts to webhooks at URLs that others have chosen. It uses the guard of package dialguard, retries
// temporary failures, and keeps URLs out of errors.
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

// Poster posts to webhooks. Set its fields before the first use; then it is safe for concurrent use.
type Poster struct {
	Client      *http.Client
	Timeout     time.Duration // of one attempt
	GiveUpAfter time.Duration // limits the time of all attempts
	First, Most time.Duration // the pauses between attempts: the first, and the longest
	Answer      int64         // the maximal number of bytes that are read of an answer's body
	Now         func() time.Time
}

// New returns a poster. Its client uses no proxy, which would connect past the guard, and follows no redirects, which
// could send tokens to other hosts. It pauses for a second before the first retry and then longer, up to a minute. If
// the TLS config or the resolver is nil, it uses the system's.
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

// Host checks the URL of a webhook and returns its host without the port. The error continues a phrase for the URL,
// which it does not contain.
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

// StatusError is an answer with a status other than success.
type StatusError struct{ Code int }

func (e *StatusError) Error() string { return fmt.Sprintf("the webhook answered %d", e.Code) }

// Temporary reports whether a retry may succeed.
func (e *StatusError) Temporary() bool {
	switch e.Code {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusTooEarly:
		return true
	default:
		return e.Code >= 500
	}
}

// Post posts until the webhook accepts or refuses the body, or the time is over, and returns the beginning of the
// answer. set adds headers to each attempt. No error contains the URL, whose query may be secret.
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
	// Reading it also allows to reuse the connection.
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, p.Answer))
	return answer, answered(resp, p.Now())
}

// answered returns the error of an answer's status: nil for success, and a permanent error unless a retry may succeed.
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

// retryAfter reads the header, which contains seconds or a date (RFC 9110, section 10.2.3); 0 if it is missing or
// invalid.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(s); err == nil {
		return min(time.Duration(max(n, 0)), 24*60*60) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
