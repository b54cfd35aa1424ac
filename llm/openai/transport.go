package openai

import (
	"context"
	"net"
	"net/http"
)

// prepareHTTP copies a client so that it follows no redirects, or makes one.
func prepareHTTP(given *http.Client) *http.Client {
	var h http.Client
	if given != nil {
		h = *given
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.MaxIdleConnsPerHost = 32 // all calls go to one host
		t.DialContext = endWithAttempt(t.DialContext)
		h.Transport = t
	}
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &h
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// endWithAttempt makes a dial end with the attempt that asked for it. The
// transport would let it go on in the background, for later requests to use.
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
