package wire

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/a2a/internal/sdkjson"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/server/access"
)

// Checks is a request handler for all bindings that passes on only complete requests within the limits: required fields
// are set (A2A 1.0, section 5.7), numbers are in their ranges, the tenant exists, the media types of the parts are
// accepted, the client accepts a media type that the server can answer with, and the caller has not too many calls
// open.
type Checks struct {
	a2asrv.InterceptedHandler
	inputModes  []string
	inputs      map[string]float64 // their quality values
	outputModes []string
	tenants     []string
	open        *access.Limit
	failed      func(ctx context.Context, operation string, err error) error
}

// NewChecks returns a handler that checks requests before next answers them. Empty modes accept everything. open bounds
// the streams and the waiting sends; nil means [access.MaxStreams] for each caller and [access.MaxAllStreams] for all.
// failed maps the errors of next; nil passes them on.
func NewChecks(next a2asrv.RequestHandler, inputModes, outputModes, tenants []string, open *access.Limit,
	failed func(ctx context.Context, operation string, err error) error,
) *Checks {
	if open == nil {
		open = access.NewLimit(access.MaxStreams, access.MaxAllStreams)
	}
	c := &Checks{inputModes: inputModes, inputs: qualities(inputModes), outputModes: outputModes, tenants: tenants, open: open, failed: failed}
	c.InterceptedHandler = a2asrv.InterceptedHandler{Handler: next, Interceptors: []a2asrv.CallInterceptor{c}, Logger: slog.New(slog.DiscardHandler)}
	return c
}

// Before implements a2asrv.CallInterceptor: it checks a request.
func (c *Checks) Before(ctx context.Context, _ *a2asrv.CallContext, req *a2asrv.Request) (context.Context, any, error) {
	// The SDK's clients would send the tenant to the peers that this server calls.
	return sdk.AttachTenant(ctx, ""), nil, c.check(req.Payload)
}

// After implements a2asrv.CallInterceptor: it maps the errors of the handler, but not those of Before.
func (c *Checks) After(ctx context.Context, call *a2asrv.CallContext, resp *a2asrv.Response) error {
	if resp.Err != nil && c.failed != nil && !errors.As(resp.Err, new(*sdkjson.Violation)) {
		resp.Err = c.failed(ctx, call.Method(), resp.Err)
	}
	return nil
}

// tenantOf returns a pointer to the tenant of a request. Each type of request has this field.
func tenantOf(req any) *string {
	return reflect.ValueOf(req).Elem().FieldByName("Tenant").Addr().Interface().(*string)
}

// check returns an error for a request that is incomplete or exceeds a limit.
func (c *Checks) check(req any) error {
	if name := *tenantOf(req); name != "" && !slices.Contains(c.tenants, name) {
		return sdkjson.Wrong("tenant", "this tenant does not exist")
	}
	if err := complete("", req); err != nil {
		return err
	}
	switch r := req.(type) {
	case *sdk.SendMessageRequest:
		return c.send(r)
	case *sdk.ListTasksRequest:
		if r.PageSize > 100 {
			return sdkjson.Wrong("pageSize", fmt.Sprintf("%s, got %d", sdkjson.Page.Bounds(), r.PageSize))
		}
		if r.Status != sdk.TaskStateUnspecified && !sdkjson.State.Has(string(r.Status)) {
			return sdkjson.Wrong("status", sdkjson.State.Choices())
		}
	}
	return nil
}

// complete returns an error for the first empty field of a struct of the SDK that is required, which are those without
// omitempty, and for a number below 0. It does not check the structs in it.
func complete(path string, s any) error {
	v := reflect.Indirect(reflect.ValueOf(s))
	for i := range v.NumField() {
		value := reflect.Indirect(v.Field(i))
		missing := !value.IsValid() || value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0
		negative := value.CanInt() && value.Int() < 0
		if !missing && !negative {
			continue
		}
		name, omit, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch {
		case negative:
			return sdkjson.Wrong(path+name, fmt.Sprintf("must not be negative, got %d", value.Int()))
		case omit == "":
			return sdkjson.Wrong(path+name, "is required")
		}
	}
	return nil
}

// send checks a message to send and its configuration.
func (c *Checks) send(req *sdk.SendMessageRequest) error {
	m := req.Message
	if err := complete("message.", m); err != nil {
		return err
	}
	if len(m.ID) > maxID {
		return sdkjson.Wrong("message.messageId", fmt.Sprintf("is longer than %d bytes", maxID))
	}
	if m.Role != sdk.MessageRoleUser {
		// A client must not speak for the agent.
		return sdkjson.Wrong("message.role", "must be ROLE_USER: a client sends messages of the user")
	}
	for i, p := range m.Parts {
		field := fmt.Sprintf("message.parts[%d]", i)
		if p == nil || p.Content == nil {
			return sdkjson.Wrong(field, "must have exactly one of text, raw, url, data")
		}
		given, err := mediaType(p)
		if err != nil {
			return sdkjson.Wrong(field+".mediaType", "is not a media type")
		}
		if given != "" && len(c.inputModes) > 0 && quality(c.inputs, given) == 0 {
			return &sdkjson.Violation{Field: field, What: fmt.Sprintf("the media type %s is not accepted; accepted are %s", given, strings.Join(c.inputModes, ", ")), Kind: sdk.ErrUnsupportedContentType}
		}
	}
	cfg := req.Config
	if cfg == nil {
		return nil
	}
	if err := complete("configuration.", cfg); err != nil {
		return err
	}
	if p := cfg.PushConfig; p != nil && p.URL == "" { // its task is not known yet
		return sdkjson.Wrong("configuration.taskPushNotificationConfig.url", "is required")
	}
	return c.accepts(cfg.AcceptedOutputModes)
}

// accepts returns an error if the client accepts no media type that the server can answer with.
func (c *Checks) accepts(modes []string) error {
	if len(modes) == 0 || len(c.outputModes) == 0 {
		return nil
	}
	ranges := qualities(modes)
	if slices.ContainsFunc(c.outputModes, func(out string) bool { return quality(ranges, out) > 0 }) {
		return nil
	}
	for _, mode := range modes {
		if _, _, err := mime.ParseMediaType(mode); err != nil {
			return sdkjson.Wrong("configuration.acceptedOutputModes", fmt.Sprintf("%q is not a media type", visible.Cut(mode, 64)))
		}
	}
	return &sdkjson.Violation{Field: "configuration.acceptedOutputModes", What: "none of them is supported; supported are " + strings.Join(c.outputModes, ", "), Kind: sdk.ErrUnsupportedContentType}
}

// mediaType returns the media type of a part without parameters. A part that names none has the type of its content. It
// returns "" if the content would have to be fetched to determine the type.
func mediaType(p *sdk.Part) (string, error) {
	if p.MediaType != "" {
		t, _, err := mime.ParseMediaType(p.MediaType)
		if err == nil && !strings.Contains(t, "/") {
			err = mime.ErrInvalidMediaParameter
		}
		return t, err
	}
	switch content := p.Content.(type) {
	case sdk.Text:
		return "text/plain", nil
	case sdk.Data:
		return "application/json", nil
	case sdk.Raw:
		t, _, err := mime.ParseMediaType(http.DetectContentType(content))
		return t, err
	default:
		t, _, _ := mime.ParseMediaType(mime.TypeByExtension(path.Ext(p.Filename)))
		return t, nil
	}
}

// SendMessage counts as an open call until it returns.
func (c *Checks) SendMessage(ctx context.Context, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.leave(ctx)
	return c.InterceptedHandler.SendMessage(ctx, req)
}

// SendStreamingMessage counts as an open call while the stream is read.
func (c *Checks) SendStreamingMessage(ctx context.Context, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return c.limited(ctx, c.InterceptedHandler.SendStreamingMessage(ctx, req))
}

// SubscribeToTask counts as an open call while the stream is read.
func (c *Checks) SubscribeToTask(ctx context.Context, req *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return c.limited(ctx, c.InterceptedHandler.SubscribeToTask(ctx, req))
}

func (c *Checks) limited(ctx context.Context, events iter.Seq2[sdk.Event, error]) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		if err := c.enter(ctx); err != nil {
			yield(nil, err)
			return
		}
		defer c.leave(ctx)
		events(yield)
	}
}

// ErrTooManyCalls is the error of the same name in package a2aserver.
var ErrTooManyCalls = fmt.Errorf("too many calls are open: %w", sdk.ErrServerError)

// TooMany returns the protocol error for a *[access.LimitError], and any other error unchanged. format has a verb for
// the limit and one for the caller or callers that reached it.
func TooMany(err error, format string) error {
	var limit *access.LimitError
	if !errors.As(err, &limit) {
		return err
	}
	who := "this caller"
	if limit.All {
		who = "all callers"
	}
	return tooMany("TOO_MANY_STREAMS", time.Second, fmt.Sprintf(format, limit.Max, who))
}

// tooMany returns the error for a client that may try again after a time.
func tooMany(reason string, after time.Duration, message string) error {
	return &HTTPError{Kind{ErrTooManyCalls, -32000, http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", reason}, message,
		http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(after.Seconds())))}}}
}

// enter counts an open call until leave is called.
func (c *Checks) enter(ctx context.Context) error {
	return TooMany(c.open.Await(ctx, access.UserOf(ctx).Name), "more than %d calls of %s are open: close some streams and try again")
}

func (c *Checks) leave(ctx context.Context) { c.open.Leave(access.UserOf(ctx).Name) }
