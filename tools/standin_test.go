package tools_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/tools"
)

func TestStandIn(t *testing.T) {
	ran := 0
	tool, err := tools.Func("lookup", "Looks up.", func(tools.Context, struct {
		ID int `json:"id"`
	}) (string, error) {
		ran++
		return "found", nil
	})
	require.NoError(t, err)
	with := func(f tools.StandIn, input string) (tools.Result, error) {
		return tools.Execute(tools.WithStandIn(t.Context(), f), tool, tools.CallInfo{CallID: "c1"}, json.RawMessage(input))
	}
	want := tools.Result{Output: json.RawMessage(`"recorded"`), State: map[string]any{"a": 1}}
	recorded := func(_ context.Context, _ tools.Tool, info tools.CallInfo, _ json.RawMessage) (tools.Result, bool, error) {
		require.Equal(t, "c1", info.CallID)
		return want, true, nil
	}
	got, err := with(recorded, `{"id":1}`)
	require.NoError(t, err)
	require.Equal(t, want, got)

	got, err = with(recorded, `{"id":"x"}`)
	require.NoError(t, err)
	require.True(t, got.IsError, "an input that the schema forbids is refused as ever")

	_, err = with(func(context.Context, tools.Tool, tools.CallInfo, json.RawMessage) (tools.Result, bool, error) {
		return tools.Result{}, false, agent.ErrWaits
	}, `{"id":1}`)
	require.ErrorIs(t, err, agent.ErrWaits)
	require.Zero(t, ran)

	for _, none := range []tools.StandIn{nil, func(context.Context, tools.Tool, tools.CallInfo, json.RawMessage) (tools.Result, bool, error) {
		return tools.Result{}, false, nil
	}} {
		got, err = with(none, `{"id":1}`)
		require.NoError(t, err)
		require.JSONEq(t, `"found"`, string(got.Output))
	}
	require.Equal(t, 2, ran)
}
