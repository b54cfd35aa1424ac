package sdkgaps

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"

	"github.com/agentarbor/arbor/internal/testing/must"
)

func TestScopesOfCardsAreArrays(t *testing.T) {
	data := must.Get(json.Marshal(&sdk.AgentCard{SecurityRequirements: sdk.SecurityRequirementsOptions{{"oauth": {"read"}}}}))
	mended(t, !strings.Contains(string(data), `{"list":["read"]}`), "writes the scopes of security requirements as objects",
		"scopesAsObjects of a2a/internal/cardjson")
}

func TestRequiredFieldsOfCardsAreDropped(t *testing.T) {
	data := must.Get(json.Marshal(&sdk.AgentCard{Provider: &sdk.AgentProvider{}}))
	card := must.JSON[struct{ Capabilities map[string]any }](data)
	_, there := card.Capabilities["streaming"]
	mended(t, !there, "writes fields of cards that are empty", "the capabilities in Tree of a2a/internal/cardjson")
}

func TestCardsOf03AreReadWithoutInterfaces(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"name":"n","url":"https://a.example","protocolVersion":"0.3.0","preferredTransport":"JSONRPC"}`))
	}))
	defer s.Close()
	card, err := agentcard.NewResolver(s.Client()).Resolve(t.Context(), s.URL)
	mended(t, err == nil && len(card.SupportedInterfaces) == 0, "refuses or understands cards of 0.3", "what a2a/card.go does for them")
}
