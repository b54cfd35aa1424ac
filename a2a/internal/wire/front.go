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

	"github.com/agentarbor/arbor/access"
)

// Front serves a request handler over HTTP: JSON-RPC at /rpc, HTTP+JSON at the root, the card
// at its well-known paths, and all three below the name of each tenant. It checks what
// comes in (who sends it, from where, how much, in which version and form) before the handler
// sees it. The zero value of every field but handler and card is a default.
type Front struct {
	// Handler answers requests that no other code has checked, as [Checks] can. It is called with the
	// caller in the context, see [access.UserOf].
	Handler a2asrv.RequestHandler
	// Card serves the card of a tenant ("" is the tree itself) for GET and HEAD.
	Card func(w http.ResponseWriter, r *http.Request, tenant string)
	// EncodeCard encodes an extended card; nil: as the SDK does.
	EncodeCard func(*sdk.AgentCard) ([]byte, error)
	// Legacy is the JSON-RPC binding of version 0.3; without it 0.3 is refused and requests that name no version are
	// taken to be of 1.0.
	Legacy *Legacy
	// Auth asks who calls; without it nobody is asked.
	Auth Authenticator
	// Tenants are the names of tenants, besides "".
	Tenants []string
	// Hosts are names under which the server is reached besides loopback's, such as the host of
	// its public URL. A server that listens on loopback refuses every other Host, because
	// a page in a browser can point a name of its own at 127.0.0.1.
	Hosts []string
	// Origins are the origins of web pages that may call, such as "https://app.example.com";
	// "*" is any. Without it only pages of the server's own origin may.
	Origins []string
	// MaxBody bounds a request's body in bytes; 0: [access.MaxBody].
	MaxBody int64
	// KeepAlive is the time after which a silent stream sends a comment; 0: 15 seconds,
	// negative: never.
	KeepAlive time.Duration
	// BodyTimeout bounds the time that a request's body takes to arrive; 0: one minute.
	BodyTimeout time.Duration
	// WriteTimeout bounds the time that a client takes to accept one piece of an answer;
	// 0: 30 seconds. A client that is slower is disconnected.
	WriteTimeout time.Duration
	// Logger gets what went wrong; nil: nothing is logged.
	Logger *slog.Logger
}

// Legacy is what the JSON-RPC binding of version 0.3 has of its own: the operations by their names there, and the
// form of its events. The handlers that its functions call set the tenant, which 0.3 does not know.
type Legacy struct {
	// Methods answer once, with what is encoded as the result.
	Methods map[string]func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) (any, error)
	// Streams answer with events.
	Streams map[string]func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) iter.Seq2[sdk.Event, error]
	// Event returns what an event is encoded as.
	Event func(sdk.Event) (any, error)
}

// frontHandler is a Front with all that is unset set.
type frontHandler struct {
	Front
	guard   *access.Guard
	secrets []string // headers that hold credentials
}

// New makes the handler. It is an error if the handler or the card is missing, or a tenant
// has a name that is no segment of a path or means something else there.
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
	guard, err := access.New(access.Options{Hosts: f.Hosts, Origins: f.Origins, MaxBody: f.MaxBody, BodyTimeout: f.BodyTimeout, WriteTimeout: f.WriteTimeout,
		Expose: []string{"A2A-Extensions", "WWW-Authenticate", "Retry-After", "ETag", "Last-Modified"}})
	if err != nil {
		return nil, err
	}
	return &frontHandler{Front: f, guard: guard, secrets: Secrets(f.Auth)}, nil
}
