package wire

import (
	"context"
	"errors"
	"iter"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/server/access"
)

var errEmptyStream = errors.New("the stream ended before its first event")

// serveStream encodes the events and writes them. It returns an error before the first event without writing anything,
// unless allFrames is set. Any other error becomes the last frame, encoded by failure.
func serveStream(ctx context.Context, w *access.Writer, keepAlive time.Duration, allFrames bool, begin func(),
	events func(context.Context) iter.Seq2[sdk.Event, error],
	encode func(sdk.Event) ([]byte, error), failure func(error) access.Frame,
) (err error) {
	s := access.NewStream(ctx, w, keepAlive)
	defer s.Close()
	begun := false
	send := func(f access.Frame) error {
		if !begun {
			begin()
			begun = true
		}
		return s.Send(f)
	}
	fail := func(err error) error {
		if err == nil || !begun && !allFrames {
			return err
		}
		_ = send(failure(err)) // the stream ends anyway
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fail(panicked(v))
		}
	}()
	for event, err := range events(s.Context()) {
		var data []byte
		if err == nil {
			data, err = encode(event)
		}
		if err != nil {
			return fail(err)
		}
		if send(access.Frame{Data: data}) != nil {
			return nil
		}
	}
	if err = Revoked(s.Context()); err == nil && !begun {
		err = errEmptyStream
	}
	return fail(err)
}

// Revoked returns the error of a call whose caller's access was revoked during the call, and nil for any other call.
func Revoked(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, access.ErrRevoked) {
		return sdk.NewError(sdk.ErrUnauthenticated, cause.Error())
	}
	return nil
}
