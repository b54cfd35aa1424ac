package agui

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/internal/chats/chatstest"
	"github.com/agentarbor/arbor/session/sessiontest"
)

var branches = flag.Int("branches", 60, "conversations of TestBranches")

// page is a page that keeps its messages, in one thread.
type page struct {
	*world
	move func() *world
}

func (p *page) Move() {
	runs := 0
	if p.world != nil {
		runs = p.runs
	}
	p.world = p.move()
	p.runs = runs
}

func (p *page) User(id, text string) any { return says(id, text)[0] }

func (p *page) Send(all []any, repeated bool) []any {
	if !repeated {
		p.runs++
	}
	events := p.run(fmt.Sprint("run-", p.runs), all)
	require.Equal(p, "RUN_FINISHED", last(events)["type"], "%v", all)
	return answersOf(events)
}

// inputOf is the body of a run with messages.
func inputOf(run string, all []any) string {
	tools := []any{map[string]any{"name": "get_time", "description": "Tells the time", "parameters": map[string]any{"type": "object"}}}
	return string(event.EncodeJSON(map[string]any{"threadId": "t1", "runId": run, "messages": all, "tools": tools}))
}

func (p *page) run(run string, all []any) []map[string]any {
	p.Helper()
	status, events, text := p.post("", inputOf(run, all))
	require.Equal(p, http.StatusOK, status, text)
	return events
}

// answersOf returns the messages that events make.
func answersOf(events []map[string]any) (answers []any) {
	byID := map[string]map[string]any{}
	for _, e := range events {
		switch e["type"] {
		case "TEXT_MESSAGE_START":
			m := map[string]any{"id": e["messageId"], "role": "assistant", "content": ""}
			byID[e["messageId"].(string)], answers = m, append(answers, m)
		case "TEXT_MESSAGE_CONTENT":
			m := byID[e["messageId"].(string)]
			m["content"] = m["content"].(string) + e["delta"].(string)
		case "TOOL_CALL_START":
			id, _ := e["parentMessageId"].(string)
			m := byID[id]
			if m == nil {
				m = map[string]any{"id": id, "role": "assistant"}
				byID[id], answers = m, append(answers, m)
			}
			calls, _ := m["toolCalls"].([]any)
			m["toolCalls"] = append(calls, map[string]any{"id": e["toolCallId"], "type": "function", "function": map[string]any{"name": e["toolCallName"], "arguments": "{}"}})
		case "TOOL_CALL_RESULT":
			answers = append(answers, map[string]any{"id": e["messageId"], "role": "tool", "toolCallId": e["toolCallId"], "content": e["content"]})
		}
	}
	return answers
}

func (p *page) Read(answer any) (said string, calls []string, given bool) {
	m := answer.(map[string]any)
	said, _ = m["content"].(string)
	if m["role"] == "tool" {
		return "", nil, said == "ten"
	}
	list, _ := m["toolCalls"].([]any)
	for _, call := range list {
		call := call.(map[string]any)
		if call["function"].(map[string]any)["name"] == "get_time" {
			calls = append(calls, call["id"].(string))
		}
	}
	return said, calls, false
}

func (p *page) Give(answers []any, call string) []any {
	return append(answers, toolMessage("of-"+call, call, "ten")[0])
}

func (p *page) Called(call string) any {
	return map[string]any{"id": "by-" + call, "role": "assistant", "toolCalls": []any{map[string]any{"id": call, "type": "function", "function": map[string]any{"name": "look", "arguments": "{}"}}}}
}

// TestBranches plays random conversations of pages; see chatstest.Play. At the end the thread shows the branch that the page
// is in.
func TestBranches(t *testing.T) {
	for seed := range uint64(*branches) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			root, store := chatstest.Echo(t), sessiontest.Memory(t)
			p := &page{move: func() *world { return newWorld(t, newTurns(t, root, store)) }}
			p.Move()
			heard := chatstest.Play(t, seed, p, true)
			_, events, _ := p.post("/connect?follow=false", `{"threadId":"t1","runId":"later","messages":[]}`)
			require.Equal(t, "MESSAGES_SNAPSHOT", events[1]["type"])
			var shown []string
			for _, m := range events[1]["messages"].([]any) {
				if m := m.(map[string]any); m["role"] == "user" {
					shown = append(shown, wordsOf(m["content"])...)
				}
			}
			require.Equal(t, heard, shown)
		})
	}
}

// wordsOf returns what the user says in the content of a message, without claims.
func wordsOf(content any) (all []string) {
	if text, ok := content.(string); ok {
		return []string{text}
	}
	for _, part := range content.([]any) {
		if text := part.(map[string]any)["text"].(string); !strings.HasPrefix(text, "(The user sent") {
			all = append(all, text)
		}
	}
	return all
}
