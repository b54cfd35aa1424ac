package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"

	"github.com/agentarbor/arbor/llm"
)

// answerWriter writes the answer of a model in the form of a protocol, streamed or complete. A stream begins with the
// first chunk, so that an earlier error can still set the status. If writing fails, the client is gone, and the context
// of its request cancels the model.
type answerWriter interface {
	start()          // sends the beginning of a stream, once
	write(llm.Chunk) // writes a chunk
	finish(llm.FinishReason)
	report(wireError) // sends an error in a stream
	base() *output
}

// generate writes the answer of a model.
func generate(out answerWriter, chunks iter.Seq2[llm.Chunk, error]) {
	finish := llm.FinishReason("")
	for c, err := range chunks {
		if err != nil {
			failAnswer(out, err)
			return
		}
		out.write(c)
		finish = cmp.Or(c.Finish, finish)
	}
	if finish == "" {
		out.start()
		out.base().cut()
	}
	out.finish(finish)
}

// failAnswer sends a model's error as a real endpoint does.
func failAnswer(out answerWriter, err error) {
	var e *llm.Error
	isModel, to := errors.As(err, &e), out.base()
	switch {
	case isModel && e.Code == llm.CodeTruncated:
		out.start()
		to.cut()
	case isModel && e.Code == llm.CodeBadResponse && e.Status == 0:
		out.start()
		to.garble()
	case !to.started:
		failWith(to.w, err)
	case isModel && e.Code == llm.CodeUnreachable, !isModel && errors.Is(err, context.Canceled):
		to.cut()
	default:
		_, shape := errorShape(err)
		out.report(shape)
	}
}

// output is the response of a request, which is a stream of events or one JSON object.
type output struct {
	w       http.ResponseWriter
	streams bool
	started bool // the stream has begun
}

func (o *output) base() *output { return o }

// start sends the headers of a stream.
func (o *output) start() {
	if !o.streams || o.started {
		return
	}
	o.started = true
	o.w.Header().Set("Content-Type", "text/event-stream")
	o.w.Header().Set("Cache-Control", "no-cache")
	o.w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(o.w).Flush()
}

// event sends an event of a stream. The name may be empty.
func (o *output) event(name string, v any) {
	var b bytes.Buffer
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	b.WriteString("data: ")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // all values have a JSON form, so this cannot fail
	o.raw(b.String() + "\n")
}

// raw sends text unchanged, including invalid events.
func (o *output) raw(text string) {
	o.start()
	_, _ = io.WriteString(o.w, text)
	_ = http.NewResponseController(o.w).Flush()
}

// cut breaks the connection in the middle of the answer.
func (o *output) cut() {
	if !o.streams { // the body ends before its Content-Length
		o.w.Header().Set("Content-Type", "application/json")
		o.w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(o.w, `{"object": `)
	}
	_ = http.NewResponseController(o.w).Flush()
	panic(http.ErrAbortHandler)
}

// garble sends an answer that is not JSON.
func (o *output) garble() {
	if o.streams {
		o.raw("data: {\"object\": oops\n\n")
		return
	}
	o.w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(o.w, `{"object": oops`)
}
