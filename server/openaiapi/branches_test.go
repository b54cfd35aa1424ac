package openaiapi

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/server/internal/chats/chatstest"
	"github.com/agentarbor/arbor/session/sessiontest"
)

var branches = flag.Int("branches", 60, "conversations of TestBranches")

// windows is a client of either protocol that keeps its conversation itself.
type windows struct {
	*world
	move  func() *world
	chat  bool
	pairs bool            // a call is followed by its result
	ids   map[string]bool // of answers
}

func (c *windows) Move() { c.world = c.move() }

func (c *windows) User(_, text string) any { return user(text) }

func (c *windows) Send(all []any, repeated bool) []any {
	c.Helper()
	tool := function("get_time")
	path, body := "/chat/completions", map[string]any{"model": "front", "messages": all, "tools": []any{tool}}
	if !c.chat {
		tool = tool["function"].(map[string]any)
		tool["type"] = "function"
		path, body = "/responses", map[string]any{"model": "front", "input": all, "tools": []any{tool}}
	}
	var changes []change
	if repeated {
		changes = []change{with("X-Stainless-Retry-Count", "1")}
	}
	rec := c.post(context.Background(), path, body, changes...)
	require.Equal(c, http.StatusOK, rec.Code, "%s\n%v", rec.Body, body)
	var got struct {
		ID      string
		Choices []struct {
			Message map[string]any
		}
		Output []any
	}
	require.NoError(c, json.Unmarshal(rec.Body.Bytes(), &got))
	require.True(c, repeated || !c.ids[got.ID], "two answers are called %s", got.ID)
	c.ids[got.ID] = true
	for _, choice := range got.Choices {
		got.Output = append(got.Output, choice.Message)
	}
	return got.Output
}

func (c *windows) Read(answer any) (said string, calls []string, given bool) {
	m := answer.(map[string]any)
	switch {
	case m["role"] == "tool" || m["type"] == "function_call_output":
		return "", nil, true
	case m["type"] == "function_call":
		return "", []string{m["call_id"].(string)}, false
	case m["type"] == "message":
		return m["content"].([]any)[0].(map[string]any)["text"].(string), nil, false
	}
	said, _ = m["content"].(string)
	list, _ := m["tool_calls"].([]any)
	for _, call := range list {
		calls = append(calls, call.(map[string]any)["id"].(string))
	}
	return said, calls, false
}

func (c *windows) Give(answers []any, id string) []any {
	if c.chat {
		return append(answers, map[string]any{"role": "tool", "tool_call_id": id, "content": "ten"})
	}
	at := len(answers)
	for i, item := range answers {
		if call := item.(map[string]any); c.pairs && call["type"] == "function_call" && call["call_id"] == id {
			at = i + 1
		}
	}
	return slices.Insert(answers, at, any(map[string]any{"type": "function_call_output", "call_id": id, "output": "ten"}))
}

func (c *windows) Called(id string) any {
	if c.chat {
		return map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "look", "arguments": "{}"}}}}
	}
	return map[string]any{"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"}
}

// TestBranches plays random conversations in three forms of requests; see chatstest.Play.
func TestBranches(t *testing.T) {
	for seed := range uint64(*branches) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			root, store := chatstest.Echo(t), sessiontest.Memory(t)
			c := &windows{chat: seed%3 == 0, pairs: seed%3 == 1, ids: make(map[string]bool)}
			c.move = func() *world { return newWorldOn(t, newTurns(t, root, store)) }
			c.Move()
			chatstest.Play(t, seed, c, false)
		})
	}
}
