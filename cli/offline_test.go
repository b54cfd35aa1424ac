package cli_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

// offlineDesk is a tree with a specialist and tools, one of which fails.
func offlineDesk(model llm.Model) (agent.Agent, error) {
	type order struct {
		OrderID string `json:"order_id" jsonschema:"the number of the order"`
	}
	find, err := tools.Func("find_order", "Find an order by its number", func(_ tools.Context, in order) (map[string]any, error) {
		return map[string]any{"order": in.OrderID, "state": "sent"}, nil
	})
	if err != nil {
		return nil, err
	}
	lost, err := tools.Func("find_parcel", "Find a parcel by the number of its order", func(tools.Context, order) (string, error) {
		return "", errors.New("the carrier is closed")
	})
	if err != nil {
		return nil, err
	}
	orders, err := llmagent.New("orders", "You find orders.", model, llmagent.WithDescription("Orders and parcels"), llmagent.WithTools(find, lost))
	if err != nil {
		return nil, err
	}
	return llmagent.New("support", "You are the first to answer.", model, llmagent.WithSubAgents(orders))
}

// offlineSays runs the command over the desk, on the offline model or, with an
// environment, on what it names. It returns both streams, and the model.
func offlineSays(t *testing.T, env map[string]string, args ...string) (out, errs string, model llm.Model) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	streams := cli.Streams{Stdout: &stdout, Stderr: &stderr, Getenv: func(name string) string { return env[name] }}
	status := cli.Run(t.Context(), append(args, "--db", ":memory:"), streams, cli.WithTreeFunc(func(m llm.Model) (agent.Agent, error) {
		model = m
		return offlineDesk(m)
	}))
	require.Zero(t, status, stderr.String())
	return stdout.String(), stderr.String(), model
}

// Without an endpoint the offline model is called in the process: no server is begun for it.
func TestOfflineModelIsCalledDirectly(t *testing.T) {
	t.Parallel()
	_, errs, model := offlineSays(t, nil, "run", "Hello")
	require.IsType(t, &offline.Model{}, model)
	require.Contains(t, errs, "no model is used")
}

// The command prints what it prints with the same model behind an endpoint, which judges
// every request. The protocol has no field for a tool's failure, so that only in the
// process the model knows of it.
func TestOfflineModelAnswersAsBehindAnEndpoint(t *testing.T) {
	t.Parallel()
	server := must.Get(endpoint.Start(endpoint.Models(offline.New())))
	t.Cleanup(func() { _ = server.Close() })
	there := map[string]string{"OPENAI_BASE_URL": server.URL(), "OPENAI_MODEL": "offline"}
	changing := regexp.MustCompile(`"(id|time|turnId|runId|parentId|fromRunId|toRunId|toolCallId)":"[^"]*"|"durationMs":\d+`)
	for _, message := range []string{"Hello", "Where is my order AB-12?", "Find the parcel of order AB-12", "Find a parcel", "\u2028 \x01 שלום <b>"} {
		for _, args := range [][]string{{"run", message}, {"run", message, "--json"}} {
			want, _, _ := offlineSays(t, there, args...)
			want = strings.Replace(want, "find_parcel returned", "find_parcel failed:", 1)
			got, _, _ := offlineSays(t, nil, args...)
			require.Equal(t, changing.ReplaceAllString(want, ""), changing.ReplaceAllString(got, ""))
			require.NotEmpty(t, strings.TrimSpace(got))
		}
	}
}
