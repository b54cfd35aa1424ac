package agui

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// played applies events at their positions and returns the JSON of what comes out, event by event. A number in front
// is the place of a partial one behind the stored one before.
func played(p *projection, seq int64, events ...*event.Event) (out []string) {
	at := session.Position{Seq: seq}
	for _, e := range events {
		if e.Partial {
			at.Part++
		} else {
			at = session.Position{Seq: at.Seq + 1}
		}
		out = append(out, texts(p.apply(at, e))...)
	}
	return out
}

func texts(events []any) (all []string) {
	for _, e := range events {
		b, _ := json.Marshal(e)
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(string(b), `{"type":`), "}"))
	}
	return all
}

func of(run string, data event.Data) *event.Event {
	return &event.Event{ID: "e", TurnID: "t1", RunID: run, Agent: "front", Path: "front", Data: data}
}

func inner(run, scope string, data event.Data) *event.Event {
	return &event.Event{ID: "e", TurnID: "t1", RunID: run, Scope: scope, Agent: "clerk", Path: "clerk", Data: data}
}

func delta(id, text string) *event.Event {
	e := of("r1", &event.Text{Content: text})
	e.ID, e.Partial = id, true
	return e
}

func named(id string, e *event.Event) *event.Event {
	e.ID = id
	return e
}

// begun is a projection in a run of the conversation.
func begun(t *testing.T) *projection {
	p := &projection{}
	require.Equal(t, []string{
		`"STATE_SNAPSHOT","snapshot":{"arbor":{"activeAgent":"front","activePath":"front","seq":2}}`,
		`"STEP_STARTED","stepName":"front"`,
	}, played(p, 0, of("u", &event.User{}), of("r1", &event.HarnessStart{AgentID: "front"})))
	return p
}

// TestProjection has each row of what events become.
func TestProjection(t *testing.T) {
	one := 3
	for name, c := range map[string]struct {
		events []*event.Event
		want   []string
	}{
		"a text in deltas": {
			[]*event.Event{delta("b", "Hel"), delta("b", "lo"), named("b", of("r1", &event.Text{Content: "Hello."}))},
			[]string{`"TEXT_MESSAGE_START","messageId":"b","role":"assistant","name":"front"`, `"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"Hel"`,
				`"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"lo"`, `"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"."`, `"TEXT_MESSAGE_END","messageId":"b"`},
		},
		"a whole text": {
			[]*event.Event{named("b", of("r1", &event.Text{Content: "Hello."}))},
			[]string{`"TEXT_MESSAGE_START","messageId":"b","role":"assistant","name":"front"`, `"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"Hello."`, `"TEXT_MESSAGE_END","messageId":"b"`},
		},
		"an empty text": {[]*event.Event{of("r1", &event.Text{})}, nil},
		"reasoning":     {[]*event.Event{of("r1", &event.Reasoning{Content: "Hm."})}, nil},
		"calls of one answer": {
			[]*event.Event{named("b", of("r1", &event.Text{Content: "One moment."})), named("c1", of("r1", &event.ToolCall{Name: "look", Input: []byte(`{"id":1}`)})),
				of("r1", &event.Usage{}), named("c2", of("r1", &event.ToolCall{Name: "look", Input: []byte(`{}`)})), named("c3", of("r1", &event.ToolCall{Name: "look", Input: []byte(`{}`)}))},
			[]string{`"TEXT_MESSAGE_START","messageId":"b","role":"assistant","name":"front"`, `"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"One moment."`, `"TEXT_MESSAGE_END","messageId":"b"`,
				`"TOOL_CALL_START","toolCallId":"c1","toolCallName":"look","parentMessageId":"b"`, `"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"id\":1}"`, `"TOOL_CALL_END","toolCallId":"c1"`,
				`"TOOL_CALL_START","toolCallId":"c2","toolCallName":"look","parentMessageId":"c2"`, `"TOOL_CALL_ARGS","toolCallId":"c2","delta":"{}"`, `"TOOL_CALL_END","toolCallId":"c2"`,
				`"TOOL_CALL_START","toolCallId":"c3","toolCallName":"look","parentMessageId":"c2"`, `"TOOL_CALL_ARGS","toolCallId":"c3","delta":"{}"`, `"TOOL_CALL_END","toolCallId":"c3"`},
		},
		"results": {
			[]*event.Event{named("c1", of("r1", &event.ToolResult{Name: "look", Output: []byte(`"found"`)})), named("c2", of("r1", &event.ToolResult{Name: "look", Output: []byte(`{"n":1}`), IsError: true}))},
			[]string{`"TOOL_CALL_RESULT","messageId":"c1:result","toolCallId":"c1","content":"found"`, `"TOOL_CALL_RESULT","messageId":"c2:result","toolCallId":"c2","content":"{\"n\":1}","metadata":{"isError":true}`},
		},
		"progress": {
			[]*event.Event{of("r1", &event.ToolProgress{ToolCallID: "c1", Name: "look", Content: []byte(`"half"`)})},
			[]string{`"ACTIVITY_SNAPSHOT","messageId":"c1:progress","activityType":"arbor.tool_progress","content":{"toolCallId":"c1","name":"look","content":"half"}`},
		},
		"a transfer": {
			[]*event.Event{of("r1", &event.Transfer{From: "front", To: "desk", Reason: "money", Outcome: "committed"}), of("r1", &event.HarnessEnd{FinishReason: "transfer", Target: "desk"}),
				{ID: "s", TurnID: "t1", RunID: "r2", Agent: "desk", Path: "front/desk", Data: &event.HarnessStart{}}},
			[]string{`"CUSTOM","name":"arbor.transfer","value":{"from":"front","to":"desk","reason":"money","outcome":"committed"}`, `"STEP_FINISHED","stepName":"front"`,
				`"STATE_DELTA","delta":[{"op":"replace","path":"/arbor/activeAgent","value":"desk"},{"op":"replace","path":"/arbor/activePath","value":"front/desk"}]`, `"STEP_STARTED","stepName":"front/desk"`},
		},
		"state": {
			[]*event.Event{of("r1", &event.State{Delta: map[string]any{"b/~": false, "a": 1.0, "user:x": 2.0, "app:handoff:1": "ann", "arbor.item.1": "added", "gone": nil}}), of("r1", &event.State{Delta: map[string]any{"a": nil}})},
			[]string{`"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1},{"op":"add","path":"/b~1~0","value":false}]`, `"STATE_DELTA","delta":[{"op":"remove","path":"/a"}]`},
		},
		"files, notices, handoffs": {
			[]*event.Event{of("r1", &event.File{Name: "a.txt", MediaType: "text/plain", Size: 1, Digest: "d"}), of("r1", &event.Notice{Code: "resumed", Message: "again"}),
				of("r1", &event.HandoffStatus{HandoffID: "h", Status: "connected", TargetAgent: "Ann", QueuePosition: &one}),
				{ID: "w", RunID: "r1", Agent: agent.Human, Data: &event.Text{Content: "Hi."}}},
			[]string{`"CUSTOM","name":"arbor.file","value":{"name":"a.txt","mediaType":"text/plain","size":1,"digest":"d"}`, `"CUSTOM","name":"arbor.notice","value":{"code":"resumed","message":"again"}`,
				`"CUSTOM","name":"arbor.handoff","value":{"handoffId":"h","status":"connected","targetAgent":"Ann","queuePosition":3}`,
				`"TEXT_MESSAGE_START","messageId":"w","role":"assistant","name":"Ann"`, `"TEXT_MESSAGE_CONTENT","messageId":"w","delta":"Hi."`, `"TEXT_MESSAGE_END","messageId":"w"`},
		},
		"an agent tool": {
			[]*event.Event{named("c1", of("r1", &event.ToolCall{Name: "clerk", Input: []byte(`{}`)})),
				{ID: "s", RunID: "r2", Scope: "sc", ParentID: "c1", Agent: "clerk", Path: "clerk", Data: &event.HarnessStart{}},
				named("b", inner("r2", "sc", &event.Text{Content: "Done."})), inner("r2", "sc", &event.HarnessEnd{FinishReason: "stop", Output: []byte("null")})},
			[]string{`"TOOL_CALL_START","toolCallId":"c1","toolCallName":"clerk","parentMessageId":"c1"`, `"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{}"`, `"TOOL_CALL_END","toolCallId":"c1"`,
				`"SUBAGENT_STARTED","subagentRunId":"r2","name":"clerk","parentToolCallId":"c1"`,
				`"TEXT_MESSAGE_START","subagentRunId":"r2","messageId":"b","role":"assistant","name":"clerk"`, `"TEXT_MESSAGE_CONTENT","subagentRunId":"r2","messageId":"b","delta":"Done."`,
				`"TEXT_MESSAGE_END","subagentRunId":"r2","messageId":"b"`, `"SUBAGENT_FINISHED","subagentRunId":"r2","outcome":{"type":"success"}`},
		},
		"scopes within scopes": {
			[]*event.Event{inner("r2", "r1.1/a", &event.HarnessStart{}), inner("r3", "r2.1/b", &event.HarnessStart{}), inner("r3", "r2.1/b", &event.Failure{Code: "broken", Message: "It broke."}),
				inner("r3", "r2.1/b", &event.HarnessEnd{FinishReason: "error"}), named("q", inner("r2", "r1.1/a", &event.Relay{Kind: "permission", ToolCallID: "c", Tool: "pay"})),
				inner("r2", "r1.1/a", &event.HarnessEnd{FinishReason: "input_required"}), inner("r4", "r1.1/a", &event.HarnessStart{}), inner("r5", "r2.1/b", &event.HarnessStart{}),
				inner("r5", "r2.1/b", &event.HarnessEnd{FinishReason: "canceled"}), inner("r4", "r1.1/a", &event.HarnessEnd{FinishReason: "stop", Output: []byte(`{"n":1}`)})},
			[]string{`"SUBAGENT_STARTED","subagentRunId":"r2","name":"clerk"`, `"SUBAGENT_STARTED","subagentRunId":"r3","name":"clerk","parentSubagentRunId":"r2"`,
				`"SUBAGENT_ERROR","subagentRunId":"r3","message":"the agent failed","code":"broken"`, `"SUBAGENT_FINISHED","subagentRunId":"r2","outcome":{"type":"suspended","interruptIds":["q"]}`,
				`"SUBAGENT_STARTED","subagentRunId":"r4","name":"clerk"`, `"SUBAGENT_STARTED","subagentRunId":"r5","name":"clerk","parentSubagentRunId":"r4"`,
				`"SUBAGENT_ERROR","subagentRunId":"r5","message":"The agent did not finish.","code":"canceled"`, `"SUBAGENT_FINISHED","subagentRunId":"r4","result":{"n":1},"outcome":{"type":"success"}`},
		},
		"an output that counts as words": {
			[]*event.Event{named("end", of("r1", &event.HarnessEnd{FinishReason: "stop", Output: []byte(`"42"`)}))},
			[]string{`"TEXT_MESSAGE_START","messageId":"end","role":"assistant","name":"front"`, `"TEXT_MESSAGE_CONTENT","messageId":"end","delta":"42"`, `"TEXT_MESSAGE_END","messageId":"end"`, `"STEP_FINISHED","stepName":"front"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, played(begun(t), 2, c.events...))
		})
	}
}

func TestReasoning(t *testing.T) {
	p := begun(t)
	p.reasoning = true
	hm := named("b", of("r1", &event.Reasoning{Content: "H"}))
	hm.Partial = true
	require.Equal(t, []string{`"REASONING_START","messageId":"b"`, `"REASONING_MESSAGE_START","messageId":"b","role":"reasoning"`, `"REASONING_MESSAGE_CONTENT","messageId":"b","delta":"H"`,
		`"REASONING_MESSAGE_CONTENT","messageId":"b","delta":"m."`, `"REASONING_MESSAGE_END","messageId":"b"`, `"REASONING_END","messageId":"b"`},
		played(p, 2, hm, named("b", of("r1", &event.Reasoning{Content: "Hm."}))))
}

// TestDiscard: words that were shown are taken back by a snapshot, in which stands what is still being said.
func TestDiscard(t *testing.T) {
	p := begun(t)
	var asked int64
	p.history = func(upTo int64) ([]*message, error) {
		asked = upTo
		return []*message{{ID: "u", Role: "user", Content: []byte(`"Hi"`)}}, nil
	}
	other := delta("x", "Some")
	other.RunID, other.Scope, other.Agent = "r2", "r1.1/a", "clerk"
	out := played(p, 2, delta("b", "Wrong"), inner("r2", "r1.1/a", &event.HarnessStart{}), other, of("r1", &event.Discard{Code: "truncated", IDs: []string{"b"}, Usage: &event.Usage{InputTokens: 1, Model: "m"}}))
	require.Equal(t, []string{`"TEXT_MESSAGE_END","messageId":"b"`,
		`"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":"Hi"},{"subagentRunId":"r2","id":"x","role":"assistant","name":"clerk","content":"Some"}]`}, out[len(out)-2:])
	require.EqualValues(t, 4, asked)
	require.Equal(t, []modelUsage{{Model: "m", Input: 1, Total: 1}}, p.usage)
	require.Empty(t, played(p, 4, of("r1", &event.Discard{IDs: []string{"b", "never shown"}})), "nothing of it is shown any more")

	broken := errors.New("no log")
	p.history = func(int64) ([]*message, error) { return nil, broken }
	played(p, 5, of("r1", &event.Discard{IDs: []string{"x"}}))
	require.ErrorIs(t, p.err, broken)
}

// TestWithheld: a page whose user may not inspect does not get what an endpoint said of a failure.
func TestWithheld(t *testing.T) {
	tree := must.Get(agent.NewTree(newDesk(t)))
	for _, code := range []string{event.NoticeCompactionFailed, event.NoticeRouteFailed, event.NoticeToolset} {
		said := of("r1", &event.Notice{Code: code, Message: "dial tcp 10.0.0.7:8080: connection refused"})
		p := begun(t)
		require.Contains(t, played(p, 2, said)[0], "10.0.0.7", "with the right")
		p.filter = live.Own(tree)
		out := played(p, 3, said)
		require.Len(t, out, 1, code)
		require.Contains(t, out[0], code)
		require.NotContains(t, out[0], "10.0.0.7", code)
	}
}

// TestMissedDeltas: behind a hole nothing is shown but the whole; what has one all the same is put right.
func TestMissedDeltas(t *testing.T) {
	p := begun(t)
	p.history = func(int64) ([]*message, error) { return []*message{{ID: "b", Role: "assistant"}}, nil }
	require.Len(t, p.apply(session.Position{Seq: 2, Part: 1}, delta("b", "On")), 2)
	require.Empty(t, p.apply(session.Position{Seq: 2, Part: 3}, delta("b", "wo")), "2-2 is missing")
	require.Empty(t, p.apply(session.Position{Seq: 2, Part: 4}, delta("b", " three")))
	require.Equal(t, []string{`"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"e two three"`, `"TEXT_MESSAGE_END","messageId":"b"`}, played(p, 2, named("b", of("r1", &event.Text{Content: "One two three"}))))

	require.Empty(t, p.apply(session.Position{Seq: 3, Part: 2}, delta("c", "later")), "3-1 is missing")
	require.Len(t, played(p, 3, of("r1", &event.Notice{}), delta("c", " still")), 3)
	require.Equal(t, []string{`"TEXT_MESSAGE_END","messageId":"c"`, `"MESSAGES_SNAPSHOT","messages":[{"id":"b","role":"assistant"}]`}, played(p, 4, named("c", of("r1", &event.Text{Content: "later still"}))))
}

// TestCloseAll: whatever is open is closed before a run ends.
func TestCloseAll(t *testing.T) {
	p := begun(t)
	played(p, 2, inner("r2", "r1.1/a", &event.HarnessStart{}), delta("b", "Hel"), delta("c", "lo"))
	p.out = p.out[:0]
	p.closeAll()
	require.Equal(t, []string{`"TEXT_MESSAGE_END","messageId":"c"`, `"TEXT_MESSAGE_END","messageId":"b"`, `"SUBAGENT_FINISHED","subagentRunId":"r2","outcome":{"type":"suspended"}`, `"STEP_FINISHED","stepName":"front"`}, texts(p.out))
	p.out = p.out[:0]
	p.closeAll()
	require.Empty(t, p.out)
}

// TestQuestions: what is asked is an interrupt until it is answered, or nobody needs it.
func TestQuestions(t *testing.T) {
	p := begun(t)
	ask := func(id, call, kind, schema string) *event.Event {
		return named(id, of("r1", &event.Relay{Kind: kind, ToolCallID: call, Tool: "pay", Params: []byte(`{"n":1}`), Message: "How many?", Schema: []byte(schema)}))
	}
	played(p, 2, ask("q1", "c1", "permission", ""), ask("q2", "c2", "input", `{"type":"integer"}`), ask("q3", "c3", "input", ""), ask("q4", "c4", "input", "true"))
	asked := interrupts(p.log.Questions)
	require.Equal(t, []string{
		`{"id":"q1","reason":"arbor:approval","message":"The tool pay wants to run with n=1.","toolCallId":"c1","responseSchema":{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"}},"required":["approved"],"additionalProperties":false},"metadata":{"agent":"front","kind":"permission","toolCallId":"c1","tool":"pay","params":{"n":1},"message":"How many?"}`,
		`{"id":"q2","reason":"arbor:input","message":"How many?","toolCallId":"c2","responseSchema":{"type":"integer"},"metadata":{"agent":"front","kind":"input","toolCallId":"c2","tool":"pay","params":{"n":1},"message":"How many?","schema":{"type":"integer"}}`,
		`{"id":"q3","reason":"arbor:input","message":"How many?","toolCallId":"c3","responseSchema":{"type":"string"},"metadata":{"agent":"front","kind":"input","toolCallId":"c3","tool":"pay","params":{"n":1},"message":"How many?"}`,
		`{"id":"q4","reason":"arbor:input","message":"How many?","toolCallId":"c4","metadata":{"agent":"front","kind":"input","toolCallId":"c4","tool":"pay","params":{"n":1},"message":"How many?","schema":true}`,
	}, texts([]any{asked[0], asked[1], asked[2], asked[3]}))
	played(p, 6, of("r1", &event.RelayResolved{RelayID: "q2", Approved: true}), named("c1", of("r1", &event.ToolResult{Output: []byte(`""`)})))
	require.Len(t, p.log.Questions, 2)
	played(p, 8, of("r1", &event.HarnessEnd{FinishReason: "input_required"}))
	require.Len(t, p.log.Questions, 2)
	played(p, 9, of("r1", &event.HarnessEnd{FinishReason: "canceled"}))
	require.Empty(t, p.log.Questions)
}

// TestSnapshotIsBounded: the newest messages are told that fit into a frame.
func TestSnapshotIsBounded(t *testing.T) {
	large := []byte(`"` + strings.Repeat("x", 3<<20) + `"`)
	p := &projection{}
	p.snapshot([]*message{{ID: "1", Content: large}, {ID: "2", Content: large}, {ID: "3", Content: large}})
	require.Len(t, p.out[0].(*messagesEvent).Messages, 2)
	require.Equal(t, "2", p.out[0].(*messagesEvent).Messages[0].ID)
	require.Equal(t, []string{`"CUSTOM","name":"arbor.clipped","value":{"messages":1}`}, texts(p.out[1:]))
}

// TestEveryPayload: whatever a log has, there is JSON for it, and what was opened is closed.
func TestEveryPayload(t *testing.T) {
	payloads := sessiontest.Payloads()
	for _, typ := range event.Types() {
		payloads = append(payloads, event.New(typ)) // with nothing in it
	}
	for _, first := range payloads {
		for _, scope := range []string{"", "sc", "r1.1/a"} {
			p := begun(t)
			p.reasoning = true
			p.history = func(int64) ([]*message, error) { return nil, nil }
			messages := []*message{}
			at := session.Position{Seq: 2}
			for _, data := range append([]event.Data{first}, payloads...) {
				at.Seq++
				for _, out := range p.apply(at, &event.Event{ID: "e", TurnID: "t1", RunID: "r1", Scope: scope, Agent: "front", Path: "front", Data: data}) {
					_, err := json.Marshal(out)
					require.NoError(t, err, "%T", data)
					messages = applyMessage(messages, out)
				}
			}
			p.closeAll()
			require.Empty(t, p.log.Blocks)
		}
	}
}
