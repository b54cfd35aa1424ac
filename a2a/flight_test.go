package a2a

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// All who wait share what comes of one fetch, its failure too.
func TestFlightIsShared(t *testing.T) {
	failure := errors.New("down")
	for _, want := range []error{nil, failure} {
		synctest.Test(t, func(t *testing.T) {
			var f flight[string]
			fetches := 0
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					got, err := f.get(t.Context(), func() string { return "" }, func(context.Context) (string, error) {
						fetches++
						time.Sleep(time.Second)
						return "token", want
					})
					require.ErrorIs(t, err, want)
					require.Equal(t, want == nil, got == "token")
				})
			}
			wg.Wait()
			require.Equal(t, 1, fetches)
		})
	}
}

// Who gives up ends no more than its own call: another of those who wait fetches anew.
func TestFlightWithoutItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flight[string]
		fetch := func(ctx context.Context) (string, error) {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(time.Second):
				return "token", nil
			}
		}
		none := func() string { return "" }
		first, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		go func() {
			_, err := f.get(first, none, fetch)
			require.ErrorIs(t, err, gone)
		}()
		synctest.Wait()
		got := make(chan string)
		go func() {
			token, _ := f.get(t.Context(), none, fetch)
			got <- token
		}()
		synctest.Wait()
		cancel(gone)
		require.Equal(t, "token", <-got)
	})
}
