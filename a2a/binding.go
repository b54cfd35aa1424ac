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

	"github.com/agentarbor/arbor/a2a/internal/sdkjson"
	"github.com/agentarbor/arbor/internal/visible"
)

// Binding is a protocol binding in addition to those that every remote agent has: JSON-RPC and HTTP+JSON of A2A 1.0.
type Binding struct {
	// Protocol is the binding's name in cards: GRPC, JSONRPC, HTTP+JSON, or another.
	Protocol sdk.TransportProtocol
	// Version is the protocol version of the binding, such as 1.0 or 0.3. It is sent to the peer with every call. The
	// binding is used for interfaces with the same major version, and below 1.0 with the same minor version too.
	Version string
	// Dial returns a transport for the interface i of a card. It should not wait for the network: the first call
	// connects. ctx ends when Dial returns, and must not bound the transport. The transport is used concurrently, and
	// is destroyed when nothing can use it any more.
	Dial func(ctx context.Context, i *sdk.AgentInterface, env Environment) (a2aclient.Transport, error)
	// Mend, if not nil, rewrites an answer over HTTP, or one event of a stream, so that the transport can parse answers
	// of peers that are newer, older or less strict than it. It returns its argument if nothing needs to change, and
	// nil to drop an event. It must be safe for concurrent use.
	Mend func(answer []byte) []byte
	// ParseCard, if not nil, parses cards that name no interface of A2A 1.0, such as those of earlier versions.
	ParseCard func(card []byte) (*sdk.AgentCard, error)
}

// Environment is what a remote agent provides to a [Binding] for one interface of its card.
type Environment struct {
	// HTTP is the client for bindings over HTTP. Its transport already applies the credentials, the limits and the
	// address checks: the fields below are for bindings that do not use it.
	HTTP *http.Client
	// TLS is the configuration for connections to this interface. It includes the client certificate if the interface's
	// origin is trusted. nil means the system's defaults.
	TLS *tls.Config
	// Credentials returns the headers to send to the target, cookies included, or nil if the target is not trusted.
	// Only the scheme, host and port of the target count. Call it for every request: it fetches and refreshes tokens as
	// needed, which may fail.
	Credentials func(ctx context.Context, target *url.URL) (http.Header, error)
	// Refused reports that the peer did not accept these credentials. The next call of Credentials then fetches a new
	// token, if the credentials include one.
	Refused func(h http.Header)
	// DialContext connects to an address, unless the card may not lead there. Pass the host and port as the card names
	// them: a resolved address is no longer recognized as a host that the developer trusts.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// MaxResponse bounds the size of one response in bytes; a stream counts as a whole.
	MaxResponse int64
	// ResetIdle resets the limit of [WithIdleTimeout]. Call it with the context of the call whenever a part of its
	// response arrives.
	ResetIdle func(ctx context.Context)
}

// WithBinding adds protocol bindings. They are tried in the given order, before the built-in ones.
func WithBinding(b ...Binding) Option {
	return func(r *remote) { r.bindings = append(r.bindings, b...) }
}

// mend rewrites an answer of A2A 1.0 so that the SDK can parse it.
func mend(answer []byte) []byte {
	return sdkjson.MendAnswer(answer, sdkjson.Of[sdk.StreamResponse](), sdkjson.Of[sdk.Task]())
}

// builtin returns the bindings that every remote agent has.
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

var errNoURL = errors.New("its URL is not an absolute http or https URL")

// taskIDGuard rejects task ids that would lead to another path. The peer chooses the ids, and the SDK inserts them into
// the paths of HTTP+JSON without escaping.
type taskIDGuard struct {
	a2aclient.PassthroughInterceptor
}

func (taskIDGuard) Before(ctx context.Context, call *a2aclient.Request) (context.Context, any, error) {
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
		// It is the peer's mistake, and a retry would not help.
		return ctx, nil, sdk.NewError(sdk.ErrInvalidAgentResponse, "the task id contains characters that cannot be used in the path of an HTTP+JSON request")
	}
	return ctx, nil, nil
}

// versionLine returns the part of a version that compatible versions share.
func versionLine(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if parts[0] == "0" && len(parts) > 1 {
		return "0." + parts[1]
	}
	return parts[0]
}

func (b *Binding) supports(i *sdk.AgentInterface) bool {
	return b.Protocol == i.ProtocolBinding && i.ProtocolVersion != "" && versionLine(b.Version) == versionLine(string(i.ProtocolVersion))
}

// connect returns a client for the first interface of the card that a binding supports: the card lists them in the
// peer's order of preference (A2A 1.0, section 8.3.1).
func (r *remote) connect(ctx context.Context, card *sdk.AgentCard) (*peer, error) {
	var failures []error
	for _, offered := range card.SupportedInterfaces {
		if offered == nil {
			continue
		}
		for k := range r.bindings {
			b := &r.bindings[k]
			if !b.supports(offered) {
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
	return nil, r.unsupportedInterfaces(card)
}

// dial returns a client for one interface.
func (r *remote) dial(ctx context.Context, b *Binding, card *sdk.AgentCard, i sdk.AgentInterface) (*peer, error) {
	u, err := url.Parse(i.URL)
	isHTTP := err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
	if b.Protocol != sdk.TransportProtocolGRPC && !isHTTP {
		return nil, errNoURL
	}
	endpoint := visible.Cut(i.URL, 500)
	if isHTTP {
		u.User, u.Fragment = nil, ""
		// A server on this machine may call itself localhost where the developer wrote an address. The client then uses
		// the developer's name, because the credentials belong to it and another name may lead to another server.
		if own := r.cards.url; u.Scheme == own.Scheme && u.Port() == own.Port() && canonicalHost(u.Hostname()) == loopback && canonicalHost(own.Hostname()) == loopback {
			u.Host = own.Host
		}
		i.URL, endpoint = u.String(), displayURL(u)
	}
	// If the host is written as an address, a refusal by the dialer is known before the conversation is transferred.
	if target := target(i.URL); target != nil {
		if err := r.connections.dialer.check(target.Hostname()); err != nil {
			return nil, err
		}
	}
	transport, err := b.Dial(ctx, &i, r.environment(b, &i))
	if err != nil {
		return nil, err
	}
	// The SDK's client reads from the card whether the peer streams, and from the interface which version and tenant to
	// send.
	i.ProtocolVersion = sdk.ProtocolVersion(b.Version)
	one := *card
	one.SupportedInterfaces = []*sdk.AgentInterface{&i}
	opts := []a2aclient.FactoryOption{a2aclient.WithDefaultsDisabled(), a2aclient.WithCompatTransport(i.ProtocolVersion, i.ProtocolBinding,
		a2aclient.TransportFactoryFn(func(context.Context, *sdk.AgentCard, *sdk.AgentInterface) (a2aclient.Transport, error) {
			return transport, nil
		}))}
	if b.Protocol == sdk.TransportProtocolHTTPJSON {
		opts = append(opts, a2aclient.WithCallInterceptors(taskIDGuard{}))
	}
	client, err := a2aclient.NewFromCard(ctx, &one, opts...)
	if err != nil {
		return nil, errors.Join(err, transport.Destroy())
	}
	// Calls in progress hold the client, and nothing signals the last one.
	runtime.AddCleanup(client, func(t a2aclient.Transport) { go func() { _ = t.Destroy() }() }, transport)
	return &peer{client, endpoint}, nil
}

// environment returns the Environment of a binding for an interface.
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
		ResetIdle: func(ctx context.Context) {
			watch, _ := ctx.Value(idleTimerKey{}).(*idleTimer)
			watch.reset()
		},
	}
	if u := target(i.URL); u != nil && r.credentials.trusts(u) {
		env.TLS = r.connections.tls.Clone()
	}
	return env
}

// target returns the address of an interface as a URL, or nil if it is not one. An address of gRPC may have no scheme;
// target then assumes TLS.
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

// unsupportedInterfaces returns an error that lists the interfaces that the card offers and the bindings of this agent.
func (r *remote) unsupportedInterfaces(card *sdk.AgentCard) error {
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
	return fmt.Errorf("the card offers %s, and this agent supports %s%s", strings.Join(offers, ", "), strings.Join(speaks, ", "), hint)
}

// label returns a binding and its version for a message. It bounds their length, because a card may contain any text.
func label(protocol sdk.TransportProtocol, version string) string {
	return strings.ToValidUTF8(visible.Cut(string(protocol), 40)+" "+visible.Cut(version, 20), "\uFFFD")
}
