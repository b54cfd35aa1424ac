package a2a

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/view"
)

// Option configures a remote agent.
type Option func(*remote)

// WithDescription tells other agents what the remote one is for. The default is
// its name: a description that its card may hold is not known before the card is
// fetched, and what a peer says of itself is not put before models unseen.
func WithDescription(d string) Option { return func(r *remote) { r.description = d } }

// WithReturn says who answers the user's next message after the remote agent has
// answered one: the remote agent itself, unless it is agent.ReturnToParent. Its parent
// then also gets the answer to a question of its task, and has to hand it on.
func WithReturn(p agent.ReturnPolicy) Option { return func(r *remote) { r.returns = p } }

// WithHTTPClient sets the HTTP client. Its transport, cookie jar and timeout are
// used; redirects are followed within one origin only, up to five. An
// *http.Transport is copied, so that addresses can be checked where they are
// dialed: those that a dial function of its own connected to are checked before
// anything is sent, those behind a proxy cannot be. A transport of another type
// connects by itself, and only hosts that are written as addresses are checked.
func WithHTTPClient(c *http.Client) Option { return func(r *remote) { r.base = c } }

// WithTimeout bounds one answer, polling included; the default is 15 minutes, and 0 is
// no bound besides the turn's.
func WithTimeout(d time.Duration) Option { return func(r *remote) { r.timeout = d } }

// WithIdleTimeout bounds how long the remote agent may send nothing at all, not
// even a keep-alive, while a response is open; the default is 2 minutes, and 0 is no
// bound.
func WithIdleTimeout(d time.Duration) Option { return func(r *remote) { r.idle = d } }

// WithMaxResponse bounds the body of one response in bytes, a whole stream
// included; the default is 16 MiB. Cards are bounded by 1 MiB besides, headers by 256 KiB unless the
// HTTP client's transport has a bound of its own, and the objects and lists of one
// answer or event by 262,144, because small ones take up far more memory than bytes.
func WithMaxResponse(n int64) Option { return func(r *remote) { r.maxBody = n } }

// WithHistory says what of the conversation the remote agent gets to see of what
// is new. The default is view.TextOnly: the words of the user and, attributed,
// of other agents, not what their tools did. A policy on the edge replaces it.
func WithHistory(p view.Policy) Option { return func(r *remote) { r.history = p } }

type remote struct {
	returns           agent.ReturnPolicy
	name, description string
	history           view.Policy
	base              *http.Client
	credentials       *credentials
	trusted           []string // origins
	tls               *tls.Config
	certificates      []tls.Certificate
	private           bool
	timeout, idle     time.Duration
	maxBody           int64
	connections       *connections
	given             Client
	bindings          []Binding
	cards             cards
}

// Remote makes an agent of the peer whose agent card is at cardURL. A URL
// without a path means the well-known path of cards on that host. A user
// and password in it are sent as basic authentication and shown nowhere.
//
// The card is fetched before the first use, or by runner.Runner.Prepare before that. The agent is an agent.Readier: while
// the card cannot be fetched, or offers no interface that we speak, a transfer to
// it is refused and the conversation stays where it is; if a router chose it, its run fails. It has no sub-agents, may
// transfer nowhere, and is safe for concurrent use. Errors of its runs are
// *agent.RunError values that wrap an [*Error].
func Remote(name, cardURL string, opts ...Option) (agent.Agent, error) {
	r := &remote{name: name, description: name, history: view.TextOnly(), timeout: 15 * time.Minute, idle: 2 * time.Minute, maxBody: 16 << 20}
	r.credentials = &credentials{header: make(http.Header), query: make(url.Values), origins: make(map[string]bool)}
	r.cards.ttl, r.cards.timeout = 5*time.Minute, 10*time.Second
	if err := option.Apply(r, opts); err != nil {
		return nil, fmt.Errorf("a2a: agent %q: %w", name, err)
	}
	if r.description == "" {
		r.description = name
	}
	var errs []error
	if err := agent.CheckName(name); err != nil {
		errs = append(errs, err)
	}
	for i, b := range r.bindings {
		if b.Protocol == "" || line(b.Version) == "" || b.Dial == nil {
			errs = append(errs, fmt.Errorf("remote agent %q: binding %d has no protocol, no version or no Dial", name, i))
		}
	}
	r.bindings = append(r.bindings, builtin()...)
	if r.cards.ttl < 0 || r.cards.timeout <= 0 || r.timeout < 0 || r.idle < 0 || r.maxBody <= 0 {
		errs = append(errs, fmt.Errorf("remote agent %q: a time or size limit is out of range", name))
	}
	if r.given != nil && cardURL == "" {
		r.cards.given = &peer{client: r.given}
	} else if err := r.locate(cardURL); err != nil {
		errs = append(errs, fmt.Errorf("remote agent %q: %w", name, err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// locate prepares what leads to the peer.
func (r *remote) locate(cardURL string) error {
	u, err := url.Parse(cardURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// The text of a parse error would repeat the URL, credentials and all.
		return errors.New("the card's URL is not an absolute http or https URL")
	}
	if u.User != nil {
		password, _ := u.User.Password()
		r.credentials.keepSecret(password)
		if r.credentials.header.Get("Authorization") == "" {
			r.credentials.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
		}
		u.User = nil
	}
	u.Fragment = ""
	for _, values := range u.Query() {
		for _, v := range values {
			r.credentials.keepSecret(v)
		}
	}
	var errs []error
	hosts := []string{u.Hostname()}
	r.credentials.origins[origin(u)] = true
	for i, o := range r.trusted {
		ou, err := url.Parse(o)
		if err != nil || ou.Host == "" {
			errs = append(errs, fmt.Errorf("trusted origin %d is not an origin such as https://example.com", i))
			continue
		}
		r.credentials.origins[origin(ou)] = true
		hosts = append(hosts, ou.Hostname())
	}
	if err := r.credentials.check(); err != nil {
		errs = append(errs, err)
	}
	if r.connections, err = r.newConnections(hosts...); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if t := r.credentials.tokens; t != nil {
		own, err := r.newConnections(t.url.Hostname())
		if err != nil {
			return err
		}
		t.client, t.timeout = r.newTokenClient(own), r.cards.timeout
	}
	r.cards.url, r.cards.shown = u, shownURL(u)
	r.cards.client, r.cards.parse, r.cards.connect = r.newClient(nil), r.parseCard, r.connect
	if r.given != nil {
		r.cards.given = &peer{client: r.given, endpoint: r.cards.shown}
	}
	return nil
}

func (r *remote) Name() string        { return r.name }
func (r *remote) Description() string { return r.description }
func (r *remote) Properties() agent.Properties {
	return agent.Properties{Return: r.returns, Policy: agent.TransferPolicy{NoHuman: true}} // its peer hands nothing over here
}
func (r *remote) SubAgents() []agent.Agent { return nil }
func (r *remote) FindAgent(name string) agent.Agent {
	if name == r.name {
		return r
	}
	return nil
}

// CardURL returns the address of the agent's card without user, password and query,
// as lists and drawings of a tree may show it; "" for [WithClient] without one.
func (r *remote) CardURL() string { return r.cards.shown }

// origin is the part of a URL that credentials are bound to.
func origin(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + host + ":" + port
}

// shownURL is a URL as errors and logs may show it: queries can hold keys.
func shownURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
