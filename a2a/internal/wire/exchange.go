package wire

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/access"
)

// exchange is one request and its answer.
type exchange struct {
	f          *frontHandler
	w          *access.Writer
	r          *http.Request
	query      url.Values
	rpc        bool   // errors are told as JSON-RPC does
	legacy     bool   // the answer is one of version 0.3
	id         []byte // of the JSON-RPC request, as it was written
	tenant     string // of the path
	pathTask   string
	pathConfig string
	task       sdk.TaskID // for the details of errors
}

// ServeHTTP answers a request. What goes wrong below it, panics included, is answered as an
// error of the binding.
func (f *frontHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{f: f, w: f.guard.Open(w, r), r: r, id: []byte("null")}
	defer func() {
		if v := recover(); v != nil {
			x.fail(panicked(v))
		}
	}()
	if err := x.serve(); err != nil {
		x.fail(err)
	}
}

// serve answers, or returns why it did not.
func (x *exchange) serve() (err error) {
	f, w, r := x.f, x.w, x.r
	if err := f.guard.CheckHost(r); err != nil {
		return err
	}
	route, tenant := f.routeOf(r.URL)
	x.rpc, x.tenant, x.pathTask, x.pathConfig = route.kind == routeRPC, tenant, route.task, route.config
	x.task = sdk.TaskID(route.task)
	if route.kind == routeNone {
		return newHTTPError(http.StatusNotFound, -32601, "NOT_FOUND", "PATH_NOT_FOUND", "there is nothing at this path")
	}
	operation, allowed := route.methods[r.Method]
	// A card is for everybody; nothing else is for pages of other origins.
	if err := f.guard.CheckOrigin(w, r); err != nil && (route.kind != routeCard || r.Method == http.MethodOptions) {
		return err
	}
	if r.Method == http.MethodOptions {
		f.guard.Preflight(w, r, route.allow())
		return nil
	}
	if !allowed {
		wrong := newHTTPError(http.StatusMethodNotAllowed, -32600, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED",
			"the method %s is not served at this path; served are %s", clipKey(r.Method), route.allow())
		wrong.header = http.Header{"Allow": {route.allow()}}
		return wrong
	}
	if route.kind == routeCard {
		f.Card(w, r, tenant)
		return nil
	}
	w.Header().Set("Cache-Control", "no-store")
	if err := x.checkAccept(); err != nil {
		return err
	}
	ctx, err := Authenticate(r.Context(), f.Auth, access.CredentialsOf(r))
	if err != nil {
		return err
	}
	ctx, stop := access.UntilRevoked(ctx)
	defer stop()
	defer func() {
		if err != nil {
			err = cmp.Or(Revoked(ctx), err)
		}
	}()
	ctx, call := a2asrv.NewCallContext(ctx, ServiceParams(r.Header, f.secrets))
	if base, err := RequestBase(r); err == nil {
		ctx = WithBase(ctx, base)
	}
	if caller := access.UserOf(ctx).Name; caller != "" {
		call.User = a2asrv.NewAuthenticatedUser(caller, nil)
	}
	if x.query, err = readQuery(r.URL.RawQuery); err != nil {
		return err
	}
	if x.rpc {
		return x.serveRPC(ctx, call)
	}
	return x.serveREST(ctx, call, operation)
}

// readQuery reads the parameters of a URL, all of them or none.
func readQuery(raw string) (url.Values, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &violation{"", "the query of the URL is malformed", nil}
	}
	for name, values := range query {
		if !utf8.ValidString(name + strings.Join(values, "")) {
			return nil, &violation{"", "the query of the URL is not UTF-8", nil}
		}
	}
	return query, nil
}

// maxExtensions is how many extensions a client may ask for; more are not looked at.
const maxExtensions = 64

// Secrets returns the names of the headers that hold credentials, of auth too, which may be nil.
func Secrets(auth Authenticator) []string {
	names := []string{"Authorization", "Proxy-Authorization", "Cookie"}
	if auth == nil {
		return names
	}
	for _, scheme := range auth.Schemes() {
		if key, ok := scheme.(sdk.APIKeySecurityScheme); ok && key.Location == sdk.APIKeySecuritySchemeLocationHeader {
			names = append(names, http.CanonicalHeaderKey(key.Name))
		}
	}
	return names
}

// ServiceParams returns what handlers may see of headers: all but the secrets. The extensions
// that a client asks for come in a list (A2A 1.0, section 9.2), of which the SDK wants to have each.
func ServiceParams(h http.Header, secrets []string) *a2asrv.ServiceParams {
	h = h.Clone()
	for _, name := range secrets {
		h.Del(name)
	}
	var uris []string
	for _, value := range h.Values(sdk.SvcParamExtensions) {
		for uri := range strings.SplitSeq(value, ",") {
			if len(uris) == maxExtensions {
				break
			}
			if uri = strings.TrimSpace(uri); uri != "" && !slices.Contains(uris, uri) {
				uris = append(uris, uri)
			}
		}
	}
	h.Del(sdk.SvcParamExtensions)
	if len(uris) > 0 {
		h[http.CanonicalHeaderKey(sdk.SvcParamExtensions)] = uris
	}
	return a2asrv.NewServiceParams(h)
}

// legacyExtensions is the name that the header A2A-Extensions has in version 0.3.
const legacyExtensions = "X-A2A-Extensions"

// activated tells the client which extensions it got.
func (x *exchange) activated(call *a2asrv.CallContext) {
	name := sdk.SvcParamExtensions
	if x.legacy {
		name = legacyExtensions
	}
	if uris := call.Extensions().ActivatedURIs(); len(uris) > 0 {
		x.w.Header().Set(name, strings.Join(uris, ", "))
	}
}

// serveREST answers a request of the HTTP+JSON binding.
func (x *exchange) serveREST(ctx context.Context, call *a2asrv.CallContext, name string) error {
	// Only JSON-RPC is served in the words of version 0.3.
	if _, err := negotiate(x.r, x.query, false); err != nil {
		return err
	}
	op := operations[name]
	doc, err := x.document(name, op.shape)
	if err != nil {
		return err
	}
	return x.do(ctx, call, op, doc)
}

// do runs an operation and answers in the words of the binding.
func (x *exchange) do(ctx context.Context, call *a2asrv.CallContext, op *operation, doc []byte) error {
	if op.many != nil {
		return x.stream(ctx, call, op, doc)
	}
	result, err := op.one(ctx, x, doc)
	if err != nil {
		return err
	}
	data, err := x.result(result)
	if err != nil {
		return err
	}
	x.activated(call)
	x.answer(http.StatusOK, data)
	return nil
}

// result encodes a result in the form of the binding.
func (x *exchange) result(result any) ([]byte, error) {
	data, err := x.encode(result)
	if err == nil && x.rpc {
		data = mustEncode(rpcAnswer{JSONRPC: "2.0", ID: x.id, Result: data})
	}
	return data, err
}

// document is the parameters of a request of HTTP+JSON: its body where it is sent to something,
// its query where it asks for something.
func (x *exchange) document(name string, s *shape) ([]byte, error) {
	if x.r.Method != http.MethodPost {
		return fitQuery(x.query, s)
	}
	// What only names a task needs no body.
	body, err := x.readBody(name == "CancelTask" || name == "SubscribeToTask")
	if err != nil {
		return nil, err
	}
	if body == nil {
		return []byte("{}"), nil
	}
	return fit(parse(body), s)
}

// stream answers with events.
func (x *exchange) stream(ctx context.Context, call *a2asrv.CallContext, op *operation, doc []byte) error {
	events, err := op.many(x, doc)
	if err != nil {
		return err
	}
	encode := func(event sdk.Event) ([]byte, error) {
		if isNil(event) {
			return nil, errNoResult
		}
		result, err := any(sdk.StreamResponse{Event: event}), error(nil)
		if x.legacy {
			result, err = x.f.Legacy.Event(event)
		}
		if err != nil {
			return nil, err
		}
		return x.result(result)
	}
	failure := func(err error) access.Frame {
		t := x.tell(err)
		if x.rpc {
			return access.Frame{Data: t.rpc(x.id)}
		}
		return access.Frame{Event: "error", Data: t.rest()}
	}
	return serveStream(ctx, x.w, x.f.KeepAlive, x.legacy, func() { x.activated(call) }, events, encode, failure)
}

// answer writes a whole answer.
func (x *exchange) answer(status int, data []byte) {
	x.w.Header().Set("Content-Type", x.answerType())
	x.w.WriteHeader(status)
	// The client is gone, or too slow, if it cannot be written; nobody is left to tell.
	_, _ = x.w.Write(append(data, '\n'))
}

// tell words an error for the client, and logs what the client is not told.
func (x *exchange) tell(err error) Told {
	t := Tell(err, x.task, time.Now())
	if x.legacy {
		t.Details = nil
	}
	log, ctx := x.f.Logger, x.r.Context()
	var fault *panicError
	switch {
	case errors.As(err, &fault):
		log.ErrorContext(ctx, "a2a: a request made the server panic", "method", x.r.Method, "panic", fmt.Sprint(fault.value), "stack", string(fault.stack))
	case t.Inner && ctx.Err() == nil:
		log.ErrorContext(ctx, "a2a: a request failed", "method", x.r.Method, "task", string(x.task), "error", err.Error())
	case t.Status == http.StatusUnauthorized || t.Status == http.StatusForbidden || t.Status == http.StatusMisdirectedRequest:
		// Anybody can cause this as often as they like, so it is no warning.
		log.InfoContext(ctx, "a2a: a request was refused", "method", x.r.Method, "status", t.Status, "remote", x.r.RemoteAddr, "reason", t.Message)
	}
	return t
}

// fail answers with an error, if nothing was answered yet.
func (x *exchange) fail(err error) {
	t := x.tell(err)
	if x.w.Status() != 0 {
		return
	}
	if x.legacy {
		x.answer(http.StatusOK, t.rpc(x.id))
		return
	}
	h := x.w.Header()
	for name, values := range t.header {
		h[name] = values
	}
	if t.Err == sdk.ErrUnauthenticated || t.Err == sdk.ErrUnauthorized {
		if all := challenges(x.f.Auth, err); len(all) > 0 {
			h["Www-Authenticate"] = all
		}
	}
	h.Set("Cache-Control", "no-store")
	if x.rpc {
		x.answer(t.rpcStatus(), t.rpc(x.id))
		return
	}
	x.answer(t.Status, t.rest())
}

// panicError is a panic that was caught.
type panicError struct {
	value any
	stack []byte
}

func (*panicError) Error() string { return "panic" }

// panicked makes an error of what recover returned. net/http's own way to break off goes on.
func panicked(v any) error {
	if v == http.ErrAbortHandler {
		panic(v)
	}
	if err, ok := v.(*panicError); ok {
		return err
	}
	return &panicError{v, bytes.TrimSpace(debug.Stack())}
}
