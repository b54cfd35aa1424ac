package a2av0_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	oldclient "github.com/a2aproject/a2a-go/a2aclient"
	oldcard "github.com/a2aproject/a2a-go/a2aclient/agentcard"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// newArbor serves a tree over HTTP for both versions.
func newArbor(t *testing.T, root agent.Agent, opts ...a2aserver.Option) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	url := "http://" + srv.Listener.Addr().String()
	s := must.Get(a2aserver.New(root, sessiontest.Memory(t), append([]a2aserver.Option{a2av0.Server(), a2aserver.WithURL(url)}, opts...)...))
	srv.Config.Handler = s
	srv.Start()
	t.Cleanup(func() {
		require.NoError(t, s.Close(context.Background()))
		srv.Close()
	})
	return srv
}

func talker(t *testing.T, script *scripted.Script, opts ...llmagent.Option) agent.Agent {
	t.Helper()
	return must.Get(llmagent.New("helper", "You help.", script.Model("helper"), opts...))
}

// newOldClient finds the server as clients of 0.3 do: by its card.
func newOldClient(t *testing.T, url string) *oldclient.Client {
	t.Helper()
	card := must.Get(oldcard.DefaultResolver.Resolve(context.Background(), url))
	require.Equal(t, "0.3.0", card.ProtocolVersion)
	return must.Get(oldclient.NewFromCard(context.Background(), card))
}

func words(text string) *old.MessageSendParams {
	return &old.MessageSendParams{Message: old.NewMessage(old.MessageRoleUser, old.TextPart{Text: text})}
}

// Both versions are served at one address, and see the same tasks.
func TestBothVersions(t *testing.T) {
	script := scripted.New().Add("helper", scripted.Reply(scripted.Text("Hello.")))
	srv := newArbor(t, talker(t, script))
	ctx := context.Background()
	res := must.Get(newOldClient(t, srv.URL).SendMessage(ctx, words("hi")))
	c := must.Get(a2aclient.NewFromEndpoints(ctx, []*sdk.AgentInterface{{URL: srv.URL + "/rpc", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: "1.0"}}))
	task := must.Get(c.GetTask(ctx, &sdk.GetTaskRequest{ID: sdk.TaskID(res.(*old.Task).ID)}))
	require.Equal(t, sdk.TaskStateCompleted, task.Status.State)
}

// The signatures of the extended card cover it in the form of each version.
func TestSignedExtendedCard(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	signer := must.Get(cardsign.NewSigner(key))
	verifier := must.Get(cardsign.NewVerifier(signer.Key()))
	srv := newArbor(t, talker(t, scripted.New()), a2aserver.WithCard(a2aserver.CardOptions{Signer: signer}),
		a2aserver.WithAuthenticator(must.Get(a2aserver.BearerTokens(map[string]string{"a-token-of-ann": "ann"}))))
	for version, method := range map[string]string{"1.0": "GetExtendedAgentCard", "0.3": "agent/getAuthenticatedExtendedCard"} {
		req := must.Get(http.NewRequest(http.MethodPost, srv.URL+"/rpc", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`)))
		req.Header = http.Header{"Authorization": {"Bearer a-token-of-ann"}, "Content-Type": {"application/json"}, "A2a-Version": {version}}
		resp := must.Get(http.DefaultClient.Do(req))
		var answer struct{ Result json.RawMessage }
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
		require.NoError(t, resp.Body.Close())
		require.NoError(t, verifier.Verify(t.Context(), answer.Result), version)
	}
}
