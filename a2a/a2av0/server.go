package a2av0

import (
	"encoding/json"
	"net/http"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/a2a/a2aserver"
)

// Server has a server answer clients of A2A 0.3 too, over JSON-RPC at the address that clients
// of 1.0 use. Requests that name no version are then of 0.3, because its clients name none. The
// card is one that clients of both can read.
func Server() a2aserver.Option {
	return a2aserver.WithCompat(a2aserver.Compat{JSONRPC: newHandler, Card: bothCard, Notification: notification})
}

// newHandler serves the JSON-RPC binding of A2A 0.3 (sections 3.2.1 and 7 of its specification)
// from the operations of 1.0. The server has checked before who calls, how much, and that it is a
// request of JSON-RPC 2.0 with an id. Silent streams get a comment every 15 s.
func newHandler(h a2asrv.RequestHandler) http.Handler {
	return &handler{operations: h, keepAlive: keepAlive}
}

// notification encodes what is posted to the webhooks of clients of A2A 0.3 (section 9.5 of its
// specification), which expect the whole task. Other events have the form in which streams of
// 0.3 send them.
func notification(e sdk.Event) (body []byte, contentType string, err error) {
	event, err := fromEvent(e)
	if err != nil {
		return nil, "", err
	}
	body, err = json.Marshal(event)
	return body, "application/json", err
}
