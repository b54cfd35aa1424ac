package cardsign_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/testing/must"
)

func testCard() *sdk.AgentCard {
	return &sdk.AgentCard{
		Name: "support", Description: "Helps <customers> & friends – über alles", Version: "1.2.3",
		SupportedInterfaces: []*sdk.AgentInterface{
			sdk.NewAgentInterface("https://agents.example.com/rpc", sdk.TransportProtocolJSONRPC),
			{URL: "https://agents.example.com", ProtocolBinding: sdk.TransportProtocolHTTPJSON, Tenant: "eu", ProtocolVersion: "1.0"},
		},
		Provider: &sdk.AgentProvider{Org: "Example", URL: "https://example.com"},
		Capabilities: sdk.AgentCapabilities{Streaming: true, Extensions: []sdk.AgentExtension{
			{URI: "https://example.com/ext", Description: "More", Params: map[string]any{"depth": 3.5, "n": []any{1.0, nil, ""}}},
		}},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain", "application/json"},
		SecuritySchemes: sdk.NamedSecuritySchemes{
			"bearer": sdk.HTTPAuthSecurityScheme{Scheme: "Bearer"},
			"oauth": sdk.OAuth2SecurityScheme{Flows: sdk.ClientCredentialsOAuthFlow{
				TokenURL: "https://example.com/token", Scopes: map[string]string{"read": "to read"},
			}},
			"mtls": sdk.MutualTLSSecurityScheme{},
		},
		SecurityRequirements: sdk.SecurityRequirementsOptions{{"bearer": {}}, {"oauth": {"read"}, "mtls": {}}},
		Skills:               []sdk.AgentSkill{{ID: "support", Name: "support", Description: "All", Tags: []string{"support"}}},
	}
}

func ecKey(t testing.TB, c elliptic.Curve) *ecdsa.PrivateKey {
	return must.Get(ecdsa.GenerateKey(c, rand.Reader))
}

func signed(t testing.TB, key crypto.Signer, card *sdk.AgentCard, opts ...cardsign.SignerOption) (*cardsign.Signer, []byte) {
	s := must.Get(cardsign.NewSigner(key, opts...))
	require.NoError(t, s.Sign(card))
	doc := must.Get(cardjson.Marshal(card))
	return s, doc
}

func verifier(t testing.TB, keys ...cardsign.Key) *cardsign.Verifier {
	return must.Get(cardsign.NewVerifier(keys...))
}

// broken is a key that gives something else for a signature.
type broken struct {
	crypto.Signer
	signature []byte
}

func (b broken) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) { return b.signature, nil }

// A key that lives elsewhere may give anything for a signature. The card stays as it was.
func TestNoSignature(t *testing.T) {
	numbers := func(r, s *big.Int) []byte {
		der, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
		require.NoError(t, err)
		return der
	}
	huge := new(big.Int).Lsh(big.NewInt(1), 4096)
	for name, signature := range map[string][]byte{"nothing": nil, "no ASN.1": []byte("signature"), "numbers that are too large": numbers(huge, huge),
		"zeros": numbers(new(big.Int), new(big.Int)), "numbers of something else": numbers(big.NewInt(7), big.NewInt(7))} {
		s := must.Get(cardsign.NewSigner(broken{ecKey(t, elliptic.P256()), signature}))
		c := testCard()
		require.ErrorContains(t, s.Sign(c), "the key returned an invalid ECDSA signature", name)
		require.Empty(t, c.Signatures)
	}
}

// remote is a key that only its interface is known of, as in a key management
// service.
type remote struct{ crypto.Signer }

func TestEveryKindOfKey(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	rs := must.Get(rsa.GenerateKey(rand.Reader, 2048))
	for alg, key := range map[string]crypto.Signer{
		"ES256": ecKey(t, elliptic.P256()), "ES384": ecKey(t, elliptic.P384()), "ES512": ecKey(t, elliptic.P521()),
		"EdDSA": ed, "RS256": rs,
	} {
		t.Run(alg, func(t *testing.T) {
			for _, key := range []crypto.Signer{key, remote{key}} {
				card := testCard()
				s, doc := signed(t, key, card, cardsign.WithKeySetURL("https://example.com/keys"))
				require.NoError(t, verifier(t, s.Key()).Verify(t.Context(), doc))

				header := protectedOf(t, card.Signatures[0])
				require.Equal(t, alg, header["alg"])
				require.Equal(t, "JOSE", header["typ"])
				require.Equal(t, s.Key().ID, header["kid"])
				require.Equal(t, "https://example.com/keys", header["jku"])
				require.Len(t, header, 4)

				// The key by way of a key set.
				published := must.Get(cardsign.KeySet(s.Key()))
				set := must.JSON[jose.JSONWebKeySet](published)
				require.Len(t, set.Keys, 1)
				require.Equal(t, "sig", set.Keys[0].Use)
				require.Equal(t, alg, set.Keys[0].Algorithm)
				require.NoError(t, verifier(t, cardsign.Key{ID: set.Keys[0].KeyID, Public: set.Keys[0].Key}).Verify(t.Context(), doc))
			}
		})
	}
}

func protectedOf(t testing.TB, s sdk.AgentCardSignature) (header map[string]any) {
	b, err := base64.RawURLEncoding.DecodeString(s.Protected)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &header))
	return header
}

func TestEqualCardsHaveEqualSignatures(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	_, a := signed(t, key, testCard())
	_, b := signed(t, key, testCard())
	require.Equal(t, string(a), string(b))
}

func TestPEM(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	pkcs8 := must.Get(x509.MarshalPKCS8PrivateKey(key))
	sec1 := must.Get(x509.MarshalECPrivateKey(key))
	for kind, der := range map[string][]byte{"PRIVATE KEY": pkcs8, "EC PRIVATE KEY": sec1} {
		s := must.Get(cardsign.NewSignerPEM(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), cardsign.WithKeyID("k")))
		require.Equal(t, "k", s.Key().ID)
		require.True(t, key.PublicKey.Equal(s.Key().Public))
	}
	for _, bad := range []string{
		"", "nonsense", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})),
		string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: pkcs8})),
	} {
		_, err := cardsign.NewSignerPEM([]byte(bad))
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestKeysThatAreNotUsed(t *testing.T) {
	small := must.Get(rsa.GenerateKey(rand.Reader, 1024))
	for _, key := range []crypto.Signer{nil, small, ecKey(t, elliptic.P224())} {
		require.Error(t, must.Err(cardsign.NewSigner(key)))
	}
	for _, key := range []crypto.PublicKey{nil, []byte("shared secret"), &small.PublicKey, ed25519.PublicKey("short"), (*ecdsa.PublicKey)(nil)} {
		require.Error(t, must.Err(cardsign.NewVerifier(cardsign.Key{ID: "k", Public: key})))
	}
	require.Error(t, must.Err(cardsign.NewVerifier()))
	require.Error(t, must.Err(cardsign.NewVerifierFunc(nil)))
	key := ecKey(t, elliptic.P256())
	for _, jku := range []string{"http://example.com/keys", "keys.json", "https://me:secret@example.com/keys"} {
		_, err := cardsign.NewSigner(key, cardsign.WithKeySetURL(jku))
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret")
	}
	require.Error(t, must.Err(cardsign.KeySet(cardsign.Key{ID: "k", Public: []byte("shared secret")})))
}

func TestUnknownKeysAndUnsignedCards(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	_, doc := signed(t, key, testCard(), cardsign.WithKeyID("new"))
	err := verifier(t, cardsign.Key{ID: "old", Public: key.Public()}).Verify(t.Context(), doc)
	require.ErrorIs(t, err, cardsign.ErrUnverified)
	require.ErrorIs(t, err, cardsign.ErrUnknownKey)
	require.ErrorContains(t, err, `"new"`)

	// The right id, and another key.
	err = verifier(t, cardsign.Key{ID: "new", Public: ecKey(t, elliptic.P256()).Public()}).Verify(t.Context(), doc)
	require.ErrorIs(t, err, cardsign.ErrUnverified)
	require.NotErrorIs(t, err, cardsign.ErrUnknownKey)
	// Of several keys with one id, one is right.
	require.NoError(t, verifier(t, cardsign.Key{ID: "new", Public: ecKey(t, elliptic.P256()).Public()},
		cardsign.Key{ID: "new", Public: key.Public()}).Verify(t.Context(), doc))

	plain := must.Get(cardjson.Marshal(testCard()))
	v := verifier(t, cardsign.Key{ID: "new", Public: key.Public()})
	require.ErrorIs(t, v.Verify(t.Context(), plain), cardsign.ErrUnsigned)
	for _, bad := range []string{
		``, `[]`, `null`, `{`, `{} {}`, `{"name":"a","name":"b"}`, "{\"name\":\"\xff\"}", `{"signatures":{}}`,
		`{"signatures":[{}]}`, `{"signatures":[null]}`, `{"version":1e999,"signatures":[{}]}`,
	} {
		require.Error(t, v.Verify(t.Context(), []byte(bad)), bad)
	}
}

func TestLookup(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	_, doc := signed(t, key, testCard(), cardsign.WithKeyID("k"), cardsign.WithKeySetURL("https://example.com/keys"))
	var asked []string
	v := must.Get(cardsign.NewVerifierFunc(func(_ context.Context, kid, jku string) (crypto.PublicKey, error) {
		asked = append(asked, kid, jku)
		return key.Public(), nil
	}))
	require.NoError(t, v.Verify(t.Context(), doc))
	require.Equal(t, []string{"k", "https://example.com/keys"}, asked)

	down := errors.New("the key server is down")
	v = must.Get(cardsign.NewVerifierFunc(func(context.Context, string, string) (crypto.PublicKey, error) { return nil, down }))
	require.ErrorIs(t, v.Verify(t.Context(), doc), down)

	ctx, cancel := context.WithCancelCause(t.Context())
	v = must.Get(cardsign.NewVerifierFunc(func(context.Context, string, string) (crypto.PublicKey, error) {
		cancel(io.ErrClosedPipe)
		return nil, down
	}))
	require.ErrorIs(t, v.Verify(ctx, doc), io.ErrClosedPipe)

	// A lookup may return what is no key.
	v = must.Get(cardsign.NewVerifierFunc(func(context.Context, string, string) (crypto.PublicKey, error) { return []byte("x"), nil }))
	require.ErrorIs(t, v.Verify(t.Context(), doc), cardsign.ErrUnverified)
}

func TestSeveralSignatures(t *testing.T) {
	old, next := ecKey(t, elliptic.P256()), ecKey(t, elliptic.P384())
	card := testCard()
	a, _ := signed(t, old, card, cardsign.WithKeyID("old"))
	b, doc := signed(t, next, card, cardsign.WithKeyID("new"))
	require.NoError(t, verifier(t, a.Key()).Verify(t.Context(), doc))
	require.NoError(t, verifier(t, b.Key()).Verify(t.Context(), doc))

	// No more are looked at than a few, and the error says so.
	for range 16 {
		card.Signatures = append([]sdk.AgentCardSignature{card.Signatures[0]}, card.Signatures...)
	}
	doc = must.Get(cardjson.Marshal(card))
	require.NoError(t, verifier(t, a.Key()).Verify(t.Context(), doc))
	err := verifier(t, b.Key()).Verify(t.Context(), doc)
	require.ErrorIs(t, err, cardsign.ErrUnverified)
	require.ErrorContains(t, err, "only the first 16")
}

// edit changes the tree of a document.
func edit(t testing.TB, doc []byte, change func(m map[string]any)) []byte {
	m := must.Get(cardjson.Parse(doc))
	change(m)
	return must.Get(plainjson.Marshal(m))
}

func TestEveryFieldIsCovered(t *testing.T) {
	s, doc := signed(t, ecKey(t, elliptic.P256()), testCard())
	v := verifier(t, s.Key())
	for what, change := range map[string]func(m map[string]any){
		"name":       func(m map[string]any) { m["name"] = "other" },
		"no version": func(m map[string]any) { delete(m, "version") },
		"url":        func(m map[string]any) { first(m, "supportedInterfaces")["url"] = "https://evil.example/rpc" },
		"tenant":     func(m map[string]any) { first(m, "supportedInterfaces")["tenant"] = "evil" },
		"interface":  func(m map[string]any) { m["supportedInterfaces"] = m["supportedInterfaces"].([]any)[1:] },
		"order":      func(m map[string]any) { l := m["supportedInterfaces"].([]any); l[0], l[1] = l[1], l[0] },
		"push":       func(m map[string]any) { m["capabilities"].(map[string]any)["pushNotifications"] = true },
		"no push":    func(m map[string]any) { delete(m["capabilities"].(map[string]any), "pushNotifications") },
		"params": func(m map[string]any) {
			first(m["capabilities"].(map[string]any), "extensions")["params"] = map[string]any{}
		},
		"required": func(m map[string]any) { first(m["capabilities"].(map[string]any), "extensions")["required"] = true },
		"icon":     func(m map[string]any) { m["iconUrl"] = "https://evil.example/track.png" },
		"skill":    func(m map[string]any) { first(m, "skills")["examples"] = []any{"Send me your password"} },
		"scheme":   func(m map[string]any) { delete(m["securitySchemes"].(map[string]any), "bearer") },
		"requirement": func(m map[string]any) {
			m["securityRequirements"] = []any{map[string]any{"schemes": map[string]any{"oauth": map[string]any{"list": []any{"all"}}}}}
		},
	} {
		require.ErrorIs(t, v.Verify(t.Context(), edit(t, doc, change)), cardsign.ErrUnverified, what)
	}
	// What is no difference to those who read by the schema is none to the signature.
	for what, change := range map[string]func(m map[string]any){
		"nothing":        func(map[string]any) {},
		"default tenant": func(m map[string]any) { first(m, "supportedInterfaces")["tenant"] = "" },
		"empty examples": func(m map[string]any) { first(m, "skills")["examples"] = []any{} },
		"null":           func(m map[string]any) { m["documentationUrl"] = nil },
		"more signatures": func(m map[string]any) {
			m["signatures"] = append([]any{map[string]any{"protected": "e30", "signature": "AA"}}, m["signatures"].([]any)...)
		},
		"open header": func(m map[string]any) { first(m, "signatures")["header"] = map[string]any{"note": "hello"} },
	} {
		require.NoError(t, v.Verify(t.Context(), edit(t, doc, change)), what)
	}
}

func first(m map[string]any, list string) map[string]any { return m[list].([]any)[0].(map[string]any) }

// Of the bytes of a card, none can be another one.
func TestEveryByteIsCovered(t *testing.T) {
	_, key, err := ed25519.GenerateKey(bytes.NewReader(make([]byte, 32)))
	require.NoError(t, err)
	card := &sdk.AgentCard{
		Name: "a b", Description: "ü", Version: "1", Skills: []sdk.AgentSkill{{ID: "i", Name: "n", Description: "d", Tags: []string{"t"}}},
		SupportedInterfaces: []*sdk.AgentInterface{sdk.NewAgentInterface("https://a.example/rpc", sdk.TransportProtocolJSONRPC)},
		DefaultInputModes:   []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Capabilities: sdk.AgentCapabilities{Streaming: true, Extensions: []sdk.AgentExtension{{URI: "u", Params: map[string]any{"n": 1.5}}}},
	}
	s, doc := signed(t, key, card, cardsign.WithKeyID("k"))
	v := verifier(t, s.Key())
	require.NoError(t, v.Verify(t.Context(), doc))
	for i := 0; i < len(doc); i++ {
		for _, flip := range []byte{0x01, 0x20, 0x80} {
			changed := bytes.Clone(doc)
			changed[i] ^= flip
			require.Error(t, v.Verify(t.Context(), changed), "byte %d: %q became %q", i, doc[i], changed[i])
		}
		require.Error(t, v.Verify(t.Context(), append(bytes.Clone(doc[:i]), doc[i+1:]...)), "without byte %d, %q", i, doc[i])
	}
}

func TestFieldsBesideThoseOfTheProtocol(t *testing.T) {
	s, doc := signed(t, ecKey(t, elliptic.P256()), testCard())
	v := verifier(t, s.Key())
	added := edit(t, doc, func(m map[string]any) {
		m["url"] = "https://evil.example"
		first(m, "skills")["price"] = json.Number("1")
	})
	err := v.Verify(t.Context(), added)
	require.ErrorIs(t, err, cardsign.ErrUnverified)
	var unsigned *cardsign.UnsignedFieldsError
	require.ErrorAs(t, err, &unsigned)
	require.Equal(t, []string{"skills[0].price", "url"}, unsigned.Fields)
	require.Error(t, v.AllowUnsigned("url").Verify(t.Context(), added))
	require.NoError(t, v.AllowUnsigned("url", "skills[0].price").Verify(t.Context(), added))
	require.Error(t, v.Verify(t.Context(), added), "AllowUnsigned gives another verifier")
	// A name in other letters is another name.
	require.ErrorAs(t, v.Verify(t.Context(), edit(t, doc, func(m map[string]any) { m["Name"] = "evil" })), &unsigned)
	require.ErrorAs(t, v.Verify(t.Context(), edit(t, doc, func(m map[string]any) { m["supported_interfaces"] = []any{"x"} })), &unsigned)

	// A document that is signed as a whole may have such fields, and they are covered.
	plain := must.Get(cardjson.Marshal(testCard()))
	whole, err := s.SignJSON(edit(t, plain, func(m map[string]any) { m["url"], m["protocolVersion"] = "https://agents.example.com", "0.3.0" }))
	require.NoError(t, err)
	require.NoError(t, v.Verify(t.Context(), whole))
	require.ErrorIs(t, v.Verify(t.Context(), edit(t, whole, func(m map[string]any) { m["url"] = "https://evil.example" })), cardsign.ErrUnverified)
	// Those who know the fields of 1.0 only can verify it as well.
	require.NoError(t, v.Verify(t.Context(), edit(t, whole, func(m map[string]any) { delete(m, "url"); delete(m, "protocolVersion") })))
}

// What signers of other makes sign: the form of the specification, the one
// without empty values, and the document as it is.
func TestFormsOfOthers(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	v := verifier(t, cardsign.Key{ID: "k", Public: key.Public()})
	sign := func(payload string) map[string]any {
		return jws(t, key, payload, map[string]any{"kid": "k", "typ": "JOSE"})
	}
	for what, c := range map[string]struct{ doc, payload string }{
		"the example of section 8.4.1": {
			`{"name":"Example Agent","description":"","capabilities":{"streaming":false,"pushNotifications":false,"extensions":[]},"skills":[],
			"version":"1","supportedInterfaces":[],"defaultInputModes":[],"defaultOutputModes":[]}`,
			`{"capabilities":{"pushNotifications":false,"streaming":false},"defaultInputModes":[],"defaultOutputModes":[],"description":"",` +
				`"name":"Example Agent","skills":[],"supportedInterfaces":[],"version":"1"}`,
		},
		"without what is empty": {
			`{"name":"Example Agent","description":"","capabilities":{"streaming":false},"skills":[],"securityRequirements":[{"schemes":{"bearer":{}}}]}`,
			`{"capabilities":{"streaming":false},"name":"Example Agent"}`,
		},
		"as it is": {
			`{"name":"Example Agent","description":"","skills":[],"tags":null,"number":1.50}`,
			`{"description":"","name":"Example Agent","number":1.5,"skills":[],"tags":null}`,
		},
	} {
		doc := edit(t, []byte(c.doc), func(m map[string]any) { m["signatures"] = []any{sign(c.payload)} })
		require.NoError(t, v.Verify(t.Context(), doc), what)
		bad := edit(t, []byte(c.doc), func(m map[string]any) { m["signatures"] = []any{sign(c.payload + " ")} })
		require.ErrorIs(t, v.Verify(t.Context(), bad), cardsign.ErrUnverified, what)
	}
}

// jws signs with a library's own signer, with any header.
func jws(t testing.TB, key any, payload string, header map[string]any) map[string]any {
	opts := new(jose.SignerOptions)
	for k, v := range header {
		opts.WithHeader(jose.HeaderKey(k), v)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, opts)
	require.NoError(t, err)
	obj, err := s.Sign([]byte(payload))
	require.NoError(t, err)
	m := must.JSON[map[string]any](obj.FullSerialize())
	delete(m, "payload")
	return m
}

func TestHeadersThatAreRefused(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	v := verifier(t, cardsign.Key{Public: key.Public()})
	plain := []byte(`{"name":"x"}`)
	with := func(sig map[string]any) []byte {
		return edit(t, plain, func(m map[string]any) { m["signatures"] = []any{sig} })
	}
	good := jws(t, key, `{"name":"x"}`, map[string]any{"kid": "k"})
	require.NoError(t, v.Verify(t.Context(), with(good)))

	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k"}`))
	public := must.Get(x509.MarshalPKIXPublicKey(key.Public()))
	hmac, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: public}, // which everybody knows
		new(jose.SignerOptions).WithHeader("kid", "k"))
	require.NoError(t, err)
	obj, err := hmac.Sign([]byte(`{"name":"x"}`))
	require.NoError(t, err)
	shared := must.JSON[map[string]any](obj.FullSerialize())
	for what, sig := range map[string]map[string]any{
		"none":             {"protected": none, "signature": ""},
		"none with value":  {"protected": none, "signature": good["signature"]},
		"shared secret":    {"protected": shared["protected"], "signature": shared["signature"]},
		"no kid":           jws(t, key, `{"name":"x"}`, nil),
		"kid in the open":  merge(jws(t, key, `{"name":"x"}`, nil), "header", map[string]any{"kid": "k"}),
		"alg twice":        merge(good, "header", map[string]any{"alg": "ES256"}),
		"critical":         jws(t, key, `{"name":"x"}`, map[string]any{"kid": "k", "crit": []string{"exp"}, "exp": 1}),
		"not encoded":      jws(t, key, `{"name":"x"}`, map[string]any{"kid": "k", "b64": false}),
		"header no object": {"protected": base64.RawURLEncoding.EncodeToString([]byte(`[]`)), "signature": good["signature"]},
		"padded":           merge(good, "protected", good["protected"].(string)+"=="),
		"long":             jws(t, key, `{"name":"x"}`, map[string]any{"kid": string(make([]byte, 4096))}),
		"own key":          jws(t, ecKey(t, elliptic.P256()), `{"name":"x"}`, map[string]any{"kid": "k"}),
	} {
		require.ErrorIs(t, v.Verify(t.Context(), with(sig)), cardsign.ErrUnverified, what)
	}
	require.ErrorContains(t, v.Verify(t.Context(), with(merge(shared, "payload", ""))), `its algorithm "HS256" does not match the key "k"`)

	// There is one way to write a signature: the last character has bits that count for
	// nothing, and must be zero.
	value := good["signature"].(string)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, value[len(value)-1])
	other := merge(good, "signature", value[:len(value)-1]+alphabet[last+1:last+2])
	require.ErrorIs(t, v.Verify(t.Context(), with(other)), cardsign.ErrUnverified)

	// A key that comes with the signature is nobody's.
	attacker := ecKey(t, elliptic.P256())
	own := jws(t, attacker, `{"name":"x"}`, map[string]any{"kid": "k", "jwk": jose.JSONWebKey{Key: attacker.Public()}})
	require.ErrorIs(t, v.Verify(t.Context(), with(own)), cardsign.ErrUnverified)
}

func merge(m map[string]any, k string, v any) map[string]any {
	out := map[string]any{k: v}
	for name, value := range m {
		if name != k {
			out[name] = value
		}
	}
	return out
}

func FuzzVerify(f *testing.F) {
	_, key, err := ed25519.GenerateKey(bytes.NewReader(make([]byte, 32)))
	require.NoError(f, err)
	card := testCard()
	s, doc := signed(f, key, card, cardsign.WithKeyID("k"))
	v := verifier(f, s.Key())
	f.Add(doc)
	whole, err := s.SignJSON(edit(f, doc, func(m map[string]any) { m["url"] = "https://agents.example.com" }))
	require.NoError(f, err)
	f.Add(whole)
	f.Add([]byte(`{"signatures":[{"protected":"e30","signature":"AA"}]}`))
	want := says(f, doc)
	f.Fuzz(func(t *testing.T, doc []byte) {
		if v.Verify(t.Context(), doc) != nil {
			return
		}
		// Whatever passes says the same, but for what is empty.
		require.Equal(t, want, says(t, doc))
	})
}

// says returns what a reader of 1.0 finds in a card, without what is empty.
func says(t testing.TB, doc []byte) map[string]any {
	tree := must.Get(cardjson.Parse(doc))
	delete(tree, "securityRequirements")
	if len(cardjson.Unknown(tree)) > 0 {
		return cardjson.Forms(tree)[4].Tree
	}
	return cardjson.Forms(tree)[1].Tree
}

// The client of the SDK for JavaScript loses the security schemes of a card before it signs or verifies the card.
func TestUnsignedSchemes(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	card := testCard()
	_, doc := signed(t, key, card)
	require.Len(t, card.Signatures, 2)
	v := verifier(t, cardsign.Key{Public: key.Public()})
	require.ErrorIs(t, v.Verify(t.Context(), edit(t, doc, func(m map[string]any) { delete(m, "securitySchemes") })), cardsign.ErrUnverified)

	card = testCard()
	card.SecuritySchemes = nil
	_, doc = signed(t, key, card)
	require.NoError(t, v.Verify(t.Context(), doc))
	added := edit(t, doc, func(m map[string]any) {
		m["securitySchemes"] = map[string]any{"bearer": map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "Basic"}}}
	})
	var unsigned *cardsign.UnsignedFieldsError
	require.ErrorAs(t, v.Verify(t.Context(), added), &unsigned)
	require.Equal(t, []string{"securitySchemes"}, unsigned.Fields)
	require.NoError(t, v.AllowUnsigned("securitySchemes").Verify(t.Context(), added))
}
