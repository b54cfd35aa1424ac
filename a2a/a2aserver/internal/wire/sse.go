package wire

import (
	"context"
	"errors"
	"iter"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/access"
)

var errEmptyStream = errors.New("the stream ended before its first event")

// serveStream writes what the events are encoded to. An error that comes before the first event
// is returned and nothing was written; a later one is encoded by failure into a last frame.
func serveStream(ctx context.Context, w *access.Writer, keepAlive time.Duration, begin func(),
	events func(context.Context) iter.Seq2[sdk.Event, error],
	encode func(sdk.Event) ([]byte, error), failure func(error) access.Frame,
) (err error) {
	s := access.NewStream(ctx, w, keepAlive)
	defer s.Close()
	begun := false
	defer func() {
		if v := recover(); v != nil {
			if err = panicked(v); begun {
				_ = s.Send(failure(err))
				err = nil
			}
		}
	}()
	for event, err := range events(s.Context()) {
		var data []byte
		if err == nil {
			data, err = encode(event)
		}
		if err != nil && !begun {
			return err
		}
		if err != nil {
			_ = s.Send(failure(err)) // the stream ends either way
			return nil
		}
		if !begun {
			begin()
			begun = true
		}
		if s.Send(access.Frame{Data: data}) != nil {
			return nil
		}
	}
	err = revoked(s.Context())
	switch {
	case begun && err != nil:
		_ = s.Send(failure(err))
		return nil
	case !begun && err == nil:
		return errEmptyStream
	}
	return err
}

// revoked returns the error of a call whose user was revoked while it waited, nil for any other call.
func revoked(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, access.ErrRevoked) {
		return sdk.NewError(sdk.ErrUnauthenticated, cause.Error())
	}
	return nil
}
