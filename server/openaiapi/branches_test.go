package openaiapi

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session/sessiontest"
)

var branches = flag.Int("branches", 60, "conversations of TestBranches")

// newEcho returns an agent that answers with all that the user has said in the conversation, as the agent is shown it. For
// words "loop 2 3" it calls the client's get_time three times, twice, before. An agent to which it transfers does the same.
func newEcho(t testing.TB) agent.Agent {
	t.Helper()
	answer := func(name string) llm.Model {
		return scripted.Func(name, func(req *llm.Request) scripted.Answer {
			heard, results := heardIn(req.Messages)
			last := heard[len(heard)-1]
			if strings.HasSuffix(last, "move") && name == "front" && slices.ContainsFunc(req.Tools, func(s llm.ToolSpec) bool { return s.Name == agent.TransferTool }) {
				return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"back"}`))
			}
			var rounds, calls int
			if _, err := fmt.Sscanf(last, "loop %d %d", &rounds, &calls); err == nil && results < rounds*calls {
				items := []scripted.Item{scripted.Text("Round. ")}
				if len(heard)%2 == 0 {
					items = nil
				}
				for range calls {
					items = append(items, scripted.Call("get_time", `{}`))
				}
				return scripted.Reply(items...)
			}
			return scripted.Reply(scripted.Text(strings.Join(heard, "/") + " " + strconv.Itoa(results)))
		})
	}
	back, err := llmagent.New("back", "", answer("back"), llmagent.WithDescription("Continues the conversation"))
	require.NoError(t, err)
	root, err := llmagent.New("front", "", answer("front"), llmagent.WithSubAgents(back))
	require.NoError(t, err)
	return root
}

// heardIn returns what users said in messages, and the number of results of tools since.
func heardIn(messages []llm.Message) (heard []string, results int) {
	for _, m := range messages {
		switch m.Role {
		case llm.RoleUser:
			texts := []string{m.Text}
			for _, p := range m.Parts {
				if text, ok := p.(llm.TextPart); ok {
					texts = append(texts, text.Text)
				}
			}
			for _, text := range texts {
				switch {
				case strings.HasPrefix(text, "(The user sent the next lines"):
					results += strings.Count(text, "Claimed result of")
				case strings.HasPrefix(text, "["): // what another agent said and did
					results += strings.Count(text, "called get_time")
				case text != "":
					heard, results = append(heard, text), 0
				}
			}
		case llm.RoleTool:
			results++
		}
	}
	return heard, results
}

// windowItem is what a window shows of the user's words and of what followed: messages or items of the protocol.
type windowItem struct {
	user    string
	answers []any
}

// windows is a client of either protocol that keeps its conversation itself.
type windows struct {
	t     *testing.T
	rng   *rand.Rand
	w     *world
	chat  bool
	pairs bool
	items []windowItem
	ids   map[string]bool // of answers
}

// body is a request with the whole conversation.
func (c *windows) body() map[string]any {
	var all []any
	for _, item := range c.items {
		if item.user != "" {
			all = append(all, user(item.user))
		}
		all = append(all, item.answers...)
	}
	if c.chat {
		return map[string]any{"model": "front", "messages": all, "tools": []any{function("get_time")}}
	}
	tool := function("get_time")["function"].(map[string]any)
	tool["type"] = "function"
	return map[string]any{"model": "front", "input": all, "tools": []any{tool}}
}

// send sends what the window has, and returns the words and the calls of the answer, which it keeps.
func (c *windows) send(changes ...change) (said string, calls []string) {
	c.t.Helper()
	path := "/responses"
	if c.chat {
		path = "/chat/completions"
	}
	body := c.body()
	rec := c.w.post(context.Background(), path, body, changes...)
	require.Equal(c.t, http.StatusOK, rec.Code, "%s\n%v", rec.Body, body)
	var got struct {
		ID      string
		Choices []struct {
			Message map[string]any
		}
		Output []map[string]any
	}
	require.NoError(c.t, json.Unmarshal(rec.Body.Bytes(), &got))
	last := &c.items[len(c.items)-1]
	require.True(c.t, len(changes) > 0 || !c.ids[got.ID], "two answers are called %s", got.ID)
	c.ids[got.ID] = true
	if c.chat {
		m := got.Choices[0].Message
		said = m["content"].(string)
		if list, ok := m["tool_calls"].([]any); ok {
			for _, call := range list {
				calls = append(calls, call.(map[string]any)["id"].(string))
			}
		}
		last.answers = append(last.answers, m)
		return said, calls
	}
	for _, item := range got.Output {
		switch item["type"] {
		case "function_call":
			calls = append(calls, item["call_id"].(string))
		case "message":
			said += item["content"].([]any)[0].(map[string]any)["text"].(string)
		}
		last.answers = append(last.answers, item)
	}
	return said, calls
}

// give adds results of calls.
func (c *windows) give(calls []string) {
	last := &c.items[len(c.items)-1]
	for _, id := range calls {
		if c.chat {
			last.answers = append(last.answers, map[string]any{"role": "tool", "tool_call_id": id, "content": "ten"})
			continue
		}
		output, at := map[string]any{"type": "function_call_output", "call_id": id, "output": "ten"}, len(last.answers)
		for i, item := range last.answers {
			if call := item.(map[string]any); c.pairs && call["type"] == "function_call" && call["call_id"] == id {
				at = i + 1
			}
		}
		last.answers = slices.Insert(last.answers, at, any(output))
	}
}

// other adds an answer of another model to the last words: a round of calls with results.
func (c *windows) other() {
	last := &c.items[len(c.items)-1]
	id := fmt.Sprint("other", c.rng.Uint32())
	if c.chat {
		last.answers = append(last.answers, map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "look", "arguments": "{}"}}}})
	} else {
		last.answers = append(last.answers, map[string]any{"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"})
	}
	c.give([]string{id})
}

// turn sends the window until it has an answer without calls, and compares that with what the window has.
func (c *windows) turn(moved func()) {
	c.t.Helper()
	for {
		said, calls := c.send()
		if calls == nil {
			c.check(said)
			return
		}
		c.give(calls)
		moved()
	}
}

// check compares an answer with what the user has said in the window.
func (c *windows) check(said string) {
	c.t.Helper()
	var heard []string
	for _, item := range c.items {
		heard = append(heard, item.user)
	}
	results := 0
	for _, a := range c.items[len(c.items)-1].answers {
		if isResult(a) {
			results++
		}
	}
	require.True(c.t, strings.HasSuffix(said, fmt.Sprint(strings.Join(heard, "/"), " ", results)), "%q: %q and %d", said, heard, results)
}

// TestBranches: a client that keeps its conversation itself may go on, ask again, change what it said before, forget the
// beginning, repeat a request, ask another model in between and meet another process at each step. An agent is always
// shown what the window shows: all of the user's words, in order, once, and nothing of another branch.
func TestBranches(t *testing.T) {
	words := []string{"a", "b", "c", "move", "loop 1 1", "loop 2 1", "loop 2 2", "loop 1 3"}
	for seed := range uint64(*branches) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			root, store := newEcho(t), sessiontest.Memory(t)
			c := &windows{t: t, rng: rng, w: newWorldOn(t, newTurns(t, root, store)), chat: seed%3 == 0, pairs: seed%3 == 1, ids: make(map[string]bool)}
			moved := func() {
				if rng.IntN(4) == 0 {
					c.w = newWorldOn(t, newTurns(t, root, store))
				}
			}
			for range 10 {
				moved()
				step, n := rng.IntN(8), len(c.items)
				if n == 0 {
					step = 0
				}
				switch {
				case step <= 2 || n == 0: // the user says more
					c.items = append(c.items, windowItem{user: words[rng.IntN(len(words))]})
				case step == 3: // asks again
					c.items[n-1].answers = nil
				case step == 4: // changes earlier words
					k := rng.IntN(n)
					c.items = append(c.items[:k:k], windowItem{user: words[rng.IntN(len(words))]})
				case step == 5 && n > 1: // forgets the beginning
					c.items = append(slices.Clone(c.items[1:]), windowItem{user: words[rng.IntN(len(words))]})
				case step == 6: // another model has answered some of it
					c.items = append(c.items, windowItem{user: words[rng.IntN(4)]})
					c.other()
				default: // repeats the last request, as clients do that lost the answer
					last := &c.items[n-1]
					for len(last.answers) > 0 && !isResult(last.answers[len(last.answers)-1]) {
						last.answers = slices.Clone(last.answers[:len(last.answers)-1])
					}
					said, calls := c.send(with("X-Stainless-Retry-Count", "1"))
					require.Nil(t, calls)
					c.check(said)
					continue
				}
				c.turn(moved)
			}
		})
	}
}

// isResult reports whether a message or an item is the result of a call.
func isResult(item any) bool {
	m := item.(map[string]any)
	return m["role"] == "tool" || m["type"] == "function_call_output"
}
