package policy

import (
	"context"

	"github.com/agentarbor/arbor/llm"
)

// racer is one request of a hedge. The channel of arrivals has no buffer, so a racer reads no more chunks than the
// consumer wants.
type racer struct {
	model  llm.Model
	cancel context.CancelFunc
	over   bool
}

type piece struct {
	of    *racer
	chunk llm.Chunk
	err   error
	end   bool
	panic any
	asks  *question // whether the racer's model may ask another one
}

// question is a call of the admission that a racer's model makes, for the goroutine of the hedge.
type question struct {
	model  llm.Model
	req    *llm.Request
	open   int
	answer chan error // with room for one
}

// reply answers the question, when beside is the number of open requests of other racers.
func (q *question) reply(ctx context.Context, beside int) {
	q.answer <- llm.Admit(ctx, q.model, q.req, q.open+beside)
}

func lostChunk(r *racer, code llm.ErrorCode, message string, begun bool) llm.Chunk {
	return llm.Chunk{Lost: &llm.Attempt{Model: r.model.Name(), Code: code, Message: r.model.Name() + ": " + message, Begun: begun}}
}

// start sends a request. Its goroutine ends when the model's Generate returns: after the answer, or when the request is
// cancelled. Generate returns at its next chunk even if the model ignores the cancellation; a model that then yields
// nothing more and does not return, against the contract of [llm.Model], keeps the goroutine.
func start(ctx context.Context, m llm.Model, req *llm.Request, arrivals chan<- piece) *racer {
	ctx, cancel := context.WithCancel(ctx)
	r := &racer{model: m, cancel: cancel}
	send := func(p piece) bool {
		p.of = r
		select {
		case arrivals <- p:
			return true
		case <-ctx.Done():
			return false
		}
	}
	asking := llm.WithAdmission(ctx, func(m llm.Model, req *llm.Request, open int) error {
		q := &question{m, req, open, make(chan error, 1)}
		if send(piece{asks: q}) {
			select {
			case err := <-q.answer:
				return err
			case <-ctx.Done(): // the racer was given up before its question was read
			}
		}
		return ctx.Err()
	})
	go func() {
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				send(piece{panic: p})
			}
		}()
		for c, err := range m.Generate(asking, req) {
			if !send(piece{chunk: c, err: err}) || err != nil {
				return
			}
		}
		send(piece{end: true})
	}()
	return r
}
