package serve

import (
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/agui"
	"github.com/agentarbor/arbor/server/inspector"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/server/openaiapi"
)

// The APIs of serve, in the order in which they are printed.
const (
	apiNative    = "api"
	apiOpenAI    = "openai"
	apiAGUI      = "agui"
	apiA2A       = "a2a"
	apiInspector = "inspector"
)

var allAPIs = [...]string{apiNative, apiOpenAI, apiAGUI, apiA2A, apiInspector}

// checkAPIs returns an error for an unknown API.
func (o *options) checkAPIs() error {
	if len(o.apis) == 0 {
		return factory.Usagef("--apis: name at least one of %s", strings.Join(allAPIs[:], ", "))
	}
	for _, d := range o.apis {
		if !slices.Contains(allAPIs[:], d) {
			return factory.Usagef("--apis: there is no API %.40q; choose from %s", d, strings.Join(allAPIs[:], ", "))
		}
	}
	if slices.Contains(o.apis, apiInspector) && !slices.Contains(o.apis, apiNative) {
		return factory.Usagef("--apis: %s needs %s, which its page calls", apiInspector, apiNative)
	}
	return nil
}

func (o *options) has(api string) bool { return slices.Contains(o.apis, api) }

// offered returns the agents that get the tools of clients. limited is false if all agents get them.
func (o *options) offered(tree *agent.Tree) (names []string, limited bool, err error) {
	switch {
	case slices.Equal(o.clientTools, []string{"all"}):
		return nil, false, nil
	case slices.Equal(o.clientTools, []string{"none"}):
		return nil, true, nil
	}
	for _, name := range o.clientTools {
		if tree.Node(name) == nil {
			return nil, true, factory.Usagef("--client-tools: the tree has no agent %.64q", name)
		}
	}
	return o.clientTools, true, nil
}

// webHandlers returns the handlers of all selected APIs except A2A.
func webHandlers(f *factory.Factory, o *options, turns *live.Turns, guard *access.Guard, who *callers, api ...server.Option) (handlers []http.Handler, err error) {
	add := func(name string, open func() (http.Handler, error)) {
		if err != nil || !o.has(name) {
			return
		}
		var d http.Handler
		if d, err = open(); err == nil {
			handlers = append(handlers, d)
		}
	}
	add(apiNative, func() (http.Handler, error) {
		opts := []server.Option{server.WithGuard(guard), server.WithVersion(factory.Version()), server.WithAPIs(o.apis...), server.WithRequests(o.kept), server.WithReloads(&o.reloads)}
		prices, err := f.ReadPrices()
		if err != nil {
			return nil, err
		}
		return server.New(turns, append(append(opts, server.WithPrices(prices)), api...)...)
	})
	chat, page := []openaiapi.Option{openaiapi.WithGuard(guard)}, []agui.Option{agui.WithGuard(guard)}
	names, limited, err := o.offered(turns.Runner().Tree())
	if limited {
		chat, page = append(chat, openaiapi.WithClientTools(names...)), append(page, agui.WithClientTools(names...))
	}
	page = append(page, agui.WithPageState(o.pageState...))
	add(apiOpenAI, func() (http.Handler, error) { return openaiapi.New(turns, chat...) })
	add(apiAGUI, func() (http.Handler, error) {
		d, err := agui.New(turns, page...)
		if err != nil {
			return nil, factory.Usagef("--page-state: %s", factory.Plain(err, "agui"))
		}
		return d, nil
	})
	add(apiInspector, func() (http.Handler, error) {
		opts := []inspector.Option{inspector.WithGuard(guard)}
		if who.signIn != nil {
			opts = append(opts, inspector.WithSignIn(who.signIn))
		}
		if o.inspector != "" {
			root, err := os.OpenRoot(o.inspector) // links do not lead outside of it
			if err != nil {
				return nil, factory.Usagef("--inspector: %w", err)
			}
			f.AtEnd(func() { _ = root.Close() })
			opts = append(opts, inspector.WithFiles(root.FS()))
		}
		d, err := inspector.New(opts...)
		if err != nil && o.inspector != "" {
			return nil, factory.Usagef("--inspector %s: %s", o.inspector, factory.Plain(err, "inspector"))
		}
		return d, err
	})
	return handlers, err
}

// root redirects a browser that opens the server's address to the page, and answers other clients with the paths of the
// APIs.
func (o *options) root(next http.Handler) http.Handler {
	at := map[string]string{apiNative: "/api/v1", apiOpenAI: "/v1", apiAGUI: "/agui", apiA2A: "/rpc", apiInspector: "/inspect/"}
	maps.DeleteFunc(at, func(api, _ string) bool { return !o.has(api) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Vary", "Accept")
		switch {
		case o.has(apiInspector) && strings.Contains(r.Header.Get("Accept"), "text/html"):
			w.Header().Set("Location", "inspect/") // relative, because the public address may have a path
			w.WriteHeader(http.StatusFound)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(append(event.EncodeJSON(map[string]any{"apis": at}), '\n'))
		}
	})
}

// a2aOptions returns the options of A2A that do not depend on the address.
func a2aOptions(f *factory.Factory, o *options) ([]a2aserver.Option, error) {
	webhooks := push.Options{AllowLoopback: o.localWebhooks, AllowHTTP: o.localWebhooks}
	if o.webhookFile != "" {
		file, err := push.NewFile(o.webhookFile)
		if err != nil {
			return nil, factory.Usagef("--webhook-file: %s", factory.Plain(err, "push"))
		}
		webhooks.Store = file
	}
	web := a2aserver.HTTPOptions{Streams: o.limits.open, MaxBody: int64(o.limits.body), BodyTimeout: o.limits.bodyTime, Origins: o.origins}
	all := []a2aserver.Option{a2aserver.WithLogger(f.Warnings()), a2aserver.WithPush(webhooks), a2aserver.WithHTTP(web)}
	if o.a2a03 {
		all = append(all, f.A2A03)
	}
	return all, nil
}

// a2aServer returns the handler of A2A.
func (s *service) a2aServer() (*a2aserver.Server, error) {
	var schemes map[sdk.SecuritySchemeName]sdk.SecurityScheme
	if !s.noToken {
		schemes = map[sdk.SecuritySchemeName]sdk.SecurityScheme{"bearer": sdk.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
	}
	auth, err := a2aserver.Declare(s.who, schemes)
	if err != nil {
		return nil, err
	}
	opts := append(s.a2a, a2aserver.WithAuthenticator(auth), a2aserver.WithCard(a2aserver.CardOptions{Signer: s.signer}))
	if s.url != "" || s.signer != nil {
		opts = append(opts, a2aserver.WithURL(s.base))
	}
	a, err := a2aserver.NewOn(s.turns, opts...)
	if err != nil {
		return nil, factory.Usage(err)
	}
	return a, nil
}

// keySetPath is the path of the public key that verifies the card's signature.
const keySetPath = "/.well-known/jwks.json"

// keySet serves the public key of the card's signature.
func keySet(keys []byte) http.Handler {
	return server.At(keySetPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/jwk-set+json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(keys) // if this fails, the client is gone
	}))
}

// named sets the API of turns that the handler starts.
func named(api string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(access.WithAPI(r.Context(), api)))
	})
}

// signer returns the signer of the card, and the set with its public key; nil without --sign-key.
func (o *options) signer(f *factory.Factory) (keys []byte, signer *cardsign.Signer, err error) {
	if o.signKey == "" {
		return nil, nil, nil
	}
	text, err := f.ReadSecret("--sign-key", o.signKey)
	if err != nil {
		return nil, nil, err
	}
	var where []cardsign.SignerOption
	if strings.HasPrefix(o.url, "https://") { // over http nobody should trust the address
		where = append(where, cardsign.WithKeySetURL(strings.TrimSuffix(o.url, "/")+keySetPath))
	}
	if signer, err = cardsign.NewSignerPEM([]byte(text), where...); err != nil {
		return nil, nil, factory.Usagef("--sign-key %s: %s", o.signKey, factory.Plain(err, "cardsign"))
	}
	keys, err = cardsign.KeySet(signer.Key())
	return keys, signer, err
}
