package jspeers_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// keys makes a key of each kind that cards are signed with.
func keys(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	made := make(map[string]crypto.Signer)
	for name, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key := must.Get(ecdsa.GenerateKey(curve, rand.Reader))
		made[name] = key
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	made["EdDSA"] = ed
	rsaKey := must.Get(rsa.GenerateKey(rand.Reader, 2048))
	made["RS256"] = rsaKey
	return made
}

func jwk(t *testing.T, key any, alg string) json.RawMessage {
	t.Helper()
	return must.Get(jose.JSONWebKey{Key: key, KeyID: "k1", Algorithm: alg, Use: "sig"}.MarshalJSON())
}

// cards are cards with little in them, with much, and with fields of 0.3.
func cards(t *testing.T, sign *cardsign.Signer) map[string][]byte {
	t.Helper()
	small := &sdk.AgentCard{Name: "Billing", Description: "Explains charges – über alles & <all>.", Version: "1",
		SupportedInterfaces: []*sdk.AgentInterface{sdk.NewAgentInterface("https://a.test/rpc", sdk.TransportProtocolJSONRPC)}}
	large := &sdk.AgentCard{Name: "Billing", Version: "1.2.3", Provider: &sdk.AgentProvider{Org: "Example", URL: "https://a.test"},
		SupportedInterfaces: []*sdk.AgentInterface{{URL: "https://a.test", ProtocolBinding: sdk.TransportProtocolHTTPJSON, Tenant: "eu", ProtocolVersion: "1.0"}},
		Capabilities: sdk.AgentCapabilities{Streaming: true, Extensions: []sdk.AgentExtension{{URI: "https://a.test/e", Required: true,
			Params: map[string]any{"depth": 3.5, "large": 1e21, "list": []any{1, nil, ""}, "none": map[string]any{}}}}},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain", "application/json"},
		SecuritySchemes: sdk.NamedSecuritySchemes{"bearer": sdk.HTTPAuthSecurityScheme{Scheme: "Bearer"}, "mtls": sdk.MutualTLSSecurityScheme{},
			"oauth": sdk.OAuth2SecurityScheme{Flows: sdk.ClientCredentialsOAuthFlow{TokenURL: "https://a.test/token", Scopes: map[string]string{"read": ""}}}},
		SecurityRequirements: sdk.SecurityRequirementsOptions{{"bearer": {}}, {"oauth": {"read"}, "mtls": {}}},
		Skills:               []sdk.AgentSkill{{ID: "charges", Name: "Charges", Description: "Explains charges.", Tags: []string{"billing"}}}}
	made := make(map[string][]byte)
	for name, card := range map[string]*sdk.AgentCard{"small": small, "large": large} {
		plain := must.Get(cardjson.Marshal(card))
		fields := must.JSON[map[string]any](plain)
		fields["url"], fields["preferredTransport"], fields["protocolVersion"] = "https://a.test/rpc", "JSONRPC", "0.3.0"
		both := must.Get(json.Marshal(fields))
		made[name+" with 0.3"] = must.Get(sign.SignJSON(both))
		require.NoError(t, sign.Sign(card))
		made[name] = must.Get(cardjson.Marshal(card))
	}
	return made
}

// A card that was signed here is verified by the JavaScript SDK, whatever is in it,
// and not if something was changed on its way.
func TestCardSignedHereIsVerifiedThere(t *testing.T) {
	t.Parallel()
	c := newCaller(t, "client.mjs")
	for alg, key := range keys(t) {
		signer := must.Get(cardsign.NewSigner(key, cardsign.WithKeyID("k1")))
		for name, card := range cards(t, signer) {
			verify := map[string]any{"card": json.RawMessage(card), "jwk": jwk(t, key.Public(), alg)}
			require.NoError(t, c.call(target{}, "verify", verify, nil), "%s %s: %s", alg, name, card)
			if !strings.HasPrefix(name, "large") {
				// A card that it has parsed loses its security schemes before the SDK
				// verifies it (as of 1.3.0), and so looks forged.
				verify["parsed"] = true
				require.NoError(t, c.call(target{}, "verify", verify, nil), "%s %s: %s", alg, name, card)
			}
			changed := bytes.Replace(card, []byte("https://a.test"), []byte("https://b.test"), 1)
			require.NotEqual(t, card, changed)
			verify["card"] = json.RawMessage(changed)
			require.ErrorContains(t, c.call(target{}, "verify", verify, nil), "No valid signatures", "%s %s", alg, name)
		}
	}
}

// The cards that a server gives out are signed.
func TestServedCardIsVerifiedThere(t *testing.T) {
	t.Parallel()
	c := newCaller(t, "client.mjs")
	tokens := must.Get(a2aserver.BearerTokens(map[string]string{"ann-token": "ann"}))
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	signer := must.Get(cardsign.NewSigner(key, cardsign.WithKeyID("k1")))
	at := serve(t, support(t), a2aserver.WithAuthenticator(tokens), a2aserver.WithTenant("shop", tenant(t)), a2aserver.WithCard(a2aserver.CardOptions{Signer: signer})).url
	who := map[string]string{"Authorization": "Bearer ann-token", "A2A-Version": "1.0"}
	for _, path := range []string{cardPath, "/shop" + cardPath, "/extendedAgentCard", "/shop/extendedAgentCard"} {
		a := c.fetch("GET", at+path, who, nil)
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		verify := map[string]any{"card": json.RawMessage(a.Body), "jwk": jwk(t, key.Public(), "ES256")}
		require.NoError(t, c.call(target{}, "verify", verify, nil), "%s: %s", path, a.Body)
		verify["card"] = json.RawMessage(strings.ReplaceAll(a.Body, at, "http://elsewhere.test"))
		require.ErrorContains(t, c.call(target{}, "verify", verify, nil), "No valid signatures")
	}
}

// A card that the JavaScript SDK signed is verified here.
func TestCardSignedThereIsVerifiedHere(t *testing.T) {
	t.Parallel()
	c := newCaller(t, "client.mjs")
	for alg, key := range keys(t) {
		verifier := must.Get(cardsign.NewVerifier(cardsign.Key{ID: "k1", Public: key.Public()}))
		for name, card := range map[string]map[string]any{
			"small": {"name": "Billing", "description": "Explains charges – über alles.", "version": "1", "capabilities": map[string]any{"streaming": true},
				"supportedInterfaces": []any{map[string]any{"url": "https://a.test/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
				"defaultInputModes":   []any{"text/plain"}, "defaultOutputModes": []any{"text/plain"},
				"skills": []any{map[string]any{"id": "charges", "name": "Charges", "description": "Explains", "tags": []any{"a"}}}},
			"with much that is empty": {"name": "Billing", "description": "", "version": "1", "capabilities": map[string]any{"streaming": false, "extensions": []any{
				map[string]any{"uri": "https://x.test/e", "required": false, "params": map[string]any{"n": 1.5e3, "empty": "", "list": []any{}}}}},
				"supportedInterfaces": []any{map[string]any{"url": "https://a.test/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": ""}},
				"defaultInputModes":   []any{}, "defaultOutputModes": []any{}, "skills": []any{},
				"securitySchemes":      map[string]any{"bearer": map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "Bearer"}}, "tls": map[string]any{"mtlsSecurityScheme": map[string]any{}}},
				"securityRequirements": []any{map[string]any{"schemes": map[string]any{"bearer": map[string]any{"list": []any{}}}}}},
		} {
			for _, parsed := range []bool{false, true} {
				var signed json.RawMessage
				require.NoError(t, c.call(target{}, "sign", map[string]any{"card": card, "jwk": jwk(t, key, alg), "parsed": parsed,
					"header": map[string]any{"alg": alg, "kid": "k1", "typ": "JOSE"}}, &signed))
				err := verifier.Verify(t.Context(), signed)
				if parsed && card["securitySchemes"] != nil {
					// Of a card that it has parsed, the SDK does not sign the security
					// schemes: they could be anybody's.
					var unsigned *cardsign.UnsignedFieldsError
					require.ErrorAs(t, err, &unsigned)
					require.Equal(t, []string{"securitySchemes"}, unsigned.Fields)
					err = verifier.AllowUnsigned("securitySchemes").Verify(t.Context(), signed)
				}
				require.NoError(t, err, "%s %s: %s", alg, name, signed)
				changed := bytes.Replace(signed, []byte("Billing"), []byte("Shilling"), 1)
				require.ErrorIs(t, verifier.Verify(t.Context(), changed), cardsign.ErrUnverified)
			}
		}
	}
}
