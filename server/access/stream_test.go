package access

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFrames(t *testing.T) {
	w := httptest.NewRecorder()
	s := NewStream(t.Context(), w, -1)
	require.NoError(t, s.SendJSON("12-3", map[string]int{"a": 1}))
	require.NoError(t, s.Send(Frame{Event: "end", Data: []byte("one\r\ntwo\rthree\n\n")}))
	require.NoError(t, s.Send(Frame{Data: []byte{}}))
	for _, f := range []Frame{{ID: "a\nb"}, {ID: "a\rb"}, {Event: "a\nb"}, {ID: "\x00"}} {
		require.Error(t, s.Send(f))
	}
	require.Error(t, s.SendJSON("", func() {}))
	s.Close()
	require.Equal(t, 200, w.Code)
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	require.Equal(t, "id: 12-3\ndata: {\"a\":1}\n\n"+"event: end\ndata: one\ndata: two\ndata: three\ndata: \ndata: \n\n"+"data: \n\n", w.Body.String())
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
		time.Sleep(31 * time.Second) // of the bubble
		require.NoError(t, s.Send(Frame{Data: []byte("x")}))
		time.Sleep(14 * time.Second)
		s.Close()
		time.Sleep(time.Minute)
		require.True(t, w.Flushed)
		require.Equal(t, ": keep-alive\n\n: keep-alive\n\ndata: x\n\n", w.Body.String())
	})
}

// held is a writer that keeps what is written, each once it may.
type held struct {
	http.ResponseWriter
	may    chan struct{}
	writes []string
}

func (h *held) Write(p []byte) (int, error) {
	<-h.may
	h.writes = append(h.writes, string(p))
	return len(p), nil
}

func TestFramesThatAreReadyTogetherLeaveInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{httptest.NewRecorder(), make(chan struct{}), nil}
		s := NewStream(t.Context(), h, 0)
		require.NoError(t, s.Send(Frame{Data: []byte("1")}))
		synctest.Wait()
		for _, text := range []string{"2", "3", "4"} {
			require.NoError(t, s.Send(Frame{Data: []byte(text)}))
		}
		h.may <- struct{}{}
		h.may <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"data: 1\n\n", "data: 2\n\ndata: 3\n\ndata: 4\n\n"}, h.writes)

		close(h.may)
		require.NoError(t, s.Send(Frame{Data: []byte("5")}))
		s.Close() // waits for what is on its way
		require.Equal(t, "data: 5\n\n", h.writes[2])
	})
}

// Send waits for a client that is slow, and holds a bounded part of what it is sent.
func TestASlowClientIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{httptest.NewRecorder(), make(chan struct{}), nil}
		s := NewStream(t.Context(), h, 0)
		require.NoError(t, s.Send(Frame{Data: []byte{}}))
		synctest.Wait() // this one is being written
		sent := 0
		go func() {
			for s.Send(Frame{Data: make([]byte, 1000)}) == nil {
				sent++
			}
		}()
		synctest.Wait()
		require.Equal(t, 33, sent, "32 KiB wait")
		time.Sleep(time.Hour) // no comments pile up
		h.may <- struct{}{}
		synctest.Wait()
		require.Equal(t, 2*33, sent)
		close(h.may)
		s.Close()
		require.NotContains(t, strings.Join(h.writes, ""), "keep-alive")
	})
}

func TestAClientThatDoesNotReadIsDisconnected(t *testing.T) {
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := NewStream(r.Context(), NewWriter(w, 50*time.Millisecond), 0)
		defer s.Close()
		for s.Send(Frame{Data: make([]byte, 100_000)}) == nil {
		}
		ended <- s.Context().Err()
	}))
	defer server.Close()
	conn := must(net.Dial("tcp", server.Listener.Addr().String()))
	defer conn.Close()
	_ = must(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	require.ErrorIs(t, <-ended, context.Canceled)
}

// A writer that panics ends its stream, and not the process.
func TestAWriterThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStream(t.Context(), panics{httptest.NewRecorder()}, 0)
		require.NoError(t, s.Begin())
		<-s.Context().Done()
		require.ErrorIs(t, s.Send(Frame{}), ErrClientGone)
		s.Close()
	})
}

type panics struct{ http.ResponseWriter }

func (panics) Write([]byte) (int, error) { panic("no") }

// gone is a writer whose client is away.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAClientThatIsAwayEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStream(t.Context(), gone{httptest.NewRecorder()}, 0)
		require.NoError(t, s.Send(Frame{Data: []byte{}}))
		<-s.Context().Done()
		require.ErrorIs(t, context.Cause(s.Context()), ErrClientGone)
		require.True(t, errors.Is(s.Send(Frame{}), ErrClientGone))
		s.Close()
	})
}
