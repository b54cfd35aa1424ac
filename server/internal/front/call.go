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

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/session"
)

// Call is one request that was let in. It belongs to the goroutine of its handler.
type Call struct {
	W    *access.Writer
	R    *http.Request
	User access.User
	// ID is the request's, which the client and the log have too.
	ID string
	// Session and Turn are for the log.
	Session, Turn string

	handler *Handler
	then    func(*Call) error
}

// Then has the rest of the answer made once the handler has returned, so that a stream which is
// silent for hours does not keep what the handler had on its stack.
func (c *Call) Then(rest func() error) error {
	c.then = func(*Call) error { return rest() }
	return nil
}

// Key returns the key of a session of the caller, or of the user whom ?user= names if the caller
// has the right to.
func (c *Call) Key(id string) (session.Key, error) {
	need := access.Inspect
	if c.R.Method != http.MethodGet && c.R.Method != http.MethodHead {
		need = access.Act
	}
	return c.KeyIf(id, c.User.May(need), need)
}

// KeyIf is [Call.Key] where another rule says whether the caller may reach sessions of others, and
// which right they lack otherwise.
func (c *Call) KeyIf(id string, others bool, need access.Rights) (session.Key, error) {
	user := c.User.Name
	if strings.Contains(c.R.URL.RawQuery, "user=") {
		if other := c.R.URL.Query().Get("user"); other != "" && other != user {
			if !others {
				return session.Key{}, &Fault{Status: http.StatusForbidden, Code: "forbidden", Detail: fmt.Sprintf("sessions of others need the right %q", need.Names()[0])}
			}
			user = other
		}
	}
	key := session.Key{App: c.handler.config.App, User: user, ID: id}
	if session.CheckKey(key) != nil {
		return session.Key{}, NotFound()
	}
	c.Session = id
	return key, nil
}

// See returns how the caller sees the events of sessions: whole with the right to inspect, and as [live.Own] without.
func (c *Call) See() func(*event.Event) *event.Event {
	if c.User.May(access.Inspect) {
		return func(e *event.Event) *event.Event { return e }
	}
	return live.Own(c.handler.config.Turns.Runner().Tree())
}

// Find is [Call.Key] for a session that must be stored.
func (c *Call) Find(id string) (session.Info, error) {
	key, err := c.Key(id)
	if err != nil {
		return session.Info{}, err
	}
	info, ok, err := session.Find(c.R.Context(), c.handler.config.Turns.Store(), key)
	if err == nil && !ok {
		err = NotFound()
	}
	return info, err
}

// Delete deletes a session. The error is agent.ErrSessionBusy while a turn of it is under way; none begins while the
// session is deleted.
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

// Body reads the body, which must be of a media type.
func (c *Call) Body(typ string) ([]byte, error) {
	if header := c.R.Header.Get("Content-Type"); header == typ {
	} else if got, _, err := mime.ParseMediaType(header); err != nil || got != typ {
		return nil, &Fault{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Detail: "the body must be " + typ}
	}
	return io.ReadAll(c.R.Body)
}

// Decode reads a JSON body into what v points to. Members that v does not have are refused, with
// their paths.
func (c *Call) Decode(v any) error {
	body, err := c.Body("application/json")
	if err != nil {
		return err
	}
	return Decode(body, v)
}

// Decode is [Call.Decode] for a body that was read.
func Decode(body []byte, v any) error {
	strangers, err := DecodeKnown(body, v)
	if err == nil && len(strangers) > 0 {
		f := BadRequest("the body does not fit")
		for _, path := range strangers {
			f.Problems = append(f.Problems, Problem{path, "is not known"})
		}
		return f
	}
	return err
}

// DecodeKnown reads JSON into the value that v points to, and returns the paths of the members that v does not have.
// A number such as 3.0 is a whole one, as in JSON Schema.
func DecodeKnown(body []byte, v any) (strangers []string, err error) {
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
		numbers := json.NewDecoder(bytes.NewReader(body))
		numbers.UseNumber()
		_ = numbers.Decode(&raw) // which was read before
		err = json.Unmarshal(event.EncodeJSON(whole(raw)), v)
	}
	switch {
	case errors.As(err, &wrong):
		f := BadRequest("the body does not fit")
		f.Problems = []Problem{{wrong.Field, "must be " + kindName(wrong.Type) + ", not " + wrong.Value}}
		return nil, f
	case err != nil:
		return nil, BadRequest("the body does not fit: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return unknown(nil, raw, reflect.TypeOf(v).Elem(), ""), nil
}

// whole rewrites whole numbers such as 3.0 and 1e3 in a JSON value as integers.
func whole(raw any) any {
	switch v := raw.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") && f == math.Trunc(f) && math.Abs(f) < 1<<63 {
			return json.Number(strconv.FormatInt(int64(f), 10))
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = whole(v[name])
		}
	}
	return raw
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a number"
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// unknown collects the members of a value that a type does not have.
func unknown(found []string, raw any, t reflect.Type, path string) []string {
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
				found = unknown(found, e, t.Elem(), path+"["+strconv.Itoa(i)+"]")
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return found
		}
		members := make(map[string]reflect.Type)
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "-" && !f.Anonymous {
				members[strings.ToLower(cmp.Or(name, f.Name))] = f.Type
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			e := v[name]
			at := strings.TrimPrefix(path+"."+name, ".")
			if member, ok := members[strings.ToLower(name)]; ok {
				found = unknown(found, e, member, at)
			} else {
				found = append(found, at)
			}
		}
	}
	return found
}

// JSON answers with a value.
func (c *Call) JSON(status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Bytes(status, "application/json", append(data, '\n'))
}

// Bytes answers with bytes of a type. The error is that of a client who has gone.
func (c *Call) Bytes(status int, typ string, data []byte) error {
	h := c.W.Header()
	h.Set("Content-Type", typ)
	if len(data) >= 2048 { // net/http counts what is shorter
		h.Set("Content-Length", strconv.Itoa(len(data)))
	}
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	c.W.WriteHeader(status)
	_, err := c.W.Write(data)
	return err
}

// MaxWait bounds what a client may ask to wait.
const MaxWait = time.Minute

// Prefer returns how long the client would wait for an answer (RFC 7240), at most [MaxWait]; 0
// if it does not say.
func (c *Call) Prefer() time.Duration {
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

// Stream begins a stream of server-sent events, which counts among those of the user until
// leave is called. Nothing is written yet.
func (c *Call) Stream() (s *access.Stream, leave func(), err error) {
	out, err := c.handler.config.Guard.Stream(c.R.Context(), c.User.Name)
	if err != nil {
		return nil, nil, err
	}
	ctx := context.WithoutCancel(c.R.Context())
	c.handler.config.Guard.Observer().Streams(ctx, c.handler.config.Name, 1)
	s = access.NewStream(c.R.Context(), c.W, 0)
	return s, func() {
		s.Close()
		out()
		c.handler.config.Guard.Observer().Streams(ctx, c.handler.config.Name, -1)
	}, nil
}

// Sent notes that a client was sent an event, for the time that deltas take.
func (c *Call) Sent(e *event.Event) {
	if e.Partial && !e.Time.IsZero() {
		c.handler.config.Guard.Observer().Delta(c.R.Context(), c.handler.config.Name, time.Since(e.Time))
	}
}
