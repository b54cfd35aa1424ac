package adkpeer

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/peerfolder"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// What agents say arrives piece by piece, and each text is kept once and whole. The conversation continues with the
// agent that it was transferred to.
func TestRemoteA2aAgent(t *testing.T) {
	t.Parallel()
	folder := peerfolder.Folder{Path: ".", Name: "a2a/internal/adkpeer", Of: "A2A in Python"}
	python, script := folder.Python(t, "remote.py")
	billing := must.Get(llmagent.New("billing", "You explain charges.", scripted.Func("billing", func(req *llm.Request) scripted.Answer {
		if last := req.Messages[len(req.Messages)-1]; strings.Contains(last.PlainText(), "why") {
			return scripted.Reply(scripted.Text("One was ", "a mistake."))
		}
		return scripted.Reply(scripted.Text("I see ", "two ", "charges."))
	})))
	support := must.Get(llmagent.New("support", "You help.", scripted.Func("support", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text("One ", "moment."), scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))
	}), llmagent.WithSubAgents(billing)))
	server := must.Get(a2aserver.New(support, sessiontest.Memory(t)))
	at := httptest.NewServer(server)
	t.Cleanup(func() {
		require.NoError(t, server.Close(context.Background()))
		at.Close()
	})

	cmd := exec.CommandContext(t.Context(), python, script)
	asked := must.Get(json.Marshal(map[string]any{"card": at.URL + "/.well-known/agent-card.json", "says": []string{"I was charged twice", "And why?"}}))
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(asked)), os.Stderr
	cmd.Env = append(os.Environ(), "NO_PROXY=*", "OTEL_SDK_DISABLED=true")
	out := must.Get(cmd.Output())
	type mode struct{ Streamed, Kept []string }
	modes := must.JSON[[]mode](out)
	whole := []string{"One moment.", "I see two charges.", "One was a mistake."}
	require.Equal(t, []mode{{whole, whole}, {whole, whole}}, modes)
}
