package peersuite

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refuse has a specialist's server stopped, so that it turns messages away although its
// card can be had.
func refuse(t *testing.T, d *desk) {
	t.Helper()
	require.NoError(t, d.server.Close(context.Background()))
	d.grpc.Stop()
	served := d.front.Config.Handler
	d.front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "agent-card.json") {
			served.ServeHTTP(w, req)
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		http.Error(w, "closed for today", http.StatusServiceUnavailable)
	})
}

var callIDs = regexp.MustCompile(` #\S+`)

// withoutIDs takes the ids of calls out of an account, where models are not told them.
func withoutIDs(lines []string) []string {
	for i, l := range lines {
		lines[i] = callIDs.ReplaceAllString(l, " #")
	}
	return lines
}
