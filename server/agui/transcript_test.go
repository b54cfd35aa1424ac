package agui

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestTranscripts plays what the runner's tests play through the official client: it accepts every event, has the
// same conversation in the end as one that connects then, and both have what the log has.
func TestTranscripts(t *testing.T) {
	peer := startPeer(t)
	for _, tr := range transcript.All(t, "../../runner/testdata/*/*.txtar") {
		for _, streamed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streamed %v", tr.Name(), streamed), func(t *testing.T) {
				script := must.Get(scripted.Parse([]byte(tr.Section("script"))))
				opts := []runner.Option{runner.WithIDs(transcript.Counter())}
				if streamed {
					opts = append(opts, runner.WithStreaming())
				}
				w := newWorld(t, newTurns(t, transcript.Tree(t, tr.Section("agents"), script.Model), sessiontest.Memory(t), opts...))
				var events []map[string]any
				var r *peerReply
				elsewhere := false
				for line := range strings.Lines(tr.Section("user")) {
					c := peerCommand{Say: says(fmt.Sprint("u", w.runs), strings.TrimSuffix(line, "\n"))}
					decision, decides := strings.CutPrefix(line, "/")
					if decides {
						c = peerCommand{Resume: resumeBy(r.Interrupts, transcript.Decisions(decision, transcript.CallsOf(w.log("t1")))), Forget: true}
					}
					if line == "/resume\n" { // there is nothing to resume, and still something to answer
						c = peerCommand{Op: "connect", Query: "?follow=false", Forget: true}
					} else if r != nil && len(c.Resume) < len(r.Interrupts) {
						// Here all that waits is answered at once; at other APIs something else may happen.
						c.Page = t.Name() + line
						refused := peer.do(t, w.to(c))
						require.Contains(t, []any{"interrupts_open", "bad_resume"}, last(refused.Events)["code"])
						var x *live.Turn
						var err error
						if decides {
							x, err = w.turns.Resume(t.Context(), w.key("t1"), transcript.Decisions(decision, transcript.CallsOf(w.log("t1")))...)
						} else {
							x, err = w.turns.Begin(t.Context(), w.key("t1"), llm.UserText(strings.TrimSuffix(line, "\n")))
						}
						require.NoError(t, err)
						_ = x.Wait(t.Context())
						elsewhere, c = true, peerCommand{Op: "connect", Query: "?follow=false", Forget: true}
					}
					before := len(w.log("t1"))
					r = peer.do(t, w.to(c))
					require.Empty(t, r.Error)
					requireEnding(t, w.log("t1"), before, r)
					events = append(events, r.Events...)
				}
				require.NoError(t, script.Done())

				if !elsewhere {
					require.Equal(t, happened(w.log("t1")), shown(events, r.Messages))
				}
				again := peer.do(t, w.to(peerCommand{Op: "connect", Page: t.Name() + "again", Query: "?follow=false"}))
				require.Empty(t, again.Error)
				if elsewhere { // what came by a snapshot stands behind what was there
					require.ElementsMatch(t, withoutActivity(r.Messages), again.Messages)
				} else {
					require.Equal(t, withoutActivity(r.Messages), again.Messages)
				}
				delete(again.State["arbor"].(map[string]any), "seq")
				delete(r.State["arbor"].(map[string]any), "seq")
				require.Equal(t, again.State, r.State)
				require.Equal(t, again.Interrupts, r.Interrupts)
			})
		}
	}
}

// resumeBy makes the answers of decisions.
func resumeBy(asked []map[string]any, decisions []runner.Decision) (resume []map[string]any) {
	for _, d := range decisions {
		for _, i := range asked {
			if i["toolCallId"] != d.CallID {
				continue
			}
			var payload any = map[string]any{"approved": d.Approved, "reason": d.Reason}
			if d.Content != nil {
				payload = d.Content
			}
			resume = append(resume, map[string]any{"interruptId": i["id"], "status": "resolved", "payload": payload})
		}
	}
	return resume
}

// requireEnding: a run ends as the log says.
func requireEnding(t *testing.T, log []*event.Event, before int, r *peerReply) {
	var end *event.HarnessEnd
	used := false
	for i, e := range log {
		if d, ok := e.Data.(*event.HarnessEnd); ok && e.Scope == "" {
			end = d
		}
		if _, counts := e.Data.(*event.Usage); counts && i >= before {
			used = true
		}
	}
	got := last(r.Events)
	switch end.FinishReason {
	case event.FinishReasonError, event.FinishReasonLimit:
		require.Equal(t, "RUN_ERROR", got["type"])
		require.NotEmpty(t, got["code"])
	case event.FinishReasonInputRequired:
		require.Equal(t, "interrupt", got["outcome"].(map[string]any)["type"])
	default:
		require.Equal(t, "success", got["outcome"].(map[string]any)["type"])
		require.Equal(t, string(end.FinishReason), got["result"].(map[string]any)["finishReason"])
	}
	require.Equal(t, used, got["usage"] != nil && before < len(log))
}

// happened is what a log says that a page has to show, in its order.
func happened(log []*event.Event) (lines []string) {
	for _, e := range log {
		sub := ""
		if e.Scope != "" {
			sub = e.RunID
		}
		line := func(format string, a ...any) {
			lines = append(lines, fmt.Sprintf("%s|"+format, append([]any{sub}, a...)...))
		}
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			if sub == "" {
				line("step %s", e.Path)
			} else {
				line("sub-agent %s", e.Agent)
			}
		case *event.HarnessEnd:
			if sub == "" {
				line("end of step %s", e.Path)
			} else {
				line("end of sub-agent")
			}
		case *event.Text:
			if d.Content != "" {
				line("%s: %s", e.Agent, d.Content)
			}
		case *event.ToolCall:
			line("call %s %s %s", e.ID, d.Name, d.Input)
		case *event.ToolResult:
			line("result %s %s", e.ID, event.OutputText(d.Output))
		case *event.Transfer:
			line("%s to %s: %s", d.From, d.To, d.Outcome)
		case *event.State:
			line("state %v", slices.Sorted(maps.Keys(d.Delta)))
		}
	}
	return lines
}

// shown is the same of what a page was sent, without the words that were taken back.
func shown(events, messages []map[string]any) (lines []string) {
	words, args := make(map[string]string), make(map[string]string)
	for _, e := range events {
		sub, _ := e["subagentRunId"].(string)
		line := func(format string, a ...any) {
			lines = append(lines, fmt.Sprintf("%s|"+format, append([]any{sub}, a...)...))
		}
		id, _ := e["messageId"].(string)
		call, _ := e["toolCallId"].(string)
		switch e["type"] {
		case "STEP_STARTED":
			line("step %s", e["stepName"])
		case "STEP_FINISHED":
			line("end of step %s", e["stepName"])
		case "SUBAGENT_STARTED":
			line("sub-agent %s", e["name"])
		case "SUBAGENT_FINISHED", "SUBAGENT_ERROR":
			line("end of sub-agent")
		case "TEXT_MESSAGE_START":
			words[id] = fmt.Sprint(e["name"], ": ")
		case "TEXT_MESSAGE_CONTENT":
			words[id] += e["delta"].(string)
		case "TEXT_MESSAGE_END":
			if slices.ContainsFunc(messages, func(m map[string]any) bool { return m["id"] == id }) {
				line("%s", words[id])
			}
		case "TOOL_CALL_START":
			args[call] = fmt.Sprint(e["toolCallName"], " ")
		case "TOOL_CALL_ARGS":
			args[call] += e["delta"].(string)
		case "TOOL_CALL_END":
			line("call %s %s", call, args[call])
		case "TOOL_CALL_RESULT":
			line("result %s %s", call, e["content"])
		case "CUSTOM":
			if v := e["value"].(map[string]any); e["name"] == "arbor.transfer" {
				line("%s to %s: %s", v["from"], v["to"], v["outcome"])
			}
		case "STATE_DELTA":
			var keys []string
			for _, o := range e["delta"].([]any) {
				if path := o.(map[string]any)["path"].(string); !strings.HasPrefix(path, "/arbor/") {
					keys = append(keys, strings.TrimPrefix(path, "/"))
				}
			}
			if len(keys) > 0 {
				line("state %v", keys)
			}
		}
	}
	return lines
}

func withoutActivity(messages []map[string]any) (all []map[string]any) {
	for _, m := range messages {
		if m["role"] != "activity" {
			all = append(all, m)
		}
	}
	return all
}
