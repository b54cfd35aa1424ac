// Package webhooktest has a webhook for the tests of a2aserver and of its pushes.
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

// Posted is what a webhook got.
type Posted struct {
	Header http.Header
	Body   []byte
	Event  sdk.Event // nil if it is none of 1.0
}

// Receiver is a webhook. What it gets arrives in Got, before it answers.
type Receiver struct {
	*httptest.Server
	Got chan Posted
}

// New starts a receiver, which answers as told, and 200 without.
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

// TLSConfig trusts the receiver's certificate.
func (r *Receiver) TLSConfig() *tls.Config {
	return r.Client().Transport.(*http.Transport).TLSClientConfig
}

// Next returns what is posted next, and fails the test if nothing is for 20 seconds.
func (r *Receiver) Next(t testing.TB) Posted {
	t.Helper()
	select {
	case p := <-r.Got:
		return p
	case <-time.After(20 * time.Second):
		require.FailNow(t, "nothing was posted")
		return Posted{}
	}
}
