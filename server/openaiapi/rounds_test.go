package openaiapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server/internal/chats/chatstest"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// newRounds returns an agent that calls the client's tool get_time for a number of rounds, several times in each, and
// then says what it was given since the user's last words.
func newRounds(t testing.TB, rounds, calls int, talks bool) agent.Agent {
	t.Helper()
	return must.Get(llmagent.New("front", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		var results []string
		for _, m := range req.Messages {
			if m.Role == llm.RoleUser {
				results = nil
			}
			for _, part := range m.Parts {
				if r, ok := part.(llm.ToolResult); ok {
					results = append(results, r.Output)
				}
			}
		}
		if len(results) == rounds*calls {
			return scripted.Reply(scripted.Text(strings.Join(results, " ")))
		}
		var steps []scripted.Item
		if talks {
			steps = append(steps, scripted.Text(fmt.Sprintf("Round %d. ", len(results)/calls)))
		}
		for range calls {
			steps = append(steps, scripted.Call("get_time", `{}`))
		}
		return scripted.Reply(steps...)
	})))
}

// aClient keeps a conversation and sends it whole with each request.
type aClient interface {
	// say sends the user's words, and result that of a call; both wait for send.
	say(words string)
	// answer runs calls.
	answer(calls []string, run func(call string) string)
	// send returns the words and the calls of the answer.
	send(w *world, model string) (status int, said string, calls []string)
	// other adds a round of calls of another model, with their results, that said nothing or something.
	other(said string, names ...string)
}

type chatClient struct {
	messages []any
}

func (c *chatClient) say(words string) { c.messages = append(c.messages, user(words)) }

func (c *chatClient) answer(calls []string, run func(string) string) {
	for _, id := range calls {
		c.messages = append(c.messages, map[string]any{"role": "tool", "tool_call_id": id, "content": run(id)})
	}
}

func (c *chatClient) other(said string, names ...string) {
	var calls []any
	for i, name := range names {
		calls = append(calls, map[string]any{"id": fmt.Sprint("other", len(c.messages), i), "type": "function", "function": map[string]any{"name": name, "arguments": `{"a":1}`}})
	}
	at := len(c.messages)
	c.messages = append(c.messages, map[string]any{"role": "assistant", "content": said, "tool_calls": calls})
	for i, name := range names {
		c.messages = append(c.messages, map[string]any{"role": "tool", "tool_call_id": fmt.Sprint("other", at, i), "content": "of " + name})
	}
}

func (c *chatClient) send(w *world, model string) (int, string, []string) {
	rec := w.post(context.Background(), "/chat/completions", map[string]any{"model": model, "messages": c.messages, "tools": []any{function("get_time"), function("arbor_approve")}})
	if rec.Code != http.StatusOK {
		return rec.Code, rec.Body.String(), nil
	}
	got := must.JSON[wireChat](rec.Body.Bytes())
	m := got.Choices[0].Message
	c.messages = append(c.messages, m)
	var ids []string
	for _, call := range m.ToolCalls {
		ids = append(ids, call.ID)
	}
	return rec.Code, *m.Content, ids
}

type responsesClient struct {
	items []any
	pairs bool // a result follows its call directly, not the last call of the round
}

func (c *responsesClient) say(words string) { c.items = append(c.items, user(words)) }

func (c *responsesClient) answer(calls []string, run func(string) string) {
	for _, id := range calls {
		output := map[string]any{"type": "function_call_output", "call_id": id, "output": run(id)}
		at := len(c.items)
		for i, item := range c.items {
			if call, ok := item.(map[string]any); ok && c.pairs && call["type"] == "function_call" && call["call_id"] == id {
				at = i + 1
			}
		}
		c.items = append(c.items[:at], append([]any{output}, c.items[at:]...)...)
	}
}

func (c *responsesClient) other(said string, names ...string) {
	if said != "" {
		c.items = append(c.items, map[string]any{"type": "message", "role": "assistant", "content": said})
	}
	c.items = append(c.items, map[string]any{"type": "web_search_call", "id": "ws_1", "status": "completed"}) // of OpenAI's own tool
	var ids []string
	for i, name := range names {
		ids = append(ids, fmt.Sprint("other", len(c.items), i))
		c.items = append(c.items, map[string]any{"type": "function_call", "call_id": ids[i], "name": name, "arguments": `{"a":1}`})
	}
	n := 0
	c.answer(ids, func(string) string { n++; return "of " + names[n-1] })
}

func (c *responsesClient) send(w *world, model string) (int, string, []string) {
	tool := function("get_time")["function"].(map[string]any)
	tool["type"] = "function"
	approve := map[string]any{"type": "function", "name": "arbor_approve"}
	got := w.respond(map[string]any{"model": model, "input": c.items, "tools": []any{tool, approve}})
	if got.Status != http.StatusOK {
		return got.Status, got.Error.Message, nil
	}
	var ids []string
	var said string
	for _, item := range got.Response.Output {
		var kept map[string]any
		raw := must.Get(json.Marshal(item))
		require.NoError(w, json.Unmarshal(raw, &kept))
		c.items = append(c.items, kept)
		if item.Type == "function_call" {
			ids = append(ids, item.CallID)
		} else {
			said += got.text()
		}
	}
	return got.Status, said, ids
}

func eachClient(t *testing.T, run func(t *testing.T, c aClient)) {
	t.Run("chat completions", func(t *testing.T) { run(t, &chatClient{}) })
	t.Run("responses", func(t *testing.T) { run(t, &responsesClient{}) })
	t.Run("responses in pairs", func(t *testing.T) { run(t, &responsesClient{pairs: true}) })
}

// TestRoundsOfClientTools: a client that names no session gives results for several rounds, in whichever process, and
// the whole is one turn of one session.
func TestRoundsOfClientTools(t *testing.T) {
	for _, rounds := range []int{1, 2, 3} {
		for _, calls := range []int{1, 2} {
			for _, talks := range []bool{false, true} {
				for _, moves := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d rounds of %d, talks %t, moves %t", rounds, calls, talks, moves), func(t *testing.T) {
						eachClient(t, func(t *testing.T, c aClient) {
							root, store := newRounds(t, rounds, calls, talks), sessiontest.Memory(t)
							w := newWorldOn(t, newTurns(t, root, store))
							c.say("Begin")
							n, all := 0, []string{}
							for {
								status, said, asked := c.send(w, "front")
								require.Equal(t, http.StatusOK, status, said)
								if asked == nil {
									require.Contains(t, said, strings.Join(all, " "))
									break
								}
								require.Len(t, asked, calls)
								c.answer(asked, func(string) string { n++; all = append(all, fmt.Sprint("r", n)); return all[n-1] })
								if moves {
									w = newWorldOn(t, newTurns(t, root, store))
								}
							}
							require.Equal(t, rounds*calls, n)
							require.Len(t, w.list(), 1)
							c.say("Again")
							status, _, asked := c.send(w, "front")
							require.Equal(t, http.StatusOK, status)
							require.Len(t, asked, calls)
							if !moves {
								require.Len(t, w.list(), 1)
							}
						})
					})
				}
			}
		}
	}
}

// TestResultsAmongOtherSessions: another process finds the session that waits for a result, however many sessions the user
// has had since.
func TestResultsAmongOtherSessions(t *testing.T) {
	eachClient(t, func(t *testing.T, c aClient) {
		root, store := chatstest.Echo(t), sessiontest.Memory(t)
		w := newWorldOn(t, newTurns(t, root, store))
		c.say("loop 1 1")
		status, answer, calls := c.send(w, "front")
		require.Equal(t, http.StatusOK, status, answer)
		for i := range 20 {
			require.Equal(t, http.StatusOK, w.chat(t.Context(), map[string]any{"model": "front", "messages": []any{user(fmt.Sprint("Hi ", i))}}).Status)
		}
		c.answer(calls, func(string) string { return "ten" })
		w = newWorldOn(t, newTurns(t, root, store))
		status, answer, _ = c.send(w, "front")
		require.Equal(t, http.StatusOK, status, answer)
		require.Equal(t, "loop 1 1 1", answer)
		require.Len(t, w.list(), 21)
	})
}

// TestResultsOfOthers: a client whose earlier rounds another model answered, as a framework has that changes models or
// transfers between agents of its own, gets an answer. What the other model called is a claim of the user.
func TestResultsOfOthers(t *testing.T) {
	for _, last := range []bool{false, true} {
		for _, before := range []bool{false, true} {
			for _, said := range []string{"", "One moment."} {
				t.Run(fmt.Sprintf("last %t, before %t, said %q", last, before, said), func(t *testing.T) {
					eachClient(t, func(t *testing.T, c aClient) {
						var seen []llm.Message
						var offered []llm.ToolSpec
						root := must.Get(llmagent.New("front", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
							seen, offered = req.Messages, req.Tools
							return scripted.Reply(scripted.Text("Hello."))
						})))
						w := newWorld(t, root)
						if before { // the conversation began here
							c.say("Good morning")
							status, answer, _ := c.send(w, "front")
							require.Equal(t, http.StatusOK, status, answer)
						}
						c.say("Where is it?")
						c.other(said, "look_up", "transfer_to_desk")
						c.other("", "show_map")
						if !last {
							c.say("And now?")
						}
						for range 2 {
							status, answer, _ := c.send(w, "front")
							require.Equal(t, http.StatusOK, status, answer)
							require.Equal(t, "Hello.", answer)
							require.Len(t, offered, 1, "the client's tool")
							c.say("Thank you")
						}
						if before && !last {
							require.Len(t, w.list(), 2, "another model answered in between")
						} else {
							require.Len(t, w.list(), 1)
						}
						var all strings.Builder
						for _, m := range seen {
							require.NotEqual(t, llm.RoleTool, m.Role, "nothing is taken for the result of a tool")
							all.WriteString(m.PlainText() + "\n")
						}
						require.Contains(t, all.String(), "are a claim")
						for _, what := range []string{"Where is it?", `"of look_up"`, `"of transfer_to_desk"`, `"of show_map"`, "Thank you"} {
							require.Equal(t, 1, strings.Count(all.String(), what), "%s\n%s", what, all.String())
						}
						if before {
							require.Equal(t, 1, strings.Count(all.String(), "Good morning"), all.String())
						}
					})
				})
			}
		}
	}
}

// TestUsageOfParts: clients add up the usage of their requests, so a request counts what it caused and no earlier part of
// its turn.
func TestUsageOfParts(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("streamed %t", stream), func(t *testing.T) {
			n := 0
			refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) { return "paid", nil }, tools.NeedsApproval(tools.ByUser())))
			w := newWorld(t, must.Get(llmagent.New("front", "", scripted.Func("m", func(*llm.Request) scripted.Answer {
				n++
				return scripted.Reply([]scripted.Item{scripted.CallID("c1", "get_time", `{}`), scripted.Call("refund", `{}`), scripted.Text("Done.")}[n-1], scripted.Usage(10*n, n, n))
			}), llmagent.WithTools(refund))))
			var messages []any
			ask := func(more any) *wireUsage {
				messages = append(messages, more)
				got := w.chat(t.Context(), map[string]any{"model": "front", "messages": messages, "tools": []any{function("get_time")}, "stream": stream,
					"stream_options": map[string]any{"include_usage": true}}, with("Arbor-Session", "s1")).is(t, http.StatusOK)
				if calls := got.Arbor.Pending; len(calls) > 0 && calls[0].Tool == "get_time" {
					messages = append(messages, map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": "call_" + calls[0].CallID,
						"type": "function", "function": map[string]any{"name": "get_time", "arguments": "{}"}}}})
				} else {
					messages = append(messages, map[string]any{"role": "assistant", "content": got.Content})
				}
				return got.Usage
			}
			used := func(prompt, completion int) *wireUsage {
				return usageOf(llm.Usage{InputTokens: prompt, OutputTokens: completion, CachedTokens: completion})
			}
			require.Equal(t, used(10, 1), ask(user("Refund me")))
			id := messages[1].(map[string]any)["tool_calls"].([]any)[0].(map[string]any)["id"]
			require.Equal(t, used(20, 2), ask(map[string]any{"role": "tool", "tool_call_id": id, "content": "nine"}))
			require.Equal(t, used(0, 0), ask(user("What?")), "the question again")
			require.Equal(t, used(30, 3), ask(user("yes")))
			require.Equal(t, 3, n)
		})
	}
}
