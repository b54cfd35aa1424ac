package llmagent_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai"
	server "github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// desk is a coordinator with two specialists, whose models say "ok".
func desk(t testing.TB, m llm.Model, opts ...llmagent.Option) agent.Agent {
	var kids []agent.Agent
	for name, does := range map[string]string{"bill": "Refunds", "billing": "Invoices, charges"} {
		kid := must.Get(llmagent.New(name, "", scripted.Always(name, reply(scripted.Text("ok"))), llmagent.WithDescription(does)))
		if kids = append(kids, kid); name == "bill" {
			kids[0], kids[len(kids)-1] = kids[len(kids)-1], kids[0]
		}
	}
	return must.Get(llmagent.New("support", "Be kind.", m, append(opts, llmagent.WithSubAgents(kids...))...))
}

// decided runs a turn and returns what became of the question who answers: the code of
// the notice about it, or the target and the reason of the transfer.
func decided(t testing.TB, m llm.Model, text string, opts ...llmagent.Option) (string, string) {
	r := must.Get(runner.New(desk(t, m, opts...), sessiontest.Memory(t)))
	for e, err := range r.Run(context.Background(), key, llm.UserText(text)) {
		require.NoError(t, err)
		switch d := e.Data.(type) {
		case *event.Notice:
			return d.Code, d.Message
		case *event.Transfer:
			require.Equal(t, event.TransferCommitted, d.Outcome)
			return d.To, d.Reason
		}
	}
	return "", ""
}

// TestReadingTheDecision: how answers are read that nothing has held to the form.
func TestReadingTheDecision(t *testing.T) {
	for answer, want := range map[string]string{
		`{"agent": "billing"}`:                      "billing",
		`{"agent":"BILL"}`:                          "bill",
		"```json\n{\"agent\": \" billing \"}\n```":  "billing",
		`I say {"agent": "support"}.`:               event.NoticeDecided,
		"billing":                                   "billing",
		" **Bill**.\n":                              "bill",
		"\"support\"":                               event.NoticeDecided,
		"billing or bill":                           event.NoticeUndecided,
		`{"agent": "left"}`:                         event.NoticeUndecided,
		`{"agent": 3}`:                              event.NoticeUndecided,
		`{"agent": "billing"`:                       event.NoticeUndecided,
		`{"agent": "bill"} or {"agent": "billing"}`: event.NoticeUndecided,
		"": event.NoticeUndecided,
	} {
		m := scripted.Always("small", reply(scripted.Text(answer)))
		got, _ := decided(t, scripted.Always("m", reply(scripted.Text("ok"))), "Hello", llmagent.WithDecision(m))
		require.Equal(t, want, got, "%q", answer)
	}
}

// TestConfidence weighs the tokens of the name against those that lead to other names.
func TestConfidence(t *testing.T) {
	likely := func(token string, p float64, others map[string]float64) scripted.Item {
		return scripted.Likely(token, p, others)
	}
	type m = map[string]float64
	for name, c := range map[string]struct {
		tokens []scripted.Item
		to     string
		want   string
	}{
		"one token":                  {[]scripted.Item{scripted.Text(`{"agent":"`), likely("support", 0.75, m{"billing": 0.25}), scripted.Text(`"}`)}, event.NoticeDecided, "0.75"},
		"what is no name is left":    {[]scripted.Item{likely(`{"agent": "`, 1, nil), likely("billing", 0.3, m{"support": 0.1, "tech": 0.6}), likely(`"}`, 1, nil)}, "billing", "0.75"},
		"another way to write it":    {[]scripted.Item{likely(`{"agent":"`, 1, nil), likely("bill", 0.5, m{"b": 0.3, "support": 0.2}), likely("ing", 0.9, m{`"`: 0.1}), likely(`"}`, 1, nil)}, "billing", "0.72"},
		"the end of the name":        {[]scripted.Item{likely(`{"agent":"`, 1, nil), likely("bill", 1, nil), likely(`"}`, 0.6, m{"ing": 0.2, "ion": 0.2})}, "bill", "0.75"},
		"quotes within the tokens":   {[]scripted.Item{likely(`{"agent":`, 1, nil), likely(` "sup`, 0.6, m{` "bill`: 0.2, ` "`: 0.1, `"bill`: 0.1}), likely(`port"`, 1, nil), likely(`}`, 1, nil)}, event.NoticeDecided, "0.75"},
		"not the one that is likely": {[]scripted.Item{likely(`{"agent":"`, 1, nil), likely("billing", 0.2, m{"support": 0.8}), likely(`"}`, 1, nil)}, event.NoticeAsksUser, "0.20"},
		"thoughts before it":         {[]scripted.Item{likely("support", 1, nil), likely(`? {"agent":"`, 1, nil), likely("support", 0.8, m{"billing": 0.2}), likely(`"}`, 1, nil)}, event.NoticeDecided, "0.80"},
		"the name alone":             {[]scripted.Item{likely("Support", 0.7, m{"billing": 0.3, "support": 0.0})}, event.NoticeDecided, "0.70"},
		"impossible":                 {[]scripted.Item{likely("support", 0.7, m{"billing": 0})}, event.NoticeDecided, "1.00"},
	} {
		t.Run(name, func(t *testing.T) {
			got, told := decided(t, scripted.Always("m", reply(c.tokens...)), "Hello", llmagent.WithDecision(nil))
			require.Equal(t, c.to, got)
			require.Contains(t, told, "decided with a confidence of "+c.want)
		})
	}
	alone := scripted.Func("m", func(*llm.Request) scripted.Answer { return reply(scripted.Text("ok")) })
	unsaid := withProbs{alone, []llm.LogProb{{Token: "support", LogProb: math.Log(0.7)}}}
	got, told := decided(t, alone, "Hello", llmagent.WithDecision(unsaid))
	require.Equal(t, event.NoticeDecided, got)
	require.Contains(t, told, "a confidence of 0.70", "without the other tokens")
	unsaid.probs = []llm.LogProb{{Token: "no", LogProb: -1}}
	_, told = decided(t, alone, "Hello", llmagent.WithDecision(unsaid))
	require.Equal(t, "support answers, decided", told, "log probabilities of something else")
}

// withProbs is a model that says "support", with these log probabilities.
type withProbs struct {
	llm.Model
	probs []llm.LogProb
}

func (m withProbs) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Text: "support", LogProbs: m.probs, Finish: llm.FinishStop}, nil)
	}
}

func TestThreshold(t *testing.T) {
	unsure := scripted.Always("m", reply(scripted.Likely("billing", 0.5, map[string]float64{"support": 0.5})))
	for threshold, want := range map[float64]string{0: "billing", 0.49: "billing", 0.51: event.NoticeAsksUser, 1: event.NoticeAsksUser} {
		got, _ := decided(t, unsure, "Hello", llmagent.WithDecision(nil, llmagent.DecisionThreshold(threshold)))
		require.Equal(t, want, got, "%v", threshold)
	}
	silent := llmagent.DecisionSettings(func(s *llm.Settings) { s.TopLogProbs = 0 })
	got, told := decided(t, unsure, "Hello", llmagent.WithDecision(nil, llmagent.DecisionThreshold(1), silent))
	require.Equal(t, []string{"billing", "decided"}, []string{got, told}, "a confidence that is not known is below nothing")
}

func TestDecisionOptions(t *testing.T) {
	m := scripted.Always("m", reply(scripted.Text("ok")))
	for want, o := range map[string]llmagent.DecisionOption{
		"option 0 is nil":             nil,
		"the threshold 1.5":           llmagent.DecisionThreshold(1.5),
		"the threshold NaN":           llmagent.DecisionThreshold(math.NaN()),
		"changes the settings is nil": llmagent.DecisionSettings(nil),
	} {
		_, err := llmagent.New("support", "", m, llmagent.WithDecision(nil, o))
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `agent "support": decision: `)
	}
}

// TestDecisionOnTheWire: the bytes of the question in its forms, and of the request that
// follows. The examples are the descriptions, then what the user said before.
func TestDecisionOnTheWire(t *testing.T) {
	const list = `- bill: Refunds\n- billing: Invoices, charges\n- support: Answers first.\n`
	const inNames, inJSON = `Reply with the name and nothing else."}`, `Reply with JSON and nothing else: {\"agent\": NAME}, where NAME is one of these names."}`
	const prompt = `{"model":"m","messages":[{"role":"system","content":"`
	const asks, tail = `You do not answer yet. You say who answers:\n`, `"stream":false,"logprobs":true,"top_logprobs":20,"temperature":0,"max_tokens":256}`
	const schema = `"stream":false,"response_format":{"type":"json_schema","json_schema":{"name":"who_answers","schema":{"type":"object","properties":{"agent":{"type":"string","enum":["bill","billing","support"]}},` +
		`"required":["agent"],"additionalProperties":false},"strict":true}},"logprobs":true,"top_logprobs":20,"temperature":0,"max_tokens":256}`
	example := func(text, name string) string {
		return `,{"role":"user","content":"Message: \"` + text + `\"\nName:"},{"role":"assistant","content":"` + name + `"}`
	}
	last := func(text string) string {
		return `,{"role":"user","content":"Message: \"` + text + `\"\nName:"}],`
	}
	descriptions := example("Answers first", "support") + example("Invoices, charges", "billing") + example("Refunds", "bill")
	parts := example("Answers first", "support") + example("Invoices", "billing") + example("Refunds", "bill") + example("charges", "billing")
	json := strings.NewReplacer(`\"\nName:`, `\"`, `"content":"support"`, `"content":"{\"agent\": \"support\"}"`,
		`"content":"billing"`, `"content":"{\"agent\": \"billing\"}"`, `"content":"bill"`, `"content":"{\"agent\": \"bill\"}"`)
	const table = `agents = {\n    \"bill\": \"Refunds\",\n    \"billing\": \"Invoices, charges\",\n    \"support\": \"Answers first.\",\n}`
	code := strings.NewReplacer(`Message: \"`, `route(\"`, `\"\nName:`, `\")`)
	type options = []llmagent.DecisionOption
	own := prompt + `Be kind.\n\n` + asks + list
	for name, c := range map[string]struct {
		opts          options
		first, second string
	}{
		"as it is": {options{llmagent.DecisionThreshold(0)}, own + inNames + parts + last("Hi") + tail, own + inNames + parts + example("Hi", "support") + last("Bye") + tail},
		"brief":    {options{llmagent.DecisionBrief()}, prompt + table + `"}` + code.Replace(descriptions+last("Hi")) + tail, prompt + table + `"}` + code.Replace(descriptions+example("Hi", "support")+last("Bye")) + tail},
		"brief, in JSON": {options{llmagent.DecisionBrief(), llmagent.DecisionSchema()}, prompt + table + `\n` + inJSON + json.Replace(code.Replace(descriptions+last("Hi"))) + schema,
			prompt + table + `\n` + inJSON + json.Replace(code.Replace(descriptions+example("Hi", "support")+last("Bye"))) + schema},
		"in JSON": {options{llmagent.DecisionSchema()}, own + inJSON + json.Replace(parts+last("Hi")) + schema, own + inJSON + json.Replace(parts+example("Hi", "support")+last("Bye")) + schema},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", stream), func(t *testing.T) {
				var bodies []string
				served := scripted.New().Add("m", reply(scripted.Text("support")), reply(scripted.Text("Hello.")), reply(scripted.Text(`{"agent":"support"}`)), reply(scripted.Text("Bye.")))
				s := must.Get(server.Start(served.Models(), server.WithRecorder(func(b []byte) { bodies = append(bodies, string(b)) })))
				defer s.Close()
				client := must.Get(openai.New("m", openai.WithBaseURL(s.URL()), openai.WithRetries(0)))
				opts := []runner.Option{}
				if stream {
					opts = append(opts, runner.WithStreaming())
				}
				r := must.Get(runner.New(desk(t, client, llmagent.WithDescription("Answers first."), llmagent.WithTools(tool(t, "look", nil)), llmagent.WithDecision(nil, c.opts...)), sessiontest.Memory(t), opts...))
				for _, text := range []string{"Hi", "Bye"} {
					must.Get(turn(r, text))
				}
				require.NoError(t, served.Done())
				const tools = `"tools":[{"function":{"name":"look","description":"Does look.","parameters":{"properties":{},"additionalProperties":false,"type":"object"}},"type":"function"}]`
				const begin = `{"model":"m","messages":[{"role":"system","content":"Be kind.\n\nYou are support: Answers first."},{"role":"user","content":"Hi"}`
				ordinary := begin + `],"stream":false,` + tools + `}`
				if stream {
					ordinary = begin + `],"stream":true,` + tools + `,"stream_options":{"include_usage":true}}`
				}
				require.Equal(t, []string{c.first, ordinary, c.second}, bodies[:3])
			})
		}
	}
}

// TestWordsCountInTheBriefQuestion: what the message shares with a name and its description
// is weighed against what the model says, where the model tells how else it might have begun.
func TestWordsCountInTheBriefQuestion(t *testing.T) {
	type m = map[string]float64
	for name, c := range map[string]struct {
		text  string
		says  scripted.Item
		plain string
		brief string
		told  string
	}{
		"for another":          {"Two charges", scripted.Likely("support", 0.5, m{"billing": 0.4, "bill": 0.1}), event.NoticeDecided, "billing", "0.65"},
		"for the same":         {"Two charges", scripted.Likely("billing", 0.6, m{"support": 0.4}), "billing", "billing", "0.78"},
		"too little":           {"Two charges", scripted.Likely("support", 0.9, m{"billing": 0.1}), event.NoticeDecided, event.NoticeDecided, "0.79"},
		"none":                 {"Hello", scripted.Likely("support", 0.6, m{"billing": 0.4}), event.NoticeDecided, event.NoticeDecided, "0.60"},
		"several begin so":     {"Two charges", scripted.Likely("bill", 0.4, m{"support": 0.3, "billing": 0.3}), "bill", "bill", "decided"},
		"nothing but the name": {"Two charges", scripted.Text("support"), event.NoticeDecided, event.NoticeDecided, "support answers, decided"},
		"no name":              {"Two charges", scripted.Likely("Hello", 0.5, m{"support": 0.3, "billing": 0.2}), event.NoticeDecided, "billing", "0.61"},
	} {
		t.Run(name, func(t *testing.T) {
			model := scripted.Always("m", reply(c.says))
			got, _ := decided(t, model, c.text, llmagent.WithDecision(nil))
			require.Equal(t, c.plain, got, "by default the model alone decides")
			got, told := decided(t, model, c.text, llmagent.WithDecision(nil, llmagent.DecisionBrief()))
			require.Equal(t, c.brief, got)
			require.Contains(t, told, c.told)
		})
	}
}

// TestTheLikeliestName is what counts where a model answers the user in place of the
// question.
func TestTheLikeliestName(t *testing.T) {
	type m = map[string]float64
	for name, c := range map[string]struct {
		token  string
		p      float64
		others m
		to     string
		told   string
	}{
		"one":            {"Hello", 0.8, m{"support": 0.15, " billing": 0.05}, event.NoticeDecided, "decided with a confidence of 0.75"},
		"of two":         {"Hello", 0.3, m{"bill": 0.6, "support": 0.1}, event.NoticeDecided, "1.00"},
		"hardly one":     {"Hello", 0.99, m{"support": 0.009}, event.NoticeUndecided, "named none"},
		"none":           {"Hello", 0.9, m{"": 0.05, " ": 0.05}, event.NoticeUndecided, "named none"},
		"several tokens": {"Hello", 0.5, m{"supp": 0.1, "support": 0.1, "billing": 0.15, "bill": 0.15}, event.NoticeDecided, "0.57"},
		"another target": {"Hello", 0.5, m{"billing": 0.3, "su": 0.1}, "billing", "0.75"},
	} {
		t.Run(name, func(t *testing.T) {
			said := reply(scripted.Likely(c.token, c.p, c.others), scripted.Text(" there"))
			got, told := decided(t, scripted.Always("m", said), "Hello", llmagent.WithDecision(nil))
			require.Equal(t, c.to, got)
			require.Contains(t, told, c.told)
		})
	}
}

// TestALongMessage is shortened in the question: what the user wants is before or
// after what they paste.
func TestALongMessage(t *testing.T) {
	var asked *llm.Request
	m := scripted.Func("m", func(req *llm.Request) scripted.Answer { asked = req; return reply(scripted.Text("billing")) })
	_, _ = decided(t, scripted.Always("m", reply(scripted.Text("ok"))), "Refund this: "+strings.Repeat("é", 5000)+" Please.", llmagent.WithDecision(m))
	last := asked.Messages[len(asked.Messages)-1].PlainText()
	require.True(t, utf8.ValidString(last))
	require.Less(t, len(last), 2100)
	require.Contains(t, last, "Refund this: é")
	require.Contains(t, last, "é … é")
	require.Contains(t, last, "é Please.\"\nName:")
}

// TestALeakedCallIsNoDecision, and after a decision nobody is offered to whom one could
// lead.
func TestALeakedCallIsNoDecision(t *testing.T) {
	const leaked = `{"name": "transfer_to_agent", "arguments": {"agent_name": "billing"}}`
	for decision, want := range map[string]string{leaked: event.NoticeUndecided, "support": event.NoticeDecided} {
		served := scripted.New().Add("m", reply(scripted.Text(decision)), reply(scripted.Text(leaked)), reply(scripted.Text("Hello.")))
		s := must.Get(server.Start(served.Models()))
		defer s.Close()
		client := must.Get(openai.New("m", openai.WithBaseURL(s.URL()), openai.WithRetries(0)))
		r := must.Get(runner.New(desk(t, client, llmagent.WithDecision(nil)), sessiontest.Memory(t)))
		events := must.Get(turn(r, "Hi"))
		require.Equal(t, want, payloads[*event.Notice](events)[0].Code)
		if want == event.NoticeDecided {
			require.Equal(t, event.TransferRejected, payloads[*event.Transfer](events)[0].Outcome, "a call that is not on offer is refused, and not shown")
			require.Equal(t, "Hello.", payloads[*event.Text](events)[0].Content)
		} else {
			require.Equal(t, "billing", payloads[*event.Transfer](events)[0].To)
		}
	}
}

// TestTheOfflineModelDecides as it does with calls.
func TestTheOfflineModelDecides(t *testing.T) {
	for text, want := range map[string]string{
		"My invoice has two charges": "billing",
		"I want refunds":             "bill",
		"What is the weather like":   event.NoticeDecided,
	} {
		for _, forms := range [][]llmagent.DecisionOption{{}, {llmagent.DecisionBrief()}, {llmagent.DecisionSchema()}, {llmagent.DecisionBrief(), llmagent.DecisionSchema()}} {
			got, _ := decided(t, offline.New(), text, llmagent.WithDecision(nil, forms...))
			require.Equal(t, want, got, text)
		}
		m := offline.New()
		r := must.Get(runner.New(desk(t, m), sessiontest.Memory(t)))
		events := must.Get(turn(r, text))
		if moved := payloads[*event.Transfer](events); len(moved) > 0 {
			require.Equal(t, want, moved[0].To)
		} else {
			require.Equal(t, event.NoticeDecided, want)
		}
	}
}
