package mcp

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// conn is one connection to the server, from its start to its end.
type conn struct {
	server  *Server
	session *sdk.ClientSession
	kept    *keeping
	once    sync.Once
	ended   chan struct{} // closed when the session has ended
	stale   atomic.Bool   // the list of tools has changed

	mu       sync.Mutex
	tokens   int64
	calls    map[string]*call // by progress token
	running  []*call          // in the order in which they started
	unpaired []*question      // questions whose call is not known yet
}

// greeting is the way in which a connection begins.
type greeting int

const (
	// probing asks for the server's protocol version. If half of the start timeout passes without an answer, it uses
	// the older greeting, because servers from before version 2026-07-28 may ignore unknown messages.
	probing greeting = iota
	older            // for a server of an older version, which may exit when it gets the question
	patient          // the server refuses the older greeting, and needs longer for its answer
)

// unsettled reports whether a server that could not be greeted may accept another greeting.
func unsettled(ctx context.Context, err error) bool {
	var unstarted *startError
	return err != nil && ctx.Err() == nil && !errors.As(err, &unstarted)
}

// refused reports whether the server answered the greeting with an error.
func refused(err error) bool {
	var said *jsonrpc.Error
	return errors.As(err, &said) && said.Code != rejected
}

// connect starts the server or connects to it, and greets it.
func (s *Server) connect(ctx context.Context, form greeting) (*conn, error) {
	var probe time.Duration
	if form == probing {
		probe = s.start / 2
	}
	transport, why, err := s.at.dial(s, probe)
	if err != nil {
		return nil, s.errorf("%w", &startError{err})
	}
	s.mu.Lock()
	s.said = why
	s.mu.Unlock()
	c := &conn{server: s, kept: &keeping{Transport: transport}, ended: make(chan struct{}), calls: map[string]*call{}}
	c.stale.Store(true)
	options := &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{},
		ElicitationHandler:          c.elicit,
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { c.stale.Store(true) },
		ProgressNotificationHandler: c.progress,
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "arbor", Version: "1"}, options)
	client.AddReceivingMiddleware(s.guard)
	client.AddSendingMiddleware(s.guard)
	var how *sdk.ClientSessionOptions
	if form == older {
		how = &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"}
	}
	if c.session, err = greet(ctx, client, c.kept, how); err != nil {
		var unstarted *startError
		switch said := why(); {
		case errors.As(err, &unstarted):
			return nil, s.errorf("%w", err)
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, s.errorf("it has not answered within %s%s", s.limit(), said)
		case s.ctx.Err() != nil:
			return nil, ErrClosed
		default:
			return nil, s.errorf("it does not start: %w%s", &plainError{err}, said)
		}
	}
	go func() {
		_ = c.session.Wait()
		c.end()
	}()
	return c, nil
}

// plainError is an error of the SDK with the text that plain returns.
type plainError struct{ error }

func (e *plainError) Error() string { return plain(e.error) }
func (e *plainError) Unwrap() error { return e.error }

// greet connects, and closes the connection and returns when the context ends, even if the server accepts no message.
func greet(ctx context.Context, client *sdk.Client, kept *keeping, how *sdk.ClientSessionOptions) (*sdk.ClientSession, error) {
	type greeted struct {
		session *sdk.ClientSession
		err     error
	}
	done := make(chan greeted, 1)
	go func() {
		session, err := client.Connect(ctx, kept, how)
		if err != nil {
			kept.close()
		}
		done <- greeted{session, err}
	}()
	select {
	case g := <-done:
		return g.session, g.err
	case <-ctx.Done():
		kept.close()
		g := <-done
		if g.err == nil {
			_ = g.session.Close()
		}
		return nil, ctx.Err()
	}
}

// keeping is a transport that keeps its connection, so that the package can close it without the SDK.
type keeping struct {
	sdk.Transport
	mu   sync.Mutex
	conn sdk.Connection
}

func (k *keeping) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := k.Transport.Connect(ctx)
	k.mu.Lock()
	k.conn = c
	k.mu.Unlock()
	return c, err
}

func (k *keeping) close() {
	k.mu.Lock()
	c := k.conn
	k.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// guard ensures that a message of the server cannot crash the program. The SDK reads parameters that may be missing, in
// one place while it holds a lock that a panic would leave locked.
func (s *Server) guard(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (res sdk.Result, err error) {
		if p := reflect.ValueOf(req.GetParams()); strings.Contains(method, "elicitation/") && (!p.IsValid() || p.Kind() == reflect.Pointer && p.IsNil()) {
			return nil, fmt.Errorf("%s: the parameters are missing", method)
		}
		defer func() {
			if r := recover(); r != nil {
				s.logger.Error("a message of an MCP server cannot be handled", "method", method, "panic", r, "stack", string(debug.Stack()))
				res, err = nil, fmt.Errorf("%s: the message cannot be handled", method)
			}
		}()
		return next(ctx, method, req)
	}
}

func (c *conn) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// end cancels the unpaired questions of the connection after its session has ended.
func (c *conn) end() {
	c.once.Do(func() { close(c.ended) })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.unpaired {
		q.answer(cancelled())
	}
	c.unpaired = nil
}

// close ends the session and waits until it has ended. It cancels the running calls first, because the SDK waits for
// them.
func (c *conn) close() {
	c.mu.Lock()
	for _, r := range c.running {
		r.cancel()
	}
	c.mu.Unlock()
	go func() { _ = c.session.Close() }()
	for _, force := range []func(){c.kept.close, c.end} {
		select {
		case <-c.ended:
			return
		case <-time.After(closeTimeout):
			force()
		}
	}
}

// check closes a connection whose server no longer answers, so that the next call opens a new one.
func (c *conn) check() {
	ctx, cancel := context.WithTimeout(c.server.ctx, pingTimeout)
	defer cancel()
	if err := c.session.Ping(ctx, nil); errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.server.logger.Warn("an MCP server has stopped answering and is ended", "error", err)
		c.close()
	}
}

// How long the server may take to answer a ping, and a session to end by itself.
const (
	pingTimeout  = 5 * time.Second
	closeTimeout = 3 * time.Second
)

// begin records a running call and returns its progress token.
func (c *conn) begin(r *call) (token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens++
	token = strconv.FormatInt(c.tokens, 10)
	c.calls[token] = r
	c.running = append(c.running, r)
	return token
}

// over records that a call has ended, with or without a result. A call with a result has no open question: if a
// question is open, it belongs to another of several calls, and its answer is still expected.
func (c *conn) over(r *call, token string, result bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, token)
	c.running = slices.DeleteFunc(c.running, func(other *call) bool { return other == r })
	if q := r.question(); q != nil && (!result || len(c.running) == 0) {
		q.answer(cancelled())
	}
	c.pair()
}

func (c *conn) progress(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
	if req.Params == nil {
		return
	}
	token, _ := req.Params.ProgressToken.(string)
	c.mu.Lock()
	r := c.calls[token]
	c.mu.Unlock()
	if r == nil {
		return
	}
	report := map[string]any{"progress": req.Params.Progress}
	if req.Params.Total != 0 {
		report["total"] = req.Params.Total
	}
	if req.Params.Message != "" {
		report["message"] = req.Params.Message
	}
	r.context().Progress(report)
}
