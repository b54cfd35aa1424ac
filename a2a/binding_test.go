package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// spoken is a transport that only knows who made it.
type spoken struct {
	a2aclient.Transport
	by        string
	tenant    *string
	version   *string
	destroyed chan<- string
}

func (s *spoken) SendMessage(_ context.Context, params a2aclient.ServiceParams, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	*s.tenant, *s.version = req.Tenant, strings.Join(params[sdk.SvcParamVersion], ",")
	return sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart(s.by)), nil
}

func (s *spoken) Destroy() error {
	if s.destroyed != nil {
		s.destroyed <- s.by
	}
	return nil
}

// Of the interfaces of a card the first is taken that we speak.
func TestChoiceOfInterface(t *testing.T) {
	var tenant, version string
	binding := func(protocol, v, by string) a2a.Binding {
		return a2a.Binding{Protocol: sdk.TransportProtocol(protocol), Version: v,
			Dial: func(_ context.Context, i *sdk.AgentInterface, env a2a.Environment) (a2aclient.Transport, error) {
				if strings.Contains(i.URL, "broken") {
					return nil, errors.New("it is broken")
				}
				if env.HTTP == nil || env.DialContext == nil || env.MaxResponse == 0 {
					return nil, errors.New("something is missing")
				}
				return &spoken{by: by + " to " + i.URL, tenant: &tenant, version: &version}, nil
			}}
	}
	with := a2a.WithBinding(binding("GRPC", "1.0", "grpc"), binding("JSONRPC", "0.3", "old"), binding("HTTP+JSON", "1.0", "rest"), binding("JSONRPC", "1.0", "rpc"))
	i := func(protocol, version, url string) string {
		return fmt.Sprintf(`{"url":%q,"protocolBinding":%q,"protocolVersion":%q,"tenant":"acme"}`, url, protocol, version)
	}
	for name, c := range map[string]struct {
		interfaces     []string
		says, version  string
		fails, failsTo []string
	}{
		"the first": {interfaces: []string{i("HTTP+JSON", "1.0", "http://peer.test/a"), i("JSONRPC", "1.0", "http://peer.test/b")},
			says: "rest to http://peer.test/a", version: "1.0"},
		"the first of the other order": {interfaces: []string{i("JSONRPC", "1.0", "http://peer.test/b"), i("HTTP+JSON", "1.0", "http://peer.test/a")},
			says: "rpc to http://peer.test/b", version: "1.0"},
		"an older one, if it is preferred": {interfaces: []string{i("JSONRPC", "0.3.0", "http://peer.test/c"), i("JSONRPC", "1.0", "http://peer.test/b")},
			says: "old to http://peer.test/c", version: "0.3"},
		"another binding": {interfaces: []string{i("CARRIER-PIGEON", "1.0", "coo:1"), i("GRPC", "1.0", "peer.test:443")},
			says: "grpc to peer.test:443", version: "1.0"},
		"a later one of the same line": {interfaces: []string{i("JSONRPC", "1.7.2", "http://peer.test/b")}, says: "rpc to http://peer.test/b", version: "1.0"},
		"a broken one": {interfaces: []string{i("GRPC", "1.0", "broken:1"), "null", i("JSONRPC", "1.0", "http://peer.test/b")},
			says: "rpc to http://peer.test/b", version: "1.0"},
		"no URL": {interfaces: []string{i("JSONRPC", "1.0", "file:///etc/passwd"), i("HTTP+JSON", "1.0", "http://peer.test/a")},
			says: "rest to http://peer.test/a", version: "1.0"},
		"user and password are not taken": {interfaces: []string{i("JSONRPC", "1.0", "http://u:p@peer.test/b#x")}, says: "rpc to http://peer.test/b", version: "1.0"},
		"none": {interfaces: []string{i("CARRIER-PIGEON", "1.0", "coo:1"), i("JSONRPC", "2.0", "http://peer.test/b"), i("GRPC", "0.2", "x:1"), i("JSONRPC", "", "http://peer.test/b")},
			fails: []string{"CARRIER-PIGEON 1.0", "JSONRPC 2.0", "GRPC 0.2", "this agent supports GRPC 1.0, JSONRPC 0.3, HTTP+JSON 1.0, JSONRPC 1.0"}},
		"only broken ones": {interfaces: []string{i("GRPC", "1.0", "broken:1"), i("JSONRPC", "1.0", "nowhere")}, fails: []string{"GRPC 1.0", "it is broken", "JSONRPC 1.0", "absolute"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := inMemory(t, func(*http.Request) (*http.Response, error) {
				return response(200, `{"name":"x","supportedInterfaces":[`+strings.Join(c.interfaces, ",")+`]}`), nil
			}, with)
			events, _, err := newRunner(t, r).Turn("hi")
			if c.fails != nil {
				requireCode(t, err, a2a.CodeCard)
				for _, part := range c.fails {
					require.ErrorContains(t, err, part)
				}
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{c.says}, remotetest.Texts(events))
			require.Equal(t, "acme", tenant)
			require.Equal(t, c.version, version)
		})
	}
}

// Cards that offer what a package of ours speaks say which.
func TestErrorsNameThePackage(t *testing.T) {
	for card, name := range map[string]string{
		`{"supportedInterfaces":[{"url":"peer.test:443","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`:             "a2a/a2agrpc",
		`{"supportedInterfaces":[{"url":"http://peer.test","protocolBinding":"JSONRPC","protocolVersion":"0.3"}]}`:       "a2a/a2av0",
		`{"name":"x","protocolVersion":"0.3.0","url":"http://peer.test","preferredTransport":"JSONRPC"}`:                 "a2a/a2av0",
		`{"name":"x","protocolVersion":"0.2.6","url":"http://peer.test","capabilities":{"streaming":true},"skills":"x"}`: "A2A 0.2.6",
	} {
		err := ready(inMemory(t, func(*http.Request) (*http.Response, error) { return response(200, card), nil }))
		requireCode(t, err, a2a.CodeCard)
		require.ErrorContains(t, err, name)
	}
}

// A card of an earlier version is read by whoever can.
func TestOldCards(t *testing.T) {
	var tenant, version string
	old := a2a.Binding{Protocol: sdk.TransportProtocolJSONRPC, Version: "0.3",
		Dial: func(_ context.Context, i *sdk.AgentInterface, _ a2a.Environment) (a2aclient.Transport, error) {
			return &spoken{by: i.URL, tenant: &tenant, version: &version}, nil
		},
		ParseCard: func(card []byte) (*sdk.AgentCard, error) {
			var c struct{ URL string }
			if err := json.Unmarshal(card, &c); err != nil {
				return nil, err
			}
			return &sdk.AgentCard{SupportedInterfaces: []*sdk.AgentInterface{{URL: c.URL, ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: "0.3.0"}}}, nil
		}}
	other := old
	other.ParseCard = func([]byte) (*sdk.AgentCard, error) { return nil, errors.New("not mine") }
	for _, card := range []string{
		`{"name":"x","protocolVersion":"0.3.0","url":"http://peer.test/old"}`,
		`{"name":"x","protocolVersion":"0.3.0","url":"http://peer.test/old","capabilities":{"extensions":7}}`, // which is no card of 1.0 at all
	} {
		r := inMemory(t, func(*http.Request) (*http.Response, error) { return response(200, card), nil }, a2a.WithBinding(other, old))
		events, _, err := newRunner(t, r).Turn("hi")
		require.NoError(t, err)
		require.Equal(t, []string{"http://peer.test/old"}, remotetest.Texts(events))
		require.Equal(t, "0.3", version)
	}
	// One that offers both is one of 1.0.
	r := inMemory(t, func(*http.Request) (*http.Response, error) {
		return response(200, strings.Replace(goodCard, `{`, `{"protocolVersion":"0.3.0","url":"http://peer.test/old",`, 1)), nil
	}, a2a.WithBinding(old))
	_, _, err := newRunner(t, r).Turn("hi")
	requireCode(t, err, a2a.CodeProtocol)
}

// With a client of one's own there is no card.
func TestWithClient(t *testing.T) {
	srv := newServer(t, true, remotetest.Completes("Without ", "a card."))
	client := must.Get(a2aclient.NewFromCard(context.Background(), srv.card))
	for _, url := range []string{"", "https://example.com/card?key=hunter2"} {
		r := must.Get(a2a.Remote("billing", url, a2a.WithClient(client)))
		require.NoError(t, ready(r))
		events, _, err := newRunner(t, r).Turn("hi")
		require.NoError(t, err)
		require.Equal(t, []string{"Without a card."}, remotetest.Texts(events))
	}
	require.Zero(t, srv.fetches())
	srv.Close()
	r := must.Get(a2a.Remote("billing", "", a2a.WithClient(client)))
	_, _, err := newRunner(t, r).Turn("hi")
	require.ErrorContains(t, err, `remote agent "billing" (remote_unreachable)`)
}
