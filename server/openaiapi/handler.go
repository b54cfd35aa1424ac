package openaiapi

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/internal/chats"
	"github.com/agentarbor/arbor/server/internal/front"
)

// Door is the http.Handler of OpenAI's protocols. It is safe for concurrent use.
type Handler struct {
	*front.Handler
	turns   *live.Turns
	chats   *chats.Chats
	silence time.Duration // how long nothing is said before a stream begins

	clientTools front.ClientTools
}

// Option configures a [Door].
type Option func(*settings)

type settings struct {
	front.Config
	patience    time.Duration
	clientTools front.ClientTools
}

// WithGuard sets who may call. Without it the user must be in the context of each request; see
// access.WithUser.
func WithGuard(g *access.Guard) Option { return func(s *settings) { s.Guard = g } }

// WithApp sets the app part of the keys of sessions; by default it is that of session.ID.
func WithApp(app string) Option { return func(s *settings) { s.App = app } }

// WithPrefix sets where the paths begin; the default is /v1, as the clients have it in their base URL.
func WithPrefix(prefix string) Option { return func(s *settings) { s.Prefix = prefix } }

// WithPatience sets how long a turn goes on whose client has gone, unless another one watches it or it was
// asked to continue. Then it is stopped, and can be resumed. The default is ten seconds.
func WithPatience(d time.Duration) Option { return func(s *settings) { s.patience = d } }

// New makes a door to the turns of a tree. The error says which option is wrong.
func New(turns *live.Turns, opts ...Option) (*Handler, error) {
	s := &settings{Config: front.Config{Turns: turns, Name: "openai", Prefix: "/v1", Fail: fail}, patience: 10 * time.Second}
	if err := option.Apply(s, opts); err != nil {
		return nil, fmt.Errorf("openaiapi: %w", err)
	}
	h := &Handler{turns: turns, silence: 5 * time.Second, clientTools: s.clientTools}
	s.Routes = []front.Route{
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
		{Method: http.MethodPost, Path: "/conversations/{conversation}/items", Handle: onlyGrows},
		{Method: http.MethodGet, Path: "/conversations/{conversation}/items/{item}", Handle: h.item},
		{Method: http.MethodDelete, Path: "/conversations/{conversation}/items/{item}", Handle: onlyGrows},
	}
	err := s.clientTools.Check(turns.Runner().Tree())
	if err != nil {
		return nil, fmt.Errorf("openaiapi: %w", err)
	}
	if h.Handler, err = front.New(s.Config); err != nil {
		return nil, fmt.Errorf("openaiapi: %w", err)
	}
	if h.chats, err = chats.New(turns, s.patience); err != nil {
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

// errorOf writes a fault in OpenAI's form. The first place that is wrong is the param; the message has all.
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

// fail answers with a fault. The clients repeat what ended with 408, 409, 429 and 5xx unless they are told that
// it is of no use.
func fail(c *front.Call, f *front.Fault) {
	switch f.Code {
	case "session_busy", "too_many", "body_timeout", "stopping", "internal":
	default:
		c.W.Header().Set("X-Should-Retry", "false")
	}
	_ = c.JSON(f.Status, map[string]any{"error": errorOf(f)}) // an error is that of a client who has gone
}

// laterAgain is the Retry-After of an answer that failed because the model's endpoint limits the rate. It is a guess:
// the log does not have the time that the endpoint asked for.
const laterAgain = 10 * time.Second

// failed is the fault of a turn that ended with no answer. What an endpoint of a model said is not passed on as
// if it were said of this request, such as a 401, but that it is asked too much, which a client can wait for.
func failed(r *live.Report) *front.Fault {
	f := &front.Fault{Status: http.StatusBadGateway, Code: "turn_failed", Detail: "the turn ended without an answer"}
	switch {
	case r.State == live.Canceled:
		return &front.Fault{Status: http.StatusConflict, Code: "canceled", Detail: "the turn was canceled"}
	case r.Failure != nil:
		f.Code, f.Detail = r.Failure.Code, r.Failure.Public().Message
		if f.Code == string(llm.CodeRateLimited) && r.Failure.Retryable {
			f.Status, f.RetryAfter = http.StatusTooManyRequests, laterAgain
		}
	}
	return f
}
