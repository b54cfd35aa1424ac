package access

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlines is a writer that keeps what happened to it.
type deadlines struct {
	http.ResponseWriter
	events []string
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.events = append(d.events, fmt.Sprint("deadline ", at.After(time.Now())))
	return nil
}

func (d *deadlines) Write(p []byte) (int, error) {
	d.events = append(d.events, fmt.Sprint("write ", len(p)))
	return len(p), nil
}

// Who reads slowly gets all of a large answer, because each piece has a time of its own.
func TestEachPieceHasItsDeadline(t *testing.T) {
	d := &deadlines{ResponseWriter: httptest.NewRecorder()}
	n, err := NewWriter(d, time.Hour).Write(make([]byte, 2*pieceSize+1))
	require.NoError(t, err)
	require.Equal(t, 2*pieceSize+1, n)
	require.Equal(t, []string{"deadline true", "write 65536", "deadline true", "write 65536", "deadline true", "write 1"}, d.events)
}

func TestHarden(t *testing.T) {
	server := &http.Server{}
	Harden(server)
	require.Equal(t, 10*time.Second, server.ReadHeaderTimeout)
	require.Equal(t, 2*time.Minute, server.IdleTimeout)
	require.Equal(t, 64<<10, server.MaxHeaderBytes)
	require.Zero(t, server.WriteTimeout)
	require.Zero(t, server.ReadTimeout)
	server = &http.Server{ReadHeaderTimeout: 1, IdleTimeout: 2, MaxHeaderBytes: 3}
	Harden(server)
	require.Equal(t, &http.Server{ReadHeaderTimeout: 1, IdleTimeout: 2, MaxHeaderBytes: 3}, server)
}

func TestLimit(t *testing.T) {
	l := NewLimit(2, 0)
	require.NoError(t, l.Enter("ann"))
	require.NoError(t, l.Enter("ann"))
	var refused *LimitError
	require.ErrorAs(t, l.Enter("ann"), &refused)
	require.Equal(t, 2, refused.Max)
	require.NoError(t, l.Enter("bob"))
	l.Leave("ann")
	require.NoError(t, l.Enter("ann"))
	l.Leave("bob")
	require.NotContains(t, l.n, "bob", "who has nothing under way is forgotten")
}

// A client that has just read the end of something can begin the next one, though the first is counted for a
// moment longer.
func TestLimitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, ctx := NewLimit(1, 0), t.Context()
		require.NoError(t, l.Await(ctx, "ann"))
		begun := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { l.Leave("ann") })
		require.NoError(t, l.Await(ctx, "ann"))
		require.Equal(t, 100*time.Millisecond, time.Since(begun))
		require.ErrorAs(t, l.Enter("ann"), new(*LimitError), "what is counted next does not wait")
		require.ErrorAs(t, l.Await(ctx, "ann"), new(*LimitError))
		require.Equal(t, 350*time.Millisecond, time.Since(begun))
		require.NoError(t, l.Await(ctx, "bob"))

		gone, cancel := context.WithCancelCause(ctx)
		cancel(ErrRevoked)
		require.ErrorIs(t, l.Await(gone, "ann"), ErrRevoked)
		l.Leave("ann")
		l.Leave("bob")
		require.Empty(t, l.n)
		require.Empty(t, l.waiting)
	})
}

// However calls of Await end, no place is lost and none is given twice.
func TestLimitCounts(t *testing.T) {
	l, most := NewLimit(3, 0), atomic.Int64{}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
			defer cancel()
			for range 20 {
				if l.Await(ctx, "ann") == nil {
					if most.Add(1) > 3 {
						t.Error("too many")
					}
					most.Add(-1)
					l.Leave("ann")
				}
			}
		})
	}
	all.Wait()
	require.Empty(t, l.n)
	require.Empty(t, l.waiting)
}
