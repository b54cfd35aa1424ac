package openai

import (
	"context"
	"errors"
	"io"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/llm"
)

// attemptKey finds the attempt that a request belongs to in its context.
type attemptKey struct{}

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
