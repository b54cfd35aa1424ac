package openai

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/llm"
)

// stubModel stands for the model in what the library builds. The library
// refuses some parameters for models whose names it knows, rightly or not; the
// endpoint shall decide.
const stubModel = "arbor"

// patch is what the transport changes in a body that the library wrote: the
// model's name, settings whose zero the library leaves out, and content that
// its types cannot express. It changes bytes and parses nothing, so that its
// cost does not depend on how the body is made up.
type patch struct {
	model  string
	nonce  string
	places []place
	tail   []byte // fields for the end of the body
}

// place is a string in the body to be replaced; places are in body order.
type place struct{ find, put []byte }

// placeholder returns a string to give to the library as the value of field,
// in whose place the body will hold value.
func (p *patch) placeholder(field string, value []byte) string {
	return p.placeholderAs(field, field, value)
}

// placeholderAs is placeholder, and renames the field.
func (p *patch) placeholderAs(field, name string, value []byte) string {
	// The nonce never leaves this process, so that nobody can write text that
	// looks like a placeholder.
	mark := fmt.Sprintf("%s-%d", p.nonce, len(p.places))
	p.places = append(p.places, place{
		find: fmt.Appendf(nil, `"%s":"%s"`, field, mark),
		put:  fmt.Appendf(nil, `"%s":%s`, name, value),
	})
	return mark
}

// settings notes what the library would lose (zeros) or refuse.
func (p *patch) settings(s *llm.Settings, maxTokens string) error {
	for _, f := range []struct {
		name  string
		value *float64
	}{{"temperature", s.Temperature}, {"top_p", s.TopP}} {
		if f.value == nil {
			continue
		}
		if math.IsNaN(*f.value) || math.IsInf(*f.value, 0) {
			return fmt.Errorf("%s is %v, which cannot be sent", f.name, *f.value)
		}
		p.tail = fmt.Appendf(p.tail, `,"%s":%s`, f.name, strconv.FormatFloat(*f.value, 'f', -1, 64))
	}
	if s.MaxTokens > 0 {
		p.tail = fmt.Appendf(p.tail, `,"%s":%d`, maxTokens, s.MaxTokens)
	}
	return nil
}

var errPatch = errors.New("the client library writes requests in another way than this package expects")

func (p *patch) apply(body []byte) ([]byte, error) {
	model, err := json.Marshal(p.model)
	if err != nil {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(body, []byte(`{"model":"`+stubModel+`"`))
	if !ok || !bytes.HasSuffix(rest, []byte("}")) {
		return nil, errPatch
	}
	out := make([]byte, 0, len(body)+len(model)+len(p.tail)+64)
	out = append(out, `{"model":`...)
	out = append(out, model...)
	for _, pl := range p.places {
		before, after, ok := bytes.Cut(rest, pl.find)
		if !ok {
			return nil, errPatch
		}
		out = append(append(out, before...), pl.put...)
		rest = after
	}
	out = append(out, rest[:len(rest)-1]...)
	out = append(out, p.tail...)
	return append(out, '}'), nil
}

// doer stands between the library and the network. It patches requests, adds
// what is secret, turns every failure into an *llm.Error with the response's
// headers at hand, and gives the library only what it reads without loss.
type doer struct{ c *client }

// attemptKey finds the attempt that a request belongs to in its context.
type attemptKey struct{}

func (d doer) Do(req *http.Request) (*http.Response, error) {
	a, ok := req.Context().Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, errors.New("openai: a request without an attempt")
	}
	body, err := io.ReadAll(req.Body)
	if err == nil {
		body, err = a.patch.apply(body)
	}
	if err != nil {
		return nil, d.c.errorf(llm.CodeBadRequest, err, "the request cannot be built: %v", err)
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.URL.RawQuery = d.c.query
	req.Header.Set("User-Agent", "arbor")
	if a.stream {
		req.Header.Set("Accept-Encoding", "identity") // compression would hold deltas back
	}
	if d.c.key != "" {
		req.Header.Set("Authorization", "Bearer "+d.c.key)
	}
	for name, values := range d.c.header {
		req.Header[name] = values
	}

	resp, err := d.c.http.Do(req)
	if err != nil {
		return nil, d.c.networkError(err)
	}
	src := &meter{src: resp.Body, a: a, left: d.c.maxBytes}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, d.c.statusError(resp, src)
	}
	a.answered = true
	a.body = newAnswerBody(src, resp.Header.Get("Content-Type"), d.c)
	if a.stream {
		resp.Body = a.body
		return resp, nil
	}
	// The library would drop part of a whole answer, or fail on it; it gets an
	// empty one, and the attempt reads the real one.
	resp.Body = io.NopCloser(bytes.NewReader([]byte("{}")))
	return resp, nil
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// endWithAttempt makes a dial end with the attempt that asked for it. The
// transport would let it go on in the background, for later requests to use.
func endWithAttempt(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
			dialCtx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(a.ctx, cancel)()
			ctx = dialCtx
		}
		return dial(ctx, network, addr)
	}
}

// attempt is one request and its answer.
type attempt struct {
	client   *client
	stream   bool
	patch    *patch
	ctx      context.Context
	cancel   context.CancelCauseFunc
	stop     context.CancelFunc // of the limit for the whole attempt
	watch    *watchdog
	answered bool        // an answer has begun: no retry from here on
	body     *answerBody // set with answered
	events   *goopenai.ChatCompletionStream
	reading  reading
	err      error // why there are no more events
}

// try sends a request once and returns when the answer begins.
func (c *client) try(ctx context.Context, wire goopenai.ChatCompletionRequest, p *patch, req *llm.Request) (*attempt, error) {
	a := &attempt{client: c, stream: wire.Stream, patch: p, reading: reading{leaks: c.leaksOf(req), probs: req.TopLogProbs > 0}}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.stop = func() {}
	if t := c.timeouts.Attempt; t > 0 {
		a.ctx, a.stop = context.WithTimeoutCause(a.ctx, t, &limitError{phaseAttempt, t})
	}
	limits := c.timeouts
	if !a.stream {
		limits.FirstByte = -1 // it comes when the answer is whole
	}
	a.watch = newWatchdog(limits, a.cancel)
	reqCtx := a.watch.trace(context.WithValue(a.ctx, attemptKey{}, a))

	a.watch.enter(phaseFirstByte)
	var err error
	if a.stream {
		a.events, err = c.api.CreateChatCompletionStream(reqCtx, wire)
	} else {
		_, err = c.api.CreateChatCompletion(reqCtx, wire)
	}
	a.watch.pause()
	if err != nil {
		err = a.explain(err)
	} else if err = a.begin(); err != nil {
		a.answered = false
	}
	if err != nil {
		a.close()
		return a, err
	}
	return a, nil
}

// next returns the JSON of the answer's next event; io.EOF at a regular end.
func (a *attempt) next() ([]byte, error) {
	var data []byte
	var err error
	if a.stream {
		data, err = a.events.RecvRaw()
	} else {
		data, err = a.body.next()
	}
	if err != nil && err != io.EOF {
		err = a.explain(err)
	}
	return data, err
}

// explain turns a failure of an attempt into an error for callers. Which of our
// own limits ended the attempt is known here only.
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
		return a.client.truncated(err)
	}
	return a.client.errorf(llm.CodeBadRequest, err, "the request cannot be sent: %v", err)
}

// close ends the attempt; of a finished answer it keeps the connection.
func (a *attempt) close() {
	if a.body != nil {
		a.body.finish()
	}
	a.watch.close()
	a.stop()
	a.cancel(nil)
}

// meter counts and times what is read of a response.
type meter struct {
	src  io.ReadCloser
	a    *attempt
	left int64
}

func (m *meter) Read(p []byte) (int, error) {
	if m.left < 0 {
		return 0, m.a.client.tooLong()
	}
	m.a.watch.enter(phaseIdle)
	n, err := m.src.Read(p)
	m.a.watch.pause()
	m.left -= int64(n)
	return n, err
}

func (m *meter) Close() error { return m.src.Close() }

func randomHex() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return hex.EncodeToString(b[:])
}
