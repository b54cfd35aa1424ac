package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// A tree in one process is a specialist in another's, by its address and its token.
func TestServeIsRemoteAgent(t *testing.T) {
	t.Parallel()
	s := invocation{}.serveWith(t, desk, "--token-file", file(t, "token", token+"\n"), "--db", ":memory:")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "far.md"), []byte("---\ndescription: Everything\na2a: $FAR\nauth: {bearer: $FAR_TOKEN}\n---\n"), 0o644))
	i := invocation{home: t.TempDir(), env: []string{"FAR=" + s.base, "FAR_TOKEN=" + token}}
	got := i.run(t, "run", dir, "an invoice shows two charges", "--session", "s1").exits(t, 0)
	require.Contains(t, got.out, "far: I am the offline model")
	i.env[1] = "FAR_TOKEN=wrong"
	got = i.run(t, "run", dir, "and now?", "--session", "s1").exits(t, cli.StatusFailed)
	require.Contains(t, got.err, "401")
	require.Equal(t, 0, s.stop(os.Interrupt))
	require.NotContains(t, s.said.String()+got.err, token)
}

// With --grpc the card names one interface more, and remote agents of files can use it.
func TestServeGRPC(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--grpc", "127.0.0.1:0", "--db", ":memory:")
	card := s.card("GRPC")
	require.Len(t, card.SupportedInterfaces, 1)
	at := "http://" + card.SupportedInterfaces[0].URL // which is an address, as gRPC has them
	require.True(t, strings.HasPrefix(at, "http://127.0.0.1:"), at)
	extended := extendedOverGRPC(t, card.SupportedInterfaces[0].URL)
	require.Equal(t, card.SupportedInterfaces[0].URL, extended["GRPC"])
	require.Equal(t, s.base+"/rpc", extended["JSONRPC"], "without --url, too")
	only := serveCard(t, map[string]any{"name": card.Name, "description": "", "version": "1", "capabilities": map[string]any{"streaming": true},
		"supportedInterfaces": card.SupportedInterfaces, "defaultInputModes": []string{}, "defaultOutputModes": []string{}, "skills": []any{}})
	dir := t.TempDir()
	front := fmt.Sprintf("---\na2a: $FAR\nauth: {bearer: $FAR_TOKEN, origins: [%q]}\n---\n", at)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "far.md"), []byte(front), 0o644))
	got := invocation{env: []string{"FAR=" + only, "FAR_TOKEN=" + token}}.run(t, "run", dir, "an invoice shows two charges", "--db", ":memory:").exits(t, 0)
	require.Contains(t, got.out, "far: I am the offline model")
	got = invocation{env: []string{"FAR=" + only, "FAR_TOKEN=wrong"}}.run(t, "run", dir, "hello", "--db", ":memory:")
	require.Equal(t, cli.StatusFailed, got.status, got.out)
	require.Contains(t, got.err, "remote_unauthorized")
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// extendedOverGRPC returns the URLs of the extended card that the owner gets over gRPC, by their bindings.
func extendedOverGRPC(t *testing.T, address string) map[string]string {
	t.Helper()
	conn := must.Get(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	card := must.Get(pb.NewA2AServiceClient(conn).GetExtendedAgentCard(ctx, &pb.GetExtendedAgentCardRequest{}))
	urls := make(map[string]string)
	for _, i := range card.GetSupportedInterfaces() {
		urls[i.GetProtocolBinding()] = i.GetUrl()
	}
	return urls
}

// serveCard serves a card at a host of its own, whose address it returns.
func serveCard(t *testing.T, card map[string]any) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(card) }))
	t.Cleanup(s.Close)
	return s.URL
}

// With --a2a03 clients of version 0.3 are answered beside those of 1.0, and remote agents
// of files can be of that version.
func TestServeOldProtocol(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--a2a03", "--db", ":memory:")
	require.Contains(t, s.send("hello").words(), "I am the offline model")
	status, body := s.call("POST", "/rpc", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"text","text":"hello"}]}}}`)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"kind":"task"`)
	require.Contains(t, body, `"state":"completed"`)

	status, body = s.call("GET", "/.well-known/agent.json", "")
	require.Equal(t, 200, status)
	card := must.JSON[map[string]any](body)
	require.Equal(t, s.base+"/rpc", card["url"])
	delete(card, "supportedInterfaces") // as those have it who know of no other version
	dir := t.TempDir()
	front := fmt.Sprintf("---\na2a: $FAR\nauth: {bearer: $FAR_TOKEN, origins: [%q]}\n---\n", s.base)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "far.md"), []byte(front), 0o644))
	got := invocation{env: []string{"FAR=" + serveCard(t, card), "FAR_TOKEN=" + token}}.run(t, "run", dir, "an invoice shows two charges", "--db", ":memory:").exits(t, 0)
	require.Contains(t, got.out, "far: I am the offline model")
	require.Equal(t, 0, s.stop(os.Interrupt))
}
