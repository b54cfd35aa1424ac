package front

import (
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// The media types of answers.
const (
	JSON        = "application/json"
	NDJSON      = "application/x-ndjson"
	EventStream = "text/event-stream"
)

// Accept returns the first media type of the Accept header that is one of types. It ignores quality values other than
// 0. Without an Accept header it returns types[0].
func (c *Call) Accept(types ...string) (string, error) {
	header := strings.Join(c.R.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		return types[0], nil
	}
	for wanted := range strings.SplitSeq(header, ",") {
		typ, params, err := mime.ParseMediaType(wanted)
		if q := params["q"]; err != nil || q != "" && strings.Trim(q, "0.") == "" {
			continue
		}
		for _, t := range types {
			if group, _, _ := strings.Cut(t, "/"); typ == t || typ == "*/*" || typ == group+"/*" {
				return t, nil
			}
		}
	}
	return "", &Fault{Status: http.StatusNotAcceptable, Code: "not_acceptable", Detail: "this path answers with " + strings.Join(types, ", ")}
}

// Acceptable returns an error if the client accepts neither JSON nor a stream, or if its Last-Event-ID is invalid.
// Call it before the request changes anything.
func (c *Call) Acceptable() error {
	_, err := c.Accept(JSON, EventStream)
	if err == nil {
		_, err = session.ParsePosition(c.R.Header.Get("Last-Event-Id"))
	}
	return err
}

// Limit returns the parameter limit of a query, from 1 to max. It defaults to def.
func Limit(query url.Values, def, max int) (int, error) {
	if query.Get("limit") == "" {
		return def, nil
	}
	n, err := strconv.Atoi(query.Get("limit"))
	if err != nil || n < 1 || n > max {
		return 0, BadRequest("limit must be a number from 1 to %d", max)
	}
	return n, nil
}

// Page returns the parameters after and limit of a query for a list whose positions are numbers. after defaults to 0.
func Page(query url.Values, def, max int) (after int64, limit int, err error) {
	if query.Get("after") != "" {
		if after, err = strconv.ParseInt(query.Get("after"), 10, 64); err != nil || after < 0 {
			return 0, 0, NoPage()
		}
	}
	limit, err = Limit(query, def, max)
	return after, limit, err
}

// NotModified sets the ETag of an answer. If the client has the answer already, it writes 304 and returns true.
func (c *Call) NotModified(tag string) bool {
	tag, h := `"`+tag+`"`, c.W.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache")
	if c.R.Header.Get("If-None-Match") != tag {
		return false
	}
	c.W.WriteHeader(http.StatusNotModified)
	return true
}

// IdempotencyKey returns the header Idempotency-Key, or "" without one.
func (c *Call) IdempotencyKey() (string, error) {
	keys := c.R.Header.Values("Idempotency-Key")
	if len(keys) == 0 {
		return "", nil
	}
	odd := func(r rune) bool { return r < ' ' || r > '~' }
	if len(keys) > 1 || len(keys[0]) == 0 || len(keys[0]) > 255 || strings.ContainsFunc(keys[0], odd) {
		return "", BadRequest("the Idempotency-Key must be 1 to 255 printable characters of ASCII, once")
	}
	return keys[0], nil
}

// ETag returns the ETag of a session whose log ends at a position.
func ETag(seq int64) string { return `"` + strconv.FormatInt(seq, 10) + `"` }

// IfMatch returns the position at which the session's log must end, or nil without a condition. For a header that is
// not an ETag of a session it returns -1, which no log matches.
func (c *Call) IfMatch() *int64 {
	tag := strings.Join(c.R.Header.Values("If-Match"), ",")
	if tag == "" || tag == "*" {
		return nil
	}
	seq, err := strconv.ParseInt(strings.Trim(tag, `"`), 10, 64)
	if err != nil || ETag(seq) != tag {
		seq = -1
	}
	return &seq
}

// Attach answers with the bytes of a file. The headers make browsers save the file, and never run scripts in it. If
// typ is invalid, the media type is application/octet-stream.
func (c *Call) Attach(name, typ string, data []byte) error {
	if base, params, err := mime.ParseMediaType(typ); err != nil || mime.FormatMediaType(base, params) == "" {
		typ = "application/octet-stream"
	}
	h := c.W.Header()
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": event.FileName(name, "file")}))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	return c.Bytes(http.StatusOK, typ, data)
}
