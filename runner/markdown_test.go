package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// markdownDesk is the tree that goDesk makes.
const markdownDesk = `
-- front.md --
---
description: Answers first
model: front
tools: [lookup, refund]
approve: [ref*]
rules:
  - {tool: lookup, args: {id: '^0'}, decision: deny}
  - {tool: lookup, decision: allow}
guards: [no-cards]
budgets:
  tokens: 3000
  turn: {tokens: 900}
compaction: {window: 700, at: 0.7, keep: 0.3, summarizer: sums}
routes:
  - {to: review, when: "output contains 'refunded' && state.vip == true && input.message != ''"}
  - {to: billing, when: "output.to == 'billing' && output.score > 1"}
---
You answer first.
-- front/billing.md --
---
description: Money
model: billing
transfer: {parent: true, approve: true}
guards: [polite]
---
You handle money.
-- front/review.md --
---
model: review
---
You look over what was said.
`

// deskGuards are registered by the program.
func deskGuards() []agent.Guard {
	card := regexp.MustCompile(`\d{16}`)
	return []agent.Guard{{
		Name: "no-cards",
		In: func(_ context.Context, _ *agent.Invocation, in agent.Ingress) error {
			if card.MatchString(in.Content.PlainText()) {
				return errors.New("a card number")
			}
			return nil
		},
	}, {
		Name: "polite",
		Out: func(_ context.Context, _ *agent.Invocation, text string) error {
			if strings.Contains(text, "fool") {
				return errors.New("not polite")
			}
			return nil
		},
	}}
}

func goDesk(t *testing.T, model func(name string) llm.Model, list []tools.Tool) agent.Agent {
	guards := deskGuards()
	billing := must.Get(llmagent.New("billing", "You handle money.", model("billing"), llmagent.WithDescription("Money"),
		llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true}), llmagent.WithTransferApproval(), llmagent.WithGuards(guards[1])))
	review := must.Get(llmagent.New("review", "You look over what was said.", model("review")))
	rules := must.Get(tools.NewPolicy(tools.Rule{Tool: "ref*", Decision: tools.Ask}, tools.Rule{Tool: "lookup", Args: map[string]tools.Arg{"id": {Matches: "^0"}}, Decision: tools.Deny},
		tools.Rule{Tool: "lookup", Decision: tools.Allow}))
	return must.Get(llmagent.New("front", "You answer first.", model("front"), llmagent.WithDescription("Answers first"), llmagent.WithTools(list...),
		llmagent.WithToolPolicy(rules), llmagent.WithGuards(guards[0]), llmagent.WithSubAgents(billing, review),
		llmagent.WithBudgets(agent.Budgets{Own: agent.Budget{Tokens: 3000}, Turn: agent.Budget{Tokens: 900}}),
		llmagent.WithCompaction(llmagent.Compaction{Window: 700, At: 0.7, Keep: 0.3, Summarizer: model("sums")}),
		llmagent.WithRoutes(
			agent.OnStop("review", func(_ context.Context, inv *agent.Invocation, answer string) (bool, error) {
				vip, _ := inv.Session().State("vip")
				return strings.Contains(answer, "refunded") && vip == true && inv.Message().PlainText() != "", nil
			}),
			agent.OnStop("billing", func(_ context.Context, _ *agent.Invocation, answer string) (bool, error) {
				var v struct {
					To    string
					Score float64
				}
				answer = strings.TrimSuffix(strings.TrimPrefix(answer, "```json\n"), "\n```")
				return json.Unmarshal([]byte(answer), &v) == nil && v.To == "billing" && v.Score > 1, nil
			}))))
}

// TestMarkdownIsTheSameTree plays stories that need every key that bounds, checks or leads on,
// with a tree from Markdown and with the same one in Go: the logs are the same, and so is each
// request to a model.
func TestMarkdownIsTheSameTree(t *testing.T) {
	files := fstest.MapFS{}
	for _, f := range txtar.Parse([]byte(markdownDesk)).Files {
		files[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	inMarkdown := func(model func(name string) llm.Model, list []tools.Tool) agent.Agent {
		tree := must.Get(agentfile.LoadFS(files, ".", agentfile.WithTools(list...), agentfile.WithGuards(deskGuards()...),
			agentfile.WithModel(func(name string) (llm.Model, error) { return model(name), nil })))
		return tree.Root()
	}
	inGo := func(model func(name string) llm.Model, list []tools.Tool) agent.Agent { return goDesk(t, model, list) }
	want := playDesk(t, inGo)
	require.Equal(t, want, playDesk(t, inMarkdown))

	// All of it has happened.
	require.Equal(t, []string{"input_required", "stop by review", "input_required", `the guard "polite" refused the text of billing: not polite`, "stop by front",
		"stop by front", "stop by front", "the budget of the agent front is spent", `the guard "no-cards" refused the user's message to front: a card number`}, want.ends)
	log := strings.Join(want.log, "\n")
	for _, part := range []string{"this call is not allowed", "lookup of 7", "refund of 7", `"transferType":"route"`, "They talked.", `"type":"compaction"`} {
		require.Contains(t, log, part)
	}
	require.NotContains(t, log, "lookup of 07")
}

// playedDesk is what came of the stories.
type playedDesk struct {
	ends, log []string
	requests  map[string][]*llm.Request
}

func playDesk(t *testing.T, build func(model func(name string) llm.Model, list []tools.Tool) agent.Agent) (p playedDesk) {
	used := func(in, out int) scripted.Item { return scripted.Usage(in, out, 0) }
	script := scripted.New(scripted.WithRecording()).
		Add("front",
			scripted.Reply(scripted.Call("lookup", `{"id":"07"}`), scripted.Call("lookup", `{"id":"7"}`), scripted.Call("refund", `{"id":"7"}`), used(10, 1)),
			scripted.Reply(scripted.Text("It is refunded."), used(10, 1)),
			scripted.Reply(scripted.Text("```json\n{\"to\": \"billing\", \"score\": 2}\n```"), used(10, 1)),
			scripted.Reply(scripted.Text(`{"to": "billing", "score": 1}`), used(10, 1)),
			scripted.Reply(scripted.Text(`{"to": "billing"}`), used(520, 1)), // a comparison with nothing does not hold
			scripted.Reply(scripted.Text("After the summary."), used(10, 2900)),
		).
		Add("sums", scripted.Reply(scripted.Text("They talked."), used(5, 1))).
		Add("review", scripted.Reply(scripted.Text("All is well."), used(10, 1))).
		Add("billing", scripted.Reply(scripted.Call("transfer_to_front", `{"reason":"done"}`), used(10, 1)), scripted.Reply(scripted.Text("You fool."), used(10, 1)))
	var list []tools.Tool
	for _, name := range []string{"lookup", "refund"} {
		tool := must.Get(tools.Func(name, "Does "+name+".", func(ctx tools.Context, in struct {
			ID string `json:"id"`
		}) (string, error) {
			ctx.Set("vip", true)
			return name + " of " + in.ID, nil
		}))
		list = append(list, tool)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := newRun(t, build(script.Model, list), runner.WithIDs(transcript.Counter()), runner.WithClock(func() time.Time { return now }))
	for i, story := range [][]string{{"Refund order 7", "/approve"}, {"Who?", "/deny"}, {"Who?", "And who?", "Well?", "More"}, {"4111111111111111"}} {
		key := session.ID("story-" + strconv.Itoa(i))
		asked := ""
		for _, line := range story {
			turn := r.Run(t.Context(), key, llm.UserText(line))
			switch line {
			case "/approve":
				turn = r.Resume(t.Context(), key, runner.Approve(asked))
			case "/deny":
				turn = r.Resume(t.Context(), key, runner.Deny(asked, "no"))
			}
			events, err := collect(turn)
			require.NotEmpty(t, events, "%s: %v", line, err)
			for _, relay := range find[*event.Relay](events) {
				asked = relay.ToolCallID
			}
			end := events[len(events)-1].Data.(*event.HarnessEnd)
			var trip *agent.TripwireError
			var spent *agent.BudgetError
			switch {
			case errors.As(err, &trip):
				p.ends = append(p.ends, trip.Error())
			case errors.As(err, &spent):
				p.ends = append(p.ends, "the budget of "+spent.Of+" is spent")
			case end.FinishReason == event.FinishReasonStop:
				p.ends = append(p.ends, "stop by "+end.AgentID)
			default:
				p.ends = append(p.ends, string(end.FinishReason))
			}
		}
		for _, e := range load(t, r, key) {
			without := *e // the place: calls side by side have their results as they are ready
			without.Seq, without.Time = 0, time.Time{}
			line := must.Get(json.Marshal(&without))
			p.log = append(p.log, string(line))
		}
	}
	slices.Sort(p.log)
	require.NoError(t, script.Done())
	p.requests = map[string][]*llm.Request{}
	for _, name := range script.Agents() {
		p.requests[name] = script.Requests(name)
	}
	return p
}
