package a2aserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// A client that calls over gRPC does not say where HTTP is served. Its card has URLs of the host that it called, unless
// the server says which host it has.
func TestExtendedCardOfGRPC(t *testing.T) {
	a := must.Get(llmagent.New("a", "Greet.", scripted.New().Model("a")))
	auth := must.Get(BearerTokens(map[string]string{"a-token-of-ann": "ann"}))
	for local, c := range map[string]struct {
		called string
		rpc    string
		grpc   string
	}{
		"http://:8420":           {"agents.test:9000", "http://agents.test:8420/rpc", "agents.test:9000"},
		"https://:8420":          {"[::1]:9000", "https://[::1]:8420/rpc", "[::1]:9000"},
		"http://:8421":           {"a b/../c", "http://localhost:8421/rpc", "localhost:9000"},
		"http://10.1.2.3:8420":   {"agents.test:9000", "http://10.1.2.3:8420/rpc", "10.1.2.3:9000"},
		"http://10.1.2.3:8420/a": {"agents.test:9000", "http://10.1.2.3:8420/a/rpc", "10.1.2.3:9000"},
	} {
		s := newTestServer(t, a, sessiontest.Memory(t), WithAuthenticator(auth), WithLocalURL(local),
			WithInterface(sdk.AgentInterface{URL: ":9000", ProtocolBinding: sdk.TransportProtocolGRPC, ProtocolVersion: "1.0"}))
		ctx := must.Get(s.Authenticate(t.Context(), access.Credentials{Header: func(name string) []string {
			return map[string][]string{":authority": {c.called}, "Authorization": {"Bearer a-token-of-ann"}}[name]
		}}))
		card, err := s.RequestHandler().GetExtendedAgentCard(ctx, &sdk.GetExtendedAgentCardRequest{})
		require.NoError(t, err, local)
		require.Equal(t, c.rpc, card.SupportedInterfaces[0].URL)
		require.Equal(t, c.grpc, card.SupportedInterfaces[2].URL)
	}
	for _, wrong := range []string{"", ":8420", "http://agents.test", "ftp://:1"} {
		require.ErrorContains(t, must.Err(New(a, sessiontest.Memory(t), WithLocalURL(wrong))), "the local URL", wrong)
	}
}

// The extended card is that of the address by which a caller came, if the server does not
// know its own.
func TestExtendedCard(t *testing.T) {
	a := must.Get(llmagent.New("a", "Greet.", scripted.New().Model("a")))
	auth := must.Get(BearerTokens(map[string]string{"a-token-of-ann": "ann"}))
	srv := httptest.NewServer(newTestServer(t, a, sessiontest.Memory(t), WithAuthenticator(auth)))
	defer srv.Close()
	get := func(token string) (*http.Response, map[string]any) {
		req := must.Get(http.NewRequest(http.MethodGet, srv.URL+"/extendedAgentCard", nil))
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("A2A-Version", "1.0")
		resp := must.Get(http.DefaultClient.Do(req))
		defer resp.Body.Close()
		var card map[string]any
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&card))
		return resp, card
	}
	resp, card := get("a-token-of-ann")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "a", card["name"])
	require.Equal(t, srv.URL+"/rpc", card["supportedInterfaces"].([]any)[0].(map[string]any)["url"])
	resp, _ = get("another")
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	_, err := newTestServer(t, a, sessiontest.Memory(t)).RequestHandler().GetExtendedAgentCard(t.Context(), &sdk.GetExtendedAgentCardRequest{})
	require.ErrorIs(t, err, sdk.ErrUnsupportedOperation, "it shows its card to everybody")
}
