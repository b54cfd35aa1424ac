package transfer_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

func nobody(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] { return nil }

func node(t testing.TB, name, description string, p agent.TransferPolicy, kids ...agent.Agent) agent.Agent {
	a, err := agent.New(name, description, nobody, agent.WithSubAgents(kids...), agent.WithTransferPolicy(p))
	require.NoError(t, err)
	return a
}

var (
	closed = agent.TransferPolicy{}
	open   = agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}
)

const odd = "Refunds & <b>invoices</b> \"quoted\" 发票\n  second line\\u0026 \u2028 {agent_name}"

// support → billing → (refunds, invoices); tech; Billing-EU and billing-eu.
func support(t testing.TB) *agent.Tree {
	tree, err := agent.NewTree(node(t, "support", "Routes", open,
		node(t, "billing", odd, open, node(t, "refunds", "", open), node(t, "invoices", "Bills", closed)),
		node(t, "tech", "Computers", agent.TransferPolicy{AllowTransferToParent: true}),
		node(t, "Desk-EU", "", closed), node(t, "desk-eu", "", closed)))
	require.NoError(t, err)
	return tree
}

func TestOffer(t *testing.T) {
	tree := support(t)
	for name, want := range map[string][]string{
		"support":  {"billing", "tech", "Desk-EU", "desk-eu"},
		"billing":  {"support", "refunds", "invoices", "tech", "Desk-EU", "desk-eu"},
		"refunds":  {"billing", "invoices"},
		"tech":     {"support"},
		"invoices": nil,
	} {
		specs, words := transfer.DefaultForm(transfer.OneTool).Offer(tree.Node(name), tree.Node(name).Targets(), "")
		if want == nil {
			require.Empty(t, specs)
			require.Equal(t, "You are invoices: Bills", words)
			continue
		}
		require.Len(t, specs, 1)
		spec := specs[0]
		require.Equal(t, "transfer_to_agent", spec.Name)
		var s struct {
			Type       string
			Properties map[string]struct {
				Type string
				Enum []string
			}
			Required             []string
			AdditionalProperties *bool
		}
		require.NoError(t, json.Unmarshal(spec.Parameters, &s))
		require.Equal(t, "object", s.Type)
		require.Equal(t, want, s.Properties["agent_name"].Enum, "tree order")
		require.Equal(t, "string", s.Properties["reason"].Type)
		require.Equal(t, []string{"agent_name"}, s.Required)
		require.False(t, *s.AdditionalProperties)
		var listed []string
		for _, line := range strings.Split(spec.Description, "\n- ")[1:] {
			listed = append(listed, strings.SplitN(strings.SplitN(line, ":", 2)[0], "\n", 2)[0])
		}
		require.Equal(t, want, listed)

		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(spec.Parameters)))
		require.NoError(t, err)
		c := jsonschema.NewCompiler()
		require.NoError(t, c.AddResource("mem:///s.json", doc))
		schema, err := c.Compile("mem:///s.json")
		require.NoError(t, err)
		require.NoError(t, schema.Validate(map[string]any{"agent_name": want[0], "reason": "x"}))
		require.Error(t, schema.Validate(map[string]any{"agent_name": "somebody"}))
		require.Error(t, schema.Validate(map[string]any{}))
	}
	specs, words := transfer.DefaultForm(transfer.OneTool).Offer(tree.Node("support"), tree.Node("support").Targets(), "")
	listed := "\n- billing: " + odd + "\n- tech: Computers\n- Desk-EU\n- desk-eu"
	require.Equal(t, "Transfers the conversation to another agent, which reads all of it and answers in your place. The agents:"+listed, specs[0].Description)
	require.True(t, strings.HasPrefix(words, "You are support: Routes\nOther agents, for other work only:"+listed+"\nIf "), words)
	require.Contains(t, words, "call transfer_to_agent for that agent at once")
	other := support(t).Node("support")
	again, wordsAgain := transfer.DefaultForm(transfer.OneTool).Offer(other, other.Targets(), "")
	require.Equal(t, specs, again, "the same tree is offered byte for byte the same")
	require.Equal(t, words, wordsAgain)
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in, target, reason string
	}{
		{`{"agent_name":"billing","reason":"money"}`, "billing", "money"},
		{`{"agent_name":"  billing\n","reason":" money "}`, "billing", "money"},
		{`{"agent_name":"billing"}`, "billing", ""},
		{`{"agent_name":"billing","reason":null}`, "billing", ""},
		{`{"agent_name":"billing","reason":3}`, "billing", ""},
		{`{"agent_name":"billing","reason":{"a":1},"more":[]}`, "billing", ""},
		{`{"agent_name":"a","agent_name":"b"}`, "b", ""},
		{`{"raw":"\"{\\\"agent_name\\\":\\\"billing\\\",\\\"reason\\\":\\\"r\\\"}\""}`, "billing", "r"},
		{`{"raw":"\" {\\\"agent_name\\\":\\\"billing\\\",\\\"reason\\\":5} \""}`, "billing", ""},
		{`{"agent_name":"billing","raw":"x"}`, "billing", ""},
		{`{"agent_name":""}`, "", ""},
		{`{"agent_name":"  "}`, "", ""},
	} {
		got, err := transfer.Parse(json.RawMessage(c.in))
		require.NoError(t, err, c.in)
		require.Equal(t, transfer.Call{Target: c.target, Reason: c.reason}, got, c.in)
	}
	for in, want := range map[string]string{
		`{}`:                                     "agent_name is missing",
		`{"reason":"x"}`:                         "agent_name is missing",
		`{"agent_name":null}`:                    "agent_name is missing",
		`{"agent_name":3}`:                       "agent_name is not a string",
		`{"agent_name":["a"]}`:                   "agent_name is not a string",
		`{"agent_name":{"a":1}}`:                 "agent_name is not a string",
		`{"raw":"{oops"}`:                        "not a JSON object",
		`{"raw":""}`:                             "not a JSON object",
		`{"raw":"billing"}`:                      "not a JSON object",
		`{"raw":"\"billing\""}`:                  "not a JSON object",
		`{"raw":"[\"billing\"]"}`:                "not a JSON object",
		`{"raw":"\"{}\""}`:                       "agent_name is missing",
		`{"raw":"\"{\\\"raw\\\":\\\"{}\\\"}\""}`: "not a JSON object",
		`[]`:                                     "not a JSON object",
		`"text"`:                                 "not a JSON object",
		`null`:                                   "agent_name is missing",
		``:                                       "not a JSON object",
		`{`:                                      "not a JSON object",
	} {
		got, err := transfer.Parse(json.RawMessage(in))
		require.ErrorContains(t, err, want, in)
		require.Empty(t, got, in)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"agent_name":"billing","reason":"x"}`, `{"agent_name":3}`, `{"raw":"\"{\\\"agent_name\\\":\\\"b\\\"}\""}`, `"{}"`, `{"raw":"{\"raw\":\"{}\"}"}`, "null", "{oops", "\xff"} {
		f.Add(s)
	}
	tree := support(f)
	f.Fuzz(func(t *testing.T, s string) {
		for _, in := range []json.RawMessage{json.RawMessage(s), event.ObjectInput(s)} {
			call, err := transfer.Parse(in)
			if err != nil {
				require.Empty(t, call)
				require.NotEmpty(t, err.Error())
			}
			require.Equal(t, strings.TrimSpace(call.Target), call.Target)
			again, err2 := transfer.Parse(in)
			require.Equal(t, call, again)
			require.Equal(t, err == nil, err2 == nil)
			for n := range tree.Walk() {
				target, err := transfer.Resolve(n, tree, n.Targets(), call)
				require.Equal(t, err == nil, target != nil)
				if target != nil {
					require.Contains(t, n.Targets(), target)
					require.True(t, strings.EqualFold(target.Agent.Name(), call.Target))
				} else {
					require.ErrorIs(t, err, agent.ErrTransferRejected)
					require.Less(t, len(err.Error()), 1000, "a model's own words do not come back at length")
				}
			}
			repaired, err := transfer.Parse(transfer.Input("support", in))
			require.NoError(t, err)
			require.Equal(t, "support", repaired.Target)
		}
	})
}

// TestCase: a name means the only target that differs from it in nothing but case.
func TestCase(t *testing.T) {
	tree := support(t)
	n := tree.Node("support")
	for name, want := range map[string]string{
		"billing": "billing", "BILLING": "billing", "Desk-EU": "Desk-EU", "desk-eu": "desk-eu",
		"Support": "you are support",
		"DESK-EU": "no agent", // two targets differ in nothing but case
		"refunds": "may not transfer",
		"Refunds": "no agent", // not a target
		"billin":  "no agent", // near is not the same
		"":        "no agent",
	} {
		got, err := transfer.Resolve(n, tree, n.Targets(), transfer.Call{Target: name})
		if err != nil {
			require.ErrorContains(t, err, want, name)
		} else {
			require.Equal(t, want, got.Agent.Name(), name)
		}
	}
}

func TestResolve(t *testing.T) {
	tree := support(t)
	n := tree.Node("refunds")
	target, err := transfer.Resolve(n, tree, n.Targets(), transfer.Call{Target: "Billing"})
	require.NoError(t, err)
	require.Equal(t, "billing", target.Agent.Name())
	for name, want := range map[string]string{
		"refunds":                 "already handling",
		"REFUNDS":                 "already handling",
		"support":                 `may not transfer to "support". You can transfer to: billing, invoices.`,
		"tech":                    `may not transfer to "tech"`,
		"nobody":                  `no agent "nobody"`,
		"bilingg":                 "Did you mean billing?",
		"":                        `no agent ""`,
		"a\"b\n":                  `no agent "a\"b\n"`,
		strings.Repeat("é", 1000): "…",
	} {
		target, err := transfer.Resolve(n, tree, n.Targets(), transfer.Call{Target: name})
		require.Nil(t, target, name)
		require.ErrorIs(t, err, agent.ErrTransferRejected, name)
		require.ErrorContains(t, err, want, name)
		if name != "refunds" && name != "REFUNDS" {
			require.ErrorIs(t, err, agent.ErrUnknownTarget)
		}
	}
}

// TestOffered: which targets a model is offered follows from how its agent got the conversation.
func TestOffered(t *testing.T) {
	tree := support(t)
	from := func(name, kind string) *event.Transfer { return &event.Transfer{From: name, TransferType: kind} }
	hold := agent.TransferPolicy{HoldOnArrival: true}
	for _, c := range []struct {
		agent  string
		policy agent.TransferPolicy
		run    view.Run
		gone   []string // of all targets
	}{
		{"billing", closed, view.Run{}, nil},
		{"billing", hold, view.Run{}, nil},
		{"billing", closed, view.Run{Transfer: from("support", "")}, nil},
		{"billing", closed, view.Run{Transfer: from("support", ""), Bounced: true}, []string{"support", "tech", "Desk-EU", "desk-eu"}},
		{"billing", closed, view.Run{Bounced: true}, nil},
		{"billing", hold, view.Run{Transfer: from("support", "")}, []string{"support", "tech", "Desk-EU", "desk-eu"}},
		{"billing", hold, view.Run{Transfer: from("refunds", ""), OnTheWay: true, Bounced: true}, nil},
		{"billing", hold, view.Run{Transfer: from("support", ""), Chosen: true}, []string{"support", "tech", "Desk-EU", "desk-eu"}},
		{"billing", hold, view.Run{Transfer: from("refunds", event.TransferTypeRefused), Returned: []string{"refunds"}}, []string{"refunds"}}, // it had the conversation before
		{"support", closed, view.Run{Transfer: from("billing", ""), Bounced: true, Returned: []string{"billing"}}, []string{"billing"}},
		{"support", closed, view.Run{Bounced: true, Returned: []string{"billing", "gone"}}, []string{"billing"}},
		{"billing", closed, view.Run{Limited: true}, []string{"support", "refunds", "invoices", "tech", "Desk-EU", "desk-eu"}},
		{"billing", closed, view.Run{Decided: true}, []string{"support", "refunds", "invoices", "tech", "Desk-EU", "desk-eu"}},
	} {
		n := tree.Node(c.agent)
		left := transfer.Offered(n, c.policy, c.run)
		var gone []string
		for _, target := range n.Targets() {
			if slices.Contains(left, target) {
				continue
			}
			name := target.Agent.Name()
			gone = append(gone, name)
			specs, words := transfer.DefaultForm(transfer.OneTool).Offer(n, left, "")
			if len(left) > 0 {
				require.NotContains(t, string(specs[0].Parameters), `"`+name+`"`)
			}
			require.NotContains(t, words, "- "+name)
			_, err := transfer.Resolve(n, tree, left, transfer.Call{Target: name})
			require.ErrorIs(t, err, agent.ErrTransferRejected)
			require.NotErrorIs(t, err, agent.ErrUnknownTarget)
			require.ErrorContains(t, err, "you cannot transfer to "+name+" now: answer the user yourself")
		}
		require.ElementsMatch(t, c.gone, gone, "%+v", c)
	}
}

// TestOfferedToSmallModels: an agent that a transfer has put in charge is held until its run ends, also when a tool has
// answered it.
func TestOfferedToSmallModels(t *testing.T) {
	root, err := llmagent.New("support", "", offline.New(), llmagent.WithSmallModels(), llmagent.WithSubAgents(
		node(t, "billing", "", open, node(t, "refunds", "", open)), node(t, "tech", "", open)))
	require.NoError(t, err)
	tree, err := agent.NewTree(root)
	require.NoError(t, err)
	all, children := []string{"support", "refunds", "tech"}, []string{"refunds"}
	for want, runs := range map[*[]string][]view.Run{
		&all:      {{}, {Transfer: &event.Transfer{From: "support"}, From: "support", Arrived: true, OnTheWay: true}, {From: "support"}},
		&children: {{Transfer: &event.Transfer{From: "support"}, From: "support", Arrived: true}, {From: "support", Arrived: true}},
	} {
		for _, run := range runs {
			var got []string
			for _, target := range transfer.Offered(tree.Node("billing"), closed, run) {
				got = append(got, target.Agent.Name())
			}
			require.ElementsMatch(t, *want, got, "%+v", run)
		}
	}
}

func TestLegalNamesTheNearest(t *testing.T) {
	tree := support(t)
	const all = "You can transfer to: billing, tech, Desk-EU, desk-eu."
	for name, want := range map[string]string{
		"biling": all + " Did you mean billing?", "Teck": all + " Did you mean tech?", "techsupport": all, "": all, "x": all,
		"billing_agent": all + " Did you mean billing?", strings.Repeat("billing", 20): all,
	} {
		require.Equal(t, want, transfer.Legal(tree.Root().Targets(), name), name)
	}
	require.Equal(t, "You have nobody to transfer to: answer yourself.", transfer.Legal(nil, "billing"))
}
