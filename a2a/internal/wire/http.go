package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a/internal/sdkjson"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/server/access"
)

// Media types of requests and responses.
const (
	jsonType = "application/json"
	// a2aType is the media type of the HTTP+JSON binding (A2A 1.0, section 14.1.1).
	a2aType = "application/a2a+json"
	sseType = "text/event-stream"
)

// readBody reads a request's body, which must be JSON by its type and content, and returns its value. Size and time are
// bounded. If optional is set, it returns an empty object for a request without a body.
func (x *exchange) readBody(optional bool) (any, error) {
	none := map[string]any{}
	r := x.r
	if optional && (r.Body == nil || r.Body == http.NoBody) {
		return none, nil
	}
	// A client without a body need not name a type, and a chunked body shows only at its end that it is empty.
	typeErr := checkContentType(r.Header.Values("Content-Type"))
	if typeErr != nil && (!optional || len(r.Header.Values("Content-Type")) > 0) {
		return nil, typeErr
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, errMediaType("the Content-Encoding is %q; bodies must not be compressed", visible.Cut(coding, 64))
	}
	var refused *access.RefusedError
	body, err := io.ReadAll(r.Body)
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusBadRequest:
		return nil, fmt.Errorf("%w: %w", sdk.ErrParseError, err)
	case err != nil:
		return nil, err
	case len(body) == 0 && optional:
		return none, nil
	case typeErr != nil:
		return nil, typeErr
	}
	return parse(body)
}

// parse parses the body of a request, as [sdkjson.Parse] does.
func parse(body []byte) (any, error) {
	if len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return nil, fmt.Errorf("%w: the body is empty; it must be a JSON object", sdk.ErrParseError)
	}
	v, err := sdkjson.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("%w: the body cannot be read: %w", sdk.ErrParseError, err)
	}
	return v, nil
}

// checkContentType accepts only the two media types of JSON. Browsers send forms, plain text and untyped bodies across
// origins without a preflight request, but not JSON.
func checkContentType(types []string) error {
	if len(types) != 1 {
		return errMediaType("the request needs one Content-Type: %s or %s", jsonType, a2aType)
	}
	got, params, err := mime.ParseMediaType(types[0])
	if err != nil || got != jsonType && got != a2aType {
		return errMediaType("the Content-Type is %q; it must be %s or %s", visible.Cut(types[0], 64), jsonType, a2aType)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return errMediaType("the charset is %q; JSON is UTF-8", visible.Cut(charset, 64))
	}
	return nil
}

// acceptHeader returns the quality values of the media ranges in the Accept header of a request.
func acceptHeader(r *http.Request) map[string]float64 {
	return qualities(strings.Split(strings.Join(r.Header.Values("Accept"), ","), ","))
}

// qualities returns the quality values of media ranges. It ignores those that are invalid.
func qualities(items []string) map[string]float64 {
	ranges := make(map[string]float64)
	for _, item := range items {
		t, params, err := mime.ParseMediaType(item)
		if _, twice := ranges[t]; err != nil || twice {
			continue
		}
		ranges[t] = 1
		if s, ok := params["q"]; ok {
			ranges[t], _ = strconv.ParseFloat(s, 64) // an invalid number counts as 0
		}
	}
	return ranges
}

// quality returns the quality value of a media type. The most specific range decides (RFC 9110, section 12.5.1).
func quality(ranges map[string]float64, t string) float64 {
	if q, ok := ranges[t]; ok {
		return q
	}
	kind, _, _ := strings.Cut(t, "/")
	for _, r := range []string{kind + "/*", "*/*", "*"} {
		if q, ok := ranges[r]; ok {
			return q
		}
	}
	return 0
}

// answerType returns the media type of a response that is not a stream. HTTP+JSON has two: its own for clients that
// name it, in Accept or as the type of their request, and plain JSON for all others, because some clients parse errors
// only in that.
func (x *exchange) answerType() string {
	if x.rpc {
		return jsonType
	}
	ranges := acceptHeader(x.r)
	own, plain := quality(ranges, a2aType), quality(ranges, jsonType)
	sent, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	switch {
	case ranges[a2aType] > 0 && own >= plain:
		return a2aType
	case ranges[jsonType] > 0:
		return jsonType
	case sent == a2aType && (len(ranges) == 0 || own > 0):
		return a2aType
	default:
		return jsonType
	}
}

// checkAccept returns an error for a client that accepts none of the server's media types.
func (x *exchange) checkAccept() error {
	ranges := acceptHeader(x.r)
	if len(ranges) == 0 {
		return nil
	}
	for _, t := range []string{jsonType, a2aType, sseType} {
		if quality(ranges, t) > 0 {
			return nil
		}
	}
	return &HTTPError{Kind{sdk.ErrUnsupportedContentType, -32005, http.StatusNotAcceptable, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"},
		fmt.Sprintf("the Accept header allows none of %s, %s and %s", jsonType, a2aType, sseType), nil}
}
