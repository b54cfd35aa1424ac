package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/a2a/internal/sdkjson"
	"github.com/agentarbor/arbor/internal/visible"
)

// rpcRequest contains the envelope of a request of JSON-RPC 2.0, section 4.
type rpcRequest struct {
	ID     json.RawMessage
	Method string
	Params map[string]any
}

// maxID bounds the id of a request, which each frame of a stream repeats, and that of a message, in bytes.
const maxID = 1024

// readEnvelope reads the value of a request. Even with an error, req.ID is the id for the response, or "null" if there is
// none.
func readEnvelope(body any) (req rpcRequest, err error) {
	req.ID = json.RawMessage("null")
	invalid := func(format string, a ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{sdk.ErrInvalidRequest}, a...)...)
	}
	parts, isObject := body.(map[string]any)
	if _, isList := body.([]any); isList {
		return req, invalid("batches are not supported: send each request separately")
	} else if !isObject {
		return req, invalid("a request must be a JSON object")
	}
	id, hasID := parts["id"]
	if hasID {
		raw, ok := encodeID(id)
		if !ok {
			return req, invalid("the id must be a string, a whole number or null, of at most %d bytes", maxID)
		}
		req.ID = raw
	}
	req.Method, _ = parts["method"].(string)
	switch {
	case !hasID:
		return req, invalid("the request has no id: A2A has no notifications")
	case parts["jsonrpc"] != "2.0":
		return req, invalid(`"jsonrpc" must be "2.0"`)
	case req.Method == "":
		return req, invalid("the method must be the name of an operation")
	}
	params, isObject := parts["params"].(map[string]any)
	if !isObject && parts["params"] != nil {
		return req, sdkjson.Wrong("", "params must be an object")
	}
	req.Params = params
	return req, nil
}

// encodeID returns the id of a request in JSON, and whether it is allowed.
func encodeID(id any) (raw json.RawMessage, ok bool) {
	switch id := id.(type) {
	case string, nil:
		ok = true
	case json.Number:
		ok = !strings.ContainsAny(id.String(), ".eE")
	}
	if ok {
		raw = mustEncode(id)
	}
	return raw, ok && len(raw) <= maxID
}

// serveRPC answers a request of the JSON-RPC binding (A2A 1.0, section 9).
func (x *exchange) serveRPC(ctx context.Context, call *a2asrv.CallContext) error {
	body, err := x.readBody(false)
	if err != nil {
		return err
	}
	req, err := readEnvelope(body)
	x.id = req.ID
	if err != nil {
		return err
	}
	supported := []string{version10}
	if x.f.Legacy != nil { // the specification requires 0.3 for a request that names no version
		supported = []string{version03, version10}
	}
	version, err := Negotiate(x.versions(), supported...)
	if err != nil {
		return err
	}
	if version == version03 {
		return x.serveLegacy(ctx, req)
	}
	op := operations[req.Method]
	if op == nil {
		return errUnknownMethod(req.Method, version)
	}
	doc, err := op.shape.Fit(req.Params)
	if err != nil {
		return err
	}
	return x.run(ctx, call, op, doc)
}

// serveLegacy answers a well-formed request of version 0.3. There, a stream begins with a frame even if that is an
// error, and errors have neither details nor an HTTP status.
func (x *exchange) serveLegacy(ctx context.Context, req rpcRequest) error {
	if operations[req.Method] != nil {
		return fmt.Errorf("%w: %s is an operation of A2A 1.0, but the request is of version 0.3: send the header A2A-Version: 1.0", sdk.ErrMethodNotFound, req.Method)
	}
	params, err := json.Marshal(req.Params)
	if err != nil {
		return err
	}
	x.legacy = true
	h := x.r.Header.Clone()
	h.Set(sdk.SvcParamVersion, version03)
	for _, uris := range h.Values(legacyExtensions) {
		h.Add(sdk.SvcParamExtensions, uris)
	}
	h.Del(legacyExtensions)
	ctx, call := a2asrv.NewCallContext(ctx, ServiceParams(h, x.f.secrets))
	handler := &a2asrv.InterceptedHandler{Handler: x.f.Handler, Interceptors: []a2asrv.CallInterceptor{setTenant{tenant: x.tenant}}}
	unary, stream := x.f.Legacy.Methods[req.Method], x.f.Legacy.Streams[req.Method]
	switch {
	case unary != nil:
		return x.run(ctx, call, &operation{unary: func(ctx context.Context, _ *exchange, doc []byte) (any, error) {
			return unary(handler, ctx, doc)
		}}, params)
	case stream != nil:
		return x.run(ctx, call, &operation{stream: func(_ *exchange, doc []byte) (func(context.Context) iter.Seq2[sdk.Event, error], error) {
			return func(ctx context.Context) iter.Seq2[sdk.Event, error] { return stream(handler, ctx, doc) }, nil
		}}, params)
	}
	return errUnknownMethod(req.Method, version03)
}

// setTenant sets the tenant of requests, which 0.3 does not have.
type setTenant struct {
	a2asrv.PassthroughCallInterceptor
	tenant string
}

func (t setTenant) Before(ctx context.Context, _ *a2asrv.CallContext, req *a2asrv.Request) (context.Context, any, error) {
	*tenantOf(req.Payload) = t.tenant
	return ctx, nil, nil
}

func errUnknownMethod(method, version string) error {
	return fmt.Errorf("%w: A2A %s has no operation %q", sdk.ErrMethodNotFound, version, visible.Cut(method, 64))
}
