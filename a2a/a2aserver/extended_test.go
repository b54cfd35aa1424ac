package a2aserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// The extended card is that of the address by which a caller came, if the server does not
// know its own.
func TestExtendedCard(t *testing.T) {
	a, err := llmagent.New("a", "Greet.", scripted.New().Model("a"))
	require.NoError(t, err)
	auth, err := BearerTokens(map[string]string{"a-token-of-ann": "ann"})
	require.NoError(t, err)
	srv := httptest.NewServer(newTestServer(t, a, sessiontest.Memory(t), WithAuthenticator(auth)))
	defer srv.Close()
	get := func(token string) (*http.Response, map[string]any) {
		req, err := http.NewRequest(http.MethodGet, srv.URL+"/extendedAgentCard", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("A2A-Version", "1.0")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
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
}
