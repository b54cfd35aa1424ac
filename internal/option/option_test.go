package option_test

import (
	"context"
	"crypto/ed25519"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agentgraph/graphtest"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/human/webhook"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/observe/telemetry"
	"github.com/agentarbor/arbor/runner"
	turns "github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/tools"
)

// A nil option is an error of every constructor that has one, and names the option; those
// without errors leave it out.
func TestNilOptions(t *testing.T) {
	node, err := llmagent.New("billing", "", offline.New())
	require.NoError(t, err)
	for name, construct := range map[string]func() error{
		"a2a":        func() error { _, err := a2a.Remote("far", "http://127.0.0.1/", nil); return err },
		"a2aserver":  func() error { _, err := a2aserver.New(node, session.NewMemory(nil), nil); return err },
		"agentfile":  func() error { _, err := agentfile.Load(t.TempDir(), nil); return err },
		"agentgraph": func() error { _, err := agentgraph.Load(nil, nil); return err },
		"builder":    func() error { _, err := agentgraph.NewBuilder("g").Node("a", node, nil).Build(); return err },
		"graphtest":  func() error { _, err := graphtest.LoadCases(nil, "cases.yaml", nil); return err },
		"agenttool":  func() error { _, err := agenttool.New(node, nil); return err },
		"cardsign": func() error {
			_, key, _ := ed25519.GenerateKey(nil)
			_, err := cardsign.NewSigner(key, nil)
			return err
		},
		"checkpoint": func() error { _, err := checkpoint.New(session.NewMemory(), nil); return err },
		"llmagent":   func() error { _, err := llmagent.New("a", "", offline.New(), nil); return err },
		"live": func() error {
			tail, err := tail.New(session.NewMemory())
			require.NoError(t, err)
			run, err := runner.New(node, tail)
			require.NoError(t, err)
			_, err = turns.New(run, tail, nil)
			return err
		},
		"room": func() error { _, err := human.NewRoom(nil); return err },
		"webhook": func() error {
			_, err := webhook.New("https://desk.example.com/", "whsec_"+strings.Repeat("a", 32), nil)
			return err
		},
		"openai": func() error { _, err := openai.New("m", nil); return err },
		"runner": func() error { _, err := runner.New(node, session.NewMemory(), nil); return err },
		"turn": func() error {
			r, err := runner.New(node, session.NewMemory())
			require.NoError(t, err)
			_, err = r.Cancel(context.Background(), session.ID("s"), nil)
			return err
		},
		"turns":     func() error { _, err := tail.New(session.NewMemory(), nil); return err },
		"sqlite":    func() error { _, err := sqlite.Open(filepath.Join(t.TempDir(), "s.db"), nil); return err },
		"telemetry": func() error { _, err := telemetry.New(nil); return err },
		"tools": func() error {
			_, err := tools.Func("t", "", func(tools.Context, struct{}) (string, error) { return "", nil }, nil)
			return err
		},
	} {
		require.ErrorContains(t, construct(), "option", name)
	}
	require.NotNil(t, scripted.New(nil))
	require.NotNil(t, a2atest.New(nil))
	require.NotNil(t, agent.Via(node, nil))
}
