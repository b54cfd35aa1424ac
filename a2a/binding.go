package a2a

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

// Binding is a way to speak to peers beside those that every remote agent has,
// which are JSON-RPC and HTTP+JSON of A2A 1.0.
type Binding struct {
	// Protocol is the binding as cards name it: GRPC, JSONRPC, HTTP+JSON, or
	// another.
	Protocol sdk.TransportProtocol
	// Version is the version of the protocol that the binding speaks, such as 1.0
	// or 0.3. It is sent to the peer with every call. The binding is used for interfaces of
	// the same line: of the same major version, below 1.0 of the same minor too.
	Version string
	// Dial makes the connection to the interface i of a card. It should not wait
	// for the network: the first call does. ctx ends with Dial, and must not bound
	// what it returns. The transport is used by many goroutines, and destroyed when
	// nothing can use it any more.
	Dial func(ctx context.Context, i *sdk.AgentInterface, env Environment) (a2aclient.Transport, error)
	// Mend, if not nil, brings an answer over HTTP, or one event of a stream, into a form
	// that the transport can read, so that peers may be newer, older or sloppier than it.
	// It returns the answer itself where nothing needs mending, and nil for an event to be
	// left out. It must be safe for concurrent use.
	Mend func(answer []byte) []byte
	// ParseCard, if not nil, reads cards that name no interface of A2A 1.0, as
	// those of earlier versions do.
	ParseCard func(card []byte) (*sdk.AgentCard, error)
}

// Environment is what a [Binding] needs of the remote agent that it connects, for
// one interface of its card.
type Environment struct {
	// HTTP is the client for bindings on HTTP. Credentials, limits and the guard
	// of addresses are in its transport already: what is below is for bindings
	// that do not use it.
	HTTP *http.Client
	// TLS is the configuration for connections to this interface, with the client
	// certificate if it may see it. nil is the system's.
	TLS *tls.Config
	// Credentials returns the headers to send to the target, cookies included. Only
	// scheme, host and port of the target count. It returns nil if the target is not
	// trusted with them. It is to be called for every request: tokens are fetched
	// and refreshed as needed, which may fail.
	Credentials func(ctx context.Context, target *url.URL) (http.Header, error)
	// Refused says that the peer did not accept these credentials, so that the
	// next call of Credentials fetches a token anew if there is one to be fetched.
	Refused func(h http.Header)
	// DialContext connects, unless the address is one that the card may not lead
	// to. It is to be given host and port as the card names them: a name that was
	// resolved before is not known any more as the one that the developer trusts.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// MaxResponse bounds one response in bytes, a whole stream included.
	MaxResponse int64
	// Heard is to be called with the context of the call whenever something of its
	// response arrives, for the limit of [WithIdleTimeout].
	Heard func(ctx context.Context)
}

// WithBinding adds ways to speak to peers. Before the built-in ones, and in the
// order given, they are asked whether they speak an interface.
func WithBinding(b ...Binding) Option {
	return func(r *remote) { r.bindings = append(r.bindings, b...) }
}

// builtin are the bindings that every remote agent has.
func builtin() []Binding {
	return []Binding{
		{Protocol: sdk.TransportProtocolJSONRPC, Version: "1.0", Mend: mend,
			Dial: func(_ context.Context, i *sdk.AgentInterface, env Environment) (a2aclient.Transport, error) {
				return a2aclient.NewJSONRPCTransport(i.URL, env.HTTP), nil
			}},
		{Protocol: sdk.TransportProtocolHTTPJSON, Version: "1.0", Mend: mend,
			Dial: func(_ context.Context, i *sdk.AgentInterface, env Environment) (a2aclient.Transport, error) {
				u, err := url.Parse(i.URL)
				if err != nil {
					return nil, errNoURL
				}
				return a2aclient.NewRESTTransport(u, env.HTTP), nil
			}},
	}
}

var errNoURL = errors.New("it is not an absolute http or https URL")

// segments keeps ids of tasks, which are the peer's, from becoming other paths: the
// libraries put them into the paths of HTTP+JSON as they are.
type segments struct {
	a2aclient.PassthroughInterceptor
}

func (segments) Before(ctx context.Context, call *a2aclient.Request) (context.Context, any, error) {
	var id sdk.TaskID
	switch req := call.Payload.(type) {
	case *sdk.GetTaskRequest:
		id = req.ID
	case *sdk.CancelTaskRequest:
		id = req.ID
	case *sdk.SubscribeToTaskRequest:
		id = req.ID
	default:
		return ctx, nil, nil
	}
	if id == "" || id == "." || id == ".." || strings.ContainsAny(string(id), "/?#%\\") || strings.ContainsFunc(string(id), isControl) {
		// It is the peer's mistake, and none that goes away.
		return ctx, nil, sdk.NewError(sdk.ErrInvalidAgentResponse, "the id of the task cannot be part of a path, which HTTP+JSON would need")
	}
	return ctx, nil, nil
}

// line is what two versions share that understand each other.
func line(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if parts[0] == "0" && len(parts) > 1 {
		return "0." + parts[1]
	}
	return parts[0]
}

func (b *Binding) speaks(i *sdk.AgentInterface) bool {
	return b.Protocol == i.ProtocolBinding && i.ProtocolVersion != "" && line(b.Version) == line(string(i.ProtocolVersion))
}

// connect makes a client for the first interface of the card that we speak: the
// order is the peer's preference (A2A 1.0, section 8.3.1).
func (r *remote) connect(ctx context.Context, card *sdk.AgentCard) (*peer, error) {
	var failures []error
	for _, offered := range card.SupportedInterfaces {
		if offered == nil {
			continue
		}
		for k := range r.bindings {
			b := &r.bindings[k]
			if !b.speaks(offered) {
				continue
			}
			p, err := r.dial(ctx, b, card, *offered)
			if err == nil {
				return p, nil
			}
			failures = append(failures, fmt.Errorf("the card's %s interface cannot be used: %w", label(offered.ProtocolBinding, string(offered.ProtocolVersion)), err))
			break
		}
	}
	if len(failures) > 0 {
		return nil, errors.Join(failures...)
	}
	return nil, r.offersNothing(card)
}

// dial connects to one interface.
func (r *remote) dial(ctx context.Context, b *Binding, card *sdk.AgentCard, i sdk.AgentInterface) (*peer, error) {
	u, err := url.Parse(i.URL)
	isHTTP := err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
	if b.Protocol != sdk.TransportProtocolGRPC && !isHTTP {
		return nil, errNoURL
	}
	endpoint := clip(i.URL, 500)
	if isHTTP {
		u.User, u.Fragment = nil, ""
		// A server on this machine may call itself localhost where the developer wrote an address. It is called by the
		// developer's name, to which the credentials belong: another name may lead to another server.
		if own := r.cards.url; u.Scheme == own.Scheme && u.Port() == own.Port() && canonicalHost(u.Hostname()) == loopback && canonicalHost(own.Hostname()) == loopback {
			u.Host = own.Host
		}
		i.URL, endpoint = u.String(), shownURL(u)
	}
	// What the dialer would refuse is known before the conversation is handed over,
	// if the host is written as an address.
	if target := target(i.URL); target != nil {
		if err := r.connections.dialer.check(target.Hostname()); err != nil {
			return nil, err
		}
	}
	transport, err := b.Dial(ctx, &i, r.environment(b, &i))
	if err != nil {
		return nil, err
	}
	// The client of the protocol library looks at the card to know whether the peer
	// streams, and at the interface for the version and the tenant to tell the peer.
	i.ProtocolVersion = sdk.ProtocolVersion(b.Version)
	one := *card
	one.SupportedInterfaces = []*sdk.AgentInterface{&i}
	opts := []a2aclient.FactoryOption{a2aclient.WithDefaultsDisabled(), a2aclient.WithCompatTransport(i.ProtocolVersion, i.ProtocolBinding,
		a2aclient.TransportFactoryFn(func(context.Context, *sdk.AgentCard, *sdk.AgentInterface) (a2aclient.Transport, error) {
			return transport, nil
		}))}
	if b.Protocol == sdk.TransportProtocolHTTPJSON {
		opts = append(opts, a2aclient.WithCallInterceptors(segments{}))
	}
	client, err := a2aclient.NewFromCard(ctx, &one, opts...)
	if err != nil {
		return nil, errors.Join(err, transport.Destroy())
	}
	// Whoever is in a call holds the client, and nobody says when it is the last one.
	runtime.AddCleanup(client, func(t a2aclient.Transport) { go func() { _ = t.Destroy() }() }, transport)
	return &peer{client: client, card: card, endpoint: endpoint}, nil
}

// environment is what a binding gets for an interface.
func (r *remote) environment(b *Binding, i *sdk.AgentInterface) Environment {
	mend := b.Mend
	if mend == nil {
		mend = func(answer []byte) []byte { return answer }
	}
	env := Environment{
		HTTP:        r.newClient(mend),
		TLS:         withoutCertificates(r.connections.tls),
		Credentials: r.credentials.headers,
		Refused:     r.credentials.refused,
		DialContext: r.connections.dial,
		MaxResponse: r.maxBody,
		Heard: func(ctx context.Context) {
			watch, _ := ctx.Value(silenceKey{}).(*silence)
			watch.heard()
		},
	}
	if u := target(i.URL); u != nil && r.credentials.trusts(u) {
		env.TLS = r.connections.tls.Clone()
	}
	return env
}

// target returns the address of an interface as a URL, or nil if it is not one. An address of gRPC may have no scheme:
// its connections use TLS.
func target(interfaceURL string) *url.URL {
	if !strings.Contains(interfaceURL, "://") {
		interfaceURL = "https://" + interfaceURL
	}
	u, err := url.Parse(interfaceURL)
	if err != nil {
		return nil
	}
	return u
}

// offersNothing says what the card offers, and what we speak.
func (r *remote) offersNothing(card *sdk.AgentCard) error {
	var offers, speaks []string
	grpc, old := false, false
	for _, i := range card.SupportedInterfaces {
		if i == nil {
			continue
		}
		grpc = grpc || i.ProtocolBinding == sdk.TransportProtocolGRPC
		old = old || strings.HasPrefix(string(i.ProtocolVersion), "0.")
		if len(offers) < 8 {
			offers = append(offers, label(i.ProtocolBinding, string(i.ProtocolVersion)))
		}
	}
	for _, b := range r.bindings {
		speaks = append(speaks, label(b.Protocol, b.Version))
	}
	if len(offers) == 0 {
		offers = []string{"no interface"}
	}
	hint := ""
	if grpc {
		hint += "; package a2a/a2agrpc has a binding for gRPC"
	}
	if old {
		hint += "; package a2a/a2av0 has bindings for A2A 0.3"
	}
	return fmt.Errorf("the card offers %s, and this agent speaks %s%s", strings.Join(offers, ", "), strings.Join(speaks, ", "), hint)
}

// label names a binding and its version in a message, although a card may give any text
// for them.
func label(protocol sdk.TransportProtocol, version string) string {
	return strings.ToValidUTF8(clip(string(protocol), 40)+" "+clip(version, 20), "\uFFFD")
}
