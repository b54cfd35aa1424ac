package a2av0

import (
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/internal/wire"
)

// Server returns an option with which a server also answers clients of A2A 0.3, over JSON-RPC at the address of clients
// of 1.0 (sections 3.2.1 and 7 of its specification). Requests that name no version are then treated as 0.3, because
// clients of 0.3 name none. The card suits clients of both versions. Webhooks of clients of 0.3 receive events in the
// form of its streams (section 9.5).
func Server() a2aserver.Option {
	return a2aserver.WithCompat(wire.Legacy{Methods: methods, Streams: streams, Event: fromEvent, Card: encodeCard})
}
