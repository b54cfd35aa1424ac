package openaiapi

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/chats"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
)

// Handler serves OpenAI's APIs. It is an http.Handler and safe for concurrent use. The zero value is not usable; see
// [New].
type Handler struct {
	*front.Handler
	settings
	turns   *live.Turns
	chats   *chats.Chats
	silence time.Duration // how long a stream waits for the first text before it sends its headers
}

// Option configures a [Handler].
type Option func(*settings)

type settings struct {
	front       front.Config
	patience    time.Duration
	clientTools front.ClientTools
}

// WithGuard sets the guard that authenticates requests. Without a guard, middleware of the program must put the user
// into the context with access.WithUser; requests without a user are refused.
func WithGuard(g *access.Guard) Option { return func(s *settings) { s.front.Guard = g } }

// WithApp sets the app in the keys of sessions. Defaults to session.DefaultApp.
func WithApp(app string) Option { return func(s *settings) { s.front.App = app } }

// WithPrefix sets the prefix of all paths. Defaults to /v1, which clients have in their base URL.
func WithPrefix(prefix string) Option { return func(s *settings) { s.front.Prefix = prefix } }

// WithPatience sets how long a turn continues after its client has disconnected. Then the server stops the turn, which
// can be resumed. The server does not stop a turn that another client follows, or whose request has the header
// Arbor-On-Disconnect: continue. Defaults to 10 seconds.
func WithPatience(d time.Duration) Option { return func(s *settings) { s.patience = d } }

// New returns a handler that serves turns. The caller closes the turns after the last request. The error names the
// invalid option.
func New(turns *live.Turns, opts ...Option) (*Handler, error) {
	h := &Handler{turns: turns, silence: 5 * time.Second}
	h.settings = settings{front: front.Config{Turns: turns, Name: "openai", Prefix: "/v1", Fail: fail}, patience: 10 * time.Second}
	h.front.Routes = []front.Route{
		{Method: http.MethodGet, Path: "/models", Handle: h.models},
		{Method: http.MethodGet, Path: "/models/{model...}", Handle: h.model},
		{Method: http.MethodPost, Path: "/chat/completions", Handle: h.chat},
		{Method: http.MethodPost, Path: "/responses", Handle: h.respond},
		{Method: http.MethodGet, Path: "/responses/{id}", Handle: h.response},
		{Method: http.MethodDelete, Path: "/responses/{id}", Handle: h.deleteResponse},
		{Method: http.MethodPost, Path: "/responses/{id}/cancel", Handle: h.cancelResponse},
		{Method: http.MethodGet, Path: "/responses/{id}/input_items", Handle: h.inputItems},
		{Method: http.MethodPost, Path: "/conversations", Handle: h.createConversation},
		{Method: http.MethodGet, Path: "/conversations/{conversation}", Handle: h.conversation},
		{Method: http.MethodPost, Path: "/conversations/{conversation}", Handle: h.updateConversation},
		{Method: http.MethodDelete, Path: "/conversations/{conversation}", Handle: h.deleteConversation},
		{Method: http.MethodGet, Path: "/conversations/{conversation}/items", Handle: h.items},
		{Method: http.MethodPost, Path: "/conversations/{conversation}/items", Handle: h.addItems},
		{Method: http.MethodGet, Path: "/conversations/{conversation}/items/{item}", Handle: h.item},
		{Method: http.MethodDelete, Path: "/conversations/{conversation}/items/{item}", Handle: h.deleteItem},
	}
	err := option.Apply(&h.settings, opts)
	if err == nil {
		h.Handler, err = front.New(h.front)
	}
	if err == nil {
		err = h.clientTools.Check(turns.Runner().Tree())
	}
	if err == nil {
		h.chats, err = chats.New(turns, h.patience)
	}
	if err != nil {
		return nil, fmt.Errorf("openaiapi: %w", err)
	}
	return h, nil
}

// wireError is an error in OpenAI's form.
type wireError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// errorOf returns a fault in OpenAI's form. param is the path of the first problem; the message contains all problems.
func errorOf(f *front.Fault) wireError {
	e := wireError{Message: f.Detail, Code: f.Code}
	for i, p := range f.Problems {
		if i == 0 && p.Path != "" {
			e.Param = &p.Path
		}
		e.Message += "; " + strings.TrimPrefix(p.Path+": "+p.Message, ": ")
	}
	switch {
	case f.Status == http.StatusUnauthorized:
		e.Type = "authentication_error"
	case f.Status == http.StatusForbidden:
		e.Type = "permission_error"
	case f.Status == http.StatusTooManyRequests:
		e.Type = "rate_limit_error"
	case f.Status >= 500:
		e.Type = "server_error"
	default:
		e.Type = "invalid_request_error"
	}
	return e
}

// fail answers with a fault. OpenAI's clients retry requests that fail with 408, 409, 429 and 5xx, unless the header
// X-Should-Retry is false.
func fail(c *front.Call, f *front.Fault) {
	switch f.Code {
	case "session_busy", "too_many", "body_timeout", "stopping", "store_unavailable", "internal":
	default:
		c.W.Header().Set("X-Should-Retry", "false")
	}
	_ = c.JSON(f.Status, map[string]any{"error": errorOf(f)}) // fails only if the client has disconnected
}

// rateLimitRetry is the Retry-After of a turn that failed because of the rate limit of a model's endpoint. It is a
// guess, because the log does not contain the time that the endpoint asked for.
const rateLimitRetry = 10 * time.Second

// failed returns the fault of a turn that ended without an answer. It does not use the status of the model's endpoint,
// such as 401, because the client's request did not cause it. The exception is 429, after which the client can retry.
func failed(r *live.Report) *front.Fault {
	f := &front.Fault{Status: http.StatusBadGateway, Code: "turn_failed", Detail: "the turn ended without an answer"}
	switch {
	case r.State == live.Canceled:
		return &front.Fault{Status: http.StatusConflict, Code: "canceled", Detail: "the turn was canceled"}
	case r.Failure != nil:
		f.Code, f.Detail = r.Failure.Code, r.Failure.Public().Message
		if f.Code == string(llm.CodeRateLimited) && r.Failure.Retryable {
			f.Status, f.RetryAfter = http.StatusTooManyRequests, rateLimitRetry
		}
	}
	return f
}
