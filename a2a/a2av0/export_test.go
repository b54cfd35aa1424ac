package a2av0

import (
	"net/http"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/a2a/internal/wire"
)

// What the tests reach without an a2aserver.Server or a remote agent.
var (
	Card      = encodeCard
	Event     = fromEvent
	ParseCard = parseCard
)

// NewHandler serves JSON-RPC of 0.3 at every path; keepAlive is that of [wire.Front].
func NewHandler(h a2asrv.RequestHandler, keepAlive time.Duration) http.Handler {
	front, err := wire.New(wire.Front{Handler: wire.NewChecks(h, nil, nil, nil, nil, nil), KeepAlive: keepAlive, Card: func(http.ResponseWriter, *http.Request, string) {},
		Legacy: &wire.Legacy{Methods: methods, Streams: streams, Event: fromEvent}})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err != nil {
			panic(err)
		}
		r.URL.Path = "/rpc"
		front.ServeHTTP(w, r)
	})
}
