package front

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// Call is an authenticated request. Only the goroutine of its handler may use it.
type Call struct {
	W    *access.Writer
	R    *http.Request
	User access.User
	// ID is the id of the request in the header X-Request-Id and in the log.
	ID string
	// Session and Turn are ids for the log, or "".
	Session, Turn string

	handler *Handler
	then    func(*Call) error
}

// Then calls rest after the handler has returned. A stream that is silent for hours then does not keep the memory of
// the handler's stack.
func (c *Call) Then(rest func() error) error {
	c.then = func(*Call) error { return rest() }
	return nil
}

// Key returns the key of a session of the caller, or of the user in ?user= if the caller has the right to inspect, or
// to act for a request that changes something. It returns [NotFound] if the id is invalid.
func (c *Call) Key(id string) (session.Key, error) {
	need := access.Inspect
	if c.R.Method != http.MethodGet && c.R.Method != http.MethodHead {
		need = access.Act
	}
	return c.KeyWith(id, c.User.May(need), need)
}

// KeyWith is [Call.Key] with another condition: others reports whether the caller may use sessions of others. If not,
// the error names the right need.
func (c *Call) KeyWith(id string, others bool, need access.Rights) (session.Key, error) {
	user := c.User.Name
	if other := c.R.URL.Query().Get("user"); other != "" && other != user {
		if !others {
			return session.Key{}, &Fault{Status: http.StatusForbidden, Code: "forbidden", Detail: fmt.Sprintf("sessions of others need the right %q", need.Names()[0])}
		}
		user = other
	}
	key := session.Key{App: c.handler.config.App, User: user, ID: id}
	if session.CheckKey(key) != nil {
		return session.Key{}, NotFound()
	}
	c.Session = id
	return key, nil
}

// EventFilter returns a function that returns an event as the caller may see it, or nil if the caller may not see it.
// With the right to inspect, callers see every event unchanged; see [live.Own] for other callers.
func (c *Call) EventFilter() func(*event.Event) *event.Event {
	if c.User.May(access.Inspect) {
		return func(e *event.Event) *event.Event { return e }
	}
	return live.Own(c.handler.config.Turns.Runner().Tree())
}

// Find returns the stored session with an id, or the errors of [Call.Key]. It returns a [Missing] fault if no such session
// exists.
func (c *Call) Find(id string) (session.Info, error) {
	key, err := c.Key(id)
	if err != nil {
		return session.Info{}, err
	}
	info, ok, err := session.Find(c.R.Context(), c.handler.config.Turns.Store(), key)
	if err == nil && !ok {
		err = Missing("there is no session with this id")
	}
	return info, err
}

// Delete deletes a session. It holds the session's lease, so that no turn starts while it deletes. The error is
// agent.ErrSessionBusy if a turn is running.
func Delete(ctx context.Context, store session.Store, key session.Key) error {
	lease, err := store.Write(ctx, key, session.Write{Acquire: session.Self()})
	if err != nil {
		return err
	}
	if err = store.Delete(ctx, key); err != nil {
		_, _ = store.Write(context.WithoutCancel(ctx), key, session.Write{Lease: lease, Release: true})
	}
	return err
}

// Body returns the body, which must have the media type typ.
func (c *Call) Body(typ string) ([]byte, error) {
	if header := c.R.Header.Get("Content-Type"); header == typ {
	} else if got, _, err := mime.ParseMediaType(header); err != nil || got != typ {
		return nil, &Fault{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Detail: "the body must be " + typ}
	}
	body, err := io.ReadAll(c.R.Body)
	return bytes.TrimPrefix(body, []byte("\ufeff")), err
}

// Decode reads a JSON body into the value that v points to. It returns a [Fault] with the paths of members that the
// value does not have.
func (c *Call) Decode(v any) error {
	body, err := c.Body("application/json")
	if err != nil {
		return err
	}
	return Decode(body, v)
}

// Decode is [Call.Decode] for a body that is already read.
func Decode(body []byte, v any) error {
	unknown, err := DecodeKnown(body, v)
	if err == nil && len(unknown) > 0 {
		f := BadRequest("the body does not fit")
		f.Problems = unknown
		return f
	}
	return err
}

// DecodeKnown reads JSON into the value that v points to, and returns a problem for each member that the value does not
// have. It accepts a number such as 3.0 for an integer, as JSON Schema does.
func DecodeKnown(body []byte, v any) (unknown []Problem, err error) {
	if string(bytes.TrimSpace(body)) == "null" {
		return nil, BadRequest("the body does not fit: it is null")
	}
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	if strict.Decode(v) == nil {
		if _, more := strict.Token(); more == io.EOF {
			return nil, nil
		}
	}
	var raw any
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, BadRequest("the body is not JSON: %s", err)
	}
	err = json.Unmarshal(body, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && strings.HasPrefix(wrong.Value, "number ") {
		_ = plainjson.Unmarshal(body, &raw) // cannot fail: Unmarshal has read the same bytes
		err = json.Unmarshal(event.EncodeJSON(integers(raw)), v)
	}
	switch {
	case errors.As(err, &wrong):
		f := BadRequest("the body does not fit")
		f.Problems = []Problem{{wrong.Field, "must be " + typeName(wrong.Type) + ", not " + wrong.Value}}
		return nil, f
	case err != nil:
		return nil, BadRequest("the body does not fit: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return unknownMembers(nil, raw, reflect.TypeOf(v).Elem(), ""), nil
}

// integers rewrites numbers such as 3.0 and 1e3 in a JSON value as integers.
func integers(raw any) any {
	switch v := raw.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") && f == math.Trunc(f) && math.Abs(f) < 1<<63 {
			return json.Number(strconv.FormatInt(int64(f), 10))
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = integers(v[name])
		}
	}
	return raw
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float64:
		return "a number"
	}
	return "an integer"
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// unknownMembers appends to found a problem for each member of a JSON value that the type t does not have.
func unknownMembers(found []Problem, raw any, t reflect.Type, path string) []Problem {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		return found
	}
	switch v := raw.(type) {
	case []any:
		if t.Kind() == reflect.Slice {
			for i, e := range v {
				found = unknownMembers(found, e, t.Elem(), path+"["+strconv.Itoa(i)+"]")
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return found
		}
		members := make(map[string]reflect.Type)
		var names []string
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "-" && !f.Anonymous {
				name = cmp.Or(name, f.Name)
				members[strings.ToLower(name)] = f.Type
				names = append(names, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			e := v[name]
			at := strings.TrimPrefix(path+"."+name, ".")
			if member, ok := members[strings.ToLower(name)]; ok {
				found = unknownMembers(found, e, member, at)
			} else {
				found = append(found, Problem{at, "is not known" + nearest.Hint(name, names)})
			}
		}
	}
	return found
}

// JSON answers with a value as JSON.
func (c *Call) JSON(status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Bytes(status, "application/json", append(data, '\n'))
}

// Bytes answers with bytes of a media type. The error reports a client that has disconnected.
func (c *Call) Bytes(status int, typ string, data []byte) error {
	h := c.W.Header()
	h.Set("Content-Type", typ)
	if len(data) >= 2048 { // net/http sets the length of shorter answers
		h.Set("Content-Length", strconv.Itoa(len(data)))
	}
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	c.W.WriteHeader(status)
	_, err := c.W.Write(data)
	return err
}

// MaxWait is the longest time for which the server delays an answer at the wish of a client.
const MaxWait = time.Minute

// PreferredWait returns the wait of the Prefer header (RFC 7240): how long the client is willing to wait for an answer,
// at most [MaxWait]. It is 0 without the header.
func (c *Call) PreferredWait() time.Duration {
	for _, header := range c.R.Header.Values("Prefer") {
		for preference := range strings.SplitSeq(header, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			if n, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`)); err == nil && n > 0 {
				return min(time.Duration(min(n, 3600))*time.Second, MaxWait)
			}
		}
	}
	return 0
}

// Stream returns a stream of server-sent events, on which nothing is written yet. It counts in the limit of the user
// until the caller calls leave. The error is an *access.LimitError, or the cause of the request's context. For a HEAD
// request it answers with the headers of a stream, and the error is access.ErrAnswered.
func (c *Call) Stream() (s *access.Stream, leave func(), err error) {
	out, err := c.handler.config.Guard.Stream(c.R.Context(), c.User.Name)
	if err != nil {
		return nil, nil, err
	}
	if c.User.Revoked() {
		out()
		return nil, nil, access.ErrRevoked
	}
	ctx := context.WithoutCancel(c.R.Context())
	c.handler.config.Guard.Observer().Streams(ctx, c.handler.config.Name, 1)
	s = access.NewStream(c.R.Context(), c.W, 0)
	leave = func() {
		s.Close()
		out()
		c.handler.config.Guard.Observer().Streams(ctx, c.handler.config.Name, -1)
	}
	if c.R.Method != http.MethodHead {
		return s, leave, nil
	}
	_ = s.Begin() // fails only if the client has disconnected
	leave()
	return nil, nil, access.ErrAnswered
}

// ObserveDelta reports to the observer how long after its creation a delta was sent. It ignores complete events.
func (c *Call) ObserveDelta(e *event.Event) {
	if e.Partial && !e.Time.IsZero() {
		c.handler.config.Guard.Observer().Delta(c.R.Context(), c.handler.config.Name, time.Since(e.Time))
	}
}
