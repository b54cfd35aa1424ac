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

// WithDescription sets the description that other agents see. Defaults to the agent's name. A card's description is not
// used: it is unknown before the card is fetched, and a peer's own text should not reach models unreviewed.
func WithDescription(d string) Option { return func(r *remote) { r.description = d } }

// WithReturn sets which agent answers the user's next message after the remote agent has answered one. Defaults to the
// remote agent itself. With agent.ReturnToParent it is the parent, which then also receives the user's answer to a
// question of the task, and has to transfer it.
func WithReturn(p agent.ReturnPolicy) Option { return func(r *remote) { r.returns = p } }

// WithHTTPClient sets the HTTP client. Its transport, cookie jar and timeout are used; redirects are followed within
// one origin only, up to five. An *http.Transport is copied, so that addresses are checked when they are dialed. If it
// has a dial function, the address is checked after connecting and before anything is sent. Addresses after a proxy
// cannot be checked. A transport of another type connects by itself, and only hosts written as addresses are checked.
func WithHTTPClient(c *http.Client) Option { return func(r *remote) { r.base = c } }

// WithTimeout bounds the time of one answer, polling included. 0 sets no limit except the turn's. Defaults to 15
// minutes.
func WithTimeout(d time.Duration) Option { return func(r *remote) { r.timeout = d } }

// WithIdleTimeout bounds the time in which the remote agent sends nothing, not even a keep-alive, while a response is
// open, and the time until it begins to answer a request for a task that it has accepted. After that the agent asks for
// the task again, up to 10 times in a row, and waits on if the peer still has it. 0 sets no limit. Defaults to 2 minutes.
func WithIdleTimeout(d time.Duration) Option { return func(r *remote) { r.idle = d } }

// WithMaxResponse bounds the body of one response in bytes; a stream counts as a whole. Defaults to 16 MiB. Cards are
// also limited to 1 MiB, and headers to 256 KiB unless the HTTP client's transport sets a limit. One answer or event
// may contain 262,144 objects and lists, because small ones take far more memory than bytes on the wire.
func WithMaxResponse(n int64) Option { return func(r *remote) { r.maxBody = n } }

// WithHistory selects which part of the new messages the remote agent receives. Defaults to view.TextOnly: the user's
// messages and, with their names, those of other agents, without tool calls and results. A policy on the edge replaces
// it.
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

// Remote returns an agent for the peer whose agent card is at cardURL. A URL without a path means the well-known path
// of cards on that host. A user and password in the URL are sent as basic authentication and never shown.
//
// The card is fetched before the first use, or earlier by runner.Runner.Prepare. The agent is an agent.Readier: if the
// card cannot be fetched, or offers no supported interface, a transfer to the agent is refused and the conversation
// stays with the transferring agent; if a router chose it, its run fails. The agent has no sub-agents, cannot transfer,
// and is safe for concurrent use. Errors of its runs are *agent.RunError values that wrap an [*Error].
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
		if b.Protocol == "" || versionLine(b.Version) == "" || b.Dial == nil {
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

// locate prepares the card's URL, the credentials and the connections.
func (r *remote) locate(cardURL string) error {
	u, err := url.Parse(cardURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// A parse error's text would repeat the URL with its credentials.
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
	r.cards.url, r.cards.displayURL = u, displayURL(u)
	r.cards.client, r.cards.parse, r.cards.connect = r.newClient(nil), r.parseCard, r.connect
	if r.given != nil {
		r.cards.given = &peer{client: r.given, endpoint: r.cards.displayURL}
	}
	return nil
}

func (r *remote) Name() string        { return r.name }
func (r *remote) Description() string { return r.description }
func (r *remote) Properties() agent.Properties {
	return agent.Properties{Return: r.returns, Policy: agent.TransferPolicy{NoHuman: true}} // the peer cannot hand off to a person here
}
func (r *remote) SubAgents() []agent.Agent { return nil }
func (r *remote) FindAgent(name string) agent.Agent {
	if name == r.name {
		return r
	}
	return nil
}

// CardURL returns the address of the agent's card without user, password and query, for lists and drawings of a tree.
// It returns "" for [WithClient] without a URL.
func (r *remote) CardURL() string { return r.cards.displayURL }

// origin returns the part of a URL that credentials are bound to.
func origin(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + host + ":" + port
}

// displayURL returns a URL for errors and logs: without its query, which may contain keys.
func displayURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
