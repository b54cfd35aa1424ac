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

	"github.com/agentarbor/arbor/a2a/internal/sdkjson"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/server/access"
)

// exchange is one request and its response.
type exchange struct {
	f      *frontHandler
	w      *access.Writer
	r      *http.Request
	query  url.Values
	route  route
	tenant string     // the tenant in the path
	rpc    bool       // errors have the form of JSON-RPC
	legacy bool       // the response is of version 0.3
	id     []byte     // the JSON-RPC request's id, as it was written
	task   sdk.TaskID // for the details of errors
}

// ServeHTTP answers a request. Errors and panics become errors of the binding.
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

// serve answers a request, or returns an error if it has not.
func (x *exchange) serve() (err error) {
	f, w, r := x.f, x.w, x.r
	if err := f.guard.CheckHost(r); err != nil {
		return err
	}
	route, tenant := f.routeOf(r.URL)
	x.route, x.tenant, x.rpc, x.task = route, tenant, route.kind == routeRPC, sdk.TaskID(route.task)
	if route.kind == routeNone {
		return newHTTPError(http.StatusNotFound, -32601, "NOT_FOUND", "PATH_NOT_FOUND", "this path does not exist")
	}
	operation, allowed := route.methods[r.Method]
	// Pages of other origins may read cards, and nothing else.
	if err := f.guard.CheckOrigin(w, r); err != nil && (route.kind != routeCard || r.Method == http.MethodOptions) {
		return err
	}
	if r.Method == http.MethodOptions {
		f.guard.Preflight(w, r, route.allow())
		return nil
	}
	if !allowed {
		wrong := newHTTPError(http.StatusMethodNotAllowed, -32600, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED",
			"the method %s is not allowed at this path; allowed are %s", visible.Cut(r.Method, 64), route.allow())
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
	if x.query, err = readQuery(r.URL.RawQuery); err != nil {
		return err
	}
	if x.rpc {
		return x.serveRPC(ctx, call)
	}
	return x.serveREST(ctx, call, operation)
}

// readQuery parses the query of a URL. It returns an error if any parameter is malformed.
func readQuery(raw string) (url.Values, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, sdkjson.Wrong("", "the query of the URL is malformed")
	}
	for name, values := range query {
		if !utf8.ValidString(name + strings.Join(values, "")) {
			return nil, sdkjson.Wrong("", "the query of the URL is not UTF-8")
		}
	}
	return query, nil
}

// maxExtensions is the maximum number of requested extensions; more are ignored.
const maxExtensions = 64

// Secrets returns the names of the headers that contain credentials, including those of auth, which may be nil.
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

// ServiceParams returns the headers that handlers may see: all except the secrets. It splits the list of requested
// extensions (A2A 1.0, section 9.2), because the SDK expects one value for each.
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

// legacyExtensions is the name of the header A2A-Extensions in version 0.3.
const legacyExtensions = "X-A2A-Extensions"

// setExtensions sets the response header that names the activated extensions.
func (x *exchange) setExtensions(call *a2asrv.CallContext) {
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
	// Version 0.3 is served over JSON-RPC only.
	if _, err := Negotiate(x.versions(), version10); err != nil {
		return err
	}
	op := operations[name]
	doc, err := x.document(name, op.shape)
	if err != nil {
		return err
	}
	return x.run(ctx, call, op, doc)
}

// run runs an operation and answers in the form of the binding.
func (x *exchange) run(ctx context.Context, call *a2asrv.CallContext, op *operation, doc []byte) error {
	if op.stream != nil {
		return x.stream(ctx, call, op, doc)
	}
	result, err := op.unary(ctx, x, doc)
	if err != nil {
		return err
	}
	data, err := x.result(result)
	if err != nil {
		return err
	}
	x.setExtensions(call)
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

// document returns the parameters of an HTTP+JSON request: from the body of a POST, and from the query otherwise.
func (x *exchange) document(name string, s *sdkjson.Shape) ([]byte, error) {
	if x.r.Method != http.MethodPost {
		return s.FitQuery(x.query)
	}
	// A request that only names a task needs no body.
	body, err := x.readBody(name == "CancelTask" || name == "SubscribeToTask")
	if err != nil {
		return nil, err
	}
	return s.Fit(body)
}

// stream answers with a stream of events.
func (x *exchange) stream(ctx context.Context, call *a2asrv.CallContext, op *operation, doc []byte) error {
	events, err := op.stream(x, doc)
	if err != nil {
		return err
	}
	encode := func(event sdk.Event) ([]byte, error) {
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
		t := x.failure(err)
		if x.rpc {
			return access.Frame{Data: t.rpc(x.id)}
		}
		return access.Frame{Event: "error", Data: t.rest()}
	}
	return serveStream(ctx, x.w, x.f.KeepAlive, x.legacy, func() { x.setExtensions(call) }, events, encode, failure)
}

// answer writes a complete response.
func (x *exchange) answer(status int, data []byte) {
	x.w.Header().Set("Content-Type", x.answerType())
	x.w.WriteHeader(status)
	// A failed write means that the client disconnected or is too slow.
	_, _ = x.w.Write(append(data, '\n'))
}

// failure returns the error for the client, and logs what it hides.
func (x *exchange) failure(err error) Failure {
	t := FailureOf(err, x.task, time.Now())
	if x.legacy {
		t.Details = nil
	}
	log, ctx := x.f.Logger, x.r.Context()
	var fault *panicError
	switch {
	case errors.As(err, &fault):
		log.ErrorContext(ctx, "a2a: a request panicked", "method", x.r.Method, "panic", fmt.Sprint(fault.value), "stack", string(fault.stack))
	case t.Hidden && ctx.Err() == nil:
		log.ErrorContext(ctx, "a2a: a request failed", "method", x.r.Method, "task", string(x.task), "error", err.Error())
	case t.Status == http.StatusUnauthorized || t.Status == http.StatusForbidden || t.Status == http.StatusMisdirectedRequest:
		// Any client can cause this at any rate, so it is not a warning.
		log.InfoContext(ctx, "a2a: a request was refused", "method", x.r.Method, "status", t.Status, "remote", x.r.RemoteAddr, "reason", t.Message)
	}
	return t
}

// fail answers with an error, unless the response has begun.
func (x *exchange) fail(err error) {
	t := x.failure(err)
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

// panicError is a recovered panic.
type panicError struct {
	value any
	stack []byte
}

func (*panicError) Error() string { return "panic" }

// panicked returns an error for a recovered value. It panics again with http.ErrAbortHandler.
func panicked(v any) error {
	if v == http.ErrAbortHandler {
		panic(v)
	}
	if err, ok := v.(*panicError); ok {
		return err
	}
	return &panicError{v, bytes.TrimSpace(debug.Stack())}
}
