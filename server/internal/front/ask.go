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

// Media types of answers.
const (
	JSON   = "application/json"
	Lines  = "application/x-ndjson"
	Stream = "text/event-stream"
)

// Accept returns the media type that the client names first of those that there are, and the
// first of them if it does not mind.
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

// Acceptable reports why a request cannot be answered with JSON or a stream, to be asked before
// it begins something.
func (c *Call) Acceptable() error {
	_, err := c.Accept(JSON, Stream)
	if err == nil {
		_, err = session.ParsePosition(c.R.Header.Get("Last-Event-Id"))
	}
	return err
}

// Limit reads how many things a query wants: few of them if it does not say.
func Limit(query url.Values, few, most int) (int, error) {
	if query.Get("limit") == "" {
		return few, nil
	}
	n, err := strconv.Atoi(query.Get("limit"))
	if err != nil || n < 1 || n > most {
		return 0, BadRequest("limit must be a number from 1 to %d", most)
	}
	return n, nil
}

// Places reads which part of a list is wanted whose places are numbers: what is after one of them,
// and how much at most.
func Places(query url.Values, few, most int) (after int64, limit int, err error) {
	if query.Get("after") != "" {
		if after, err = strconv.ParseInt(query.Get("after"), 10, 64); err != nil || after < 0 {
			return 0, 0, NoPosition("after is no place in the list: use the next of a page")
		}
	}
	limit, err = Limit(query, few, most)
	return after, limit, err
}

// Fresh gives an answer its ETag, and answers 304 if the client has just that.
func (c *Call) Fresh(tag string) bool {
	tag, h := `"`+tag+`"`, c.W.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache")
	if c.R.Header.Get("If-None-Match") != tag {
		return false
	}
	c.W.WriteHeader(http.StatusNotModified)
	return true
}

// IdempotencyKey returns the client's name for the request, "" if it gives none.
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

// ETag is the ETag of a session whose log ends at a position.
func ETag(seq int64) string { return `"` + strconv.FormatInt(seq, 10) + `"` }

// IfMatch returns where the session's log must end, nil if that does not matter. What is no ETag of a
// session matches none: it is a position that no log has.
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

// Attach answers with bytes that nobody here vouches for: a browser stores them, and runs nothing
// of them.
func (c *Call) Attach(name, typ string, data []byte) error {
	if base, params, err := mime.ParseMediaType(typ); err != nil || mime.FormatMediaType(base, params) == "" {
		typ = "application/octet-stream"
	}
	h := c.W.Header()
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": event.FileName(name, "file")}))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	return c.Bytes(http.StatusOK, typ, data)
}
