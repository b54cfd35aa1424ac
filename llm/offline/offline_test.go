package offline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
)

// transfer makes the transfer tool for "name: description" targets.
func transfer(targets ...string) llm.ToolSpec {
	var names []string
	text := "Hands the conversation to another agent, who sees all of it and answers in your place. The agents:"
	for _, target := range targets {
		name, _, _ := strings.Cut(target, ":")
		names = append(names, name)
		text += "\n- " + target
	}
	enum, _ := json.Marshal(names)
	return llm.ToolSpec{Name: "transfer_to_agent", Description: text, Parameters: json.RawMessage(fmt.Sprintf(
		`{"type":"object","properties":{"agent_name":{"type":"string","enum":%s},"reason":{"type":"string"}},"required":["agent_name"],"additionalProperties":false}`, enum))}
}

// transfers makes a tool for each of the targets.
func transfers(targets ...string) (all []llm.ToolSpec) {
	for _, target := range targets {
		name, _, _ := strings.Cut(target, ":")
		all = append(all, llm.ToolSpec{Name: "transfer_to_" + name, Description: "Hands the conversation to this agent, who sees all of it and answers in your place:\n- " + target,
			Parameters: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}},"additionalProperties":false}`)})
	}
	return all
}

// TestFormsOfTransfers: one tool for all targets, or one for each, and the targets in
// the instructions as well, lead to the same choice.
func TestFormsOfTransfers(t *testing.T) {
	targets := []string{"billing: Refunds, invoices. Customers charged twice", "tech: Network; database.\nAnd sign-in problems", "a", "ab: Boats. Harbours"}
	listed := func(each bool) string {
		text := "\n\nYou are clerk: Answers first\nOther agents, for other work only:"
		for _, target := range targets {
			name, rest, _ := strings.Cut(target, ":")
			if each {
				name += " (transfer_to_" + name + ")"
			}
			if text += "\n- " + name; rest != "" {
				text += ":" + rest
			}
		}
		return text + "\nIf the user's message is the work of another agent, call "
	}
	human := tool("transfer_to_human", "Calls a human being by telephone.", `{"type":"object","properties":{}}`)
	for message, want := range map[string]string{"I was charged twice": "billing", "My sign-in fails": "tech", "Which harbours are there?": "ab", "Where is the moon?": ""} {
		for name, specs := range map[string][]llm.ToolSpec{"one": {human, transfer(targets...)}, "each": append([]llm.ToolSpec{human}, transfers(targets...)...)} {
			for _, words := range []string{"", listed(name == "each") + "transfer_to_agent for that agent at once."} {
				req := &llm.Request{System: "You are a clerk." + words, Tools: specs, Messages: []llm.Message{user(message)}}
				got, called := "", ""
				for c, err := range offline.New().Generate(t.Context(), req) {
					require.NoError(t, err)
					if c.Call != nil {
						var args struct {
							Name   string `json:"agent_name"`
							Reason string
						}
						require.NoError(t, json.Unmarshal([]byte(c.Call.Arguments), &args))
						called = c.Call.Name
						if got = args.Name; name == "each" {
							require.Empty(t, args.Name)
							got = strings.TrimPrefix(called, "transfer_to_")
						}
					}
				}
				require.Equal(t, want, got, "%s: %s%s", message, name, words)
				require.Equal(t, want != "" && name == "one", called == "transfer_to_agent")
				if want != "" { // a refused transfer is no work, and nothing to hand on
					req.Messages = append(req.Messages, assistant("", llm.ToolCall{ID: "c", Name: called}), result(called, "limit reached", true))
					for c, err := range offline.New().Generate(t.Context(), req) {
						require.NoError(t, err)
						require.Nil(t, c.Call)
					}
				}
			}
		}
	}
}

func tool(name, description, parameters string) llm.ToolSpec {
	return llm.ToolSpec{Name: name, Description: description, Parameters: json.RawMessage(parameters)}
}

const handingOver = "\n\nYou may hand this conversation to another agent by calling transfer_to_agent. Do so when another agent is better suited to the user's request." +
	" Do not announce it. When you are the right one, answer yourself."

// The requests that a support tree makes of its model, agent by agent.
func agents() map[string]*llm.Request {
	charges := `{"type":"object","properties":{"customer":{"type":"string"}},"required":["customer"]}`
	refund := `{"type":"object","properties":{"charge_id":{"type":"integer","description":"The charge to refund"}},"required":["charge_id"],"additionalProperties":false}`
	return map[string]*llm.Request{
		"support": {System: "You are a support coordinator. Send questions on money to billing, technical ones to tech." + handingOver, Tools: []llm.ToolSpec{transfer(
			"billing: Refunds, invoices, subscriptions and customers charged twice",
			"tech: Network, database and sign-in problems",
			"account: Profile, permissions, settings, e-mail address")}},
		"billing": {System: "You handle refunds and invoices.", Tools: []llm.ToolSpec{
			tool("list_charges", "Lists the charges of a customer.", charges),
			tool("refund_charge", "Refunds one charge.", refund)}},
		"tech": {System: "You solve technical problems." + handingOver, Tools: []llm.ToolSpec{transfer(
			"network: Connections, Wi-Fi, DNS and slow network links",
			"database: Queries, indexes, backups and locks of the database",
			"auth: Sign-in, passwords and two-factor codes",
			"support: Routes support conversations")}},
	}
}

func ask(agent string, messages ...llm.Message) *llm.Request {
	req := *agents()[agent]
	req.Messages = messages
	return &req
}

func user(text string) llm.Message { return llm.UserText(text) }

func assistant(text string, parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: text, Parts: parts}}
}

func result(name, output string, isError bool) llm.Message {
	return llm.Message{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: "c", Name: name, Output: output, IsError: isError}}}}
}

// answer collects an answer: "name {arguments}" of a call, or the text.
func answer(t testing.TB, req *llm.Request) (string, llm.Chunk) {
	t.Helper()
	var text strings.Builder
	var last llm.Chunk
	for c, err := range offline.New().Generate(context.Background(), req) {
		require.NoError(t, err)
		require.Empty(t, last.Finish, "nothing follows the terminal chunk")
		text.WriteString(c.Text)
		if c.Call != nil {
			require.NotEmpty(t, c.Call.ID)
			fmt.Fprintf(&text, "%s %s", c.Call.Name, c.Call.Arguments)
		}
		last = c
	}
	require.NotEmpty(t, last.Finish)
	return text.String(), last
}

const about = "I am the offline model: I compare words and understand no language"

func TestTree(t *testing.T) {
	twice := "I'm being charged twice for my subscription"
	rows := `[{"charge_id":1042,"amount":"19.00 EUR","date":"2026-10-01"},{"charge_id":1043,"amount":"19.00 EUR","date":"2026-10-01"}]`
	called := assistant("", llm.ToolCall{ID: "c", Name: "list_charges", Arguments: "{}"})
	for _, c := range []struct {
		name string
		req  *llm.Request
		want string
	}{
		{"hands to billing", ask("support", user(twice)), `transfer_to_agent {"agent_name":"billing","reason":"charged, twice"}`},
		{"hands to tech", ask("support", user("I can't sign in any more")), `transfer_to_agent {"agent_name":"tech","reason":"sign"}`},
		{"e-mail is email", ask("support", user("Please change my email address.")), `transfer_to_agent {"agent_name":"account","reason":"email, address"}`},
		{"by name", ask("support", user("Let me talk to Billing")), `transfer_to_agent {"agent_name":"billing","reason":"billing"}`},
		{"second level", ask("tech", user("The database backup is locked")), `transfer_to_agent {"agent_name":"database","reason":"database, backup"}`},
		{"the parent sees what it said before", ask("support", user("Hi"), assistant("Hello."), user("My invoice is wrong")), `transfer_to_agent {"agent_name":"billing","reason":"invoice"}`},
		{"another agent's words are not the user's", ask("support", user("Hi"), user("[tech] The network is down."), user("Refund my invoice")), `transfer_to_agent {"agent_name":"billing","reason":"refund, invoice"}`},
		{"never straight back", ask("tech", user("support for support conversations"), user("[support] One moment.")), about},
		{"not when it comes back", ask("support", user(twice), user("[billing] returned the conversation to you. Answer the user, or choose another agent.")), about},
		{"on, when it comes with a reason", ask("tech", user("The database is locked"), user("[support] transferred the conversation to you, tech: locked.")), `transfer_to_agent {"agent_name":"database","reason":"database, locked"}`},
		{"not when it comes back with a reason", ask("tech", user("The database is locked"), user("[support] transferred the conversation to you, tech: locked."), user("[network] transferred the conversation to you, tech: database.")), about},
		{"not after its own words", ask("support", user(twice), assistant("Let me see.")), about},
		{"not after a refusal", ask("support", user(twice), assistant("", llm.ToolCall{ID: "c", Name: "transfer_to_agent"}), result("transfer_to_agent", "limit reached: answer yourself", true)),
			`transfer_to_agent failed: "limit reached: answer yourself".`},
		{"two equal targets", ask("support", user("network and invoices")), about},
		{"nothing matches", ask("support", user("What is the meaning of life?")),
			about + `, and I find nothing to do with yours. The instructions of this agent begin "You are a support coordinator". Set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL for a real model.`},
		{"own tool after a transfer", ask("billing", user(twice), user("[support] transferred the conversation to you, billing.")), `list_charges {"customer":"I'm being charged twice for my subscription"}`},
		{"reads before it changes", ask("billing", user(twice)), `list_charges {"customer":"I'm being charged twice for my subscription"}`},
		{"rows", ask("billing", user(twice), called, result("list_charges", rows, false)),
			"list_charges returned 2 rows: charge 1042, 19.00 EUR, 2026-10-01; charge 1043, 19.00 EUR, 2026-10-01."},
		{"changes when asked", ask("billing", user("Please refund charge 1042.")), `refund_charge {"charge_id":1042}`},
		{"not when negated", ask("billing", user("Do not refund charge 1042 of Ada Lovelace.")), `list_charges {"customer":"Ada Lovelace"}`},
		{"asks for what is missing", &llm.Request{Messages: []llm.Message{user("refund me")}, Tools: agents()["billing"].Tools[1:]}, "To call refund_charge I need charge_id: please give that in your next message."},
		{"a noun of the name is no verb", &llm.Request{Messages: []llm.Message{user("What is the state of ABC-123?")}, Tools: []llm.ToolSpec{
			tool("get_order", "The state of an order.", `{"type":"object","properties":{"order_id":{"type":"string"}},"required":["order_id"]}`)}}, `get_order {"order_id":"ABC-123"}`},
		{"error", ask("billing", user("refund 1"), called, result("refund_charge", "no such charge", true)), `refund_charge failed: "no such charge".`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, last := answer(t, c.req)
			if c.want == about {
				require.True(t, strings.HasPrefix(got, about), got)
			} else {
				require.Equal(t, c.want, got)
			}
			calls := strings.Contains(c.want, " {")
			require.Equal(t, map[bool]llm.FinishReason{true: llm.FinishToolCalls, false: llm.FinishStop}[calls], last.Finish)
		})
	}
}
