package openai

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// errorf returns an error about this endpoint. It makes all errors of this package that reach a caller, and removes
// secrets from them.
func (c *client) errorf(code llm.ErrorCode, cause error, format string, args ...any) *llm.Error {
	return &llm.Error{
		Code:    code,
		Message: c.redact(c.where + ": " + fmt.Sprintf(format, args...)),
		Err:     c.redactCause(cause),
	}
}

const checkURL = "is OPENAI_BASE_URL right? It usually ends in /v1"

func (c *client) networkError(err error) *llm.Error {
	code, retry, advice := llm.CodeUnreachable, true, "is the endpoint running, and is OPENAI_BASE_URL right?"
	what := "no connection"
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		what = "the connection was refused"
	case errors.As(err, &dns):
		what, retry = "the host's name was not resolved", !dns.IsNotFound
	case errors.As(err, &cert):
		what, retry, advice = "its certificate is not trusted", false, "install the authority that signed it, or check OPENAI_BASE_URL"
	case errors.Is(err, http.ErrSchemeMismatch):
		what, retry, advice = "it speaks HTTP, not HTTPS", false, "OPENAI_BASE_URL should begin with http://"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrUnexpectedEOF):
		what, advice = "the connection broke before an answer", "try again later"
	case errors.As(err, &timeout) && timeout.Timeout():
		code, what, advice = llm.CodeTimeout, "the HTTP client's own time limit passed", "raise it if the endpoint is slow"
	}
	cause := c.redactCause(err)
	e := c.errorf(code, cause, "%s (%v); %s", what, cause, advice)
	e.Retryable = retry
	return e
}

func (c *client) timeoutError(limit *limitError) *llm.Error {
	advice := "raise the limit with WithTimeouts or the key timeouts if the endpoint is slow"
	if limit.phase == phaseConnect {
		advice = "is the endpoint running, and is OPENAI_BASE_URL right?"
	}
	e := c.errorf(llm.CodeTimeout, limit, "%v; %s", limit, advice)
	e.Retryable = true
	return e
}

// truncated returns the error of an answer that was cut off, or ended without a finish reason. lastText is the
// endpoint's last text outside the protocol.
func (c *client) truncated(cause error, lastText []byte) *llm.Error {
	e := c.errorf(llm.CodeTruncated, nil, "the answer ended without the final event of %s; the answer is discarded, try again", c.protocol())
	if cause != nil {
		e = c.errorf(llm.CodeTruncated, cause, "the answer was cut off (%v); the answer is discarded, try again", cause)
	}
	if len(lastText) > 0 {
		e.Message += "; the endpoint's last text: " + c.excerpt(lastText)
	}
	e.Retryable = true
	return e
}

func (c *client) tooLong() *llm.Error {
	return c.errorf(llm.CodeBadResponse, nil,
		"the answer is longer than %d bytes and was given up; limit it with MaxTokens, or raise the bound with WithMaxAnswerBytes", c.maxBytes)
}

func (c *client) badEvent(data []byte, cause error) *llm.Error {
	if isHTML(data) {
		return c.htmlError(data)
	}
	if cause == nil {
		cause = errors.New("it is not JSON")
	}
	return c.errorf(llm.CodeBadResponse, cause, "the answer is not what %s promises (%v): %s; %s",
		c.protocol(), cause, c.excerpt(data), checkURL)
}

var (
	htmlTitle  = lazyregexp.New(`(?is)<title[^>]*>(.*?)</title>`)
	htmlStatus = lazyregexp.New(`(?is)<title[^>]*>\s*(?:error\W*)?([45]\d\d)\b`)
)

func isHTML(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) }

// describePage describes a web page, so that its content is not logged.
func (c *client) describePage(page []byte) string {
	if m := htmlTitle.Get().FindSubmatch(page); m != nil {
		return "a web page with the title " + strconv.Quote(c.excerpt([]byte(html.UnescapeString(string(m[1])))))
	}
	return "a web page"
}

// htmlError returns the error of a web page that came with a status of success. If its title has the status of an
// error, it is that of a proxy.
func (c *client) htmlError(page []byte) *llm.Error {
	what := c.describePage(page)
	if m := htmlStatus.Get().FindSubmatch(page); m != nil {
		e := c.errorf(llm.CodeServer, nil, "the answer is %s", what)
		status, _ := strconv.Atoi(string(m[1])) // three digits
		e.Code, e.Retryable = classify(status, &goopenai.APIError{Code: ""}, false)
		return e
	}
	return c.errorf(llm.CodeBadResponse, nil, "the answer is %s; %s", what, checkURL)
}

// excerpt returns the beginning of an endpoint's text, in one line. It removes secrets before it cuts the text, so that
// no part of a secret remains.
func (c *client) excerpt(data []byte) string {
	const most = 300
	s := c.redact(string(data))
	s = s[:min(len(s), 4*most)] // data may end in the middle of a secret
	return visible.Cut(strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " "), most)
}

// parseError reads an error object of the protocol, only its text, or a body with either of them under error, message
// or detail. The result is never nil, and its code is a string.
func parseError(data []byte) *goopenai.APIError { return parseErrorAt(data, 0) }

func parseErrorAt(data []byte, depth int) *goopenai.APIError {
	var o struct {
		Error    json.RawMessage `json:"error"`
		Errors   json.RawMessage `json:"errors"` // watsonx, Cloudflare
		Message  flexText        `json:"message"`
		Loc      json.RawMessage `json:"loc"` // a list, with msg: FastAPI
		Msg      flexText        `json:"msg"`
		Detail   json.RawMessage `json:"detail"`
		Says     flexText        `json:"error_description"` // OAuth
		Type     flexText        `json:"type"`
		Code     flexText        `json:"code"`
		Param    flexText        `json:"param"`
		Metadata json.RawMessage `json:"metadata"` // of OpenRouter
	}
	data = bytes.TrimSpace(data)
	if depth > 4 { // each level scans the data once more
		return &goopenai.APIError{Message: string(data), Code: ""}
	}
	if len(data) > 0 && data[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(data, &list) == nil && len(list) > 0 {
			e := parseErrorAt(list[0], depth+1)
			for _, more := range list[1:] {
				e.Message += "; " + parseErrorAt(more, depth+1).Message
			}
			return e
		}
	}
	if json.Unmarshal(data, &o) != nil {
		var text flexText
		if json.Unmarshal(data, &text) != nil {
			text = flexText(data)
		}
		if isObject(string(text)) { // of the endpoint behind a gateway; within a text it may be of the user
			return parseErrorAt([]byte(text), depth+1)
		}
		return &goopenai.APIError{Message: string(text), Code: ""}
	}
	var detail flexText
	if len(o.Detail) > 0 && (o.Detail[0] == '{' || bytes.Contains(o.Detail, []byte(`"loc"`))) {
		o.Errors = o.Detail
	} else if len(o.Detail) > 0 {
		_ = json.Unmarshal(o.Detail, &detail) // it was decoded from JSON
	}
	var place []flexText
	_ = json.Unmarshal(o.Loc, &place) // what is no list is no place
	for i, step := range slices.Backward(place) {
		if o.Msg = "." + o.Msg; i == len(place)-1 {
			o.Msg = ": " + o.Msg[1:]
		}
		o.Msg = step + o.Msg
	}
	said := cmp.Or(o.Message, detail, o.Says, o.Msg)
	if said != "" && strings.Contains(string(o.Param), " ") { // no name, but what is wrong: MiMo
		said += ": " + o.Param
	}
	for _, inner := range []json.RawMessage{o.Error, o.Errors} {
		if len(inner) > 0 && !slices.Contains([]string{"null", "[]"}, string(inner)) &&
			(said == "" || strings.IndexByte(`"{[`, inner[0]) >= 0) {
			e := parseErrorAt(inner, depth+1)
			if inner[0] == '"' && said != "" { // only the name of the error, as in Spring and Fastify
				e.Message += ": " + string(said)
			}
			return e
		}
	}
	e := &goopenai.APIError{Message: string(said), Type: string(o.Type), Code: string(o.Code)}
	var provider struct {
		Raw flexText `json:"raw"`
	}
	if json.Unmarshal(o.Metadata, &provider) == nil && provider.Raw != "" {
		e.Message += ": " + string(provider.Raw)
	}
	if e.Message == "" {
		e.Message = string(data)
	}
	return e
}

// objectError returns the error for an error object that came with a status of success. It means what it would mean
// with the status that endpoints give such an error.
func (c *client) objectError(a *goopenai.APIError) *llm.Error {
	e := c.errorf(llm.CodeServer, c.endpointError(a, 0), "the endpoint reported an error inside its answer: %s", c.errorText(a))
	wait := waitIn([]byte(a.Message), time.Now())
	if e.Code, e.Retryable = classify(ownStatus(a, false), a, wait > 0); e.Retryable {
		e.RetryAfter = wait
	}
	return e
}

// ownStatus returns the status that an error object has as its code, or else the one that its code and type name, or 0.
// Gateways give 400 and 403 to errors of many kinds, so these count only if code and type name no other status. In a bad
// request, words such as file_not_found and invalid_timeout are about its content, so only whole codes and types count.
func ownStatus(a *goopenai.APIError, badRequest bool) int {
	own, err := strconv.Atoi(fmt.Sprint(a.Code))
	if err != nil || own < 400 || own > 599 {
		own = 0
	}
	if own != 0 && own != http.StatusBadRequest && own != http.StatusForbidden {
		return own
	}
	name := "|" + strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(fmt.Sprint(a.Code, "|", a.Type))) + "|"
	for _, known := range [...]struct {
		status int
		words  string // between bars: whole codes or types; the numbers are those of MiniMax, GLM and Cloudflare
	}{
		{http.StatusTooManyRequests, "ratelimit toomanyrequest throttl exhausted |baseresp1002| |baseresp1041| |baseresp2045| |1302| |1303| |1305|"},
		{http.StatusRequestTimeout, "|timeout| |timeouterror| |requesttimeout| |baseresp1001|"},
		{http.StatusPaymentRequired, "billing"},
		{http.StatusUnauthorized, "apikey |baseresp1004| |baseresp2049| authenti"},
		{http.StatusForbidden, "permission"},
		{http.StatusNotFound, "|modelnotfound| |unknownmodel| |modeldecommissioned| |modelnotsupported| |1211| |5007|"},
		{http.StatusBadRequest, "invalidrequest invalidargument invalidprompt badrequest |baseresp1042| |baseresp2013| |1210| |1213| |1214|"},
		{http.StatusRequestEntityTooLarge, "toolarge"},
		{http.StatusBadGateway, "|2005|"},
		{http.StatusRequestTimeout, "timeout"},
		{http.StatusNotFound, "notfound"},
	} {
		for word := range strings.FieldsSeq(known.words) {
			if strings.Contains(name, word) && !(badRequest && (word == "timeout" || word == "notfound")) {
				return known.status
			}
		}
	}
	return own
}

func (c *client) errorText(a *goopenai.APIError) string {
	s := c.excerpt([]byte(a.Message))
	if s == "" {
		s = "without a message"
	}
	if a.Code != "" {
		s += " (" + c.excerpt(fmt.Append(nil, a.Code)) + ")"
	}
	return s
}

// endpointError returns the endpoint's own error without secrets, as the cause of the error of this package.
func (c *client) endpointError(a *goopenai.APIError, status int) *goopenai.APIError {
	return &goopenai.APIError{Code: c.excerpt(fmt.Append(nil, a.Code)), Message: c.excerpt([]byte(a.Message)), Type: c.excerpt([]byte(a.Type)),
		HTTPStatusCode: status, HTTPStatus: http.StatusText(status)}
}

// statusError returns the error of a response with an error status, and the response's body.
func (c *client) statusError(resp *http.Response, body io.Reader) (*llm.Error, string) {
	// Use what was read, even if reading fails.
	data, _ := io.ReadAll(io.LimitReader(body, 64<<10))
	data = c.unframed(data)
	a := &goopenai.APIError{Code: ""}
	text, cause := c.describePage(data), error(nil)
	if !isHTML(data) {
		a = parseError(data)
		text, cause = c.errorText(a), c.endpointError(a, resp.StatusCode)
	}
	now := clock(resp.Header)
	said, header := waitIn(data, now), retryAfter(resp.Header, now)
	code, retry := classify(resp.StatusCode, a, said > 0 || header > 0 && isSpent(resp.StatusCode, a))
	e := c.errorf(code, cause, "%s: %s%s", statusText(resp.StatusCode), text, c.advice(code, retry, resp, a))
	e.Status, e.Retryable = resp.StatusCode, retry && resp.Header.Get("X-Should-Retry") != "false" // OpenAI, Anthropic
	if e.Retryable {
		e.RetryAfter = cmp.Or(header, said, resetAfter(resp.Header, now))
	}
	if e.RetryAfter > c.maxRetryAfter {
		e.Message += fmt.Sprintf("; it asks to wait %v, which is longer than this client waits", e.RetryAfter.Round(time.Second))
	}
	return e, string(data) + "\n" + a.Message // without escapes, too
}

// unframed returns the body of an error without the event in which some endpoints send it.
func (c *client) unframed(data []byte) []byte {
	data = bytes.TrimPrefix(bytes.TrimSpace(data), []byte("\ufeff"))
	if bytes.HasPrefix(data, []byte("data:")) || bytes.HasPrefix(data, []byte("event:")) {
		body := &answerBody{client: c, in: bufio.NewReader(bytes.NewReader(data)), begun: true}
		if event, err := body.next(); err == nil {
			return event
		} else if len(body.odd) > 0 {
			return body.odd
		}
	}
	return data
}

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return "status " + strconv.Itoa(status)
}

// advice returns what to do about a failed request.
func (c *client) advice(code llm.ErrorCode, retry bool, resp *http.Response, a *goopenai.APIError) string {
	switch {
	case !c.responses && containsAny(a, otherAPI, nil):
		return "; set OPENAI_API=responses, or use WithResponses"
	case says(a, noTools):
		return "; set OPENAI_MODEL to another model, or start the server with tools: this model calls none here"
	case resp.StatusCode < 400:
		if to, err := resp.Location(); err == nil {
			return "; it redirects to " + to.Host + to.EscapedPath() + "; set OPENAI_BASE_URL to where it has gone"
		}
		return "; " + checkURL
	case code == llm.CodeNotFound && c.responses:
		return "; " + checkURL + ". Does the endpoint serve this model, and has it the Responses API?"
	case code == llm.CodeNotFound:
		return "; " + checkURL + ". Does the endpoint serve this model?"
	case code == llm.CodeRateLimited && !retry:
		return "; nothing more is to be had until the account has credit or quota again"
	case code == llm.CodeUnauthorized && c.key == "":
		return "; no API key was sent: set OPENAI_API_KEY"
	case code == llm.CodeUnauthorized:
		return "; is OPENAI_API_KEY right for this endpoint?"
	case code == llm.CodeContextLength, resp.StatusCode == http.StatusRequestEntityTooLarge:
		return "; shorten the conversation"
	}
	return ""
}
