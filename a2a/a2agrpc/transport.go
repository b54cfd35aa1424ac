package a2agrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/agentarbor/arbor/a2a"
)

// transport calls one gRPC server. The SDK's transport provides the operations that remote agents do not use.
type transport struct {
	a2aclient.Transport
	conn   *grpc.ClientConn
	client pb.A2AServiceClient
	env    a2a.Environment
	target *url.URL
	limit  int

	dialError atomic.Pointer[error] // error of the last failed dial, because gRPC keeps only its text
}

// hopHeaders are headers of an HTTP/1 connection, which must not be sent as metadata.
var hopHeaders = map[string]bool{"connection": true, "host": true, "content-length": true, "transfer-encoding": true, "upgrade": true,
	"keep-alive": true, "proxy-connection": true}

// outgoing returns the context of a call. It replaces outgoing metadata of the caller's context, so that no credentials
// of other calls are sent.
func (t *transport) outgoing(ctx context.Context, params a2aclient.ServiceParams) (context.Context, http.Header, error) {
	md := metadata.MD{}
	for name, values := range params {
		// A list is one entry with commas (A2A 1.0, section 10.2).
		md.Set(strings.ToLower(name), strings.Join(values, ","))
	}
	var sent http.Header
	if t.env.Credentials != nil {
		var err error
		if sent, err = t.env.Credentials(ctx, t.target); err != nil {
			return nil, nil, err
		}
		for name, values := range sent {
			if name = strings.ToLower(name); !hopHeaders[name] {
				md.Append(name, values...)
			}
		}
	}
	return metadata.NewOutgoingContext(ctx, md), sent, nil
}

func (t *transport) resetIdle(ctx context.Context) {
	if t.env.ResetIdle != nil {
		t.env.ResetIdle(ctx)
	}
}

// attempt is one attempt of a call.
type attempt struct {
	*transport
	request   proto.Message
	sent      http.Header // credentials
	mayBeSent atomic.Bool // the request may have left this process
	answered  bool        // an answer arrived
}

type attemptKey struct{}

// sendRecorder records which calls reached a connection.
type sendRecorder struct{}

func (sendRecorder) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (sendRecorder) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sendRecorder) HandleConn(context.Context, stats.ConnStats)                       {}
func (sendRecorder) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutHeader); ok {
		if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
			a.mayBeSent.Store(true)
		}
	}
}

// call makes a call. If the peer refused the credentials before doing anything, and there are others, it repeats the
// call once with these.
func (t *transport) call(ctx context.Context, params a2aclient.ServiceParams, req proto.Message, do func(context.Context, *attempt) error) error {
	var refused http.Header
	for {
		a := &attempt{transport: t, request: req}
		out, sent, err := t.outgoing(context.WithValue(ctx, attemptKey{}, a), params)
		if err != nil {
			return err
		}
		a.sent = sent
		if err = do(out, a); err == nil {
			return nil
		}
		if ctx.Err() == nil && refused == nil && !a.answered && len(sent) > 0 && t.env.Refused != nil && status.Code(err) == codes.Unauthenticated {
			t.env.Refused(sent)
			if next, err := t.env.Credentials(ctx, t.target); err == nil && !maps.EqualFunc(next, sent, slices.Equal) {
				refused = sent
				continue
			}
		}
		return a.failed(ctx, err)
	}
}

// failed converts a call's error for the remote agent: to a protocol error, the context's error, an *a2a.Error for an
// answer that is too large, or a *url.Error for an unreachable server or a broken connection. The error wraps
// a2a.ErrNotSent if the request was not sent.
func (a *attempt) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	switch code := st.Code(); {
	case code == codes.DeadlineExceeded:
		return fmt.Errorf("the server ended the call: %w", context.DeadlineExceeded)
	case code == codes.ResourceExhausted && strings.Contains(st.Message(), "larger than max") && proto.Size(a.request) <= a.limit:
		// A server that refuses a large request answers with the same text.
		return a.tooLarge()
	case code == codes.Unavailable, code == codes.Canceled, strings.HasPrefix(st.Message(), "stream terminated by RST_STREAM"):
		cause := errors.New(st.Message())
		if dial := a.dialError.Load(); dial != nil && strings.Contains(st.Message(), (*dial).Error()) {
			cause = *dial
		}
		if !a.mayBeSent.Load() {
			cause = fmt.Errorf("%w: %w", a2a.ErrNotSent, cause)
		}
		return &url.Error{Op: "call", URL: a.target.String(), Err: cause}
	}
	return fromError(st)
}

// tooLarge returns the error for an answer that is too large. It marks the error as the peer's fault, so that it is not
// retried, except when it is the only answer to a message: the peer has worked on that, and the message must not appear
// to be refused.
func (a *attempt) tooLarge() error {
	message := fmt.Sprintf("the response is longer than the limit of %d bytes", a.limit)
	err := &a2a.Error{Card: a.target.String(), Code: a2a.CodeTooLarge, Message: message}
	if _, sends := a.request.(*pb.SendMessageRequest); a.answered || !sends {
		err.Err = sdk.NewError(sdk.ErrInvalidAgentResponse, message)
	}
	return err
}

// unary makes a call with a single answer.
func unary[V, R, M any, Q interface {
	*M
	proto.Message
}, A proto.Message](ctx context.Context, t *transport, params a2aclient.ServiceParams, r R, method func(context.Context, Q, ...grpc.CallOption) (A, error)) (*V, error) {
	req, err := encode[R, M, Q](r)
	if err != nil {
		return nil, unsent(err)
	}
	var answer A
	err = t.call(ctx, params, req, func(out context.Context, _ *attempt) error {
		if answer, err = method(out, req); err == nil {
			t.resetIdle(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return decodeAnswer[V](answer)
}

// stream makes a call with a stream of answers. The call ends when the consumer stops.
func stream[R, M any, Q interface {
	*M
	proto.Message
}](ctx context.Context, t *transport, params a2aclient.ServiceParams, r R,
	method func(context.Context, Q, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.StreamResponse], error)) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		req, err := encode[R, M, Q](r)
		if err != nil {
			yield(nil, unsent(err))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		err = t.call(ctx, params, req, func(out context.Context, a *attempt) error {
			answers, err := method(out, req)
			if err != nil {
				return err
			}
			for total := 0; ; a.answered = true {
				answer, err := answers.Recv()
				if err == io.EOF {
					return nil
				}
				if err != nil {
					return err
				}
				t.resetIdle(ctx)
				if total += proto.Size(answer); total > t.limit {
					return a.tooLarge()
				}
				e, err := fromEvent(answer)
				if err != nil {
					return err
				}
				if e != nil && !yield(e, nil) {
					return nil
				}
			}
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// unsent marks an error as one before sending.
func unsent(err error) error { return fmt.Errorf("%w: %w", a2a.ErrNotSent, err) }

func (t *transport) SendMessage(ctx context.Context, params a2aclient.ServiceParams, r *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	result, err := unary[sdk.StreamResponse](ctx, t, params, r, t.client.SendMessage)
	if err != nil {
		return nil, err
	}
	return result.Event.(sdk.SendMessageResult), nil // the only kinds of this answer
}

func (t *transport) SendStreamingMessage(ctx context.Context, params a2aclient.ServiceParams, r *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return stream(ctx, t, params, r, t.client.SendStreamingMessage)
}

func (t *transport) SubscribeToTask(ctx context.Context, params a2aclient.ServiceParams, r *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return stream(ctx, t, params, r, t.client.SubscribeToTask)
}

func (t *transport) GetTask(ctx context.Context, params a2aclient.ServiceParams, r *sdk.GetTaskRequest) (*sdk.Task, error) {
	return unary[sdk.Task](ctx, t, params, r, t.client.GetTask)
}

func (t *transport) CancelTask(ctx context.Context, params a2aclient.ServiceParams, r *sdk.CancelTaskRequest) (*sdk.Task, error) {
	return unary[sdk.Task](ctx, t, params, r, t.client.CancelTask)
}

// Destroy closes the connection. Open calls fail as after a broken connection.
func (t *transport) Destroy() error { return t.conn.Close() }
