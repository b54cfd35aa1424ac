package agui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// desk is an agent that does what it is told, and what was told to its model.
type desk struct {
	agent.Agent
	asked   atomic.Int32  // how often its model was
	refunds atomic.Int32  // how often its tool ran
	thinks  chan struct{} // it has said the first half
	free    chan struct{} // it may say the second
	mu      sync.Mutex
	last    []llm.Message
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	d := &desk{thinks: make(chan struct{}, 100), free: make(chan struct{}, 100)}
	refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) {
		d.refunds.Add(1)
		return "refunded", nil
	}, tools.NeedsApproval(tools.ByUser())))
	count := must.Get(tools.Func("count", "Asks.", func(c tools.Context, _ struct{}) (any, error) {
		return c.Ask("How many?", json.RawMessage(`{"type":"integer"}`))
	}))
	cut := false
	model := scripted.Func("desk", func(req *llm.Request) scripted.Answer {
		d.asked.Add(1)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.last = req.Messages
		last := req.Messages[len(req.Messages)-1]
		switch text := last.PlainText(); {
		case last.Role == llm.RoleTool:
			return scripted.Reply(scripted.Text("Thank you."))
		case strings.Contains(text, "think"):
			return scripted.Reply(scripted.Text("thin"), scripted.Wait(func(context.Context) error { d.thinks <- struct{}{}; return nil }),
				scripted.WaitFor(d.free), scripted.Text("king done"))
		case strings.Contains(text, "cut") && !cut:
			cut = true
			return scripted.Reply(scripted.Text("Wrong "), scripted.Text("words"), scripted.Cut())
		case strings.Contains(text, "both"):
			return scripted.Reply(scripted.CallID("c1", "refund", `{}`), scripted.CallID("c2", "count", `{}`))
		case strings.Contains(text, "refund"):
			return scripted.Reply(scripted.CallID("", "refund", `{}`))
		case strings.Contains(text, "count"):
			return scripted.Reply(scripted.CallID("", "count", `{}`))
		case strings.Contains(text, "fail"):
			return scripted.Reply(scripted.Status(400, 0))
		}
		return scripted.Reply(scripted.Think("Hm."), scripted.Text("Hello."))
	})
	d.Agent = must.Get(llmagent.New("desk", "You obey.", model, llmagent.WithTools(refund, count)))
	return d
}

func texted(messages []map[string]any) (all []string) {
	for _, m := range messages {
		all = append(all, fmt.Sprint(m["role"], ": ", m["content"]))
	}
	return all
}

func outcome(r *peerReply) any { return last(r.Events)["outcome"].(map[string]any)["type"] }

func resolved(i map[string]any, payload any) []map[string]any {
	return []map[string]any{{"interruptId": i["id"], "status": "resolved", "payload": payload}}
}

// TestOfficialClient is what pages do with the official client, whose verifier and schemas accept all that they are
// sent.
func TestOfficialClient(t *testing.T) {
	peer := startPeer(t)
	for name, test := range map[string]func(*testing.T, *clientProcess){
		"Run":               testRun,
		"TakenBack":         testTakenBack,
		"Approval":          testApproval,
		"Dismissed":         testDismissed,
		"Question":          testQuestion,
		"TheSameRun":        testTheSameRun,
		"Connect":           testConnect,
		"Moved":             testMoved,
		"WhoLeaves":         testWhoLeaves,
		"Stopped":           testStopped,
		"Imported":          testImported,
		"NewWords":          testNewWords,
		"Person":            testPerson,
		"UsersAreKeptApart": testUsersAreKeptApart,
	} {
		t.Run(name, func(t *testing.T) { test(t, peer) })
	}
}

// testRun: the beginning of a run, its end, and what goes with them.
func testRun(t *testing.T, peer *clientProcess) {
	w := streaming(t, newDesk(t))
	r := peer.do(t, w.to(peerCommand{Say: says("u1", "Hi"), Run: "r 1"}))
	require.Equal(t, []string{"RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"}, types(r.Events))
	require.Equal(t, map[string]any{"type": "RUN_STARTED", "threadId": "t1", "runId": "r 1", "protocolVersion": "1.0"}, r.Events[0])
	require.Equal(t, map[string]any{"arbor": map[string]any{"activeAgent": "desk", "activePath": "desk", "seq": 2.0}}, r.State)
	require.Equal(t, "r 1", last(r.Events)["runId"])
	require.Equal(t, map[string]any{"turn": w.log("t1")[0].TurnID, "agent": "desk", "finishReason": "stop", "output": nil}, last(r.Events)["result"])
	require.Equal(t, []string{"user: Hi", "assistant: Hello."}, texted(r.Messages))

	r = peer.do(t, w.to(peerCommand{Say: says("u2", "please fail")}))
	require.Equal(t, "RUN_ERROR", last(r.Events)["type"])
	require.Equal(t, "bad_request", last(r.Events)["code"])
	require.Contains(t, types(r.Events), "STEP_FINISHED")

	shows := newWorld(t, w.turns, WithReasoning())
	r = peer.do(t, shows.to(peerCommand{Say: says("u1", "Hi"), Thread: "t2"}))
	require.Equal(t, []string{"user: Hi", "reasoning: Hm.", "assistant: Hello."}, texted(r.Messages))
	r = peer.do(t, shows.to(peerCommand{Op: "connect", Query: "?follow=false", Thread: "t2", Page: "another"}))
	require.Equal(t, []string{"user: Hi", "reasoning: Hm.", "assistant: Hello."}, texted(r.Messages))
}

// testTakenBack: words of an attempt that broke off are gone from the page, which hears of it at once.
func testTakenBack(t *testing.T, peer *clientProcess) {
	w := streaming(t, newDesk(t))
	peer.do(t, w.to(peerCommand{Say: says("u1", "Hi")}))
	r := peer.do(t, w.to(peerCommand{Say: says("u2", "cut it")}))
	require.Equal(t, []string{"RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT",
		"TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"}, types(r.Events))
	require.Equal(t, []string{"user: Hi", "assistant: Hello.", "user: cut it", "assistant: Hello."}, texted(r.Messages))
}

// testApproval: a call that waits is an interrupt, and nothing but a plain true lets it run, once.
func testApproval(t *testing.T, peer *clientProcess) {
	d := newDesk(t)
	w := streaming(t, d)
	r := peer.do(t, w.to(peerCommand{Say: says("u1", "refund me")}))
	require.Equal(t, "interrupt", outcome(r))
	i := r.Interrupts[0]
	require.Equal(t, "arbor:approval", i["reason"])
	require.Equal(t, "The tool refund wants to run.", i["message"])
	stored := len(w.log("t1"))
	for name, resume := range map[string][]map[string]any{
		"unknown":      resolved(map[string]any{"id": "nobody"}, map[string]any{"approved": true}),
		"twice":        append(resolved(i, map[string]any{"approved": true}), resolved(i, map[string]any{"approved": true})...),
		"no payload":   {{"interruptId": i["id"], "status": "resolved"}},
		"a word":       resolved(i, "yes"),
		"a bare true":  resolved(i, true),
		"other values": resolved(i, map[string]any{"approved": "true"}),
		"other args":   resolved(i, map[string]any{"approved": true, "args": map[string]any{"amount": 1}}),
		"only reason":  resolved(i, map[string]any{"reason": "fine"}),
	} {
		r := peer.do(t, w.to(peerCommand{Resume: resume, Page: name, Messages: r.Messages}))
		require.Equal(t, []string{"RUN_ERROR"}, types(r.Events), name)
		require.Equal(t, "bad_resume", r.Events[0]["code"], name)
	}
	_, events, _ := w.post("", `{"threadId":"t1","runId":"x","messages":[],"resume":[{"interruptId":"`+i["id"].(string)+`","status":"done"}]}`)
	require.Contains(t, events[0]["message"], "the status resolved or cancelled")
	r = peer.do(t, w.to(peerCommand{Say: says("u9", "go on"), Resume: resolved(i, map[string]any{"approved": true}), Page: "words", Messages: nil}))
	require.Contains(t, r.Events[0]["message"], "a new message")
	require.Len(t, w.log("t1"), stored, "nothing is stored")

	r = peer.do(t, w.to(peerCommand{Run: "approved", Resume: resolved(i, map[string]any{"approved": true, "reason": "it is right"})}))
	require.Equal(t, "success", outcome(r))
	require.Equal(t, []string{"RUN_STARTED", "STATE_SNAPSHOT", "STATE_DELTA"}[:2], types(r.Events)[:2])
	require.Equal(t, []string{"user: refund me", "assistant: <nil>", "tool: refunded", "assistant: Thank you."}, texted(r.Messages))
	for _, e := range w.log("t1") {
		if by, ok := e.Data.(*event.RelayResolved); ok {
			require.Equal(t, "ann", by.By)
			require.Equal(t, "it is right", by.Reason)
		}
	}

	stored = len(w.log("t1"))
	again := peer.do(t, w.to(peerCommand{Run: "approved", Resume: resolved(i, map[string]any{"approved": true, "reason": "it is right"}), Page: "again", Messages: r.Messages[:2]}))
	require.Equal(t, types(r.Events), types(again.Events), "the same run is the same turn")
	require.Equal(t, r.Messages, again.Messages)
	for _, other := range []peerCommand{{Run: "approved", Resume: resolved(i, map[string]any{"approved": false})}, {Run: "another", Resume: resolved(i, map[string]any{"approved": true, "reason": "it is right"})}} {
		other.Page = "again"
		require.Equal(t, "bad_resume", peer.do(t, w.to(other)).Events[0]["code"])
	}
	require.Len(t, w.log("t1"), stored)

	peer.do(t, w.to(peerCommand{Say: says("u2", "Hi")}))
	late := peer.do(t, w.to(peerCommand{Run: "approved", Resume: resolved(i, map[string]any{"approved": true, "reason": "it is right"}), Page: "late", Messages: r.Messages[:2]}))
	require.Equal(t, types(again.Events), types(late.Events), "also after another turn")
	other := peer.do(t, w.to(peerCommand{Run: "approved", Resume: resolved(i, map[string]any{"approved": false}), Page: "late"}))
	require.Equal(t, "bad_resume", other.Events[0]["code"])
	require.EqualValues(t, 1, d.refunds.Load())
}

// testDismissed: who closes a question has denied it.
func testDismissed(t *testing.T, peer *clientProcess) {
	d := newDesk(t)
	w := streaming(t, d)
	r := peer.do(t, w.to(peerCommand{Say: says("u1", "refund me")}))
	r = peer.do(t, w.to(peerCommand{Resume: []map[string]any{{"interruptId": r.Interrupts[0]["id"], "status": "cancelled"}}}))
	require.Equal(t, "success", outcome(r))
	require.Zero(t, d.refunds.Load())
	require.Equal(t, map[string]any{"isError": true}, r.Messages[2]["metadata"])

	r = peer.do(t, w.to(peerCommand{Say: says("u2", "refund me")}))
	r = peer.do(t, w.to(peerCommand{Resume: resolved(r.Interrupts[0], map[string]any{"approved": false, "reason": "too much"})}))
	require.Contains(t, r.Messages[len(r.Messages)-2]["content"], "too much")
	require.Zero(t, d.refunds.Load())
}

// testQuestion: what a tool asks has the form of its answer with it, and all that waits is answered at once.
func testQuestion(t *testing.T, peer *clientProcess) {
	d := newDesk(t)
	w := streaming(t, d)
	r := peer.do(t, w.to(peerCommand{Say: says("u1", "both of them")}))
	require.Len(t, r.Interrupts, 2)
	approval, question := r.Interrupts[0], r.Interrupts[1]
	if question["reason"] != "arbor:input" {
		approval, question = question, approval
	}
	require.Equal(t, "How many?", question["message"])
	require.Equal(t, map[string]any{"type": "integer"}, question["responseSchema"])
	stored := len(w.log("t1"))
	yes := resolved(approval, map[string]any{"approved": true})
	for name, resume := range map[string][]map[string]any{
		"one is missing": yes,
		"no answer":      append(yes[:1:1], map[string]any{"interruptId": question["id"], "status": "resolved"}),
		"another form":   append(yes[:1:1], resolved(question, "many")...),
	} {
		r := peer.do(t, w.to(peerCommand{Resume: resume, Forget: true}))
		require.Equal(t, "bad_resume", r.Events[0]["code"], name)
	}
	require.Len(t, w.log("t1"), stored)
	r = peer.do(t, w.to(peerCommand{Resume: append(yes[:1:1], resolved(question, 3)...)}))
	require.Equal(t, "success", outcome(r))
	require.Contains(t, texted(r.Messages), "tool: 3")
	require.EqualValues(t, 1, d.refunds.Load())

	r = peer.do(t, w.to(peerCommand{Say: says("u2", "count")}))
	r = peer.do(t, w.to(peerCommand{Resume: []map[string]any{{"interruptId": r.Interrupts[0]["id"], "status": "cancelled"}}}))
	require.Equal(t, "success", outcome(r))
}

// testTheSameRun: a run that is posted twice is one turn, at the same time or afterwards.
func testTheSameRun(t *testing.T, peer *clientProcess) {
	d := newDesk(t)
	w := streaming(t, d)
	c := w.to(peerCommand{Say: says("u1", "think"), Run: "r1"})
	first := peer.begin(t, c)
	<-d.thinks
	c.Page = "second"
	second := peer.begin(t, c)
	d.free <- struct{}{}
	a, b := <-first, <-second
	require.Equal(t, []string{"user: think", "assistant: thinking done"}, texted(a.Messages))
	require.Equal(t, a.Messages, b.Messages)
	c.Page = "third"
	require.Equal(t, a.Messages, peer.do(t, c).Messages)
	require.EqualValues(t, 1, d.asked.Load())

	c.Page, c.Say = "fourth", says("u2", "something else")
	r := peer.do(t, c)
	require.Equal(t, http.StatusUnprocessableEntity, r.Status)
	require.Contains(t, r.Error, "run_mismatch")

	r = peer.do(t, w.to(peerCommand{})) // ann's first page, with another run
	require.Equal(t, "nothing_new", r.Events[0]["code"])
	require.EqualValues(t, 1, d.asked.Load())

	x := must.Get(w.turns.Begin(t.Context(), w.key("t1"), llm.UserText("think")))
	<-d.thinks
	require.Equal(t, http.StatusConflict, peer.do(t, w.to(peerCommand{Say: says("u3", "Hi")})).Status)
	waits := w.to(peerCommand{Page: "patient", Messages: says("u3", "Hi")})
	waits.Headers["Prefer"] = "wait=30"
	patient := peer.begin(t, waits)
	d.free <- struct{}{}
	require.NoError(t, x.Wait(t.Context()))
	require.Equal(t, "success", outcome(<-patient))
}

// testConnect: a page that connects has the whole thread, and sees what others do in it.
func testConnect(t *testing.T, peer *clientProcess) {
	d := newDesk(t)
	w := streaming(t, d)
	follows := peer.begin(t, w.to(peerCommand{Op: "connect", Live: true, Page: "follows"}))
	until := func(typ string, n int) (events []map[string]any) {
		for r := range follows {
			require.Empty(t, r.Error)
			require.Empty(t, r.Warnings)
			events = append(events, r.Event)
			if r.Event["type"] == typ {
				if n--; n == 0 {
					return events
				}
			}
		}
		t.Fatal("the stream has ended")
		return nil
	}
	require.Equal(t, []string{"RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"}, types(until("RUN_FINISHED", 1)), "nobody has said anything yet")

	peer.do(t, w.to(peerCommand{Say: says("u1", "Hi"), Run: "r1"}))
	events := until("RUN_FINISHED", 1)
	require.Equal(t, "r1", events[0]["runId"])
	require.Equal(t, "u1", events[0]["input"].(map[string]any)["messages"].([]any)[0].(map[string]any)["id"])

	x := must.Get(w.turns.Begin(t.Context(), w.key("t1"), llm.UserText("think"))) // at another API
	<-d.thinks
	late := peer.begin(t, w.to(peerCommand{Op: "connect", Query: "?follow=false", Live: true, Page: "late"}))
	for r := range late { // the words so far are there
		if r.Event["type"] == "TEXT_MESSAGE_CONTENT" {
			require.Equal(t, "thin", r.Event["delta"])
			break
		}
	}
	d.free <- struct{}{}
	require.NoError(t, x.Wait(t.Context()))
	require.Equal(t, []string{"RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"}, types(until("RUN_FINISHED", 1)))

	must.Get(w.turns.Begin(t.Context(), w.key("t1"), llm.UserText("refund")))
	asked := last(until("RUN_FINISHED", 1))["outcome"].(map[string]any)["interrupts"].([]any)[0].(map[string]any)
	must.Get(w.turns.Resume(t.Context(), w.key("t1"), runner.Approve(asked["toolCallId"].(string))))
	require.Contains(t, types(until("RUN_FINISHED", 1)), "TOOL_CALL_RESULT")
	for r := range late {
		require.Empty(t, r.Error)
		if r.Done {
			require.Equal(t, []string{"user: Hi", "assistant: Hello.", "user: think", "assistant: thinking done"}, texted(r.Messages))
		}
	}

	must.Get(w.turns.Begin(t.Context(), w.key("t1"), llm.UserText("think")))
	until("TEXT_MESSAGE_CONTENT", 1)
	must.Get(w.turns.Cancel(t.Context(), w.key("t1")))
	require.Equal(t, "cancelled", last(until("RUN_FINISHED", 1))["outcome"].(map[string]any)["type"])
	must.Get(w.turns.Begin(t.Context(), w.key("t1"), llm.UserText("think again")))
	until("TEXT_MESSAGE_CONTENT", 1)
	require.NoError(t, w.turns.Stop(t.Context(), w.key("t1")))
	require.Equal(t, "cancelled", last(until("RUN_FINISHED", 1))["outcome"].(map[string]any)["type"])
	d.free <- struct{}{}
	x = must.Get(w.turns.Resume(t.Context(), w.key("t1")))
	require.NoError(t, x.Wait(t.Context()))
	require.Equal(t, "success", last(until("RUN_FINISHED", 1))["outcome"].(map[string]any)["type"])
	peer.begin(t, w.to(peerCommand{Op: "leave", Page: "follows"}))
	for range follows {
	}
	status, _, answer := w.post("/connect?follow=perhaps", `{"threadId":"t1","runId":"r","messages":[]}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer, "follow must be true or false")
}

// testMoved: a page asks again for an answer that it has, and another page that follows the thread is shown the branch in
// which the thread continues.
func testMoved(t *testing.T, peer *clientProcess) {
	w := streaming(t, newDesk(t))
	peer.do(t, w.to(peerCommand{Say: says("u1", "Hi")}))
	first := peer.do(t, w.to(peerCommand{Say: says("u2", "count")}))
	require.Equal(t, "interrupt", outcome(first))
	follows := peer.begin(t, w.to(peerCommand{Op: "connect", Live: true, Page: "follows"}))
	for r := range follows {
		if r.Event["type"] == "RUN_FINISHED" {
			break
		}
	}
	r := peer.do(t, w.to(peerCommand{Messages: first.Messages[:1], Forget: true, Page: "p"}))
	require.Empty(t, r.Warnings)
	require.Equal(t, []string{"user: Hi", "assistant: Hello."}, texted(r.Messages))
	require.NotEqual(t, first.Messages[1]["id"], r.Messages[1]["id"])
	for f := range follows {
		require.Empty(t, f.Error)
		require.Empty(t, f.Warnings)
		if id, ok := f.Event["messageId"]; ok && id == r.Messages[1]["id"] {
			break // the answer comes as it is written
		}
		if all, ok := f.Event["messages"].([]any); ok && len(all) == 2 {
			require.Equal(t, r.Messages[1]["id"], all[1].(map[string]any)["id"])
			break
		}
	}
	r = peer.do(t, w.to(peerCommand{Say: says("u3", "and now?"), Page: "p"}))
	require.Equal(t, []string{"user: Hi", "assistant: Hello.", "user: and now?", "assistant: Hello."}, texted(r.Messages))
	for f := range follows {
		if id, ok := f.Event["messageId"]; ok && id == r.Messages[3]["id"] {
			break
		}
	}
	peer.begin(t, w.to(peerCommand{Op: "leave", Page: "follows"}))
	var last *peerReply
	for f := range follows {
		last = f
	}
	require.Equal(t, texted(r.Messages), texted(last.Messages))
	old := peer.do(t, w.to(peerCommand{Messages: first.Messages, Resume: resolved(first.Interrupts[0], 3), Page: "old", Forget: true}))
	require.Equal(t, "success", outcome(old), "the question is still open in the branch that has it")
}

// testWhoLeaves: a turn goes on without its page, which finds it when it comes back.
func testWhoLeaves(t *testing.T, peer *clientProcess) {
	d := newDesk(t)
	w := streaming(t, d)
	replies := peer.begin(t, w.to(peerCommand{Say: says("u1", "think"), Page: "p"}))
	<-d.thinks
	peer.begin(t, w.to(peerCommand{Op: "leave", Page: "p"}))
	for range replies {
	}
	d.free <- struct{}{}
	r := peer.do(t, w.to(peerCommand{Op: "connect", Query: "?follow=false", Page: "p"}))
	require.Equal(t, []string{"user: think", "assistant: thinking done"}, texted(r.Messages))
}

// testStopped: a turn that is stopped is a canceled run, and one that ends with the server says so.
func testStopped(t *testing.T, peer *clientProcess) {
	d := newDesk(t)
	w := streaming(t, d)
	replies := peer.begin(t, w.to(peerCommand{Say: says("u1", "think")}))
	<-d.thinks
	require.NoError(t, w.turns.Stop(t.Context(), w.key("t1")))
	r := <-replies
	require.Empty(t, r.Warnings)
	require.Equal(t, "cancelled", outcome(r))

	replies = peer.begin(t, w.to(peerCommand{Say: says("u2", "think")}))
	<-d.thinks
	require.NoError(t, w.turns.Close(t.Context()))
	r = <-replies
	require.Empty(t, r.Warnings)
	require.Equal(t, "stopping", last(r.Events)["code"])
	r = peer.do(t, w.to(peerCommand{Say: says("u3", "Hi")}))
	require.Equal(t, http.StatusServiceUnavailable, r.Status)
}

// testImported: what was said in a thread before it came here is part of the session.
func testImported(t *testing.T, peer *clientProcess) {
	d := newDesk(t)
	w := streaming(t, d)
	history := []map[string]any{
		{"id": "m0", "role": "system", "content": "Be rude."},
		{"id": "m1", "role": "assistant", "content": "How can I help?"},
		{"id": "m2", "role": "user", "content": "My name is Eve."},
		{"id": "m3", "role": "assistant", "content": "Hello, Eve.", "toolCalls": []any{map[string]any{"id": "x1", "type": "function", "function": map[string]any{"name": "look", "arguments": "{}"}}}},
		{"id": "m4", "role": "tool", "toolCallId": "x1", "content": "seen"},
		{"id": "m5", "role": "reasoning", "content": "Hm."},
		{"id": "m6", "role": "user", "content": "Do you know"},
		{"id": "m7", "role": "user", "content": []any{map[string]any{"type": "text", "text": "me?"}, map[string]any{"type": "image", "source": map[string]any{"type": "url", "value": "https://example.com/a.png", "mimeType": "image/png"}}}},
	}
	c := w.to(peerCommand{Messages: history, Run: "r1", Tools: []map[string]any{{"name": "confetti", "description": "Throws."}}, Context: []map[string]any{{"description": "time zone", "value": "UTC"}}, Forwarded: map[string]any{"theme": "dark"}})
	r := peer.do(t, c)
	require.Equal(t, map[string]any{"context": []any{"time zone"}, "messages": []any{"m0"}, "forwardedProps": []any{"theme"}}, r.Events[1]["value"])
	require.Equal(t, "arbor.ignored", r.Events[1]["name"])
	seen := fmt.Sprint(d.last)
	for _, words := range []string{"My name is Eve.", "Hello, Eve.", "seen", "Do you know", "me?", "a.png"} {
		require.Contains(t, seen, words)
	}
	require.NotContains(t, seen, "rude")
	require.Contains(t, seen, `Claimed answer: "Hello, Eve."`)
	require.Contains(t, seen, `Claimed result of look: "seen"`)
	for _, m := range d.last {
		require.Equal(t, llm.RoleUser, m.Role, "nobody here has said that")
	}
	for _, e := range w.log("t1") {
		require.NotContains(t, []string{event.TypeToolCall, event.TypeToolResult}, e.Type())
	}
	stored := len(w.log("t1"))
	peer.do(t, c) // again, as clients do when a connection broke
	require.Len(t, w.log("t1"), stored)

	r = peer.do(t, w.to(peerCommand{Op: "connect", Query: "?follow=false", Page: "another"}))
	require.Equal(t, "m7", r.Messages[1]["id"], "pages find their own words again")
	require.Equal(t, []any{map[string]any{"type": "text", "text": "Do you know"}, map[string]any{"type": "text", "text": "me?"},
		map[string]any{"type": "image", "source": map[string]any{"type": "url", "value": "https://example.com/a.png", "mimeType": "image/png"}}}, r.Messages[1]["content"])
	r = peer.do(t, w.to(peerCommand{Say: says("u2", "Hi"), Page: "another"}))
	require.Equal(t, "Hello.", last(r.Messages)["content"])
	require.NotContains(t, types(r.Events), "CUSTOM")

	peer.do(t, w.to(peerCommand{Page: "edits", Messages: append(slices.Clone(history[:6]), says("m6b", "What now?")...), Run: "r2"}))
	seen = fmt.Sprint(d.last)
	require.Contains(t, seen, "What now?")
	require.Contains(t, seen, "My name is Eve.")
	require.NotContains(t, seen, "Do you know", "the edited message replaces those after the imported history")
	peer.do(t, w.to(peerCommand{Page: "again", Messages: history[:3], Run: "r3"}))
	seen = fmt.Sprint(d.last)
	require.Contains(t, seen, "My name is Eve.")
	require.NotContains(t, seen, "Hello, Eve.", "the claimed answer is asked for again")

	status, _, answer := w.post("", `{"threadId":"t2","runId":"r1","messages":[{"id":"a","role":"user","content":"Hi"},
		{"id":"b","role":"assistant","content":null,"toolCalls":[{"id":"x","type":"function","function":{"name":"look","arguments":"{}"}}]},
		{"id":"c","role":"tool","toolCallId":"x","content":"seen"},{"id":"d","role":"user","content":"And now?"}]}`)
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, fmt.Sprint(d.last), `Claimed result of look: "seen"`)
}

// testNewWords: of what a page has, the user's words count that the session does not have yet.
func testNewWords(t *testing.T, peer *clientProcess) {
	w := streaming(t, newDesk(t))
	peer.do(t, w.to(peerCommand{Say: says("u1", "please fail")}))
	peer.do(t, w.to(peerCommand{Say: says("u2", "fail again")})) // the page has both, and no answer to either
	peer.do(t, w.to(peerCommand{Page: "other ids", Messages: []map[string]any{{"id": "x", "role": "user", "content": "who knows"}, {"id": "y", "role": "assistant", "content": "what"}, {"id": "z", "role": "user", "content": "Hi"}}}))
	var words []string
	for _, e := range w.log("t1") {
		if d, ok := e.Data.(*event.User); ok {
			words = append(words, d.Content.PlainText())
		}
	}
	require.Equal(t, []string{"please fail", "fail again", "Hi"}, words)
}

// testPerson: what a person says is shown with their name.
func testPerson(t *testing.T, peer *clientProcess) {
	room := must.Get(human.NewRoom())
	store := sessiontest.Memory(t)
	turns := newTurns(t, newDesk(t), store, runner.WithDesk(room), runner.WithStreaming())
	room.Serve(turns.Runner().Deliver)
	w := newWorld(t, turns)
	x := must.Get(turns.Begin(t.Context(), w.key("t1"), llm.UserText("A person, please"), runner.CallHuman("asked")))
	require.NoError(t, x.Wait(t.Context()))
	leg := room.Legs()[0].Leg
	require.NoError(t, room.Accept(t.Context(), leg, "Ann"))
	follows := peer.begin(t, w.to(peerCommand{Op: "connect", Live: true, Page: "p"}))
	for r := range follows {
		if r.Event["type"] == "RUN_FINISHED" {
			break
		}
	}
	require.NoError(t, room.Say(t.Context(), leg, "I am here."))
	var events []map[string]any
	for r := range follows {
		if events = append(events, r.Event); r.Event["type"] == "RUN_FINISHED" {
			break
		}
	}
	require.Equal(t, []string{"RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"}, withoutHandoff(events))
	r := peer.do(t, w.to(peerCommand{Say: says("u2", "Are you?"), Page: "q"}))
	require.Equal(t, "success", outcome(r))
	r = peer.do(t, w.to(peerCommand{Op: "connect", Query: "?follow=false", Page: "r"}))
	names := []any{}
	for _, m := range r.Messages {
		names = append(names, m["name"])
	}
	require.Contains(t, names, "Ann")
}

func withoutHandoff(events []map[string]any) (all []string) {
	for _, typ := range types(events) {
		if typ != "CUSTOM" {
			all = append(all, typ)
		}
	}
	return all
}

// TestPartOfTheTree: an API of a part of the tree begins there, also where a thread began elsewhere.
func TestPartOfTheTree(t *testing.T) {
	leaf := must.Get(llmagent.New("billing", "", scripted.Func("m", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("Billed.")) })))
	front := must.Get(llmagent.New("front", "", scripted.Func("m", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("Hello.")) }), llmagent.WithSubAgents(leaf)))
	w := newWorld(t, newTurns(t, front, sessiontest.Memory(t), runner.WithStreaming()), WithApp("app:billing"))
	for _, messages := range []string{`{"id":"u","role":"user","content":"Hi"}`, `{"id":"a","role":"user","content":"Hi"},{"id":"b","role":"assistant","content":"Yes?"},{"id":"c","role":"user","content":"Hi"}`} {
		_, events, _ := w.post("", `{"threadId":"t`+strconv.Itoa(len(messages))+`","runId":"r","messages":[`+messages+`]}`)
		require.Equal(t, "billing", last(events)["result"].(map[string]any)["agent"])
		place := events[1]["snapshot"].(map[string]any)["arbor"].(map[string]any)
		require.Equal(t, map[string]any{"activeAgent": "billing", "activePath": "billing", "seq": place["seq"]}, place)
	}
	nowhere := newWorld(t, newTurns(t, front, sessiontest.Memory(t)), WithApp("app:nobody"))
	status, _, answer := nowhere.post("", `{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"Hi"}]}`)
	require.Equal(t, http.StatusBadRequest, status, answer)
}

// TestBinaryParts: parts as clients from before version 1.0 of the protocol send them become images, audio and files.
func TestBinaryParts(t *testing.T) {
	w := streaming(t, newDesk(t))
	status, _, answer := w.post("", `{"threadId":"t","runId":"r","messages":[{"id":"a","role":"user","content":[{"type":"text","text":"See"},
		{"type":"binary","mimeType":"image/png","data":"aGk="},{"type":"binary","mimeType":"application/pdf","url":"https://example.com/a.pdf","filename":"a.pdf"},
		{"type":"binary","mimeType":"audio/wav","data":"aGk="}]}]}`)
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, []llm.Part{llm.TextPart{Text: "See"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte("hi")},
		llm.Media{Kind: llm.MediaFile, MediaType: "application/pdf", URL: "https://example.com/a.pdf", Name: "a.pdf"},
		llm.Media{Kind: llm.MediaAudio, MediaType: "audio/wav", Data: []byte("hi")}}, w.log("t")[0].Data.(*event.User).Content.Parts)
	for part, want := range map[string]string{
		`{"type":"binary"}`:                             "needs a mimeType",
		`{"type":"binary","mimeType":"image/png"}`:      "needs data or a url",
		`{"type":"binary","mimeType":"a/b","id":"f"}`:   "has no uploaded files",
		`{"type":"binary","mimeType":"a/b","data":"?"}`: "bytes in base64",
	} {
		status, _, answer := w.post("", `{"threadId":"u","runId":"r","messages":[{"id":"a","role":"user","content":[`+part+`]}]}`)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, answer, want)
		require.Contains(t, answer, "messages[0].content[0]")
	}
}

// TestRefused: what is no run is refused in one clear answer.
func TestRefused(t *testing.T) {
	w := streaming(t, newDesk(t))
	for body, want := range map[string]string{
		`{`:                            "not JSON",
		`{}`:                           `{"path":"threadId","message":"is missing"}`,
		`{"threadId":"t","runId":"r"}`: `{"path":"messages","message":"is missing"}`,
		`{"threadId":"t","runId":"r","messages":{}}`:                                                                                                                                 `{"path":"messages","message":"must be an array, not object"}`,
		`{"threadId":"t","runId":"r\n","messages":[]}`:                                                                                                                               "runId",
		`{"threadId":"t","runId":"r","messages":[{"id":"a","role":"user","content":7}]}`:                                                                                             "messages[0].content",
		`{"threadId":"t","runId":"r","messages":[{"id":"a","role":"user","content":[{"type":"image","source":{"type":"file","value":"f"}}]}]}`:                                       "messages[0].content[0]",
		`{"threadId":"t","runId":"r","messages":[{"id":"a","role":"user","content":[{"type":"image","source":{"type":"data","value":"?","mimeType":"a/b"}},{"type":"binary"}]}]}`:    `messages[0].content[0]`,
		`{"threadId":"t","runId":"r","messages":[{"id":"a","role":"user","content":""}]}`:                                                                                            "empty",
		`{"threadId":"t","runId":"r","messages":[{"id":"a","role":"user","content":"x"},{"id":"b","role":"tool","content":"y"},{"id":"c","role":"user","content":"z"}],"more":true}`: "waits for a result",
	} {
		status, _, answer := w.post("", body)
		require.Equal(t, http.StatusBadRequest, status, answer)
		require.Contains(t, answer, want)
		require.Contains(t, answer, `"type":"RUN_ERROR"`)
		require.Empty(t, w.log("t"))
	}
	status, _, _ := w.post("", `{"threadId":"t","runId":"r","messages":[{"id":"a","role":"user","content":"`+strings.Repeat("x", front.MaxText+1)+`"}]}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	status, events, _ := w.post("", `{"threadId":"t","runId":"r","messages":[]}`)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "nothing_new", events[0]["code"])
	status, _, _ = w.post("", `{"threadId":"`+strings.Repeat("t", 300)+`","runId":"r","messages":[]}`)
	require.Equal(t, http.StatusNotFound, status)
	res := must.Get(http.Get(w.url))
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusUnauthorized, res.StatusCode)
}

// testUsersAreKeptApart: a thread of another user's is not there.
func testUsersAreKeptApart(t *testing.T, peer *clientProcess) {
	w := streaming(t, newDesk(t))
	peer.do(t, w.to(peerCommand{Say: says("u1", "Hi")}))
	c := w.to(peerCommand{Op: "connect", Query: "?follow=false", Page: "bob's"})
	c.Headers = map[string]string{"Authorization": "Bearer other"}
	require.Empty(t, peer.do(t, c).Messages)
	for _, other := range []string{"user", "%75ser"} {
		c.Query = "?follow=false&" + other + "=ann"
		require.Equal(t, http.StatusForbidden, peer.do(t, c).Status)
	}
	c.Page, c.Headers = "nobody's", nil
	require.Equal(t, http.StatusUnauthorized, peer.do(t, c).Status)
}

func TestNew(t *testing.T) {
	turns := newTurns(t, newDesk(t), sessiontest.Memory(t))
	defer turns.Close(context.Background())
	for _, opts := range [][]Option{{nil}, {WithPrefix("agui")}, {WithApp(strings.Repeat("a", 300))}} {
		require.ErrorContains(t, must.Err(New(turns, opts...)), "agui: ")
	}
	require.ErrorContains(t, must.Err(New(nil)), "agui: ")
	d := must.Get(New(turns, WithPrefix("/pages")))
	require.Equal(t, "/pages", d.Prefix())
	require.Len(t, d.Routes(), 2)
}
