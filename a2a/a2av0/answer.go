package a2av0

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// failures are the codes of JSON-RPC and of A2A 0.3 (section 8 of its specification), and those
// of 1.0 that it has no words for.
var failures = []struct {
	err  error
	code int
}{
	{sdk.ErrParseError, -32700},
	{sdk.ErrInvalidRequest, -32600},
	{sdk.ErrMethodNotFound, -32601},
	{sdk.ErrInvalidParams, -32602},
	{sdk.ErrTaskNotFound, -32001},
	{sdk.ErrTaskNotCancelable, -32002},
	{sdk.ErrPushNotificationNotSupported, -32003},
	{sdk.ErrUnsupportedOperation, -32004},
	{sdk.ErrUnsupportedContentType, -32005},
	{sdk.ErrInvalidAgentResponse, -32006},
	{sdk.ErrExtendedCardNotConfigured, -32007},
	{sdk.ErrExtensionSupportRequired, -32008},
	{sdk.ErrVersionNotSupported, -32009},
	{sdk.ErrUnauthenticated, -31401},
	{sdk.ErrUnauthorized, -31403},
	{sdk.ErrServerError, -32000},
	{sdk.ErrInternalError, -32603},
}

// failed makes the error of an answer. What is none of the protocol's is not told to the client.
func failed(err error) *failure {
	f := &failure{Code: -32603, Message: sdk.ErrInternalError.Error()}
	var worded *sdk.Error
	for _, known := range failures {
		if !errors.Is(err, known.err) {
			continue
		}
		f.Code = known.code
		if errors.As(err, &worded) || known.code != -32603 && known.code != -32000 {
			f.Message = strings.ToValidUTF8(err.Error(), "\uFFFD")
		}
		break
	}
	return f
}

func refuse(w http.ResponseWriter, id json.RawMessage, err error) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(response{Version: "2.0", ID: id, Error: failed(err)}) // a client that has gone
}

// answer is what goes back for one request.
type answer struct {
	w         http.ResponseWriter
	id        json.RawMessage
	call      *a2asrv.CallContext
	keepAlive time.Duration

	mu     sync.Mutex // guards the stream, which the keep-alive writes to as well
	silent *time.Timer
}

// activated says which extensions the answer makes use of, under the name of 0.3.
func (a *answer) activated() {
	if uris := a.call.Extensions().ActivatedURIs(); len(uris) > 0 {
		a.w.Header().Set("X-A2A-Extensions", strings.Join(uris, ","))
	}
}

func (a *answer) one(result any, err error) {
	a.activated()
	body, encodeErr := a.encode(result, err)
	if encodeErr != nil {
		refuse(a.w, a.id, encodeErr)
		return
	}
	a.w.Header().Set("Content-Type", "application/json")
	_, _ = a.w.Write(body)
}

func (a *answer) encode(result any, err error) ([]byte, error) {
	r := response{Version: "2.0", ID: a.id}
	if err != nil {
		r.Error = failed(err)
	} else if r.Result, err = json.Marshal(result); err != nil {
		return nil, fmt.Errorf("the result cannot be encoded: %w", err)
	}
	return json.Marshal(r)
}

// errNoEvents is what a stream ends with that had nothing to say.
var errNoEvents = sdk.NewError(sdk.ErrInternalError, "the stream ended before its first event")

// stream answers with server-sent events, also if the first one is an error: version 0.3 has a
// stream for an answer to such a method even if the call fails (section 6.11 of its
// specification), and its clients read nothing else.
func (a *answer) stream(ctx context.Context, events iter.Seq2[sdk.Event, error]) {
	defer a.stop()
	for e, err := range events {
		if a.silent == nil {
			a.begin()
		}
		if a.event(e, err) != nil || err != nil || ctx.Err() != nil {
			return
		}
	}
	if a.silent == nil && ctx.Err() == nil {
		a.begin()
		_ = a.event(nil, errNoEvents) // the stream ends either way
	}
}

// event writes one event, or the error that is the last one.
func (a *answer) event(e sdk.Event, err error) error {
	var result any
	if err == nil {
		result, err = fromEvent(e)
	}
	body, encodeErr := a.encode(result, err)
	if encodeErr != nil {
		err = encodeErr
		body, _ = a.encode(nil, err)
	}
	return errors.Join(err, a.write("data: "+string(body)+"\n\n"))
}

func (a *answer) begin() {
	a.activated()
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	a.w.WriteHeader(http.StatusOK)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent = time.AfterFunc(a.keepAlive, func() { _ = a.write(": keep-alive\n\n") })
}

// write sends a piece at once, and begins to wait for silence again.
func (a *answer) write(s string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent == nil {
		return io.ErrClosedPipe // the answer has ended
	}
	a.silent.Reset(a.keepAlive)
	if _, err := io.WriteString(a.w, s); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

// stop keeps the timer from writing to an answer that has ended.
func (a *answer) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent != nil {
		a.silent.Stop()
		a.silent = nil
	}
}
