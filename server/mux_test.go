package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/server"
)

// TestJoinedAddresses: clients join an address that ends in a slash and a path that begins with one.
func TestJoinedAddresses(t *testing.T) {
	at := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, name, r.URL.EscapedPath()) })
	}
	h := server.Mux(server.At("/v1", at("api ")), server.At("", at("rest ")))
	for path, want := range map[string]string{"//v1/a": "api /v1/a", "/v1///a//": "api /v1/a/", "//v1/a%2F%2Fb": "api /v1/a%2F%2Fb", "//v10": "rest /v10", "/v1//..": "api /v1/.."} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, http.NoBody))
		require.Equal(t, want, w.Body.String(), path)
	}
}
