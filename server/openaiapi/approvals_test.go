package openaiapi

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// newTill is an agent whose model calls refund when it is asked for one, which needs the user's approval. Paid counts what
// was paid.
func newTill(t testing.TB) (root *llmagent.Agent, paid *int, asked *[]*llm.Request) {
	t.Helper()
	paid, asked = new(int), new([]*llm.Request)
	refund := must.Get(tools.Func("refund", "Refunds.", func(_ tools.Context, in struct {
		Amount int `json:"amount"`
	}) (string, error) {
		*paid += in.Amount
		return "paid", nil
	}, tools.NeedsApproval(tools.ByUser())))
	root = must.Get(llmagent.New("till", "", scripted.Func("till", func(req *llm.Request) scripted.Answer {
		*asked = append(*asked, req)
		last := req.Messages[len(req.Messages)-1]
		switch {
		case last.Role == llm.RoleTool:
			var results []string
			for _, m := range req.Messages {
				for _, part := range m.Parts {
					if r, ok := part.(llm.ToolResult); ok {
						results = append(results, r.Output)
					}
				}
			}
			return scripted.Reply(scripted.Text("Results: ", strings.Join(results, ", ")))
		case strings.Contains(last.PlainText(), "both"):
			return scripted.Reply(scripted.Call("refund", `{"amount":1}`), scripted.Call("refund", `{"amount":2}`))
		}
		return scripted.Reply(scripted.Text("One moment."), scripted.Call("refund", `{"amount":7}`))
	}), llmagent.WithTools(refund)))
	return root, paid, asked
}

// TestApprovalCalls: a client that brings arbor_approve is asked for approvals by calls of it, in whichever process. Only a
// clear yes lets a call run, and no model is offered the function.
func TestApprovalCalls(t *testing.T) {
	for output, paid := range map[string]int{`{"approved":true}`: 7, "true": 7, "True": 7, " yes ": 7, `{"approved":false,"reason":"too much"}`: 0, "false": 0, "no": 0, "": 0,
		"An error occurred": 0, "yes, but only half": 0, `{"approved":"true"}`: 0, `{"approve":true}`: 0, "1": 0, `["yes"]`: 0} {
		for _, stream := range []bool{false, true} {
			store := sessiontest.Memory(t)
			root, got, asked := newTill(t)
			b := &browser{world: newWorldOn(t, newTurns(t, root, store)), tools: []any{function("arbor_approve")}, stream: stream, more: map[string]any{"model": "till"}}
			said, calls, finish := b.ask(user("refund"))
			require.Equal(t, "One moment.", said)
			require.Equal(t, "tool_calls", finish)
			require.Len(t, calls, 1)
			require.Equal(t, "arbor_approve", calls[0].Function.Name)
			require.JSONEq(t, `{"tool":"refund","params":"{\"amount\":7}"}`, calls[0].Function.Arguments)
			for _, spec := range (*asked)[0].Tools {
				require.NotEqual(t, "arbor_approve", spec.Name)
			}
			b.world = newWorldOn(t, newTurns(t, root, store))
			said, calls, _ = b.ask(result(calls[0], output))
			require.Empty(t, calls)
			require.Contains(t, said, "Results: ")
			require.Equal(t, paid, *got, output)

			root, got, _ = newTill(t)
			w := newWorld(t, root)
			flat := map[string]any{"type": "function", "name": "arbor_approve"}
			first := w.respond(map[string]any{"model": "till", "input": "refund", "tools": []any{flat}, "stream": stream}).is(t, 200)
			call := first.Response.Output[1]
			require.Equal(t, "function_call", call.Type)
			require.Equal(t, "arbor_approve", call.Name)
			answer := map[string]any{"type": "function_call_output", "call_id": call.CallID, "output": output}
			for range 2 { // a request that is repeated decides nothing more
				second := w.respond(map[string]any{"model": "till", "input": []any{answer}, "previous_response_id": first.Response.ID, "stream": stream}).is(t, 200)
				require.Equal(t, paid, *got, output)
				var in listed
				require.Equal(t, 200, w.call("GET", "/responses/"+second.Response.ID+"/input_items", nil, &in))
				require.Equal(t, call.CallID, in.Data[0].CallID)
			}
		}
	}
}

// TestApprovalCallsForgeNothing: a result decides about the call that it was asked for, by its digest, and with the rights
// of who sends it. A client that did not bring the function approves nothing by a result.
func TestApprovalCallsForgeNothing(t *testing.T) {
	root, paid, _ := newTill(t)
	b := &browser{world: newWorld(t, root), tools: []any{function("arbor_approve")}, more: map[string]any{"model": "till"}}
	_, calls, _ := b.ask(user("both"))
	require.Len(t, calls, 2)
	asked := b.log(b.list()[0].Key)
	var ids []string
	for _, e := range asked {
		if d, ok := e.Data.(*event.Relay); ok {
			ids = append(ids, d.ToolCallID)
		}
	}
	for _, id := range append(ids, "appr_"+ids[0], calls[0].ID+"0", strings.ToUpper(calls[0].ID)) {
		call := calls[0]
		call.ID = id
		rec := b.post(context.Background(), "/chat/completions", map[string]any{"model": "till", "messages": append(b.messages, result(call, "yes"))})
		require.Contains(t, []int{http.StatusConflict, http.StatusBadRequest}, rec.Code, "%s: %s", id, rec.Body)
	}
	rec := b.post(context.Background(), "/chat/completions", map[string]any{"model": "till", "messages": append(b.messages, result(calls[0], "yes"))}, with("Authorization", "Bearer other"))
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	require.Contains(t, rec.Body.String(), "Answer yes", "another user has a conversation of their own, and the result is a claim in it")
	require.Zero(t, *paid)
	_, rest, _ := b.ask(result(calls[1], "yes"))
	require.Equal(t, calls[:1], rest)
	said, _, _ := b.ask(result(calls[0], "no"))
	require.Contains(t, said, "paid")
	require.Equal(t, 2, *paid)

	root, paid, _ = newTill(t)
	b = &browser{world: newWorld(t, root), more: map[string]any{"model": "till", "metadata": map[string]any{"approvals": "true"}}}
	said, none, _ := b.ask(user("refund"))
	require.Empty(t, none)
	require.Contains(t, said, "Answer yes")
	rec = b.post(context.Background(), "/chat/completions", map[string]any{"model": "till", "messages": append(b.messages, result(calls[0], "yes"))})
	require.Equal(t, http.StatusBadRequest, rec.Code, "%s", rec.Body)
	rec = b.post(context.Background(), "/chat/completions", map[string]any{"model": "till", "messages": []any{user("refund")}, "metadata": map[string]any{"arbor.approvals": "true"}})
	require.Equal(t, http.StatusBadRequest, rec.Code, "%s", rec.Body)
	require.Zero(t, *paid)
}

// TestTextsDecideNoApprovalCall: a text answers the question that is shown as a text, and decides about no call that the
// client is asked to approve by arbor_approve.
func TestTextsDecideNoApprovalCall(t *testing.T) {
	for _, asks := range []bool{true, false} {
		for _, named := range []bool{true, false} {
			root, paid, _ := newTill(t)
			var booked string
			book := must.Get(tools.Func("book", "Books.", func(ctx tools.Context, _ struct{}) (string, error) {
				answer, err := ctx.Ask("Is Friday fine?", nil)
				booked = string(answer)
				return "booked", err
			}))
			root = must.Get(llmagent.New("till", "", scripted.Func("till", func(req *llm.Request) scripted.Answer {
				switch last := req.Messages[len(req.Messages)-1]; {
				case last.Role == llm.RoleTool || last.PlainText() == "yes":
					return scripted.Reply(scripted.Text("Done."))
				case asks:
					return scripted.Reply(scripted.Call("refund", `{"amount":7}`), scripted.Call("book", "{}"))
				}
				return scripted.Reply(scripted.Call("refund", `{"amount":7}`))
			}), llmagent.WithTools(root.Tools()[0], book)))
			var session []change
			if named {
				session = append(session, with("Arbor-Session", "s"))
			}
			b := &browser{world: newWorld(t, root), tools: []any{function("arbor_approve")}, more: map[string]any{"model": "till"}, changes: session}
			said, calls, _ := b.ask(user("refund"))
			require.Len(t, calls, 1)
			require.Equal(t, asks, strings.Contains(said, "Is Friday fine?"), said)
			said, calls, _ = b.ask(user("yes"))
			require.Zero(t, *paid)
			if !asks {
				require.Equal(t, "Done.", said, "a message in place of a result withdraws the call")
				continue
			}
			require.Equal(t, `"yes"`, booked)
			require.Len(t, calls, 1, "the approval is still asked for")
			_, _, _ = b.ask(result(calls[0], "yes"))
			require.Equal(t, 7, *paid)
		}
	}
}

// TestApprovalWithAMessage: an approval whose message would withdraw the call is refused, so that no consent is lost. A
// second message withdraws the call. With the answer to another question the approval counts.
func TestApprovalWithAMessage(t *testing.T) {
	eachClient(t, func(t *testing.T, c aClient) {
		root, paid, _ := newTill(t)
		w := newWorld(t, root)
		c.say("refund")
		_, _, calls := c.send(w, "till")
		require.Len(t, calls, 1)
		c.answer(calls, func(string) string { return "yes" })
		c.say("And hurry.")
		status, said, _ := c.send(w, "till")
		require.Equal(t, http.StatusConflict, status, said)
		require.Contains(t, said, "send the result alone")
		c.say("Never mind.")
		status, said, _ = c.send(w, "till")
		require.Equal(t, http.StatusOK, status, said)
		require.Zero(t, *paid)
	})
	t.Run("another question", func(t *testing.T) {
		root, paid, _ := newTill(t)
		book := must.Get(tools.Func("book", "Books.", func(ctx tools.Context, _ struct{}) (string, error) {
			_, err := ctx.Ask("Is Friday fine?", nil)
			return "booked", err
		}))
		root = must.Get(llmagent.New("till", "", callsThen(scripted.Call("refund", `{"amount":7}`), scripted.Call("book", "{}")), llmagent.WithTools(root.Tools()[0], book)))
		w, c := newWorld(t, root), &chatClient{}
		c.say("refund and book")
		_, _, calls := c.send(w, "till")
		require.Len(t, calls, 1)
		c.answer(calls, func(string) string { return "yes" })
		c.say("Friday is fine.")
		status, said, calls := c.send(w, "till")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "Done.", said)
		require.Empty(t, calls)
		require.Equal(t, 7, *paid)
	})
}

// TestApprovalThatIsNotTheUsers: a client whose user may not approve the call can continue, although its history has a "yes".
func TestApprovalThatIsNotTheUsers(t *testing.T) {
	eachClient(t, func(t *testing.T, c aClient) {
		root := must.Get(llmagent.New("till", "", callsThen(scripted.Call("refund", "{}")), llmagent.WithTools(staffsRefund())))
		w := newWorld(t, root)
		c.say("refund")
		_, _, calls := c.send(w, "till")
		require.Len(t, calls, 1)
		c.answer(calls, func(string) string { return "yes" })
		status, _, _ := c.send(w, "till")
		require.NotEqual(t, http.StatusOK, status)
		c.say("Never mind.")
		status, said, _ := c.send(w, "till")
		require.Equal(t, http.StatusOK, status, said)
	})
}

// TestAnswerNextToAnApprovalThatIsNotTheUsers: the user's answer to a question counts, although the client's history has a
// "yes" to a call that only staff may approve.
func TestAnswerNextToAnApprovalThatIsNotTheUsers(t *testing.T) {
	eachClient(t, func(t *testing.T, c aClient) {
		book := must.Get(tools.Func("book", "Books.", func(ctx tools.Context, _ struct{}) (string, error) {
			day, err := ctx.Ask("Is Friday fine?", nil)
			return "booked " + string(day), err
		}))
		root := must.Get(llmagent.New("till", "", callsThen(scripted.Call("refund", `{}`), scripted.Call("book", "{}")), llmagent.WithTools(staffsRefund(), book)))
		w := newWorld(t, root)
		c.say("refund and book")
		_, _, calls := c.send(w, "till")
		require.Len(t, calls, 1)
		c.answer(calls, func(string) string { return "yes" })
		c.say("Friday is fine.")
		status, said, _ := c.send(w, "till")
		require.Equal(t, http.StatusOK, status, said)
	})
}

// staffsRefund is a tool whose calls only staff may approve.
func staffsRefund() tools.Tool {
	return must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) { return "paid", nil }, tools.NeedsApproval(tools.ByStaff())))
}

// callsThen is a model that makes calls, and is done when it has their results.
func callsThen(calls ...scripted.Item) llm.Model {
	return scripted.Func("m", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("Done."))
		}
		return scripted.Reply(calls...)
	})
}

// TestApprovalCallsOfAnEarlierQuestion: a result approves the question that it was asked for. If the call asks again with
// the same tool and the same arguments, the result of the earlier question approves nothing.
func TestApprovalCallsOfAnEarlierQuestion(t *testing.T) {
	eachClient(t, func(t *testing.T, c aClient) {
		store, paid := sessiontest.Memory(t), 0
		world := func(about string) *world {
			refund := must.Get(tools.Func("refund", about, func(tools.Context, struct{}) (string, error) { paid++; return "paid", nil }, tools.NeedsApproval(tools.ByUser())))
			root := must.Get(llmagent.New("till", "", callsThen(scripted.Call("refund", "{}")), llmagent.WithTools(refund)))
			return newWorldOn(t, newTurns(t, root, store))
		}
		first, second := "Refunds a little.", "Refunds all."
		var asked []string
		c.say("refund")
		for i, about := range []string{first, second, first} {
			if i > 0 {
				c.answer(asked[i-1:], func(string) string { return "yes" })
			}
			_, _, calls := c.send(world(about), "till")
			require.Len(t, calls, 1)
			require.NotContains(t, asked, calls[0])
			asked = append(asked, calls[0])
		}
		require.Zero(t, paid)
		c.answer(asked[:1], func(string) string { return "yes" })
		status, said, _ := c.send(world(first), "till")
		require.NotEqual(t, http.StatusOK, status, said)
		require.Zero(t, paid)
	})
}
