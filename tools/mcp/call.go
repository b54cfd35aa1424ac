package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/redact"
	"github.com/agentarbor/arbor/tools"
)

// call is one call of a tool, from its request to its answer. While the turn waits for an answer to a question of the
// server, the call outlives the execution that started it.
type call struct {
	conn      *conn
	life      context.Context // ends with the call
	cancel    context.CancelFunc
	done      chan outcome   // receives the outcome
	questions chan *question // questions of the server
	asked     []*question    // all questions so far, in order
	replayed  int            // the number of them that the current execution has asked
	expiry    *time.Timer    // set while the call is parked
	sent      atomic.Bool    // the transport may have begun to write the request
	refused   atomic.Bool    // the server has answered its POST with status 404

	mu   sync.Mutex
	ctx  tools.Context // of the current execution
	open *question     // the last question that is known to belong to this call
}

// place identifies a call of a tool in a session, also across processes.
type place struct {
	session agent.SessionKey
	call    string
}

type outcome struct {
	result *sdk.CallToolResult
	err    error
}

type callKey struct{}

func (r *call) context() tools.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ctx
}

func (r *call) attach(ctx tools.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx, r.replayed = ctx, 0
}

// call calls a tool of the server. If an earlier execution left the call open because the turn waited for an answer,
// call continues it.
func (s *Server) call(ctx tools.Context, name string, input json.RawMessage) (any, error) {
	key := place{ctx.Session(), ctx.IdempotencyKey()}
	r := s.unpark(key)
	if r != nil {
		r.attach(ctx)
		if err := s.answer(r, ctx, key); err != nil {
			return nil, err
		}
	} else {
		var err error
		if r, err = s.begin(ctx, name, input); err != nil {
			return nil, err
		}
	}
	again := false
	for {
		select {
		case <-ctx.Done():
			r.cancel()
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				go r.conn.check()
			}
			return nil, ctx.Err()
		case q := <-r.questions:
			r.asked = append(r.asked, q)
			if err := s.answer(r, ctx, key); err != nil {
				return nil, err
			}
		case o := <-r.done:
			if r.unsent(o.err) && !again && s.ctx.Err() == nil {
				again = true
				r.conn.close()
				var err error
				if r, err = s.begin(ctx, name, input); err != nil {
					return nil, err
				}
				continue
			}
			var said *jsonrpc.Error // also of a POST that failed, after which the connection continues
			if isEnd(o.err) && !errors.As(o.err, &said) {
				r.conn.close() // otherwise the next call may be made on this connection
			}
			return s.output(ctx, name, o)
		}
	}
}

// MetaIdempotencyKey is the key in the metadata of a call under which the server finds the idempotency key, which is
// the same for every execution of the call; see tools.Context.IdempotencyKey.
const MetaIdempotencyKey = "agentarbor/idempotencyKey"

// begin sends a call to the server.
func (s *Server) begin(ctx tools.Context, name string, input json.RawMessage) (*call, error) {
	c, err := s.ready(ctx, false)
	if err != nil {
		return nil, err
	}
	r := &call{conn: c, done: make(chan outcome, 1), questions: make(chan *question), ctx: ctx}
	r.life, r.cancel = context.WithCancel(context.WithValue(s.ctx, callKey{}, r))
	switch s.at.(type) {
	case Stdio, HTTP: // they record what they send
	default:
		r.sent.Store(true)
	}
	key := ctx.IdempotencyKey()
	go func() {
		token := c.begin(r)
		defer r.cancel()
		params := &sdk.CallToolParams{Meta: sdk.Meta{MetaIdempotencyKey: key}, Name: name, Arguments: input}
		params.SetProgressToken(token)
		result, err := c.session.CallTool(r.life, params)
		c.over(r, token, err == nil)
		r.done <- outcome{result, err}
	}()
	return r, nil
}

// unsent reports whether the server did not get the call, so that it can be sent again. The SDK also returns that the
// connection was closed if the server has answered the call with certain codes. If the server forgot the session, which
// every request can report, it may have executed each call that it did not refuse.
func (r *call) unsent(err error) bool {
	return errors.Is(err, sdk.ErrConnectionClosed) && !r.sent.Load() || errors.Is(err, sdk.ErrSessionMissing) && r.refused.Load()
}

// noteSent records that a request is being written, if it belongs to a call.
func noteSent(ctx context.Context) {
	if r, ok := ctx.Value(callKey{}).(*call); ok {
		r.sent.Store(true)
	}
}

// output returns the result for the model.
func (s *Server) output(ctx tools.Context, tool string, o outcome) (any, error) {
	switch {
	case o.err == nil:
		return content(ctx, legal(tool), o.result)
	case s.ctx.Err() != nil:
		return nil, ErrClosed
	case isEnd(o.err), errors.Is(o.err, context.Canceled), errors.Is(o.err, sdk.ErrConnectionClosed), errors.Is(o.err, sdk.ErrSessionMissing):
		return nil, s.errorf("it has ended before it answered; the outcome of the call is unknown")
	}
	return nil, s.errorf("%s", plain(o.err))
}

// isEnd reports whether the connection, or one of its requests over HTTP, ended without an answer.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe)
}

// rejected is the code of the SDK's error for a message that its transport could not send.
const rejected = -32005

// plain returns the text of an error for people and models. It is the server's message without the text that the SDK
// adds, or the failure without the query of a URL.
func plain(err error) string {
	var said *jsonrpc.Error
	if errors.As(err, &said) && said.Code != rejected {
		return fmt.Sprintf("%s (code %d)", said.Message, said.Code)
	}
	return redact.Text(err.Error())
}

// park keeps a call open while the turn waits. If too many calls are parked, park cancels this one, and the next
// execution sends it again.
func (s *Server) park(key place, r *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parked) >= maxParked {
		r.cancel()
		return
	}
	s.parked[key] = r
	r.expiry = time.AfterFunc(parkedFor, func() {
		if s.unpark(key) == r {
			r.cancel()
			if q := r.question(); q != nil {
				q.answer(cancelled())
			}
		}
	})
}

// unpark removes a parked call and returns it, or nil if its server no longer waits for one.
func (s *Server) unpark(key place) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.parked[key]
	if r == nil {
		return nil
	}
	delete(s.parked, key)
	r.expiry.Stop()
	if !r.conn.alive() || r.asked[len(r.asked)-1].over() { // many servers wait only a minute
		r.cancel()
		return nil
	}
	return r
}
