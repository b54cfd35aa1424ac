package openaiapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

// TestResultsBeforeAMessage: a client that sends results of its calls together with the user's next message gets one
// answer, and the agent sees the results and the message.
func TestResultsBeforeAMessage(t *testing.T) {
	var seen []llm.Message
	root := must.Get(llmagent.New("front", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		if seen = req.Messages; seen[len(seen)-1].PlainText() == "Begin" {
			return scripted.Reply(scripted.Call("get_time", `{}`), scripted.Call("get_time", `{}`))
		}
		return scripted.Reply(scripted.Text("Fine."))
	})))
	check := func(t *testing.T, w *world) {
		t.Helper()
		require.Equal(t, "And here?", seen[len(seen)-1].PlainText())
		var results []string
		for _, m := range seen {
			for _, part := range m.Parts {
				if r, ok := part.(llm.ToolResult); ok {
					results = append(results, r.Output)
				}
			}
		}
		require.Equal(t, []string{"ten", "withdrawn: the user went on"}, results)
		require.Len(t, w.list(), 1)
	}
	ten := func(string) string { return "ten" }
	eachClient(t, func(t *testing.T, c aClient) {
		w := newWorld(t, root)
		c.say("Begin")
		_, _, calls := c.send(w, "front")
		require.Len(t, calls, 2)
		c.answer(calls[:1], ten)
		c.say("And here?")
		status, said, calls := c.send(w, "front")
		require.Equal(t, http.StatusOK, status, said)
		require.Equal(t, "Fine.", said)
		require.Empty(t, calls)
		check(t, w)
	})
	t.Run("an image in a result", func(t *testing.T) {
		b := &browser{world: newWorld(t, root), tools: []any{function("get_time")}}
		_, calls, _ := b.ask(user("Begin"))
		b.messages = append(b.messages, result(calls[0], "ten"))
		more := result(calls[1], "")
		more["content"] = []any{map[string]any{"type": "text", "text": "a clock"}, map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64,YWI="}}}
		b.ask(more)
		last := seen[len(seen)-1].Parts[0].(llm.ToolResult)
		require.Equal(t, "a clock\n(image image/png)", last.Output, "a result is text")
	})
	t.Run("a session by its name", func(t *testing.T) {
		b := &browser{world: newWorld(t, root), tools: []any{function("get_time")}}
		_, calls, _ := b.ask(user("Begin"))
		b.changes = []change{with("Arbor-Session", b.list()[0].Key.ID)}
		b.messages = []any{result(calls[0], "ten")}
		said, _, _ := b.ask(user("And here?"))
		require.Equal(t, "Fine.", said)
		check(t, b.world)
	})
	t.Run("another branch", func(t *testing.T) {
		talks := must.Get(llmagent.New("front", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
			if seen = req.Messages; seen[len(seen)-1].PlainText() == "Begin" {
				return scripted.Reply(scripted.Text("One moment."), scripted.Call("get_time", `{}`))
			}
			return scripted.Reply(scripted.Text("Fine."))
		})))
		b := &browser{world: newWorld(t, talks), tools: []any{function("get_time")}}
		_, calls, _ := b.ask(user("Begin"))
		edited := &browser{world: b.world, tools: b.tools, messages: append([]any{}, b.messages...)}
		b.ask(user("Never mind"))
		edited.messages = append(edited.messages, result(calls[0], "ten"))
		edited.ask(user("And here?"))
		require.Len(t, b.list(), 2)
		require.Equal(t, "ten", seen[len(seen)-2].Parts[0].(llm.ToolResult).Output)
	})
	t.Run("an approval", func(t *testing.T) {
		refund := must.Get(tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: "refund"}, Approval: tools.Ask, By: tools.ByUser()}, func(tools.Context, json.RawMessage) (any, error) { return "paid", nil }))
		front := must.Get(llmagent.New("front", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
			if seen = req.Messages; seen[len(seen)-1].Role != llm.RoleTool {
				return scripted.Reply(scripted.Call("get_time", `{}`), scripted.Call("refund", `{}`))
			}
			return scripted.Reply(scripted.Text(seen[len(seen)-2].Parts[0].(llm.ToolResult).Output + ", " + seen[len(seen)-1].Parts[0].(llm.ToolResult).Output))
		}), llmagent.WithTools(refund)))
		b := &browser{world: newWorld(t, front), tools: []any{function("get_time")}}
		_, calls, _ := b.ask(user("Begin"))
		require.Len(t, calls, 1)
		b.messages = append(b.messages, result(calls[0], "ten"))
		said, calls, _ := b.ask(user("yes"))
		require.Empty(t, calls)
		require.Equal(t, "ten, paid", said)
	})
	t.Run("a previous response", func(t *testing.T) {
		w := newWorld(t, root)
		tool := function("get_time")["function"].(map[string]any)
		tool["type"] = "function"
		first := w.respond(map[string]any{"model": "front", "input": "Begin", "tools": []any{tool}})
		output := map[string]any{"type": "function_call_output", "call_id": first.Response.Output[0].CallID, "output": "ten"}
		second := w.respond(map[string]any{"input": []any{output, user("And here?")}, "previous_response_id": first.Response.ID})
		require.Equal(t, "Fine.", second.text(), "%+v", second.Error)
		check(t, w)
		require.Equal(t, "completed", w.get(first.Response.ID, -1).Response.Status)
		var items itemList
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/conversations/"+first.Response.Conversation.ID+"/items?order=asc", nil)
		r.Header.Set("Authorization", "Bearer secret")
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &items))
		var types []string
		for _, item := range items.Data {
			types = append(types, item.Type)
		}
		require.Equal(t, []string{"message", "function_call", "function_call", "function_call_output", "message", "message"}, types)
	})
}

// TestApprovalsInHistory: clients send approvals back with the items around them. What was decided before means nothing
// next to a new decision, and nothing at all before an answer.
func TestApprovalsInHistory(t *testing.T) {
	for name, c := range map[string]struct {
		says, done string
		approve    []bool
	}{
		"two calls of an answer": {"refund both", "Done: refunded 2", []bool{true, true}},
		"one denied":             {"refund both", "Done: refunded 2", []bool{false, true}},
		"two answers":            {"refund in parts", "Done: refunded 4", []bool{true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newDesk(t).root)
			items := []any{user(c.says)}
			var asked []*wireItem
			send := func(more ...any) *wireResponse {
				items = append(items, more...)
				got := w.respond(map[string]any{"model": "support", "input": items}).is(t, http.StatusOK)
				for _, item := range got.Response.Output {
					items = append(items, map[string]any{"type": "item_reference", "id": item.ID})
					if item.Type == "mcp_approval_request" {
						asked = append(asked, item)
					}
				}
				return got.Response
			}
			first := send()
			send(approval(asked[0], c.approve[0]))
			require.Len(t, asked, 2)
			again := slices.Clone(items)
			last := send(approval(asked[1], c.approve[1]))
			require.Equal(t, c.done, (*last.Output[0].Content)[0].Text)
			turned := w.respond(map[string]any{"model": "support", "input": append(again, approval(asked[0], !c.approve[0]), approval(asked[1], true))})
			turned.is(t, http.StatusConflict, "another decision than the first")
			require.Equal(t, first.Conversation.ID, last.Conversation.ID)
			require.Equal(t, first.Conversation.ID, send(user("Thank you")).Conversation.ID)
		})
	}
}

// TestMessageAfterAFailure: a turn that failed after an approval has no answer that would end the history of a client. A
// message is refused while the turn waits or runs, and its answer, in the session or in a fork, knows what was done.
func TestMessageAfterAFailure(t *testing.T) {
	broken, ran := false, 0
	begun, release := make(chan struct{}, 1), make(chan struct{})
	refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) {
		ran++
		begun <- struct{}{}
		<-release
		return "paid", nil
	}, tools.NeedsApproval(tools.ByUser())))
	w := newWorld(t, must.Get(llmagent.New("front", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		switch results := slices.DeleteFunc(slices.Clone(req.Messages), func(m llm.Message) bool { return m.Role != llm.RoleTool }); {
		case broken:
			return scripted.Reply(scripted.Status(http.StatusUnauthorized, 0))
		case len(results) == 0:
			return scripted.Reply(scripted.Call("refund", `{}`))
		default:
			return scripted.Reply(scripted.Text("It is " + results[0].Parts[0].(llm.ToolResult).Output))
		}
	}), llmagent.WithTools(refund))))
	first := w.respond(map[string]any{"model": "front", "input": "refund"}).is(t, http.StatusOK).Response
	asked := first.Output[0]
	items := []any{user("refund"), map[string]any{"type": "item_reference", "id": asked.ID}, approval(asked, true)}
	thanks := append(slices.Clone(items), user("Thank you"))
	require.Equal(t, "input", *w.respond(map[string]any{"model": "front", "input": thanks}).is(t, http.StatusBadRequest).Error.Param, "the message would withdraw the call")

	background := w.respond(map[string]any{"model": "front", "input": items, "background": true}).is(t, http.StatusOK).Response
	<-begun
	w.respond(map[string]any{"model": "front", "input": thanks}).is(t, http.StatusConflict)
	broken = true
	close(release)
	require.Eventually(t, func() bool { return w.get(background.ID, -1).Response.Status == "failed" }, time.Minute, time.Millisecond)
	require.Equal(t, "failed", w.respond(map[string]any{"model": "front", "input": thanks}).Response.Status)

	broken = false
	for range 2 {
		got := w.respond(map[string]any{"model": "front", "input": append(slices.Clone(thanks), user("Are you there?"))}).is(t, http.StatusOK)
		require.Equal(t, "It is paid", got.text())
	}
	require.Equal(t, 1, ran)
	turned := append(slices.Clone(items[:2]), approval(asked, false), user("Thank you"))
	w.respond(map[string]any{"model": "front", "input": turned}).is(t, http.StatusBadRequest)
}
