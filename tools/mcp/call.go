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

// call is one call of a tool, from its request to its answer. It outlives the execution
// that began it while the turn waits for what the server asks.
type call struct {
	conn      *conn
	life      context.Context // ends with the call
	cancel    context.CancelFunc
	done      chan outcome   // holds the outcome when there is one
	questions chan *question // that the server asks
	asked     []*question    // in this order, with those that are answered
	replayed  int            // how many of them the execution under way has asked for
	expiry    *time.Timer    // while it is parked
	refused   atomic.Bool    // the server has answered its POST with status 404

	mu   sync.Mutex
	ctx  tools.Context // of the execution under way
	open *question     // the last that is known to be of this call
}

// place is a call of a tool in a session, also of another process.
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

// call calls a tool of the server. If the call was left open because the turn waited for an
// answer, it goes on.
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
			return s.output(ctx, name, o)
		}
	}
}

// MetaIdempotencyKey is the name in the metadata of a call under which a server finds what
// is the same for every execution of it, see tools.Context.IdempotencyKey.
const MetaIdempotencyKey = "agentarbor/idempotencyKey"

// begin sends a call to the server.
func (s *Server) begin(ctx tools.Context, name string, input json.RawMessage) (*call, error) {
	c, err := s.ready(ctx, false)
	if err != nil {
		return nil, err
	}
	r := &call{conn: c, done: make(chan outcome, 1), questions: make(chan *question), ctx: ctx}
	r.life, r.cancel = context.WithCancel(context.WithValue(s.ctx, callKey{}, r))
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

// unsent reports whether the server did not get the call, so that the call can be sent again. If the server has forgotten
// the session, as any request of it may find, it may have executed all calls that it did not refuse.
func (r *call) unsent(err error) bool {
	return errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, sdk.ErrSessionMissing) && r.refused.Load()
}

// output is what the model gets.
func (s *Server) output(ctx tools.Context, tool string, o outcome) (any, error) {
	switch {
	case o.err == nil:
		return content(ctx, legal(tool), o.result)
	case s.ctx.Err() != nil:
		return nil, ErrClosed
	case errors.Is(o.err, io.EOF), errors.Is(o.err, io.ErrUnexpectedEOF), errors.Is(o.err, io.ErrClosedPipe), errors.Is(o.err, context.Canceled),
		errors.Is(o.err, sdk.ErrConnectionClosed), errors.Is(o.err, sdk.ErrSessionMissing):
		return nil, s.errorf("it has ended before it answered; the outcome of the call is unknown")
	}
	return nil, s.errorf("%s", plain(o.err))
}

// rejected is the code of the SDK's own error for what its transport could not send.
const rejected = -32005

// plain is an error in words for people and models: what the server says, without the words
// of the SDK around it, or what has failed, without a query that the URL may have.
func plain(err error) string {
	var said *jsonrpc.Error
	if errors.As(err, &said) && said.Code != rejected {
		return fmt.Sprintf("%s (code %d)", said.Message, said.Code)
	}
	return redact.Text(err.Error())
}

// park keeps a call open while the turn waits. If there are too many the one is given up
// that was parked first; it is made again when its answer is there.
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
	if !r.conn.alive() || r.asked[len(r.asked)-1].over() { // many wait a minute
		r.cancel()
		return nil
	}
	return r
}
