package cassette

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// exchange is a request and its response.
type exchange struct {
	Request  request  `json:"request"`
	Response response `json:"response"`
}

type request struct {
	Method string `json:"method"`
	// URL is the path and the query.
	URL  string `json:"url"`
	Body *data  `json:"body,omitempty"`
}

type response struct {
	// Status is 0 if there was no response; Error is then the reason.
	Status int               `json:"status,omitempty"`
	Error  string            `json:"error,omitempty"`
	Header map[string]string `json:"header,omitempty"`
	Body   *data             `json:"body,omitempty"`
	// Stream is the body of an event stream in pieces.
	Stream []piece `json:"stream,omitempty"`
	// Cut reports that the client stopped reading, or that the connection broke.
	Cut bool `json:"cut,omitempty"`
}

// piece is a part of a stream, with the time since the part before it.
type piece struct {
	After milliseconds `json:"after,omitempty"`
	data
}

type milliseconds int64

// data is bytes: JSON in compact form, text, or any other bytes.
type data struct {
	JSON   json.RawMessage `json:"json,omitempty"`
	Text   string          `json:"text,omitempty"`
	Base64 string          `json:"base64,omitempty"`
}

func dataOf(b []byte) data {
	var compact bytes.Buffer
	switch {
	case len(b) > 0 && (b[0] == '{' || b[0] == '[') && json.Compact(&compact, b) == nil && bytes.Equal(compact.Bytes(), b) && utf8.Valid(b):
		return data{JSON: b}
	case utf8.Valid(b):
		return data{Text: string(b)}
	}
	return data{Base64: base64.StdEncoding.EncodeToString(b)}
}

func (d *data) bytes() ([]byte, error) {
	switch {
	case d == nil:
		return nil, nil
	case len(d.JSON) > 0:
		var out bytes.Buffer
		err := json.Compact(&out, d.JSON) // it is indented in the file
		return out.Bytes(), err
	case d.Base64 != "":
		return base64.StdEncoding.DecodeString(d.Base64)
	}
	return []byte(d.Text), nil
}

// kept are the recorded headers of responses: those that affect clients.
var kept = []string{"Content-Type", "Retry-After", "Retry-After-Ms"}

// requestOf returns the recorded form of a request whose body was read, and the secrets that must not be recorded.
func requestOf(r *http.Request, body []byte) (request, secrets) {
	hide := secretsOf(r)
	query := r.URL.Query()
	for name := range query {
		query.Set(name, redacted)
	}
	u := url.URL{Path: r.URL.Path, RawQuery: query.Encode()}
	out := request{Method: r.Method, URL: hide.text(u.String())}
	if len(body) > 0 {
		d := dataOf(hide.bytes(body))
		out.Body = &d
	}
	return out, hide
}

// key returns equal strings for equal requests.
func (r *request) key() (string, error) {
	body, err := r.Body.bytes()
	if err != nil {
		return "", err
	}
	if values, err := values(body); err == nil {
		body = values
	}
	return r.Method + " " + r.URL + "\n" + string(body), nil
}

// lines returns a request as lines for people.
func (r *request) lines() []string {
	body, err := r.Body.bytes()
	if err == nil {
		var indented bytes.Buffer
		if values, err := values(body); err == nil && json.Indent(&indented, values, "", "  ") == nil {
			body = indented.Bytes()
		}
	}
	return append([]string{r.Method + " " + r.URL}, strings.Split(string(body), "\n")...)
}

// values encodes JSON with the members of its objects in alphabetical order.
func values(body []byte) ([]byte, error) {
	var v any
	if err := plainjson.Unmarshal(body, &v); err != nil {
		return nil, err
	}
	return plainjson.Marshal(v)
}

// load reads the exchanges of a file.
func load(path string) ([]exchange, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []exchange
	for d := json.NewDecoder(f); ; {
		var e exchange
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err == nil && (e.Request.Method == "" || (e.Response.Status == 0) == (e.Response.Error == "")) {
			err = errors.New("a recording needs a request with a method, and a response with a status or an error")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: recording %d, after byte %d, cannot be read: %w", path, len(all)+1, d.InputOffset(), err)
		}
		all = append(all, e)
	}
}

func (m milliseconds) duration() time.Duration { return time.Duration(m) * time.Millisecond }
