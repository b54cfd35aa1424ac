package a2a

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/visible"
)

// maxError bounds the number of bytes that are read of an error response.
const maxError = 64 << 10

// readable rewrites a response that the SDK would misread, and returns an error for one that is not an answer of the
// protocol.
func readable(req *http.Request, resp *http.Response, mend func(answer []byte) []byte) (*http.Response, error) {
	if resp.StatusCode >= 400 {
		if err := readableError(resp); err != nil {
			return nil, err
		}
	}
	if resp.StatusCode > http.StatusOK && resp.StatusCode < 300 && isJSON(resp.Header) {
		// Some peers answer 201 or another success status; the SDK expects 200.
		resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
	}
	asksForStream := strings.Contains(req.Header.Get("Accept"), "text/event-stream")
	if resp.StatusCode < 300 && asksForStream && isJSON(resp.Header) {
		// A peer may answer a streaming call with plain JSON, usually an error. It becomes the only event of a stream.
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
		if err := mendResponse(resp, asksForStream, mend); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// readableError passes errors of the protocol on: those of JSON-RPC, which some peers send with an HTTP error status,
// with status 200, and those of HTTP+JSON (A2A 1.0, section 11.6) as they are. All others become a statusError, also a
// fault of JSON-RPC with a status that says more: HTTP 4xx or 503 refuses the request.
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
			Code    any             `json:"code"`
			Message string          `json:"message"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &body) != nil || body.Error == nil {
		return status
	}
	code, _ := body.Error.Code.(float64)
	switch {
	case body.JSONRPC != "" && (isRefusal(code) || status.status >= 500 && status.status != http.StatusServiceUnavailable):
		resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
	case isOfProtocol(body.Error.Details):
		resp.Header.Set("Content-Type", "application/json") // the only media type that the SDK accepts
	default:
		status.message = visible.Cut(strings.ToValidUTF8(body.Error.Message, "\uFFFD"), 500)
		return status
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return nil
}

// isRefusal reports whether a code of JSON-RPC is that of an error of the protocol, or of the SDK for credentials, which
// is not a fault of the peer.
func isRefusal(code float64) bool {
	return slices.Contains([]float64{-32700, -32600, -32601, -32602, -31401, -31403}, code) || code <= -32001 && code >= -32009 && code != -32006
}

// isOfProtocol reports whether the details of an error name an error of the protocol.
func isOfProtocol(details json.RawMessage) bool {
	var list []struct {
		Domain string `json:"domain"`
	}
	_ = json.Unmarshal(details, &list) // details in another form name none
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

// idleTimer calls a func when nothing has been received for a time. Its timer runs from each receipt until the end of
// the response. A nil idleTimer does nothing.
type idleTimer struct {
	after time.Duration
	timer *time.Timer
}

type idleTimerKey struct{}

func newIdleTimer(after time.Duration, f func()) *idleTimer {
	s := &idleTimer{after: after, timer: time.AfterFunc(after, f)}
	s.timer.Stop()
	return s
}

func (s *idleTimer) reset() {
	if s != nil {
		s.timer.Reset(s.after)
	}
}

func (s *idleTimer) stop() {
	if s != nil {
		s.timer.Stop()
	}
}

// limitedBody returns an error, instead of truncating, when a body exceeds the limit.
type limitedBody struct {
	body        io.ReadCloser
	limit, left int64
	watch       *idleTimer
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.body.Read(p)
	if err != nil {
		b.watch.stop()
	} else if n > 0 {
		b.watch.reset()
	}
	if int64(n) > b.left {
		return int(b.left), fmt.Errorf("%w of %d bytes", errTooLarge, b.limit)
	}
	b.left -= int64(n)
	return n, err
}

func (b *limitedBody) Close() error {
	b.watch.stop()
	return b.body.Close()
}
