// Package webhooktest contains a webhook for the tests of a2aserver and its pushes.
package webhooktest

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"
)

// Posted is a request that a webhook received.
type Posted struct {
	Header http.Header
	Body   []byte
	Event  sdk.Event // nil if the body is not an event of protocol 1.0
}

// Receiver is a webhook. It sends each request to Got before it answers.
type Receiver struct {
	*httptest.Server
	Got chan Posted
}

// New starts a receiver that answers with the given handler, or with 200 if the handler is nil.
func New(t testing.TB, answer http.HandlerFunc) *Receiver {
	r := &Receiver{Got: make(chan Posted, 10_000)}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p := Posted{Header: req.Header}
		var err error
		p.Body, err = io.ReadAll(req.Body)
		var sr sdk.StreamResponse
		if err == nil && json.Unmarshal(p.Body, &sr) == nil {
			p.Event = sr.Event
		}
		r.Got <- p
		if answer != nil {
			answer(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// TLSConfig returns a configuration that trusts the receiver's certificate.
func (r *Receiver) TLSConfig() *tls.Config {
	return r.Client().Transport.(*http.Transport).TLSClientConfig
}

// Next returns the next request. It fails the test if none arrives within two minutes.
func (r *Receiver) Next(t testing.TB) Posted {
	t.Helper()
	select {
	case p := <-r.Got:
		return p
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "nothing was posted")
		return Posted{}
	}
}
