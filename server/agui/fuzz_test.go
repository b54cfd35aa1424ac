package agui

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// fuzzed is an API whose answers are held against what every answer is: a fault with a code, or a stream of runs that
// are well formed.
type fuzzed struct {
	*Handler
	desk *desk
}

func newFuzzed(t testing.TB) *fuzzed {
	d := newDesk(t)
	turns := newTurns(t, d, sessiontest.Memory(t), runner.WithStreaming())
	t.Cleanup(func() { require.NoError(t, turns.Close(context.Background())) })
	return &fuzzed{must.Get(New(turns)), d}
}

func (f *fuzzed) post(t *testing.T, path, body string) {
	for range cap(f.desk.free) - len(f.desk.free) {
		f.desk.free <- struct{}{} // nobody has to wait
	}
	for len(f.desk.thinks) > 0 {
		<-f.desk.thinks
	}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/agui"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	f.ServeHTTP(rec, r.WithContext(access.WithUser(r.Context(), access.User{Name: "ann"})))
	if rec.Code != http.StatusOK {
		require.Less(t, rec.Code, 500, "%s", rec.Body)
		fault := must.JSON[struct{ Type, Message, Code string }](rec.Body.Bytes())
		require.Equal(t, "RUN_ERROR", fault.Type)
		require.NotEmpty(t, fault.Message)
		require.NotEmpty(t, fault.Code)
		return
	}
	open := make(map[string]bool)
	running := false
	for frame := range strings.SplitSeq(strings.TrimSuffix(rec.Body.String(), "\n\n"), "\n\n") {
		var e struct {
			Type, SubagentRunID, MessageID, ToolCallID, StepName, Message string
		}
		data, ok := strings.CutPrefix(frame, "data: ")
		require.True(t, ok, "%q", frame)
		require.NoError(t, json.Unmarshal([]byte(data), &e), "%q", frame)
		require.Equal(t, e.Type != "RUN_STARTED" && (e.Type != "RUN_ERROR" || running), running, frame)
		begins := map[string]string{"TEXT_MESSAGE_START": e.MessageID, "TOOL_CALL_START": e.ToolCallID, "STEP_STARTED": e.StepName, "SUBAGENT_STARTED": e.SubagentRunID}[e.Type]
		ends := map[string]string{"TEXT_MESSAGE_END": e.MessageID, "TOOL_CALL_END": e.ToolCallID, "STEP_FINISHED": e.StepName, "SUBAGENT_FINISHED": e.SubagentRunID}[e.Type]
		switch kind := strings.Split(e.Type, "_")[0]; {
		case e.Type == "RUN_STARTED":
			running = true
		case e.Type == "RUN_FINISHED", e.Type == "RUN_ERROR":
			require.Empty(t, open)
			running = false
		case begins != "":
			require.False(t, open[kind+begins])
			open[kind+begins] = true
		case ends != "":
			require.True(t, open[kind+ends])
			delete(open, kind+ends)
		}
	}
	require.False(t, running)
}

// FuzzInput: whatever is posted gets one clear answer, and no log is damaged by it.
func FuzzInput(f *testing.F) {
	for _, seed := range []string{
		`{`, `{}`, `null`, `[]`, `{"threadId":"t","runId":"r","messages":null}`,
		`{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"Hi"}]}`,
		`{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"refund"},{"id":"u","role":"user","content":"cut"}],"tools":[{"name":"x"}],"context":[{}],"state":7,"forwardedProps":{"a":1}}`,
		`{"threadId":"t","runId":"r","messages":[{"id":"a","role":"user","content":"x"},{"id":"b","role":"assistant","content":"y","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{"}}]},{"id":"d","role":"tool","toolCallId":"c","content":[{"type":"text","text":"z"}]},{"id":"e","role":"user","content":"both"}]}`,
		`{"threadId":"t","runId":"r","messages":[{"id":"a","role":"activity","content":{"a":1}},{"id":"b","role":"user","content":[{"type":"image","source":{"type":"data","value":"AAAA","mimeType":"image/png"}}]}]}`,
		`{"threadId":"\u0000","runId":"\n","messages":[{"role":7}]}`, `{"threadId":"t","runId":"r","messages":[{}],"resume":[{}]}`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, body string, connects bool) {
		handler := newFuzzed(t)
		path := map[bool]string{false: "", true: "/connect?follow=false"}[connects]
		handler.post(t, path, body)
		handler.post(t, path, body) // again
		handler.post(t, "/connect?follow=false", `{"threadId":"t","runId":"later","messages":[]}`)
	})
}

// FuzzResume: nothing is approved but by a plain true for the question that is open.
func FuzzResume(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[{"interruptId":"ID","status":"resolved","payload":{"approved":true}}]`, `[{"interruptId":"ID","status":"resolved","payload":{"approved":true,"x":1}}]`,
		`[{"interruptId":"ID","status":"cancelled"}]`, `[{"interruptId":"ID","status":"resolved","payload":true},{"interruptId":"ID","status":"cancelled"}]`,
		`[{"interruptId":"","status":"resolved","payload":{"approved":null}}]`, `{}`, `[null]`, `[{"interruptId":"ID","status":"resolved","payload":{"approved":"true"}}]`,
		`[{"interruptId":"ID","status":"resolved","payload":{"approved":true,"approved":false}}]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, resume string) {
		handler := newFuzzed(t)
		key := session.Key{App: session.DefaultApp, User: "ann", ID: "t"}
		x := must.Get(handler.turns.Begin(t.Context(), key, llm.UserText("refund")))
		require.NoError(t, x.Wait(t.Context()))
		r := must.Get(handler.turns.Report(t.Context(), key, ""))
		id := r.Questions()[0].ID
		handler.post(t, "", `{"threadId":"t","runId":"r","messages":[],"resume":`+strings.ReplaceAll(resume, "ID", id)+`}`)
		if handler.desk.refunds.Load() > 0 {
			var answers []struct {
				InterruptID, Status string
				Payload             struct{ Approved bool }
			}
			require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(resume, "ID", id)), &answers))
			require.Len(t, answers, 1)
			require.Equal(t, id, answers[0].InterruptID)
			require.Equal(t, "resolved", answers[0].Status)
			require.True(t, answers[0].Payload.Approved)
		}
	})
}
