package endpoint

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// Option configures [Handler] and [Start].
type Option func(*handler)

// WithAPIKey refuses requests without this bearer token.
func WithAPIKey(key string) Option { return func(h *handler) { h.key = key } }

// maxBody is the maximal size of the body of a request, in bytes.
const maxBody = 32 << 20

// WithRecorder calls f with the body of each chat request before it is checked. f must not keep or change the bytes.
// Several goroutines may call it at once.
func WithRecorder(f func(body []byte)) Option { return func(h *handler) { h.record = f } }

// Models returns a lookup function for models by name. If two models have the same name, it returns the later one.
func Models(models ...llm.Model) func(name string) (llm.Model, bool) {
	byName := make(map[string]llm.Model, len(models))
	for _, m := range models {
		byName[m.Name()] = m
	}
	return func(name string) (llm.Model, bool) {
		m, ok := byName[name]
		return m, ok
	}
}

// Handler serves the models that a lookup function returns for a request's model name. The function must be safe for
// concurrent use.
func Handler(models func(name string) (llm.Model, bool), opts ...Option) http.Handler {
	h := &handler{models: models, seal: newSeal()}
	for _, o := range opts {
		if o != nil {
			o(h)
		}
	}
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/v1"} {
		mux.HandleFunc("POST "+prefix+"/chat/completions", h.chat)
		mux.HandleFunc("POST "+prefix+"/responses", h.responses)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, wireError{
			Message: fmt.Sprintf("unknown request: %s %s", r.Method, r.URL.Path), Type: "invalid_request_error", Code: "unknown_url",
		})
	})
	return h.authorize(mux)
}

type handler struct {
	models  func(string) (llm.Model, bool)
	key     string
	record  func([]byte)
	answers atomic.Int64
	server  *Server // nil for a Handler without a Server
	seal    seal
}

func (h *handler) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if h.key != "" && subtle.ConstantTimeCompare([]byte(got), []byte(h.key)) != 1 {
			fail(w, http.StatusUnauthorized, wireError{
				Message: "the API key is missing or wrong", Type: "invalid_request_error", Code: "invalid_api_key",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h *handler) chat(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, CheckBody, (*wireRequest).chat, func(wire *wireRequest, n int64) answerWriter {
		return &chatAnswer{output: output{w: w, streams: wire.Stream}, showsUsage: !wire.Stream || wire.StreamOptions.IncludeUsage,
			answer: wireAnswer{ID: fmt.Sprintf("chatcmpl-%d", n), Created: time.Now().Unix(), Model: wire.Model}}
	})
}

func (h *handler) responses(w http.ResponseWriter, r *http.Request) {
	read := func(wire *wireRequest) (*llm.Request, error) { return wire.responses(h.seal) }
	h.answer(w, r, CheckResponses, read, func(wire *wireRequest, n int64) answerWriter {
		return newItems(w, wire, h.seal, strconv.FormatInt(n, 10))
	})
}

// answer serves a request in one of the protocols. write returns the writer of the nth answer.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, check func([]byte) error, read func(*wireRequest) (*llm.Request, error), write func(wire *wireRequest, n int64) answerWriter) {
	body, ok := h.body(w, r, check)
	if !ok {
		return
	}
	var wire wireRequest
	err := json.Unmarshal(body, &wire)
	var req *llm.Request
	if err == nil {
		req, err = read(&wire)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, wireError{Message: err.Error(), Type: "invalid_request_error"})
		return
	}
	model, ok := h.models(wire.Model)
	if !ok {
		fail(w, http.StatusNotFound, wireError{
			Message: fmt.Sprintf("the model %q does not exist", wire.Model),
			Type:    "invalid_request_error", Param: "model", Code: "model_not_found",
		})
		return
	}
	generate(write(&wire, h.answers.Add(1)), model.Generate(r.Context(), req))
}

// body reads the body of a request and checks it. If it refuses the body, it writes the answer.
func (h *handler) body(w http.ResponseWriter, r *http.Request, check func([]byte) error) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if tooBig := (*http.MaxBytesError)(nil); errors.As(err, &tooBig) {
			status = http.StatusRequestEntityTooLarge
		}
		fail(w, status, wireError{Message: "reading the body: " + err.Error(), Type: "invalid_request_error"})
		return nil, false
	}
	if h.record != nil {
		h.record(body)
	}
	if err := check(body); err != nil {
		e := wireError{Message: err.Error(), Type: "invalid_request_error"}
		if check := (*CheckError)(nil); errors.As(err, &check) {
			e.Param = check.Violations[0].Param
		}
		fail(w, http.StatusBadRequest, e)
		return nil, false
	}
	return body, true
}

// wireError is the error object of the protocol.
type wireError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param,omitempty"`
	Code    string `json:"code,omitempty"`
}

// errorShape returns the status and the error object for a model's error.
func errorShape(err error) (int, wireError) {
	var e *llm.Error
	if !errors.As(err, &e) {
		return http.StatusInternalServerError, wireError{Message: err.Error(), Type: "server_error"}
	}
	known := map[llm.ErrorCode]struct {
		status     int
		kind, code string
	}{
		llm.CodeTimeout:       {http.StatusRequestTimeout, "timeout", "timeout"},
		llm.CodeUnauthorized:  {http.StatusUnauthorized, "invalid_request_error", "invalid_api_key"},
		llm.CodeNotFound:      {http.StatusNotFound, "invalid_request_error", "model_not_found"},
		llm.CodeBadRequest:    {http.StatusBadRequest, "invalid_request_error", ""},
		llm.CodeContextLength: {http.StatusBadRequest, "invalid_request_error", "context_length_exceeded"},
		llm.CodeRateLimited:   {http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded"},
	}[e.Code]
	status := cmp.Or(known.status, http.StatusInternalServerError)
	shape := wireError{Message: e.Message, Type: cmp.Or(known.kind, "server_error"), Code: known.code}
	if e.Status >= 400 && e.Status <= 599 {
		status = e.Status
	}
	return status, shape
}

// failWith sends a model's error before anything else was sent.
func failWith(w http.ResponseWriter, err error) {
	var e *llm.Error
	if errors.As(err, &e) {
		if e.Code == llm.CodeUnreachable {
			panic(http.ErrAbortHandler) // the connection breaks before an answer
		}
		if e.RetryAfter > 0 {
			// Seconds are the standard. The milliseconds, which OpenAI's own clients also read, keep a short wait
			// short.
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
			w.Header().Set("Retry-After-Ms", strconv.FormatInt(e.RetryAfter.Milliseconds(), 10))
		}
	}
	status, shape := errorShape(err)
	fail(w, status, shape)
}

func fail(w http.ResponseWriter, status int, e wireError) {
	reply(w, status, map[string]wireError{"error": e})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // if this fails, the client is gone
}
