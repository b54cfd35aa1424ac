package agui

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/peerfolder"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/peers"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// newAtlas is a coordinator that transfers to maps, whose model calls show_map, a tool of the page, and refund, which
// needs an approval, if it is asked to pay.
func newAtlas(t testing.TB) (root *llmagent.Agent, refunds *atomic.Int32) {
	t.Helper()
	refunds = &atomic.Int32{}
	refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) {
		refunds.Add(1)
		return "refunded", nil
	}, tools.NeedsApproval(tools.ByUser())))
	maps := must.Get(llmagent.New("maps", "", scripted.Func("maps", func(req *llm.Request) scripted.Answer {
		last := req.Messages[len(req.Messages)-1]
		switch {
		case last.Role == llm.RoleTool:
			return scripted.Reply(scripted.Text("Got " + last.Parts[0].(llm.ToolResult).Output + "."))
		case strings.Contains(last.PlainText(), "pay"):
			return scripted.Reply(scripted.Call("refund", `{}`), scripted.Call("show_map", `{"city":"Oslo"}`))
		case strings.Contains(last.PlainText(), "map"):
			return scripted.Reply(scripted.Text("Look."), scripted.Call("show_map", `{"city":"Oslo"}`))
		}
		return scripted.Reply(scripted.Text("Hello."))
	}), llmagent.WithTools(refund), llmagent.WithDescription("Shows maps")))
	root = must.Get(llmagent.New("front", "", scripted.Func("front", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"maps"}`))
	}), llmagent.WithSubAgents(maps)))
	return root, refunds
}

var showMap = []map[string]any{{"name": "show_map", "description": "Shows a map", "parameters": map[string]any{"type": "object",
	"properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}}}}

// calls are those in the messages of a page that have no result.
func openCalls(messages []map[string]any) (open []string) {
	done := map[string]bool{}
	for _, m := range messages {
		if id, ok := m["toolCallId"].(string); ok {
			done[id] = true
		}
	}
	for _, m := range messages {
		all, _ := m["toolCalls"].([]any)
		for _, c := range all {
			c := c.(map[string]any)
			if id := c["id"].(string); !done[id] && c["function"].(map[string]any)["name"] == "show_map" {
				open = append(open, id)
			}
		}
	}
	return open
}

func toolMessage(id, call, content string) []map[string]any {
	return []map[string]any{{"id": id, "role": "tool", "toolCallId": call, "content": content}}
}

// TestPageTools: the official client brings a tool, is called, and gives the result with its next run. It is not sent
// the result again.
func TestPageTools(t *testing.T) {
	peer := startPeer(t)
	root, _ := newAtlas(t)
	w := streaming(t, root)
	first := peer.do(t, w.to(peerCommand{Say: says("m1", "a map"), Tools: showMap}))
	require.Empty(t, first.Error)
	for _, e := range first.Events {
		require.NotEqual(t, "arbor.ignored", e["name"])
	}
	require.NotContains(t, last(first.Events), "outcome")
	open := openCalls(first.Messages)
	require.Len(t, open, 1)

	given := w.to(peerCommand{Say: toolMessage("r1", open[0], "a map of Oslo"), Tools: showMap})
	second := peer.do(t, given)
	require.Empty(t, second.Error)
	require.NotContains(t, types(second.Events), "TOOL_CALL_RESULT")
	said := second.Messages[len(second.Messages)-1]
	require.Equal(t, "Got a map of Oslo.", said["content"])

	given.Say = nil
	again := peer.do(t, given) // the page repeats the run, which has been done
	require.Empty(t, again.Error)
	require.Equal(t, "Got a map of Oslo.", again.Messages[len(again.Messages)-1]["content"])

	third := peer.do(t, w.to(peerCommand{Say: says("m2", "Thanks"), Tools: showMap}))
	require.Equal(t, "Hello.", third.Messages[len(third.Messages)-1]["content"])

	asked := peer.do(t, w.to(peerCommand{Say: says("m3", "another map"), Tools: showMap}))
	fourth := peer.do(t, w.to(peerCommand{Say: append(toolMessage("r3", openCalls(asked.Messages)[0], "a map of Bergen"), says("m4", "Thanks")...), Tools: showMap}))
	require.Equal(t, "Hello.", fourth.Messages[len(fourth.Messages)-1]["content"])
	var results []string
	for _, e := range w.log("t1") {
		if d, ok := e.Data.(*event.ToolResult); ok && d.Name == "show_map" {
			results = append(results, event.OutputText(d.Output))
		}
	}
	require.Equal(t, []string{"a map of Oslo", "a map of Bergen"}, results, "the message after a result does not withdraw the call")

	late := peer.do(t, w.to(peerCommand{Page: "late", Messages: append(says("m9", "a map"), toolMessage("r9", open[0], "late")...)}))
	require.Equal(t, "RUN_ERROR", last(late.Events)["type"])
}

// TestCopilotKit: a page of CopilotKit in a browser runs its tool for an agent that was transferred to, by way of
// CopilotKit's own runtime, continues with the result, and shares its state.
func TestCopilotKit(t *testing.T) {
	peerfolder.Chromium(t)
	node, script := peers.CopilotKit().Node(t, "page.mjs")
	root, _ := newAtlas(t)
	w := newWorld(t, newTurns(t, root, sessiontest.Memory(t), runner.WithStreaming()), WithPageState("city"))
	type result struct {
		Given  []map[string]any
		Said   []string
		Agent  string
		State  map[string]any
		Errors []string
	}
	var got result
	peers.Run(t, map[string]any{"server": strings.TrimSuffix(w.url, "/agui"), "token": "secret", "state": map[string]any{"city": "Oslo"},
		"says": []string{"a map", "Thanks"}}, &got, node, script)
	require.Equal(t, result{Given: []map[string]any{{"city": "Oslo"}}, Said: []string{"Got a map.", "Hello."}, Agent: "maps",
		State: map[string]any{"city": "Oslo"}, Errors: []string{}}, got)
}

// TestPageToolsBesideApprovals: a result is no approval, and the approval comes in its own form.
func TestPageToolsBesideApprovals(t *testing.T) {
	peer := startPeer(t)
	root, refunds := newAtlas(t)
	w := streaming(t, root)
	first := peer.do(t, w.to(peerCommand{Say: says("m1", "pay"), Tools: showMap}))
	outcome := last(first.Events)["outcome"].(map[string]any)
	require.Equal(t, "interrupt", outcome["type"])
	require.Len(t, outcome["interrupts"], 1)
	open := openCalls(first.Messages)
	require.Len(t, open, 1)
	second := peer.do(t, w.to(peerCommand{Say: toolMessage("r1", open[0], "a map"), Tools: showMap, Forget: true}))
	require.Empty(t, second.Error)
	outcome = last(second.Events)["outcome"].(map[string]any)
	require.Equal(t, "interrupt", outcome["type"])
	require.Zero(t, refunds.Load())
	id := outcome["interrupts"].([]any)[0].(map[string]any)["id"]
	third := peer.do(t, w.to(peerCommand{Resume: []map[string]any{{"interruptId": id, "status": "resolved", "payload": map[string]any{"approved": true}}}}))
	require.Empty(t, third.Error)
	require.EqualValues(t, 1, refunds.Load())
	require.Equal(t, "Got a map.", third.Messages[len(third.Messages)-1]["content"])
}

// TestPageToolsThatCannotBe: a name that an agent's tool has is refused, and a server that offers nobody the tools of
// pages says that they are ignored.
func TestPageToolsThatCannotBe(t *testing.T) {
	root, _ := newAtlas(t)
	w := streaming(t, root)
	run := func(w *world, name string) (int, []map[string]any, string) {
		return w.post("", `{"threadId":"t1","runId":"r1","state":{},"messages":[{"id":"m1","role":"user","content":"hello"}],"tools":[{"name":"`+name+`","description":""}],"context":[],"forwardedProps":{}}`)
	}
	status, _, answer := run(w, "refund")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer, `the client and the agent maps both have \"refund\"`)
	w = newWorld(t, newTurns(t, root, w.turns.Store()), WithClientTools())
	status, events, _ := run(w, "show_map")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, map[string]any{"tools": []any{"show_map"}}, events[1]["value"])
}
