package openai

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// attemptKey is the context key of a request's attempt.
type attemptKey struct{}

// attempt is one request and its answer.
type attempt struct {
	client   *client
	stream   bool
	ctx      context.Context
	cancel   context.CancelCauseFunc
	limit    *time.Timer // of the whole attempt; nil without one
	watch    *watchdog
	answered bool        // the answer has started, so the request is not retried
	refusal  string      // the error of an endpoint that refuses the request
	body     *answerBody // set if answered is
	reading  reading
	err      error // the reason why there are no more events
}

// try sends a request once. It returns when the answer starts.
func (c *client) try(ctx context.Context, w *writing) (*attempt, error) {
	model, req := w.model, w.req
	form := w.quirks()
	a := &attempt{client: c, stream: form.streams(req), reading: reading{asked: model, leaks: c.leaksOf(req), tools: req.Tools, form: form, probs: req.TopLogProbs > 0, limit: form.limit(req), items: items{by: c.sealer(model)}}}
	a.reading.calls.offered = a.reading.offers
	a.reading.thinking = thinking{inText: c.plainThink, settled: c.plainThink, req: req, late: c.holdsThoughts(model)}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	if c.responses && a.reading.limit > 0 {
		a.reading.limit = max(a.reading.limit, minOutputTokens)
	}
	limits := req.Timeouts.Or(c.timeouts)
	if t := limits.Answer; t > 0 {
		a.limit = time.AfterFunc(t, func() { a.cancel(&limitError{phaseAttempt, t}) })
	}
	if !a.stream {
		limits.First = -1 // the first byte comes when the answer is complete
	}
	a.watch = newWatchdog(limits, a.cancel)

	a.watch.enter(phaseFirstByte)
	err := a.send(w.body)
	a.watch.pause()
	if err != nil {
		err = a.explain(err)
	} else if err = a.begin(); err != nil {
		a.answered, a.refusal = false, err.Error()
	}
	if err != nil {
		a.close()
		return a, err
	}
	return a, nil
}

// send sends the request. It returns when the response's headers arrive. Every error is an *llm.Error that uses the
// headers.
func (a *attempt) send(body []byte) error {
	c := a.client
	ctx := a.watch.trace(context.WithValue(a.ctx, attemptKey{}, a))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "arbor")
	if a.stream {
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Accept-Encoding", "identity") // compression would delay deltas
		req.Header.Set("Cache-Control", "no-cache")
		req.Header.Set("Connection", "keep-alive")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	maps.Copy(req.Header, c.header)

	resp, err := c.http.Do(req)
	if err != nil {
		return c.networkError(err)
	}
	src := &meter{src: resp.Body, a: a, left: c.maxBytes}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		var e *llm.Error
		e, a.refusal = c.statusError(resp, src)
		return e
	}
	if how := resp.Header.Get("Content-Encoding"); unreadableBody.Get().MatchString(how) {
		defer resp.Body.Close()
		return c.errorf(llm.CodeBadResponse, nil, "the answer is compressed with %s, which the request does not allow", how)
	}
	a.answered = true
	a.body = newAnswerBody(src, resp.Header.Get("Content-Type"), c)
	return nil
}

// unreadableBody matches the names of compressions that the client cannot read. Others are read as they are: some servers
// name no compression there, but a character set.
var unreadableBody = lazyregexp.New(`(?i)\b(br|zstd|compress|dcb|dcz)\b`)

// next returns the JSON of the answer's next event; io.EOF at a regular end.
func (a *attempt) next() ([]byte, error) {
	data, err := a.body.next()
	if err != nil && err != io.EOF {
		err = a.explain(err)
	}
	return data, err
}

// explain turns the failure of an attempt into an error for callers. Only the attempt knows which of our own time
// limits ended it.
func (a *attempt) explain(err error) error {
	var limit *limitError
	if cause := context.Cause(a.ctx); errors.As(cause, &limit) {
		return a.client.timeoutError(limit)
	}
	var e *llm.Error
	if errors.As(err, &e) {
		return e
	}
	if a.answered {
		return a.client.truncated(err, nil)
	}
	return a.client.errorf(llm.CodeBadRequest, err, "the request cannot be sent: %v", err)
}

// close ends the attempt. After a complete answer it keeps the connection.
func (a *attempt) close() {
	if a.body != nil {
		a.body.finish()
	}
	a.watch.close()
	if a.limit != nil {
		a.limit.Stop()
	}
	a.cancel(nil)
}

// meter counts the bytes of a response and restarts the time limit at each read. It also reads a response that is
// compressed although the request did not allow that, with or without a header that says so.
type meter struct {
	src  io.ReadCloser
	a    *attempt
	left int64
	in   io.Reader // the response without its compression; nil before the first read
}

func (m *meter) Read(p []byte) (int, error) {
	if m.left < 0 {
		return 0, m.a.client.tooLong()
	}
	phase := phaseIdle
	if m.a.stream && !m.a.reading.deltas { // the endpoint still processes the request
		phase = phaseFirstByte
	}
	m.a.watch.enter(phase)
	n, err := m.read(p)
	m.a.watch.pause()
	m.left -= int64(n)
	return n, err
}

func (m *meter) read(p []byte) (int, error) {
	if m.in == nil {
		if err := m.open(); err != nil {
			return 0, err
		}
	}
	return m.in.Read(p)
}

// open removes the compression of the response.
func (m *meter) open() (err error) {
	head := make([]byte, 2)
	n, _ := io.ReadFull(m.src, head) // the next read returns the error again
	m.in = io.MultiReader(bytes.NewReader(head[:n]), m.src)
	var zip io.Reader
	switch string(head) { // neither JSON nor an event begins with these bytes
	case "\x1f\x8b":
		zip, err = gzip.NewReader(m.in)
	case "\x78\x01", "\x78\x5e", "\x78\x9c", "\x78\xda":
		zip, err = zlib.NewReader(m.in)
	}
	if err == nil && zip != nil {
		m.in = zip
	}
	return err
}

func (m *meter) Close() error { return m.src.Close() }
