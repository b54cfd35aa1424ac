package agui

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/internal/chats/chatstest"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// turnsOf returns the number of turns in the sessions of a store, of which forks share some, and the number of sessions.
func turnsOf(t testing.TB, store session.Store) (turns, sessions int) {
	t.Helper()
	infos := must.Get(store.List(t.Context(), session.Key{}, session.Page{}))
	seen := make(map[string]bool)
	for _, info := range infos {
		for _, e := range must.All(store.Load(t.Context(), info.Key, 0)) {
			if _, ok := e.Data.(*event.User); ok {
				seen[e.ID] = true
			}
		}
	}
	return len(seen), len(infos)
}

// TestAskAgain: what pages do with their history, in a table. A request is a run and messages: words with an id, or the
// answers of an earlier run. What it says last is what the agent has heard, or the code of an error. Each request is made to
// a process of its own, and a second time, which begins no turn.
func TestAskAgain(t *testing.T) {
	type request struct{ run, messages, want, in string }
	for name, requests := range map[string][]request{
		"the last answer": {
			{"1", "u1=a", "a", "t1"}, {"2", "u1=a @1 u2=b", "a/b", "t1"},
			{"3", "u1=a @1 u2=b", "a/b", "t1~1"}, {"4", "u1=a @1 u2=b @3 u3=c", "a/b/c", "t1~1"}, {"5", "u1=a @1 u2=b @2 u3=d", "a/b/d", "t1"},
		},
		"the first answer":      {{"1", "u1=a", "a", "t1"}, {"2", "u1=a", "a", "t1~1"}, {"3", "u1=a @2 u2=b", "a/b", "t1~1"}},
		"twice":                 {{"1", "u1=a", "a", "t1"}, {"2", "u1=a", "a", "t1~1"}, {"3", "u1=a", "a", "t1~2"}, {"4", "u1=a @1 u2=b", "a/b", "t1"}},
		"an earlier answer":     {{"1", "u1=a", "a", "t1"}, {"2", "u1=a @1 u2=b", "a/b", "t1"}, {"3", "u1=a @1 u2=b @2 u3=c", "a/b/c", "t1"}, {"4", "u1=a @1 u2=b", "a/b", "t1~1"}},
		"changed words":         {{"1", "u1=a", "a", "t1"}, {"2", "u1=a @1 u2=b", "a/b", "t1"}, {"3", "u1=a @1 u2=c", "a/c", "t1~1"}},
		"changed words, new id": {{"1", "u1=a", "a", "t1"}, {"2", "u1=a @1 u2=b", "a/b", "t1"}, {"3", "u1=a @1 u3=c", "a/c", "t1~1"}, {"4", "u1=a @1 u3=c @3 u4=d", "a/c/d", "t1~1"}},
		"of a branch": {
			{"1", "u1=a", "a", "t1"}, {"2", "u1=b", "b", "t1~1"}, {"3", "u1=b @2 u2=c", "b/c", "t1~1"}, {"4", "u1=b @2 u2=c", "b/c", "t1~2"}, {"5", "u1=b @2 u2=c @3 u3=d", "b/c/d", "t1~1"},
		},
		"two messages":             {{"1", "u1=a u2=b", "a/b", "t1"}, {"2", "u1=a u2=b", "a/b", "t1~1"}, {"3", "u1=a u2=c", "a/c", "t1~2"}, {"4", "u1=a u2=b @2 u3=d", "a/b/d", "t1~1"}},
		"only the last words":      {{"1", "u1=a", "a", "t1"}, {"2", "u2=b", "a/b", "t1"}, {"3", "u2=b", "a/b", "t1~1"}, {"4", "u3=c", "a/b/c", "t1~1"}},
		"with the page's tools":    {{"1", "u1=loop_1_1", "get_time", "t1"}, {"2", "u1=loop_1_1 @1 result", "loop 1 1", "t1"}, {"3", "u1=loop_1_1", "get_time", "t1~1"}, {"4", "u1=loop_1_1 @3 result", "loop 1 1", "t1~1"}},
		"with some of the results": {{"1", "u1=loop_1_2", "get_time", "t1"}, {"2", "u1=loop_1_2 @1 result", "RUN_FINISHED", "t1"}},
		"a greeting":               {{"1", "hello u1=a", "a", "t1"}, {"2", "hello u1=a", "a", "t1~1"}, {"3", "hello u1=a @1 u2=b", "a/b", "t1"}},
		"answers with other ids":   {{"1", "u1=a", "a", "t1"}, {"2", "u1=a %1 u2=b", "a/b", "t1"}, {"3", "u1=a %1 u2=b %2 u3=c", "a/b/c", "t1"}},
		"answers of another model": {{"1", "u1=a", "a", "t1"}, {"2", "u1=a hello u2=b", "a/b", "t1~1"}},
		"nothing new":              {{"1", "u1=a", "a", "t1"}, {"2", "u1=a @1", "nothing_new", "t1"}, {"3", "", "nothing_new", "t1"}},
	} {
		t.Run(name, func(t *testing.T) {
			root, store := chatstest.Echo(t), sessiontest.Memory(t)
			answers, others := make(map[string][]any), 0
			for _, r := range requests {
				all := []any{}
				for word := range strings.FieldsSeq(r.messages) {
					id, text, user := strings.Cut(word, "=")
					switch {
					case user:
						all = append(all, says(id, strings.ReplaceAll(text, "_", " "))[0])
					case word == "hello":
						all = append(all, map[string]any{"id": "h", "role": "assistant", "content": "Good day!"})
					case word == "result":
						_, calls, _ := (&page{}).Read(all[len(all)-1])
						all = append(all, toolMessage("of-"+calls[0], calls[0], "ten")[0])
					case word[0] == '%':
						for _, m := range answers[word[1:]] {
							others++
							all = append(all, map[string]any{"id": fmt.Sprint("x", others), "role": "assistant", "content": m.(map[string]any)["content"]})
						}
					default:
						all = append(all, answers[word[1:]]...)
					}
				}
				turns, sessions := 0, 0
				for i := range 2 {
					p := &page{world: newWorld(t, newTurns(t, root, store))}
					events := p.run(r.run, all)
					got := answersOf(events)
					said, ok := last(events)["code"].(string)
					if !ok {
						said = last(events)["type"].(string)
					}
					if len(got) > 0 {
						text, calls, _ := p.Read(got[len(got)-1])
						if said = strings.TrimSuffix(strings.TrimSuffix(text, " 0"), " 1"); calls != nil {
							said = "get_time"
						}
						answers[r.run] = got
					}
					require.Equal(t, r.want, said, r.run)
					key := must.Get(p.handler.current(t.Context(), p.key("t1")))
					require.Equal(t, r.in, key.ID, r.run)
					if i == 0 {
						turns, sessions = turnsOf(t, store)
						continue
					}
					again, same := turnsOf(t, store)
					require.Equal(t, []int{turns, sessions}, []int{again, same}, r.run)
				}
			}
		})
	}
}

// TestAskAgainAtOnce: of equal requests one begins a turn, and of different ones each has a branch.
func TestAskAgainAtOnce(t *testing.T) {
	root, store := chatstest.Echo(t), sessiontest.Memory(t)
	first := &page{world: newWorld(t, newTurns(t, root, store))}
	first.run("r1", []any{says("u1", "a")[0]})
	worlds := []*world{newWorld(t, newTurns(t, root, store)), newWorld(t, newTurns(t, root, store))}
	for round, want := range []int{2, 4} { // in all branches
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				run := fmt.Sprint("again", round, i%(round+1))
				for {
					status, events, text := worlds[i/2].post("", inputOf(run, []any{says("u1", "a")[0]}))
					if status == http.StatusConflict { // the others have been faster, too often
						continue
					}
					if status != http.StatusOK || last(events)["type"] != "RUN_FINISHED" {
						t.Error(text)
					}
					return
				}
			})
		}
		group.Wait()
		turns, sessions := turnsOf(t, store)
		require.Equal(t, []int{want, want}, []int{turns, sessions})
	}
}

// TestAskAgainMeanwhile: a page that asks again for the answer of a turn that runs ends that turn, if nobody else watches it.
// New words at an earlier place are refused until the turn has ended.
func TestAskAgainMeanwhile(t *testing.T) {
	d := newDesk(t)
	w := streaming(t, d)
	p := &page{world: w}
	answers := answersOf(p.run("r1", []any{says("u1", "Hi")[0]}))
	x := must.Get(w.turns.Begin(t.Context(), w.key("t1"), llm.UserText("think")))
	<-d.thinks
	all := []any{says("u1", "Hi")[0], answers[0], says("u2", "think")[0]}
	status, _, text := w.post("", inputOf("r2", all))
	require.Equal(t, http.StatusConflict, status, text)
	d.free <- struct{}{}
	require.NoError(t, x.Wait(t.Context()))

	gone, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(gone, http.MethodPost, w.url, strings.NewReader(inputOf("r3", all)))
		if err == nil {
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer secret")
			var res *http.Response
			if res, err = http.DefaultClient.Do(r); err == nil {
				_, err = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		}
		left <- err
	}()
	<-d.thinks
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	again := make(chan []map[string]any, 1)
	go func() {
		_, events, _ := w.post("", inputOf("r4", all))
		again <- events
	}()
	<-d.thinks
	d.free <- struct{}{}
	require.Equal(t, "RUN_FINISHED", last(<-again)["type"])
	rep := must.Get(w.turns.Report(t.Context(), w.key("t1~1"), ""))
	require.Equal(t, live.CutOff, rep.State)
	rep = must.Get(w.turns.Report(t.Context(), w.key("t1~2"), ""))
	require.Equal(t, "thinking done", rep.Text)
}

// TestDeletedThread: a thread whose session was deleted starts again, and forks of the deleted session are not its branches.
func TestDeletedThread(t *testing.T) {
	onDisk := must.Get(sqlite.Open(filepath.Join(t.TempDir(), "sessions.db")))
	for _, store := range []session.Store{sessiontest.Memory(t), onDisk} {
		p := &page{world: newWorld(t, newTurns(t, chatstest.Echo(t), store))}
		p.run("r1", []any{says("u1", "a")[0]})
		p.run("r2", []any{says("u1", "a")[0]})
		require.NoError(t, store.Delete(t.Context(), p.key("t1")))
		text, _, _ := p.Read(answersOf(p.run("r3", []any{says("u1", "b")[0]}))[0])
		require.Equal(t, "b 0", text)
		key := must.Get(p.handler.current(t.Context(), p.key("t1")))
		require.Equal(t, "t1", key.ID)
		p.run("r4", []any{says("u1", "c")[0]})
		key = must.Get(p.handler.current(t.Context(), p.key("t1")))
		require.Equal(t, "t1~2", key.ID)
	}
	t.Cleanup(func() { require.NoError(t, onDisk.Close()) })
}

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
