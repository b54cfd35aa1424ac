package a2aserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/access"
)

// Compat serves version 0.3 of the protocol beside version 1.0. The package a2a/a2av0 makes one.
type Compat struct {
	// JSONRPC returns what serves the JSON-RPC binding of version 0.3. It is called once for
	// each tenant.
	JSONRPC func(a2asrv.RequestHandler) http.Handler
	// Card returns a card that peers of both versions can read.
	Card func(*sdk.AgentCard) ([]byte, error)
	// Notification returns what is posted to the webhooks of clients of version 0.3, and
	// its media type; nil: they get no push notifications.
	Notification func(sdk.Event) (body []byte, contentType string, err error)
}

// front serves a request handler over HTTP: JSON-RPC at /rpc, HTTP+JSON at the root, the card
// at its well-known paths, and all three below the name of each tenant. It checks what
// comes in (who sends it, from where, how much, in which version and form) before the handler
// sees it. The zero value of every field but handler and card is a default.
type front struct {
	// handler answers. It is called with the caller in the context, see [access.UserOf].
	handler a2asrv.RequestHandler
	// card serves the card of a tenant ("" is the tree itself) for GET and HEAD.
	card func(w http.ResponseWriter, r *http.Request, tenant string)
	// encodeCard encodes an extended card; nil: as the SDK does.
	encodeCard func(*sdk.AgentCard) ([]byte, error)
	// compat serves version 0.3; without it 0.3 is refused and requests that name no version are
	// taken to be of 1.0.
	compat *Compat
	// auth asks who calls; without it nobody is asked.
	auth Authenticator
	// inputModes are the media types of parts that are accepted, "*/*" and "text/*" among
	// them; none: all are.
	inputModes []string
	// outputModes are the media types of what the agent answers; none: no client is refused for
	// what it accepts.
	outputModes []string
	// tenants are the names of tenants, besides "".
	tenants []string
	// hosts are names under which the server is reached besides loopback's, such as the host of
	// its public URL. A server that listens on loopback refuses every other Host, because
	// a page in a browser can point a name of its own at 127.0.0.1.
	hosts []string
	// origins are the origins of web pages that may call, such as "https://app.example.com";
	// "*" is any. Without it only pages of the server's own origin may.
	origins []string
	// maxBody bounds a request's body in bytes; 0: 4 MiB.
	maxBody int64
	// maxStreams bounds the streams and waiting sends that one caller has open; 0: 1,024.
	maxStreams int
	// keepAlive is the time after which a silent stream sends a comment; 0: 15 seconds,
	// negative: never.
	keepAlive time.Duration
	// bodyTimeout bounds the time that a request's body takes to arrive; 0: one minute.
	bodyTimeout time.Duration
	// writeTimeout bounds the time that a client takes to accept one piece of an answer;
	// 0: 30 seconds. A client that is slower is disconnected.
	writeTimeout time.Duration
	// logger gets what went wrong; nil: nothing is logged.
	logger *slog.Logger
}

// frontHandler is a front with all that is unset set.
type frontHandler struct {
	front
	guard   *access.Guard
	checks  *checks
	legacy  map[string]http.Handler // of version 0.3, by tenant
	secrets []string                // headers that hold credentials
}

// newFront makes the handler. It is an error if the handler or the card is missing, or a tenant
// has a name that is no segment of a path or means something else there.
func newFront(f front) (http.Handler, error) {
	if f.handler == nil || f.card == nil {
		return nil, errors.New("a2aserver: the front needs a request handler and a card")
	}
	for i, name := range f.tenants {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\?#") ||
			slices.Contains(reservedSegments, name) || slices.Contains(f.tenants[:i], name) || !utf8.ValidString(name) {
			return nil, fmt.Errorf("a2aserver: %q cannot be the name of a tenant: it must be one segment of a path, used once and not one of %s",
				name, strings.Join(reservedSegments, ", "))
		}
	}
	if f.logger == nil {
		f.logger = slog.New(slog.DiscardHandler)
	}
	guard, err := access.New(access.Options{Hosts: f.hosts, Origins: f.origins, MaxBody: f.maxBody, BodyTimeout: f.bodyTimeout, WriteTimeout: f.writeTimeout,
		Expose: []string{"A2A-Extensions", "WWW-Authenticate", "Retry-After", "ETag", "Last-Modified"}})
	if err != nil {
		return nil, err
	}
	h := &frontHandler{front: f, guard: guard, secrets: []string{"Authorization", "Proxy-Authorization", "Cookie"}}
	if checked, ok := f.handler.(*checks); ok {
		h.checks = checked
	} else {
		h.checks = newChecks(f.handler, f.inputModes, f.outputModes, f.tenants, f.maxStreams, nil)
	}
	if f.auth != nil {
		for _, scheme := range f.auth.Schemes() {
			if key, ok := scheme.(sdk.APIKeySecurityScheme); ok && key.Location == sdk.APIKeySecuritySchemeLocationHeader {
				h.secrets = append(h.secrets, http.CanonicalHeaderKey(key.Name))
			}
		}
	}
	if f.compat != nil {
		h.legacy = make(map[string]http.Handler)
		for _, tenant := range append([]string{""}, f.tenants...) {
			h.legacy[tenant] = f.compat.JSONRPC(newLegacyHandler(h, tenant))
		}
	}
	return h, nil
}
