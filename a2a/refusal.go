package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/dialguard"
)

// ErrNotSent is in an error of a transport when nothing of the request has left this
// process. Bindings whose transports do not run over net/http wrap it, because only
// they can know.
//
// It matters for the first message after a transfer. The conversation goes back to the
// agent that handed it over only if the peer has certainly not begun to work on the
// message: if it was not sent (no card, no connection, an address that is not allowed);
// if the peer answered with an error of the protocol, or with an HTTP status of 400 and
// more, before anything else; if it rejected the task without a word of an answer. A
// connection that breaks after the request was sent says nothing: the peer may have done
// what it was asked for, and whoever gets the conversation back might have it done once
// more. So do 408 and 504, by which somebody else tells that the peer did not answer in
// time, and a message that is sent again after a crash. These are errors of the run.
var ErrNotSent = errors.New("the request was not sent")

// delivery is what is known about the way of a message.
type delivery struct {
	begun   bool        // it was handed to the client
	refused bool        // it certainly came to nothing
	heard   atomic.Bool // something came back
	dialed  atomic.Bool
	wrote   atomic.Bool
}

// watch notes what becomes of the request that is made with the context.
func (d *delivery) watch(ctx context.Context) context.Context {
	d.begun = true
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { d.dialed.Store(true) },
		WroteHeaderField:     func(string, []string) { d.wrote.Store(true) },
		WroteHeaders:         func() { d.wrote.Store(true) },
		GotFirstResponseByte: func() { d.wrote.Store(true) },
	})
}

// failed notes the error with which the call ended.
func (d *delivery) failed(err error) {
	if d.heard.Load() {
		return
	}
	var status *statusError
	var dial *net.OpError
	switch {
	case errors.As(err, &status):
		d.refused = status.status != http.StatusRequestTimeout && status.status != http.StatusGatewayTimeout
	case errors.Is(err, ErrNotSent), errors.As(err, &dial) && dial.Op == "dial", errors.As(err, new(*dialguard.Error)), errors.As(err, new(*tokenError)):
		d.refused = true
	case isAnswer(err), errors.Is(err, errRedirect), errors.Is(err, errRedirects):
		d.refused = true
	default:
		d.refused = d.unsent()
	}
}

// unsent reports whether nothing of the request has left this process for certain.
func (d *delivery) unsent() bool { return d.dialed.Load() && !d.wrote.Load() }

// isAnswer reports whether an error is what the peer answered: one of the protocol's,
// also without the details that come over a wire, or a status of HTTP.
func isAnswer(err error) bool {
	var protocol *sdk.Error
	return errors.As(err, &protocol) || errors.As(err, new(*statusError)) || errors.Is(err, sdk.ErrInternalError) ||
		sdk.ErrorReason(err) != "INTERNAL_ERROR" // which is also the reason of errors that the protocol does not have
}

// unreadable reports whether an error says that the peer's answer has another form than
// the protocol promises. Asking again would not help.
func unreadable(err error) bool {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &typ) || errors.As(err, new(*time.ParseError)) || errors.Is(err, errBadJSON) {
		return true
	}
	return slices.ContainsFunc([]string{"unknown event type", "unknown part content type", "expected exactly one"}, // of the protocol library, without types
		func(s string) bool { return strings.Contains(err.Error(), s) })
}

// refusal makes an agent.RefusedError of an error if the peer has certainly not begun
// to work on the message.
func (x *exchange) refusal(err *Error) error {
	switch {
	case !x.fresh, x.inv.Attempt() > 1, x.textID != "":
		return err
	case err.Code == CodeTaskRejected && len(x.answer.blocks.blocks) == 0 && x.delivery.begun:
	case err.Code == CodeNothingToSend, x.answer.taskID != "", x.answer.message:
		return err
	case x.delivery.begun && !x.delivery.refused:
		return err
	}
	reason := strings.ToValidUTF8(strings.Join(strings.Fields(err.Message), " "), "\uFFFD")
	switch {
	case err.Status == 0 && (err.Code == CodeUnreachable || err.Code == CodeCard || err.Code == CodeAddress):
		reason = "it cannot be reached" // the message has its address
	case err.Status != 0 && !strings.Contains(reason, "HTTP"):
		reason = fmt.Sprintf("HTTP status %d: %s", err.Status, reason)
	}
	return &agent.RefusedError{Agent: x.inv.Agent().Name(), Reason: clip(reason, 400), Err: err}
}
