package openaiapi

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server/internal/peers"
	"github.com/agentarbor/arbor/tools"
)

// newTown is a tree whose front transfers to maps for a place, and maps calls show_map, a tool of the client. Asked for a
// city the front gives it in the form that the client wants: as the output, or by the tool that it must call.
func newTown(t testing.TB) agent.Agent {
	t.Helper()
	const oslo = `{"city":"Oslo","people":700000}`
	answer := func(name string) func(*llm.Request) scripted.Answer {
		return func(req *llm.Request) scripted.Answer {
			offered := func(part string) string {
				i := slices.IndexFunc(req.Tools, func(s llm.ToolSpec) bool { return strings.Contains(strings.ToLower(s.Name), part) })
				if i < 0 {
					return ""
				}
				return req.Tools[i].Name
			}
			last := req.Messages[len(req.Messages)-1]
			words, asked := last.PlainText(), ""
			for _, m := range req.Messages {
				if m.Role == llm.RoleUser {
					asked = m.PlainText()
				}
			}
			switch {
			case strings.Contains(words, "Claimed result of transfer_to_"):
				return scripted.Reply(scripted.Text("I am the desk."))
			case strings.Contains(asked, "two maps") && last.Role == llm.RoleUser:
				return scripted.Reply(scripted.Call("show_map", `{"city":"Oslo"}`))
			case strings.Contains(asked, "two maps") && last.Parts[0].(llm.ToolResult).Output == "a map of Oslo":
				return scripted.Reply(scripted.Call("show_map", `{"city":"Rome"}`))
			case strings.Contains(asked, "two maps"):
				return scripted.Reply(scripted.Text("I have two."))
			case last.Role == llm.RoleTool && last.Parts[0].(llm.ToolResult).Output == "a map of Oslo":
				return scripted.Reply(scripted.Text("I have ", "a map of Oslo."))
			case strings.HasPrefix(words, "Refund"):
				return scripted.Reply(scripted.Call("refund", `{"amount":`+strings.TrimPrefix(words, "Refund ")+`}`))
			case last.Role == llm.RoleTool && last.Parts[0].(llm.ToolResult).Output == "paid":
				return scripted.Reply(scripted.Text("It is paid."))
			case last.Role == llm.RoleTool && strings.Contains(last.Parts[0].(llm.ToolResult).Output, "denied"):
				return scripted.Reply(scripted.Text("It is not paid."))
			case last.Role == llm.RoleTool:
				return scripted.Reply(scripted.Text("I am the desk."))
			case strings.Contains(words, "place") && name == "front":
				return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"maps"}`))
			case strings.Contains(words, "place"):
				return scripted.Reply(scripted.Text("One moment."), scripted.Call("show_map", `{"city":"Oslo"}`))
			case strings.Contains(words, "desk"):
				return scripted.Reply(scripted.Call(offered("transfer_to_desk"), `{}`))
			case strings.Contains(words, "city") && req.ResponseFormat != nil:
				return scripted.Reply(scripted.Text(oslo))
			case strings.Contains(words, "city"):
				return scripted.Reply(scripted.Call(cmp.Or(offered("city"), offered("final_result")), oslo))
			}
			return scripted.Reply(scripted.Text("You are ", "welcome."))
		}
	}
	maps := must.Get(llmagent.New("maps", "You show maps.", scripted.Func("maps", answer("maps")), llmagent.WithDescription("Shows maps")))
	refund := must.Get(tools.Func("refund", "Refunds.", func(_ tools.Context, in struct {
		Amount int `json:"amount"`
	}) (string, error) {
		require.Less(t, in.Amount, 10)
		return "paid", nil
	}, tools.NeedsApproval(tools.ByUser())))
	return must.Get(llmagent.New("front", "You help.", scripted.Func("front", answer("front")), llmagent.WithSubAgents(maps), llmagent.WithTools(refund)))
}

// TestFrameworks checks that the frameworks of others can use a served agent as a model.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	repeat := func(n int, all ...any) (out []any) {
		for range n {
			out = append(out, all...)
		}
		return out
	}
	const thanks = "You are welcome."
	said := func(n int, place string) []any { return repeat(n, place, thanks) }
	city := map[string]any{"city": "Oslo", "people": 700000.0}
	const oslo = "I have a map of Oslo."
	kept := func(call, output string) []any {
		return []any{oslo, thanks, []any{"assistant", "user"}, thanks, []any{"user", "assistant", call, output, "assistant", "user", "assistant"}}
	}
	agents := map[string]any{"kept": repeat(2, kept("function_call", "function_call_output")...), "said": append(repeat(4, oslo, thanks, "I have two."), repeat(2, oslo, oslo, thanks, thanks)...), "items": []any{7.0, 7.0}, "transferred": repeat(8, []any{"Desk", "I am the desk."}), "typed": repeat(4, city), "given": append(repeat(4, "Oslo", "Oslo", "Rome"), repeat(6, "Oslo")...),
		"approved": repeat(4, "It is paid.", "It is not paid."),
		"asked":    repeat(4, []any{"refund", map[string]any{"amount": 7.0}}, []any{"refund", map[string]any{"amount": 70.0}})}
	for script, want := range map[string]map[string]any{
		"agents_sdk.py":         agents,
		"agents_sdk.mjs":        agents,
		"aisdk.mjs":             {"said": said(2, oslo), "typed": repeat(2, city), "given": repeat(2, "Oslo")},
		"litellm_client.py":     {"said": said(2, oslo), "typed": repeat(2, city), "given": repeat(2, "Oslo")},
		"instructor_client.py":  {"typed": repeat(4, city)},
		"pydantic_ai_client.py": {"said": said(4, oslo), "typed": repeat(8, city), "given": repeat(4, "Oslo")},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			find := peers.OpenAI().Python
			if strings.HasSuffix(script, ".mjs") {
				find = func(t testing.TB, script string) (string, string) { return peers.OpenAI().Node(t, script) }
			}
			program, path := find(t, script)
			url := loopback(t, newWorld(t, newTown(t)))
			var got map[string]any
			peers.Run(t, map[string]any{"base": url + "/v1", "model": "front"}, &got, program, path)
			require.Equal(t, want, got, string(must.Get(json.Marshal(got))))
		})
	}
}
