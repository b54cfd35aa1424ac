package a2av0_test

import (
	"encoding/json"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/internal/testing/must"
)

func encodeCard() *sdk.AgentCard {
	return &sdk.AgentCard{Name: "Support", Description: "Helps", Version: "2",
		SupportedInterfaces: []*sdk.AgentInterface{
			{URL: "https://a.example/rpc", ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"},
			{URL: "https://a.example", ProtocolBinding: "HTTP+JSON", ProtocolVersion: "1.0"},
			{URL: "https://a.example/rpc", ProtocolBinding: "JSONRPC", ProtocolVersion: "0.3"},
		},
		Capabilities:      sdk.AgentCapabilities{Streaming: true, ExtendedAgentCard: true, Extensions: []sdk.AgentExtension{{URI: "https://e.example"}}},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []sdk.AgentSkill{{ID: "s", Name: "s", Description: "d", Tags: []string{"t"}, SecurityRequirements: sdk.SecurityRequirementsOptions{{"bearer": {}}}}},
		SecuritySchemes: sdk.NamedSecuritySchemes{"key": sdk.APIKeySecurityScheme{Location: "header", Name: "X-Key"}, "bearer": sdk.HTTPAuthSecurityScheme{Scheme: "Bearer"},
			"oauth": sdk.OAuth2SecurityScheme{Flows: sdk.ClientCredentialsOAuthFlow{TokenURL: "https://t.example", Scopes: map[string]string{"read": "Reads"}}},
			"mtls":  sdk.MutualTLSSecurityScheme{}, "oidc": sdk.OpenIDConnectSecurityScheme{OpenIDConnectURL: "https://o.example"}},
		SecurityRequirements: sdk.SecurityRequirementsOptions{{"oauth": {"read"}}, {"key": {}}}}
}

// One document for both: a reader of 1.0 gets what it would get alone, and one of 0.3 its own
// interface.
func TestCardForBoth(t *testing.T) {
	doc := must.Get(a2av0.Card(encodeCard()))
	alone := must.Get(cardjson.Marshal(encodeCard()))
	want := must.Get(cardjson.Parse(alone))
	got := must.Get(cardjson.Parse(doc))
	require.Equal(t, cardjson.Forms(want)[0].Tree, cardjson.Forms(got)[3].Tree, "without the fields that 1.0 does not know")

	card := must.JSON[old.AgentCard](doc)
	require.Equal(t, "https://a.example/rpc", card.URL)
	require.Equal(t, old.TransportProtocolJSONRPC, card.PreferredTransport)
	require.Equal(t, "0.3.0", card.ProtocolVersion)
	require.Equal(t, []old.AgentInterface{{URL: "https://a.example/rpc", Transport: "JSONRPC"}}, card.AdditionalInterfaces)
	require.True(t, card.SupportsAuthenticatedExtendedCard)
	require.True(t, card.Capabilities.Streaming)
	require.Equal(t, []old.SecurityRequirements{{"oauth": {"read"}}, {"key": {}}}, card.Security)
	require.Equal(t, []old.SecurityRequirements{{"bearer": {}}}, card.Skills[0].Security)
	require.Equal(t, old.APIKeySecurityScheme{In: "header", Name: "X-Key"}, card.SecuritySchemes["key"])
	require.Equal(t, old.HTTPAuthSecurityScheme{Scheme: "Bearer"}, card.SecuritySchemes["bearer"])
	require.Equal(t, "https://t.example", card.SecuritySchemes["oauth"].(old.OAuth2SecurityScheme).Flows.ClientCredentials.TokenURL)
	require.Len(t, card.SecuritySchemes, 5)

	var types struct {
		SecuritySchemes map[string]struct{ Type string }
	}
	require.NoError(t, json.Unmarshal(doc, &types))
	for name, kind := range map[string]string{"key": "apiKey", "bearer": "http", "oauth": "oauth2", "mtls": "mutualTLS", "oidc": "openIdConnect"} {
		require.Equal(t, kind, types.SecuritySchemes[name].Type)
	}
	parsed := must.Get(a2av0.ParseCard(doc))
	require.Len(t, parsed.SupportedInterfaces, 3)

	without := encodeCard()
	without.SupportedInterfaces = without.SupportedInterfaces[:2]
	require.Error(t, must.Err(a2av0.Card(without)))
}

// The extended card is for 0.3 as well.
func TestExtendedCard(t *testing.T) {
	srv := serve(t, &stub{card: encodeCard()})
	answer, _ := post(t, srv.URL, call("agent/getAuthenticatedExtendedCard", `{}`))
	got := must.JSON[struct{ Result old.AgentCard }](answer)
	require.Equal(t, "https://a.example/rpc", got.Result.URL)
	require.Equal(t, "0.3.0", got.Result.ProtocolVersion)
}
