package access

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFrames(t *testing.T) {
	w := httptest.NewRecorder()
	s := NewStream(t.Context(), w, -1)
	require.NoError(t, s.SendJSON("12-3", map[string]int{"a": 1}))
	require.Equal(t, 200, w.Code)
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	require.NoError(t, s.Send(Frame{Event: "end", Data: []byte("one\r\ntwo\rthree\n\n")}))
	require.NoError(t, s.Send(Frame{}))
	require.Equal(t, "id: 12-3\ndata: {\"a\":1}\n\n"+"event: end\ndata: one\ndata: two\ndata: three\ndata: \ndata: \n\n"+"data: \n\n", w.Body.String())
	for _, f := range []Frame{{ID: "a\nb"}, {ID: "a\rb"}, {Event: "a\nb"}, {ID: "\x00"}} {
		require.Error(t, s.Send(f))
	}
	require.Error(t, s.SendJSON("", func() {}))
	s.Close()
	size := w.Body.Len()
	require.ErrorIs(t, s.Send(Frame{}), ErrClientGone)
	require.Equal(t, size, w.Body.Len())
	require.Error(t, s.Context().Err())
}

// An error that comes before anything was sent can be a plain answer.
func TestNothingIsSentBeforeTheStreamBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := NewStream(t.Context(), w, 0)
		time.Sleep(time.Minute) // of the bubble
		s.Close()
		require.Empty(t, w.Body.String())
		require.Empty(t, w.Header().Get("Content-Type"))
		http.Error(w, "no", http.StatusNotFound)
		require.Equal(t, 404, w.Code)
	})
}

func TestSilenceIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := NewStream(t.Context(), w, 0)
		require.NoError(t, s.Begin())
		require.Equal(t, 200, w.Code)
		time.Sleep(31 * time.Second) // of the bubble
		require.NoError(t, s.Send(Frame{Data: []byte("x")}))
		time.Sleep(14 * time.Second)
		s.Close()
		time.Sleep(time.Minute)
		require.True(t, w.Flushed)
		require.Equal(t, ": keep-alive\n\n: keep-alive\n\ndata: x\n\n", w.Body.String())
	})
}

// gone is a writer whose client is away.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAClientThatIsAwayEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStream(t.Context(), gone{httptest.NewRecorder()}, 0)
		require.ErrorIs(t, s.Send(Frame{}), io.ErrClosedPipe)
		<-s.Context().Done()
		require.ErrorIs(t, context.Cause(s.Context()), ErrClientGone)
		require.True(t, errors.Is(s.Send(Frame{}), ErrClientGone))
		s.Close()
	})
}
