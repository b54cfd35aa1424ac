package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/server/access"
)

// Front configures the HTTP handler for a request handler: JSON-RPC at /rpc, HTTP+JSON at the root, the card at its
// well-known paths, and all three below the name of each tenant. It checks each request (caller, origin, size, version
// and form) before the handler receives it. The zero value of every field except Handler and Card is a default.
type Front struct {
	// Handler answers requests. Only [Checks] or another handler of this kind checks their content. The context
	// contains the caller, see [access.UserOf].
	Handler a2asrv.RequestHandler
	// Card serves the card of a tenant ("" is the tree itself) for GET and HEAD.
	Card func(w http.ResponseWriter, r *http.Request, tenant string)
	// Legacy is the JSON-RPC binding of version 0.3. Without it, 0.3 is refused, and requests that name no version are
	// treated as 1.0.
	Legacy *Legacy
	// Auth authenticates callers. Without it, callers are not authenticated.
	Auth Authenticator
	// Tenants are the names of tenants, in addition to "".
	Tenants []string
	// Access limits the requests, and names the hosts of the server and the origins of web pages that may call. New sets
	// Expose.
	Access access.Options
	// KeepAlive is the time after which a silent stream sends a comment. Negative: never. Defaults to 15 seconds.
	KeepAlive time.Duration
	// Logger receives errors and refusals; nil logs nothing.
	Logger *slog.Logger
}

// Legacy is what is specific to version 0.3: the operations of its JSON-RPC binding, and the forms of its events and cards.
// The handlers that its functions receive set the tenant, which 0.3 does not have.
type Legacy struct {
	// Methods are the operations with a single result, by name. The returned value is encoded as the result.
	Methods map[string]func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) (any, error)
	// Streams are the operations that answer with events, by name.
	Streams map[string]func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) iter.Seq2[sdk.Event, error]
	// Event returns the value that is encoded for an event, also for webhooks.
	Event func(sdk.Event) (any, error)
	// Card returns the JSON of a card that clients of both versions can read. This package does not use it.
	Card func(*sdk.AgentCard) ([]byte, error)
}

// frontHandler is a Front with its defaults applied.
type frontHandler struct {
	Front
	guard   *access.Guard
	secrets []string // headers that contain credentials
}

// New returns the handler. It returns an error if the handler or the card is missing, or if a tenant's name is not a
// valid path segment, is used twice or is reserved.
func New(f Front) (http.Handler, error) {
	if f.Handler == nil || f.Card == nil {
		return nil, errors.New("a2aserver: the front needs a request handler and a card")
	}
	for i, name := range f.Tenants {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\?#") ||
			slices.Contains(reservedSegments, name) || slices.Contains(f.Tenants[:i], name) || !utf8.ValidString(name) {
			return nil, fmt.Errorf("a2aserver: %q cannot be the name of a tenant: it must be one segment of a path, used once and not one of %s",
				name, strings.Join(reservedSegments, ", "))
		}
	}
	if f.Logger == nil {
		f.Logger = slog.New(slog.DiscardHandler)
	}
	f.Access.Expose = []string{"A2A-Extensions", "WWW-Authenticate", "Retry-After", "ETag", "Last-Modified"}
	guard, err := access.New(f.Access)
	if err != nil {
		return nil, err
	}
	return &frontHandler{Front: f, guard: guard, secrets: Secrets(f.Auth)}, nil
}
