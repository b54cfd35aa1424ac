package a2a

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// maxError bounds the body of an error response that is read.
const maxError = 64 << 10

// readable makes of a response one that the protocol library reads right.
func readable(req *http.Request, resp *http.Response, mend func(answer []byte) []byte) (*http.Response, error) {
	if resp.StatusCode >= 400 {
		if err := readableError(resp); err != nil {
			return nil, err
		}
	}
	if resp.StatusCode > http.StatusOK && resp.StatusCode < 300 && isJSON(resp.Header) {
		// Some say that they have created what was sent; the library knows one success.
		resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
	}
	asksForStream := strings.Contains(req.Header.Get("Accept"), "text/event-stream")
	if resp.StatusCode < 300 && asksForStream && isJSON(resp.Header) {
		// A peer may answer a streaming call with plain JSON, above all with an
		// error. As the only event of a stream it is understood like any other.
		var line bytes.Buffer
		line.WriteString("data: ")
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		if json.Compact(&line, data) != nil {
			return nil, errBadJSON
		}
		line.WriteString("\n\n")
		resp.Body = io.NopCloser(&line)
		resp.Header.Set("Content-Type", "text/event-stream")
	}
	if mend != nil {
		if err := lenient(resp, asksForStream, mend); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// readableError lets errors of the protocol through: those of JSON-RPC, which some
// send with a status of HTTP that says the same, as answers, and those of HTTP+JSON
// (A2A 1.0, section 11.6) as they are. All others become a statusError.
func readableError(resp *http.Response) error {
	status := &statusError{status: resp.StatusCode}
	if !isJSON(resp.Header) || status.unauthorized() {
		resp.Body.Close()
		return status
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	resp.Body.Close()
	if err != nil {
		return status
	}
	var body struct {
		JSONRPC string `json:"jsonrpc"`
		Error   *struct {
			Message string          `json:"message"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &body) != nil || body.Error == nil {
		return status
	}
	switch {
	case body.JSONRPC != "":
		resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
	case isOfProtocol(body.Error.Details):
		resp.Header.Set("Content-Type", "application/json") // the only name that the library knows
	default:
		status.message = clip(strings.ToValidUTF8(body.Error.Message, "\uFFFD"), 500)
		return status
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return nil
}

// isOfProtocol reports whether the details of an error say which of the protocol's
// errors it is.
func isOfProtocol(details json.RawMessage) bool {
	var list []struct {
		Domain string `json:"domain"`
	}
	_ = json.Unmarshal(details, &list) // what has another form says nothing
	for _, d := range list {
		if d.Domain == sdk.ProtocolDomain {
			return true
		}
	}
	return false
}

func isJSON(h http.Header) bool {
	typ, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (typ == "application/json" || strings.HasSuffix(typ, "+json"))
}

// silence calls a func when nothing was heard for a while. It is at rest until
// something is heard, and again when a response has ended. A nil silence watches
// nothing.
type silence struct {
	after time.Duration
	timer *time.Timer
}

type silenceKey struct{}

func newSilence(after time.Duration, f func()) *silence {
	s := &silence{after: after, timer: time.AfterFunc(after, f)}
	s.timer.Stop()
	return s
}

func (s *silence) heard() {
	if s != nil {
		s.timer.Reset(s.after)
	}
}

func (s *silence) over() {
	if s != nil {
		s.timer.Stop()
	}
}

// limitedBody fails, instead of ending, when a body is longer than allowed.
type limitedBody struct {
	body        io.ReadCloser
	limit, left int64
	watch       *silence
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.body.Read(p)
	if err != nil {
		b.watch.over()
	} else if n > 0 {
		b.watch.heard()
	}
	if int64(n) > b.left {
		return int(b.left), fmt.Errorf("%w of %d bytes", errTooLarge, b.limit)
	}
	b.left -= int64(n)
	return n, err
}

func (b *limitedBody) Close() error {
	b.watch.over()
	return b.body.Close()
}
