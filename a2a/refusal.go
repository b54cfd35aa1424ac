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
	"github.com/agentarbor/arbor/internal/visible"
)

// ErrNotSent is wrapped by a transport's error if no part of the request has left this process. Bindings whose
// transports do not use net/http have to wrap it, because no other code can tell.
//
// It matters for the first message after a transfer. The conversation returns to the transferring agent only if the
// peer has certainly not begun to work on the message. That holds in three cases: the message was not sent (no card, no
// connection, a forbidden address); the peer answered first with a protocol error, an HTTP status of 400 to 499 or
// 503, which means that no server accepts the request; or it rejected the task without any other answer.
//
// All other errors end the run, because the peer may have done the work, and the transferring agent might have it done
// again. Among them are a connection that breaks after the request was sent, the HTTP statuses 408, 500, 502 and 504, with
// which a proxy may report that the peer failed or did not answer in time while it worked, the errors of the protocol
// for faults of the peer (-32603, -32000 and -32006, and codes that the protocol does not define) without an HTTP status
// that refuses, with which servers report that the agent failed in the middle of its work, and a message that is sent
// again after a crash.
var ErrNotSent = errors.New("the request was not sent")

// delivery records how far a message got.
type delivery struct {
	begun    bool        // the client was called
	refused  bool        // the peer has certainly not begun to work on it
	gotEvent atomic.Bool // an event arrived
	dialed   atomic.Bool
	wrote    atomic.Bool
}

// watch returns a context that records the progress of the request made with it.
func (d *delivery) watch(ctx context.Context) context.Context {
	d.begun = true
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { d.dialed.Store(true) },
		WroteHeaderField:     func(string, []string) { d.wrote.Store(true) },
		WroteHeaders:         func() { d.wrote.Store(true) },
		GotFirstResponseByte: func() { d.wrote.Store(true) },
	})
}

// failed records the error that ended the call.
func (d *delivery) failed(err error) {
	if d.gotEvent.Load() {
		return
	}
	var status *statusError
	var dial *net.OpError
	switch {
	case errors.As(err, &status):
		d.refused = status.status < 500 && status.status != http.StatusRequestTimeout || status.status == http.StatusServiceUnavailable
	case errors.Is(err, ErrNotSent), errors.As(err, &dial) && dial.Op == "dial", errors.As(err, new(*dialguard.Error)), errors.As(err, new(*tokenError)):
		d.refused = true
	case isFault(err):
	case isAnswer(err), errors.Is(err, errRedirect), errors.Is(err, errRedirects):
		d.refused = true
	default:
		d.refused = d.unsent()
	}
}

// unsent reports whether certainly no part of the request has left this process.
func (d *delivery) unsent() bool { return d.dialed.Load() && !d.wrote.Load() }

// isAnswer reports whether an error is the peer's answer: a protocol error, with or without its details, or an HTTP
// status.
func isAnswer(err error) bool {
	var protocol *sdk.Error
	return errors.As(err, &protocol) || errors.As(err, new(*statusError)) || errors.Is(err, sdk.ErrInternalError) ||
		sdk.ErrorReason(err) != "INTERNAL_ERROR" // also the reason of errors that the protocol does not define
}

// isFault reports whether an error is the peer's answer that something in it failed, which it may do in mid-work. The
// error for too many calls wraps that of a server, but is a refusal.
func isFault(err error) bool {
	var protocol *sdk.Error
	if errors.As(err, &protocol) {
		err = protocol.Err
	}
	return err == sdk.ErrInternalError || err == sdk.ErrServerError || err == sdk.ErrInvalidAgentResponse
}

// unreadable reports whether an error says that the form of the peer's answer violates the protocol. A retry would not
// help.
func unreadable(err error) bool {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &typ) || errors.As(err, new(*time.ParseError)) || errors.Is(err, errBadJSON) {
		return true
	}
	return slices.ContainsFunc([]string{"unknown event type", "unknown part content type", "expected exactly one"}, // untyped errors of the SDK
		func(s string) bool { return strings.Contains(err.Error(), s) })
}

// refusal returns an agent.RefusedError that wraps err if the peer has certainly not begun to work on the message, and
// err otherwise.
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
		reason = "it cannot be reached" // the message contains its address
	case err.Status != 0 && !strings.Contains(reason, "HTTP"):
		reason = fmt.Sprintf("HTTP status %d: %s", err.Status, reason)
	}
	return &agent.RefusedError{Agent: x.inv.Agent().Name(), Reason: visible.Cut(reason, 400), Err: err}
}
