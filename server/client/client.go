// Package client is a client of the native API of a server (package server): its sessions and turns, and the handoffs
// to people.
//
//	c, err := client.New("http://127.0.0.1:8420", client.WithToken(os.Getenv("ARBOR_TOKEN")))
//	...
//	turn, err := c.Begin(ctx, "s1", client.Message{Content: llm.Content{Text: "I was charged twice"}})
//	...
//	for entry, err := range c.Watch(ctx, "s1", turn.ID, "") {
//		fmt.Print(entry.Event.Visible())
//	}
//
// The client handles lost connections and restarts of the server. A stream continues after the last event, and yields
// each stored event once. A request that stores something has an id, so that the server executes it once even if the
// client sends it again.
//
// The package contains nothing that runs or serves agents. Its errors never contain a token.
package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agentarbor/arbor/internal/option"
)

// Client calls one server as one user. It is safe for concurrent use. The zero value is not usable; see [New].
type Client struct {
	base              *url.URL // of the API
	address           string   // as errors show it
	token, user       string
	http              *http.Client
	patience, silence time.Duration
	lost              func(error)
	answered          *atomic.Bool // the server has answered once
}

// Option configures a [Client].
type Option func(*Client)

// WithToken sets the bearer token of requests. Defaults to "", which sends none.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithHTTPClient sets the HTTP client. It must not have a timeout, which would end streams. The default client does not
// follow redirects: a redirect is an error that contains the other address.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithPatience sets how long the client retries while a server does not answer that has answered before. 0 does not
// retry. Defaults to 5 minutes.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = d } }

// WithLost sets a function that is called with the error when the client starts to retry, once for each outage. The
// goroutines that use the client call it, so it must be safe for concurrent use.
func WithLost(f func(error)) Option { return func(c *Client) { c.lost = f } }

// New returns a client of the server at an address such as https://agents.example.com. The path of the API is /api/v1
// below it. New does not send a request.
func New(address string, opts ...Option) (*Client, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("client: the address of a server must look like http://127.0.0.1:8420, without user, query and fragment")
	}
	u.Path = cmp.Or(u.Path, "/")
	c := &Client{base: u.JoinPath("api", "v1"), address: strings.TrimSuffix(u.String(), "/"), patience: 5 * time.Minute, silence: 45 * time.Second, lost: func(error) {}, answered: new(atomic.Bool),
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if err := option.Apply(c, opts); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	switch {
	case c.http == nil || c.lost == nil || c.patience < 0:
		return nil, errors.New("client: the HTTP client or a function is nil, or the patience is negative")
	case strings.ContainsFunc(c.token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("client: the token must be one word of ASCII letters, digits and signs")
	}
	return c, nil
}

// Of returns a client that uses the sessions of another user. The caller needs the right to inspect, or to act for
// requests that change something.
func (c *Client) Of(user string) *Client {
	of := *c
	of.user = user
	return &of
}
