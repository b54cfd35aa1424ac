package a2aserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
	// Notification returns what is posted to the webhooks of clients of version 0.3, and
	// its media type; nil: they get no push notifications.
	Notification func(sdk.Event) (body []byte, contentType string, err error)
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
	// encodeCard encodes an extended card; nil: as the SDK does.
	encodeCard func(*sdk.AgentCard) ([]byte, error)
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

// frontHandler is a front with all that is unset set.
type frontHandler struct {
	front
	checks  *checks
	legacy  map[string]http.Handler // of version 0.3, by tenant
	secrets []string                // headers that hold credentials
}

// newFront makes the handler. It is an error if the handler or the card is missing, or a tenant
// has a name that is no segment of a path or means something else there.
func newFront(f front) (http.Handler, error) {
	if f.handler == nil || f.card == nil {
		return nil, errors.New("a2aserver: the front needs a request handler and a card")
	}
	for i, name := range f.tenants {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\?#") ||
			slices.Contains(reservedSegments, name) || slices.Contains(f.tenants[:i], name) || !utf8.ValidString(name) {
			return nil, fmt.Errorf("a2aserver: %q cannot be the name of a tenant: it must be one segment of a path, used once and not one of %s",
				name, strings.Join(reservedSegments, ", "))
		}
	}
	setDefault(&f.maxBody, 4<<20)
	setDefault(&f.keepAlive, 15*time.Second)
	setDefault(&f.bodyTimeout, time.Minute)
	setDefault(&f.writeTimeout, 30*time.Second)
	if f.logger == nil {
		f.logger = slog.New(slog.DiscardHandler)
	}
	f.hosts = slices.Clone(f.hosts)
	for i, host := range f.hosts {
		f.hosts[i] = hostName(host)
	}
	f.origins = slices.Clone(f.origins)
	for i, origin := range f.origins {
		f.origins[i] = strings.ToLower(strings.TrimSuffix(origin, "/"))
	}
	h := &frontHandler{front: f, secrets: []string{"Authorization", "Proxy-Authorization", "Cookie"}}
	if checked, ok := f.handler.(*checks); ok {
		h.checks = checked
	} else {
		h.checks = newChecks(f.handler, f.inputModes, f.outputModes, f.tenants, f.maxStreams)
	}
	if f.auth != nil {
		for _, scheme := range f.auth.Schemes() {
			if key, ok := scheme.(sdk.APIKeySecurityScheme); ok && key.Location == sdk.APIKeySecuritySchemeLocationHeader {
				h.secrets = append(h.secrets, http.CanonicalHeaderKey(key.Name))
			}
		}
	}
	if f.compat != nil {
		h.legacy = make(map[string]http.Handler)
		for _, tenant := range append([]string{""}, f.tenants...) {
			h.legacy[tenant] = f.compat.JSONRPC(&legacyHandler{h, tenant})
		}
	}
	return h, nil
}

func setDefault[N int64 | time.Duration](n *N, value N) {
	if *n == 0 {
		*n = value
	}
}

// exchange is one request and its answer.
type exchange struct {
	f          *frontHandler
	w          *timedWriter
	r          *http.Request
	query      url.Values
	rpc        bool   // errors are told as JSON-RPC does
	id         []byte // of the JSON-RPC request, as it was written
	tenant     string // of the path
	pathTask   string
	pathConfig string
	task       sdk.TaskID // for the details of errors
}

// ServeHTTP answers a request. What goes wrong below it, panics included, is answered as an
// error of the binding.
func (f *frontHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{f: f, w: newTimedWriter(w, f.writeTimeout), r: r, id: []byte("null")}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Body != nil && r.Body != http.NoBody {
		// It also bounds what net/http reads of a body that nobody wanted.
		_ = x.w.control.SetReadDeadline(time.Now().Add(f.bodyTimeout))
	}
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
func (x *exchange) serve() error {
	f, w, r := x.f, x.w, x.r
	if err := f.checkHost(r); err != nil {
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
	if err := f.checkOrigin(w, r); err != nil && (route.kind != routeCard || r.Method == http.MethodOptions) {
		return err
	}
	if r.Method == http.MethodOptions {
		preflight(w, r, route.allow())
		return nil
	}
	if !allowed {
		wrong := newHTTPError(http.StatusMethodNotAllowed, -32600, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED",
			"the method %s is not served at this path; served are %s", clipKey(r.Method), route.allow())
		wrong.header = http.Header{"Allow": {route.allow()}}
		return wrong
	}
	if route.kind == routeCard {
		f.card(w, r, tenant)
		return nil
	}
	w.Header().Set("Cache-Control", "no-store")
	if err := x.checkAccept(); err != nil {
		return err
	}
	ctx, err := authenticate(r.Context(), f.auth, credentialsOf(r))
	if err != nil {
		return err
	}
	ctx, call := a2asrv.NewCallContext(ctx, f.serviceParams(r.Header))
	if caller := callerOf(ctx); caller != "" {
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

// serviceParams are the headers that handlers may see: all but the credentials. The extensions
// that a client asks for come in a list (A2A 1.0, section 9.2), of which the SDK wants to have each.
func (f *frontHandler) serviceParams(h http.Header) *a2asrv.ServiceParams {
	h = h.Clone()
	for _, name := range f.secrets {
		h.Del(name)
	}
	var uris []string
	for _, value := range h.Values(sdk.SvcParamExtensions) {
		for uri := range strings.SplitSeq(value, ",") {
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

// activated tells the client which extensions it got.
func (x *exchange) activated(call *a2asrv.CallContext) {
	if uris := call.Extensions().ActivatedURIs(); len(uris) > 0 {
		x.w.Header().Set(sdk.SvcParamExtensions, strings.Join(uris, ", "))
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
	if op.many != nil {
		return x.stream(ctx, call, op, doc)
	}
	result, err := op.one(ctx, x, doc)
	if err != nil {
		return err
	}
	data, err := x.encode(result)
	if err != nil {
		return err
	}
	x.activated(call)
	x.answer(http.StatusOK, data)
	return nil
}

// document is the parameters of a request of HTTP+JSON: its body where it is sent to something,
// its query where it asks for something.
func (x *exchange) document(name string, s *shape) ([]byte, error) {
	if x.r.Method != http.MethodPost {
		return rewriteQuery(x.query, s)
	}
	// What only names a task needs no body.
	body, err := x.readBody(name == "CancelTask" || name == "SubscribeToTask")
	if err != nil {
		return nil, err
	}
	if body == nil {
		return []byte("{}"), nil
	}
	return rewrite(body, s)
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
		data, err := x.encode(sdk.StreamResponse{Event: event})
		if err == nil && x.rpc {
			data = mustEncode(rpcAnswer{JSONRPC: "2.0", ID: x.id, Result: data})
		}
		return data, err
	}
	failure := func(err error) []byte {
		t := x.tell(err)
		if x.rpc {
			return append(append([]byte("data: "), t.rpc(x.id)...), "\n\n"...)
		}
		return append(append([]byte("event: error\ndata: "), t.rest()...), "\n\n"...)
	}
	return serveStream(ctx, x.w, x.f.keepAlive, func() { x.activated(call) }, events, encode, failure)
}

// answer writes a whole answer.
func (x *exchange) answer(status int, data []byte) {
	x.w.Header().Set("Content-Type", x.answerType())
	x.w.WriteHeader(status)
	// The client is gone, or too slow, if it cannot be written; nobody is left to tell.
	_, _ = x.w.Write(append(data, '\n'))
}

// tell words an error for the client, and logs what the client is not told.
func (x *exchange) tell(err error) wireError {
	t := toWire(err, x.task, time.Now())
	log, ctx := x.f.logger, x.r.Context()
	var fault *panicError
	switch {
	case errors.As(err, &fault):
		log.ErrorContext(ctx, "a2a: a request made the server panic", "method", x.r.Method, "panic", fmt.Sprint(fault.value), "stack", string(fault.stack))
	case t.inner && ctx.Err() == nil:
		log.ErrorContext(ctx, "a2a: a request failed", "method", x.r.Method, "task", string(x.task), "error", err.Error())
	case t.status == http.StatusUnauthorized || t.status == http.StatusForbidden || t.status == http.StatusMisdirectedRequest:
		log.WarnContext(ctx, "a2a: a request was refused", "method", x.r.Method, "status", t.status, "remote", x.r.RemoteAddr, "reason", t.message)
	}
	return t
}

// fail answers with an error, if nothing was answered yet.
func (x *exchange) fail(err error) {
	t := x.tell(err)
	if x.w.status != 0 {
		return
	}
	h := x.w.Header()
	for name, values := range t.header {
		h[name] = values
	}
	if t.err == sdk.ErrUnauthenticated || t.err == sdk.ErrUnauthorized {
		if all := challenges(x.f.auth, err); len(all) > 0 {
			h["Www-Authenticate"] = all
		}
	}
	h.Set("Cache-Control", "no-store")
	if x.rpc {
		x.answer(t.rpcStatus(), t.rpc(x.id))
		return
	}
	x.answer(t.status, t.rest())
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
