package a2a

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
)

// flight fetches a value once for all concurrent callers. Its zero value is ready for use.
type flight[T comparable] struct{ group singleflight.Group }

// get returns the kept value, or fetches it if that is the zero value. Concurrent callers share one fetch with its
// result or error. If the caller that started the fetch is canceled, another one fetches again.
func (f *flight[T]) get(ctx context.Context, cached func() T, fetch func(context.Context) (T, error)) (T, error) {
	var none T
	for {
		if v := cached(); v != none {
			return v, nil
		}
		var leading atomic.Bool
		result := f.group.DoChan("", func() (any, error) {
			leading.Store(true)
			if v := cached(); v != none { // from a fetch that has just ended
				return v, nil
			}
			v, err := fetch(ctx)
			if err != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", errLeaderGone, ctx.Err())
			}
			return v, err
		})
		var res singleflight.Result
		select {
		case res = <-result:
		case <-ctx.Done():
			if leading.Load() {
				<-result // it ends with ctx, and nothing may outlive the turn
			}
			return none, context.Cause(ctx)
		}
		switch {
		case res.Err == nil:
			return res.Val.(T), nil
		case ctx.Err() != nil:
			return none, context.Cause(ctx)
		case leading.Load() || !errors.Is(res.Err, errLeaderGone):
			return none, res.Err
		}
	}
}

var errLeaderGone = errors.New("the fetch was canceled")
