package a2aserver

import (
	"log/slog"
	"net/http"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// Compat serves version 0.3 of the protocol beside version 1.0. The package a2a/a2av0 makes one.
type Compat struct {
	// JSONRPC returns what serves the JSON-RPC binding of version 0.3. It is called once for
	// each tenant.
	JSONRPC func(a2asrv.RequestHandler) http.Handler
	// Card returns a card that peers of both versions can read.
	Card func(*sdk.AgentCard) ([]byte, error)
}

// front serves a request handler over HTTP: JSON-RPC at /rpc, HTTP+JSON at the root, the card
// at its well-known paths, and all three below the name of each tenant. It checks what
// comes in (who sends it, from where, how much, in which version and form) before the handler
// sees it. The zero value of every field but handler and card is a default.
type front struct {
	// handler answers. It is called with the caller in the context, see callerOf.
	handler a2asrv.RequestHandler
	// card serves the card of a tenant ("" is the tree itself) for GET and HEAD.
	card func(w http.ResponseWriter, r *http.Request, tenant string)
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
