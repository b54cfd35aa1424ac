// Package client is a client of the native API of a server (package server): its sessions and
// turns, and the conversations that wait for a person.
//
//	c, err := client.New("http://127.0.0.1:8420", client.WithToken(os.Getenv("ARBOR_TOKEN")))
//	...
//	turn, err := c.Begin(ctx, "s1", client.Message{Content: llm.Content{Text: "I was charged twice"}})
//	...
//	for entry, err := range c.Watch(ctx, "s1", turn.ID, "") {
//		fmt.Print(entry.Event.Visible())
//	}
//
// Connections that are lost and servers that are restarted are put right here: a stream goes on
// behind what was seen, with every stored event once, and requests that store something carry a
// name, so that one that is sent twice is done once.
//
// It imports agent, event, llm and session, and nothing that runs an agent or serves. It never
// writes a token into an error.
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

// Client calls one server as one user. It is safe for concurrent use. The zero value is not
// usable.
type Client struct {
	base              *url.URL // of the API
	address           string   // as errors show it
	token, user       string
	http              *http.Client
	patience, silence time.Duration
	lost              func(error)
	met               *atomic.Bool // the server has answered once
}

// Option configures a [Client].
type Option func(*Client)

// WithToken sets the token that says who calls; "" sends none.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithHTTPClient sets what makes the requests. A time limit of it would cut off streams. By
// default redirects are not followed, but an error that names the other address.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithPatience bounds how long a server that is away is waited for, again and again, if it has
// answered this client before. The default is 5 minutes; 0 does not wait.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = d } }

// WithLost sets a function that is told why a server is waited for that is away, once for each
// outage. It is called from the goroutines that use the client.
func WithLost(told func(error)) Option { return func(c *Client) { c.lost = told } }

// New makes a client of the server at an address such as https://agents.example.com, below which
// the API stands at /api/v1. Nothing is asked of the server.
func New(address string, opts ...Option) (*Client, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("client: the address of a server is such as http://127.0.0.1:8420, without user, query and fragment")
	}
	u.Path = cmp.Or(u.Path, "/")
	c := &Client{base: u.JoinPath("api", "v1"), address: strings.TrimSuffix(u.String(), "/"), patience: 5 * time.Minute, silence: 45 * time.Second, lost: func(error) {}, met: new(atomic.Bool),
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

// Of returns a client of the same server that uses the sessions of another user, which the token
// must give the right to.
func (c *Client) Of(user string) *Client {
	of := *c
	of.user = user
	return &of
}
