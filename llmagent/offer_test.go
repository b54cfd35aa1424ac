package llmagent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
)

// TestToolsForStrictEndpoints: the model is shown a schema and a description that every endpoint takes, and its
// arguments are checked against the tool's own schema.
func TestToolsForStrictEndpoints(t *testing.T) {
	var ran []string
	own := `{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"type":"array"},"b":{"const":1}}}`
	odd := must.Get(tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: "odd", Description: strings.Repeat("ä", 1025), Parameters: json.RawMessage(own)}},
		func(_ tools.Context, input json.RawMessage) (any, error) {
			ran = append(ran, string(input))
			return "done", nil
		}))
	s := newSolo(t, replies(reply(scripted.Call("odd", `{"a":[],"b":1}`)), reply(scripted.Call("odd", `{"a":[]}`))), []llmagent.Option{llmagent.WithTools(odd)})
	events := must.Get(s.say(context.Background()))
	shown := s.script.requests[0].Tools[0]
	require.Equal(t, `{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":"integer","description":"(one of 1)"}}}`, string(shown.Parameters))
	require.Equal(t, strings.Repeat("ä", 1023)+"…", shown.Description)
	require.Equal(t, []string{`{"a":[]}`}, ran, "the other arguments do not fit the tool's own schema")
	notices := payloads[*event.Notice](events)
	require.Len(t, notices, 1, "once in a run")
	require.Equal(t, "the model sees the first 1023 characters of the descriptions of these tools, because endpoints refuse longer ones: odd (1025)", notices[0].Message)
}

// TestTooManyTools: one tool for all targets takes the place of one for each, and what is still too much is an error
// that names the counts, when the tree is built or, with tools of sets, in the turn.
func TestTooManyTools(t *testing.T) {
	root := func(targets, own int, opts ...llmagent.Option) (*model, *runner.Runner, error) {
		m := &model{}
		var children []agent.Agent
		for i := range targets {
			child := must.Get(llmagent.New(fmt.Sprintf("s%03d", i), "", &model{}, llmagent.WithDescription("A child")))
			children = append(children, child)
		}
		for i := range own {
			opts = append(opts, llmagent.WithTools(tool(t, fmt.Sprintf("t%03d", i), nothing)))
		}
		a := must.Get(llmagent.New("root", "", m, append(opts, llmagent.WithSubAgents(children...))...))
		r, err := runner.New(a, sessiontest.Memory(t))
		return m, r, err
	}
	ask := func(r *runner.Runner) error { return (&solo{t: t, runner: r, script: &model{}}).failed() }
	each := llmagent.WithTransferTools(transfer.ToolPerTarget)
	for _, c := range []struct{ targets, own, offered int }{{120, 8, 128}, {120, 9, 10}, {140, 0, 1}, {2, 127, 128}} {
		for _, opt := range []llmagent.Option{each, llmagent.WithSmallModels()} {
			m, r, err := root(c.targets, c.own, opt)
			require.NoError(t, err)
			require.NoError(t, ask(r))
			require.Len(t, m.requests[len(m.requests)-1].Tools, c.offered)
		}
	}
	_, _, err := root(140, 128, each)
	require.ErrorContains(t, err, "agent root has 128 tools and 1 for transfers, and its endpoint accepts 128")
	_, r, err := root(140, 128, each, llmagent.WithMaxTools(300))
	require.NoError(t, err)
	require.NoError(t, ask(r))

	set := must.Get(tools.NewRegistry(tool(t, "one", nothing), tool(t, "two", nothing)))
	_, r, err = root(2, 5, llmagent.WithToolset(given{set}), llmagent.WithMaxTools(7))
	require.NoError(t, err)
	err = ask(r)
	require.ErrorContains(t, err, "agent root has 7 tools and 1 for transfers, and its endpoint accepts 7")
	require.Equal(t, "too_many_tools", must.As[*agent.RunError](err).Code)
}

type given struct{ *tools.Registry }

func (g given) Tools(context.Context) (*tools.Registry, error) { return g.Registry, nil }

func (s *solo) failed() error {
	_, err := s.say(context.Background())
	return err
}
