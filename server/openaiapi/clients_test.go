package openaiapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/server/internal/peers"
)

// TestRetriesOfClients: the official clients repeat by themselves a request whose connection breaks in the middle of
// its turn. That is the same turn, and its model is asked once.
func TestRetriesOfClients(t *testing.T) {
	for _, peer := range []string{"node", "python"} {
		t.Run(peer, func(t *testing.T) {
			var program, script string
			if peer == "node" {
				program, script = peers.OpenAI().Node(t, "chat.mjs")
			} else {
				program, script = peers.OpenAI().Python(t, "chat.py")
			}
			d := newDesk(t)
			w := newWorld(t, d.root)
			broken := make(chan struct{})
			url := loopback(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Stainless-Retry-Count") != "0" {
					w.ServeHTTP(out, r)
					return
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				ctx, hangUp := context.WithCancel(context.Background())
				first := r.Clone(ctx)
				first.Body = io.NopCloser(bytes.NewReader(body))
				go func() {
					w.ServeHTTP(httptest.NewRecorder(), first)
					close(broken)
				}()
				<-d.thinks
				hangUp()
				conn, _, err := http.NewResponseController(out).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.Close() // which the client notices
				d.free <- struct{}{}
			}))
			var got [][]told
			peers.Run(t, []conversation{{Base: url + "/v1", Model: "support", Retries: 2, Says: []string{"think"}}}, &got, program, script)
			<-broken
			require.Nil(t, got[0][0].Error, "%+v", got[0][0].Error)
			require.Equal(t, "Let me think.", got[0][0].Content)
			require.Empty(t, d.thinks, "its model was asked once")
			require.Equal(t, []string{"think"}, w.words(got[0][0].Session))
		})
	}
}
