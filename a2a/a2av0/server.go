package a2av0

import (
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/internal/wire"
)

// Server has a server answer clients of A2A 0.3 too, over JSON-RPC at the address that clients
// of 1.0 use (sections 3.2.1 and 7 of its specification). Requests that name no version are then of 0.3, because its
// clients name none. The card is one that clients of both can read. Webhooks of clients of 0.3 get events in the form
// in which its streams have them (section 9.5).
func Server() a2aserver.Option {
	return a2aserver.WithCompat(a2aserver.Compat{Legacy: wire.Legacy{Methods: methods, Streams: streams, Event: fromEvent}, Card: bothCard})
}
