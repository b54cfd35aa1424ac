package postgres_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// fate is what a wire does to a request.
type fate int

const (
	loseRequest  fate = iota // it never gets to the server
	loseAnswer               // the server does it, and the answer gets lost
	hangUp                   // the connection breaks while the server is at it
	delayRequest             // the connection breaks, and the request gets to the server later
)

// wire is between the store and the server, and breaks a connection at the
// request that holds a mark.
type wire struct {
	url      string
	server   string
	listener net.Listener

	mu   sync.Mutex
	fate fate
	mark []byte
	hit  chan struct{} // closed when the request came
	late chan struct{} // closed to let a delayed request go on
	over chan struct{} // closed at the test's end
	done chan struct{} // closed when the server has answered it
}

func newWire(t *testing.T, database string) *wire {
	t.Helper()
	u := must.Get(url.Parse(database))
	w := &wire{server: u.Host, over: make(chan struct{})}
	w.listener = must.Get(net.Listen("tcp", "127.0.0.1:0"))
	u.Host = w.listener.Addr().String()
	w.url = u.String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := w.listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { w.serve(client) })
		}
	})
	t.Cleanup(func() {
		close(w.over)
		require.NoError(t, w.listener.Close())
		wg.Wait() // the stores are closed before
	})
	return w
}

// strike has the next request that holds the mark meet its fate. It returns a
// function that requires that this has happened.
func (w *wire) strike(t *testing.T, f fate, mark string) (struck func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hit := make(chan struct{})
	w.fate, w.mark, w.hit = f, []byte(mark), hit
	w.late, w.done = make(chan struct{}), make(chan struct{})
	return func() {
		t.Helper()
		select {
		case <-hit:
		default:
			t.Fatal("the request never came")
		}
	}
}

// release lets a delayed request go on, and returns when the server has answered.
func (w *wire) release() {
	close(w.late)
	<-w.done
}

func (w *wire) struck(chunk []byte) (f fate, late, done chan struct{}, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mark == nil || !bytes.Contains(chunk, w.mark) {
		return 0, nil, nil, false
	}
	w.mark = nil
	close(w.hit)
	return w.fate, w.late, w.done, true
}

func (w *wire) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		return
	}
	defer server.Close()
	answers := make(chan struct{}) // closed when the server's side has ended
	var mu sync.Mutex
	mute := false
	muted := make(chan struct{})
	go func() {
		defer close(answers)
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			mu.Lock()
			silent := mute
			mu.Unlock()
			if silent {
				close(muted)
				return
			}
			if n > 0 {
				_, _ = client.Write(buf[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		f, late, done, ok := w.struck(buf[:n])
		if !ok {
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
			continue
		}
		mu.Lock()
		mute = true
		mu.Unlock()
		switch f {
		case loseRequest:
		case loseAnswer:
			_, _ = server.Write(buf[:n])
			<-muted
		case hangUp:
			_, _ = server.Write(buf[:n])
		case delayRequest:
			_ = client.Close()
			select {
			case <-late:
			case <-w.over:
				return
			}
			_, _ = server.Write(buf[:n])
			<-muted
			close(done)
		}
		_ = client.Close()
		if f == hangUp {
			_, _ = io.Copy(io.Discard, client)
			<-answers // the server finds nobody there
		}
		return
	}
}
