package openai

import (
	"context"
	"net"
	"net/http"
)

// prepareHTTP returns a copy of the client, or a new client, that follows no redirects.
func prepareHTTP(given *http.Client) *http.Client {
	var h http.Client
	if given != nil {
		h = *given
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.MaxIdleConnsPerHost = 32 // all calls go to one host
		// A connection keeps its buffers while an answer streams, in pieces of some hundred bytes.
		t.WriteBufferSize, t.ReadBufferSize = 1<<10, 2<<10
		t.DialContext = endWithAttempt(t.DialContext)
		h.Transport = t
	}
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &h
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// endWithAttempt ends a dial together with its attempt. The transport would otherwise continue it in the background for
// later requests.
func endWithAttempt(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
			dialCtx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(a.ctx, cancel)()
			ctx = dialCtx
		}
		return dial(ctx, network, addr)
	}
}
