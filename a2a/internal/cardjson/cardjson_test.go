package cardjson_test

import (
	"strconv"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/testing/must"
)

func TestEveryRequiredFieldIsThere(t *testing.T) {
	got := must.Get(cardjson.Marshal(&sdk.AgentCard{
		SupportedInterfaces: []*sdk.AgentInterface{{URL: "https://a.example"}},
		Skills:              []sdk.AgentSkill{{ID: "x"}},
		Provider:            &sdk.AgentProvider{},
		SecuritySchemes: sdk.NamedSecuritySchemes{
			"key": sdk.APIKeySecurityScheme{}, "mtls": sdk.MutualTLSSecurityScheme{},
			"oauth": sdk.OAuth2SecurityScheme{Flows: sdk.ClientCredentialsOAuthFlow{}},
		},
		SecurityRequirements: sdk.SecurityRequirementsOptions{{"key": nil, "oauth": {"read", "write"}}, {}},
	}))
	require.JSONEq(t, `{
		"name": "", "description": "", "version": "",
		"supportedInterfaces": [{"url": "https://a.example", "protocolBinding": "", "protocolVersion": ""}],
		"provider": {"organization": "", "url": ""},
		"capabilities": {"streaming": false, "pushNotifications": false, "extendedAgentCard": false},
		"defaultInputModes": [], "defaultOutputModes": [],
		"skills": [{"id": "x", "name": "", "description": "", "tags": []}],
		"securitySchemes": {
			"key": {"apiKeySecurityScheme": {"location": "", "name": ""}},
			"mtls": {"mtlsSecurityScheme": {}},
			"oauth": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"scopes": {}, "tokenUrl": ""}}}}
		},
		"securityRequirements": [{"schemes": {"key": {}, "oauth": {"list": ["read", "write"]}}}, {}]
	}`, string(got))
	require.Error(t, must.Err(cardjson.Marshal(nil)))
}

func TestEveryFieldIsWritten(t *testing.T) {
	in := &sdk.AgentCard{
		Name: "<a & b>", Description: "d", Version: "1", DocumentationURL: "https://docs.example", IconURL: "https://icon.example",
		SupportedInterfaces: []*sdk.AgentInterface{{URL: "https://a.example", ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0", Tenant: "t"}},
		Provider:            &sdk.AgentProvider{Org: "o", URL: "https://o.example"},
		Capabilities: sdk.AgentCapabilities{Streaming: true, PushNotifications: true, ExtendedAgentCard: true,
			Extensions: []sdk.AgentExtension{{URI: "u", Description: "d", Required: true, Params: map[string]any{"a": []any{1.0}}}}},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		SecuritySchemes: sdk.NamedSecuritySchemes{
			"a": sdk.APIKeySecurityScheme{Name: "k", Location: "cookie", Description: "d"},
			"b": sdk.HTTPAuthSecurityScheme{Scheme: "Bearer", BearerFormat: "JWT"},
			"c": sdk.OpenIDConnectSecurityScheme{OpenIDConnectURL: "https://id.example"},
			"d": sdk.MutualTLSSecurityScheme{Description: "d"},
			"e": sdk.OAuth2SecurityScheme{Oauth2MetadataURL: "https://m.example", Flows: sdk.AuthorizationCodeOAuthFlow{
				AuthorizationURL: "https://a.example", TokenURL: "https://t.example", RefreshURL: "https://r.example", PKCERequired: true, Scopes: map[string]string{"s": "d"}}},
			"f": sdk.OAuth2SecurityScheme{Flows: sdk.DeviceCodeOAuthFlow{DeviceAuthorizationURL: "https://d.example", TokenURL: "https://t.example", Scopes: map[string]string{}}},
			"g": sdk.OAuth2SecurityScheme{Flows: sdk.ImplicitOAuthFlow{AuthorizationURL: "https://a.example", Scopes: map[string]string{"s": ""}}},
			"h": sdk.OAuth2SecurityScheme{Flows: sdk.PasswordOAuthFlow{TokenURL: "https://t.example", Scopes: map[string]string{"s": ""}}},
		},
		SecurityRequirements: sdk.SecurityRequirementsOptions{{"a": {}, "e": {"s"}}},
		Skills: []sdk.AgentSkill{{ID: "i", Name: "n", Description: "d", Tags: []string{"t"}, Examples: []string{"e"}, InputModes: []string{"text/plain"},
			OutputModes: []string{"text/plain"}, SecurityRequirements: sdk.SecurityRequirementsOptions{{"b": {}}}}},
		Signatures: []sdk.AgentCardSignature{{Protected: "p", Signature: "s", Header: map[string]any{"h": 1.0}}},
	}
	doc := must.Get(cardjson.Marshal(in))
	require.NotContains(t, string(doc), `\u003c`)
	tree := must.Get(cardjson.Parse(doc))
	require.Empty(t, cardjson.Unknown(tree), "the schema knows every field of the library's types")
}

func TestForms(t *testing.T) {
	doc := map[string]any{
		"name": "n", "description": "", "iconUrl": "", "documentationUrl": nil, "new": "", "signatures": []any{"x"},
		"capabilities": map[string]any{"streaming": false, "extensions": []any{map[string]any{"uri": "", "required": false, "params": map[string]any{}}}},
		"provider":     map[string]any{"url": "", "x": true},
		"skills":       "of the wrong type",
	}
	forms := cardjson.Forms(doc)
	require.Len(t, forms, 5)
	var got []string
	for _, f := range forms {
		b := must.Get(plainjson.Marshal(f.Tree))
		got = append(got, string(b))
	}
	common := `"capabilities":{"extensions":[{"params":{}}],"streaming":false},"defaultInputModes":[],"defaultOutputModes":[],"description":"","iconUrl":"","name":"n",`
	require.Equal(t, []string{
		`{` + common + `"new":"","provider":{"organization":"","url":"","x":true},"skills":"of the wrong type","supportedInterfaces":[],"version":""}`,
		`{"capabilities":{"streaming":false},"name":"n","provider":{"x":true},"skills":"of the wrong type"}`,
		`{"capabilities":{"extensions":[{"params":{},"required":false,"uri":""}],"streaming":false},"description":"","documentationUrl":null,"iconUrl":"","name":"n","new":"","provider":{"url":"","x":true},"skills":"of the wrong type"}`,
		`{` + common + `"provider":{"organization":"","url":""},"skills":"of the wrong type","supportedInterfaces":[],"version":""}`,
		`{"capabilities":{"streaming":false},"name":"n","skills":"of the wrong type"}`,
	}, got)
	require.Equal(t, []string{"new", "provider.x"}, cardjson.Unknown(doc))
	for i, lacks := range [][]string{nil, nil, nil, {"new", "provider.x"}, {"new", "provider.x"}} {
		require.Equal(t, lacks, forms[i].Missing)
	}
	require.Contains(t, doc, "signatures", "the document is not changed")

	forms = cardjson.Forms(map[string]any{"name": "n", "securitySchemes": map[string]any{"a": map[string]any{"mtlsSecurityScheme": map[string]any{"description": "d"}}}})
	require.Len(t, forms, 4)
	require.Equal(t, map[string]any{"name": "n"}, forms[3].Tree)
	require.Equal(t, []string{"securitySchemes"}, forms[3].Missing)
}

// Vectors of RFC 8785, sections 3.2.2 to 3.2.4 and appendix B.
func TestCanonicalForm(t *testing.T) {
	for in, want := range map[string]string{
		`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`:                                        `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`: "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		`{"n":[0,-0,5e-324,-5e-324,1.7976931348623157e308,9007199254740992,295147905179352830000,9.999999999999997e22,1e23,333333333.3333332,0.000001,1e-7,1e21,999999999999999900000]}`:                             `{"n":[0,0,5e-324,-5e-324,1.7976931348623157e+308,9007199254740992,295147905179352830000,9.999999999999997e+22,1e+23,333333333.3333332,0.000001,1e-7,1e+21,999999999999999900000]}`,
		`{"html":"<a href='x'>&\u2028\u2029\u007f</a>"}`: "{\"html\":\"<a href='x'>&\u2028\u2029\u007f</a>\"}",
	} {
		tree := must.Get(cardjson.Parse([]byte(in)))
		got := must.Get(cardjson.Canonical(tree))
		require.Equal(t, want, string(got))
	}
}

// A peer cannot keep the verifier of its card busy: the library alone takes minutes for 100,000 names.
func TestCanonicalFormOfManyNames(t *testing.T) {
	canonical := func(names int) func() {
		tree := make(map[string]any)
		for i := range names {
			tree[strconv.Itoa(i)] = i
		}
		return func() { must.Get(cardjson.Canonical(tree)) }
	}
	must.Scale(t, canonical(4_000), canonical(16_000))
}

func TestDocumentsThatAreRefused(t *testing.T) {
	for what, doc := range map[string]string{
		"empty": ``, "null": `null`, "list": `[]`, "text": `"x"`, "open": `{"a":`, "open list": `{"a":[`, "two": `{}{}`, "rest": `{}x`,
		"twice": `{"a":1,"a":1}`, "twice, escaped": `{"a":1,"\u0061":1}`, "not UTF-8": "{\"a\":\"\xc3\"}",
		"deep": `{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "large": `{"a":"` + strings.Repeat("x", 5<<20) + `"}`,
	} {
		require.ErrorIs(t, must.Err(cardjson.Parse([]byte(doc))), cardjson.ErrJSON, what)
	}
}

func FuzzForms(f *testing.F) {
	f.Add([]byte(`{"name":"a","securityRequirements":[{"schemes":{"x":{"list":["y"]}}}],"skills":[{"tags":null}],"capabilities":{"extensions":[{"params":{}}]}}`))
	f.Add([]byte(`{"securitySchemes":{"a":{"oauth2SecurityScheme":{"flows":{"implicit":{}}}},"b":null,"c":[]},"supportedInterfaces":[null]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		tree, err := cardjson.Parse(doc)
		if err != nil {
			return
		}
		// What was read can be written, and reads as before.
		written := must.Get(plainjson.Marshal(tree))
		again := must.Get(cardjson.Parse(written))
		require.Equal(t, tree, again)
		for _, form := range cardjson.Forms(tree) {
			require.NotContains(t, form.Tree, "signatures")
		}
	})
}
