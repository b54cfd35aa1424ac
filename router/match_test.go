package router_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/router"
)

// quiet makes an agent that says its name.
func quiet(t testing.TB, name string) agent.Agent {
	return must.Get(agent.New(name, "", says(name)))
}

// asks makes a router with one rule, and returns what it would decide.
func asks(t testing.TB, m router.Matcher, message string, metadata, state map[string]any, opts ...router.Option) router.Decision {
	yes, no := router.Specialist(quiet(t, "yes")), router.Specialist(quiet(t, "no"))
	r := must.Get(router.New("front", append(opts, router.Rules(router.When(m).To(yes)), router.Default(no))...))
	d, err := r.Explain(context.Background(), message, metadata, state)
	require.NoError(t, err)
	require.Equal(t, d.To == "yes", d.RuleIndex != nil, "%+v", d)
	return d
}

func TestMatchers(t *testing.T) {
	type in map[string]any
	examples, err := router.HeuristicIntent(map[string][]string{
		"billing": {"I was charged twice", "refund my invoice", "a wrong charge on my bill"},
		"weather": {"will it rain tomorrow", "is it sunny in Rome", "the forecast for today"}})
	require.NoError(t, err)
	for _, c := range []struct {
		m       router.Matcher
		yes, no []string
	}{
		{router.Keyword("refund"), []string{"refund", "A REFUND, please!", "x/refund", "re: refund."}, []string{"", "refunds", "prerefund", "re fund"}},
		{router.Keyword("refund*"), []string{"refunds?", "Refunding"}, []string{"prerefund"}},
		{router.Keyword("return policy"), []string{"the Return   policy\nof", "return\tpolicy"}, []string{"return a policy", "returnpolicy"}},
		{router.Keyword("don't"), []string{"I don’t know", "DON'T"}, []string{"dont"}},
		{router.Keyword("c++"), []string{"my C++ code", "c++"}, []string{"c+ +", "abc++"}},
		{router.Keyword("café", "straße"), []string{"the CAFÉ", "cafe\u0301!", "STRAẞE"}, []string{"cafe", "cafés"}},
		{router.Keyword("退款"), []string{"我要退款吗", "退款"}, []string{"退 款", "款退"}},
		{router.Keyword("คืนเงิน"), []string{"ฉันต้องการคืนเงินครับ"}, []string{"เงิน"}},
		{router.Keyword("refund"), []string{"我要refund吗"}, nil},
		{router.Keyword("λόγος"), []string{"ΛΌΓΟΣ"}, []string{"λόγο"}},
		{router.Regexp(`(?i)order\s+#?\d{3,}`), []string{"Order #1234", "ORDER 999"}, []string{"order 12", "#1234"}},
		{router.Regexp(`^\d+$`), []string{"12"}, []string{"a12"}},
		{router.Regexp(`cat|dog`), []string{"hotdogs"}, []string{"Cat"}},
		{router.Regexp(`a  b’s`), []string{"a  b’s"}, []string{"a b's"}},
		{router.Predicate(func(in router.Turn) bool { return len(in.Message) > 3 }), []string{"long"}, []string{"ab"}},
		{router.Intent("billing", 0.6), []string{"why was I charged?"}, []string{"will it rain?", "", "zzz"}},
		{router.Sentiment("frustration"), []string{"This is UNACCEPTABLE", "you people are useless!!"}, []string{"Where is my order?", "Thank you, no rush", "I am not angry"}},
		{router.Sentiment("frustration").Above(0.9), []string{"Ridiculous. I am fed up and this is the worst service."}, []string{"ridiculous"}},
		{router.Expr(`input.message contains "gold"`), []string{"a gold ring"}, []string{"Silver"}},
		{router.Expr(`input.intent.label == "billing" and input.intent.confidence > 0.6`), []string{"I was charged"}, []string{"sunny?"}},
		{router.All(router.Keyword("a"), router.Not(router.Keyword("b"))), []string{"a c"}, []string{"a b", "c"}},
		{router.Any(router.Keyword("a"), router.Regexp("bb")), []string{"a", "abba"}, []string{"b"}},
		{router.WantsHuman(), []string{
			"Can I speak to a human?", "I'd like to talk to a real person", "HUMAN PLEASE", "get me an agent", "Connect me with customer service",
			"Ich möchte mit einem Menschen sprechen", "je veux parler à un conseiller", "quiero hablar con una persona", "quero falar com um atendente",
			"vorrei parlare con un operatore", "ik wil een medewerker spreken, met een mens", "chcę rozmawiać z konsultantem", "Соедините с оператором",
			"müşteri temsilcisi istiyorum", "我要转人工", "人と話したいです", "상담원 연결해 주세요"},
			[]string{"It was a human error", "Who works in human resources?", "my travel agent booked it", "I don't want to talk to a human", "the agent was rude",
				"a person of interest", "what are human rights", "Menschenrechte", "la persona del pedido", ""}},
	} {
		for _, message := range c.yes {
			d := asks(t, c.m, message, nil, nil, router.Signals(examples))
			require.Equal(t, "yes", d.To, "%s: %q", c.m, message)
			require.NotEmpty(t, d.Matched, "%s: %q", c.m, message)
		}
		for _, message := range c.no {
			require.Equal(t, "no", asks(t, c.m, message, nil, nil, router.Signals(examples)).To, "%s: %q", c.m, message)
		}
	}
	for _, c := range []struct {
		m               router.Matcher
		metadata, state in
		to              string
	}{
		{router.Language("de"), in{"language": "de-AT"}, nil, "yes"},
		{router.Language("fr", "DE"), in{"language": "de"}, nil, "yes"},
		{router.Language("de"), in{"language": "de_CH"}, nil, "yes"},
		{router.Language("de-AT"), in{"language": "de"}, nil, "no"},
		{router.Language("de"), in{"language": "deu"}, nil, "no"},
		{router.Language("de"), in{"language": 7}, nil, "no"},
		{router.Language("de"), nil, nil, "no"},
		{router.WantsHuman(), in{"wantsHuman": true}, nil, "yes"},
		{router.WantsHuman(), in{"wantsHuman": "true"}, nil, "no"},
		{router.State("tier", "gold"), nil, in{"tier": "gold"}, "yes"},
		{router.State("tier", "gold"), nil, in{"tier": "Gold"}, "no"},
		{router.State("tier", nil), nil, nil, "yes"},
		{router.State("n", 3), nil, in{"n": float64(3)}, "yes"},
		{router.State("n", 3), nil, in{"n": "3"}, "no"},
		{router.State("of", router.KindIntent), nil, in{"of": "intent"}, "yes"},
		{router.State("m", map[string]any{"a": []int{1}}), nil, in{"m": map[string]any{"a": []any{1.0}}}, "yes"},
		{router.State("b", true), nil, in{"b": true}, "yes"},
		{router.State("l", []int{1}), nil, in{"l": true}, "no"},
		{router.Expr(`state.tier == "gold" and input.metadata.vip`, "tier"), in{"vip": true}, in{"tier": "gold"}, "yes"},
		{router.Expr(`state.tier == "gold"`, "tier"), nil, nil, "no"},
		{router.Expr(`input.language == "de"`), in{"language": "de"}, nil, "yes"},
		{router.Expr(`input.sentiment.frustration < 0.1`), nil, nil, "yes"},
		{router.Predicate(func(in router.Turn) bool { v, ok := in.State("k"); return ok && v == 1 && in.Metadata["x"] == 2 }), in{"x": 2}, in{"k": 1}, "yes"},
	} {
		require.Equal(t, c.to, asks(t, c.m, "hello", c.metadata, c.state).To, "%s %v %v", c.m, c.metadata, c.state)
	}
	d := asks(t, router.Expr(`input.message > 3`), "hello", nil, nil)
	require.Equal(t, []string{"rule 0: its expression has no value for this turn"}, []string{strings.Replace(d.Notices[0], " does not match", "", 1)})
}

func TestExplain(t *testing.T) {
	billing := router.Specialist(quiet(t, "billing"))
	r := must.Get(router.New("front", router.Description("First."), router.Rules(
		router.When(router.All(router.Keyword("refund", "charge*"), router.Regexp("[0-9]"))).To(billing).Because("money"),
		router.When(router.Sentiment("frustration").Above(0.7).OverTurns(2)).ToHuman("frustrated"),
		router.When(router.Language("de")).To(billing),
	), router.Wrap(quiet(t, "rest")), router.Signals(slow("language"))))
	ctx := context.Background()
	d, err := r.Explain(ctx, "I was charged 3 times", nil, nil)
	require.NoError(t, err)
	require.Equal(t, 0, *d.RuleIndex)
	require.Equal(t, `all(keyword("refund", "charge*"), regexp("[0-9]"))`, d.When)
	require.Equal(t, `keyword "charge*" and regexp("[0-9]")`, d.Matched)
	require.Equal(t, "money", d.Reason)
	require.Empty(t, d.Notices, "no rule needed the language")
	require.Contains(t, d.Sentiment, "frustration", "it is measured in every turn if rules look at several")
	d, err = r.Explain(ctx, "ridiculous", map[string]any{"language": "fr"}, nil)
	require.NoError(t, err)
	require.Equal(t, "rest", d.To, "there was no turn before")
	require.Nil(t, d.RuleIndex)
	require.Equal(t, []any{"fr", "no rule matches"}, []any{d.Language, d.Reason})
	require.Equal(t, []router.RuleInfo{
		{Index: 0, When: `all(keyword("refund", "charge*"), regexp("[0-9]"))`, To: "billing", Reason: "money"},
		{Index: 1, When: `sentiment("frustration", 0.7) over 2 turns`, To: "human", Reason: "frustrated"},
		{Index: 2, When: `language("de")`, To: "billing"}}, r.Rules())
	require.Equal(t, []string{"billing", "rest"}, names(r.SubAgents()))
	require.Equal(t, []any{"front", "First.", "rest"}, []any{r.Name(), r.Description(), r.Default()})
	require.NotNil(t, r.FindAgent("billing"))
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, err = r.Explain(ctx, "", nil, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func names(agents []agent.Agent) (all []string) {
	for _, a := range agents {
		all = append(all, a.Name())
	}
	return all
}

func TestNewReportsEverything(t *testing.T) {
	examples, err := router.HeuristicIntent(map[string][]string{"billing": {"a bill"}, "other": {"hello"}})
	require.NoError(t, err)
	a, b := quiet(t, "a"), quiet(t, "b")
	one, two := router.Specialist(a), router.Specialist(a)
	var none *router.Target
	_, err = router.New("human", nil, router.Rules(
		router.When(router.Regexp("(")).To(one),
		router.When(router.Keyword("x", " * ")).To(two),
		router.When(nil).To(one),
		router.When(router.Intent("biling", 0.5)).ToHuman(" "),
		router.When(router.All(router.Keyword(), nil, router.Any())).To(router.Specialist(nil)),
		router.When(router.Sentiment("anger").OverTurns(17)).To(one),
		router.When(router.Expr("input.message +")).To(one),
		router.When(router.Expr("state.tier == 1")).To(one),
		router.When(router.Language("de AT")).To(one),
		router.When(router.Intent("billing", 1.1)).To(router.Specialist(b, router.OnError(nil))),
		router.When(router.Predicate(nil)).To(one),
		router.When(router.State("", 1)).To(one),
		router.Rule{},
		router.When(router.Keyword("x")).To(none),
	), router.Signals(examples, examples, nil, odd{}, router.Within(-1, slow("language"))))
	var all *router.Error
	require.ErrorAs(t, err, &all)
	for _, problem := range []string{
		`option 0 is nil`, `agent name "human" is reserved`, `rule 0: the regular expression cannot be read`, `rule 1: the keyword " * " is empty`,
		`rule 1: the agent "a" has two targets`, `rule 2: a matcher is nil`, `rule 13 has no target`, `rule 3: the classifier knows no intent "biling"; did you mean "billing"?`,
		`rule 3 leads to a person without a reason`, `rule 4: a keyword matcher has no words`, `rule 4: a matcher is nil`, `rule 4: any() has no matchers`, `rule 4: the agent of a specialist is nil`,
		`rule 5: sentiment: 17 turns`, `rule 5: the classifier knows no sentiment "anger"`, `rule 6: the expression "input.message +"`, `rule 7: the expression "state.tier == 1"`,
		`rule 8: "de AT" is not a language tag`, `rule 9: intent: 1.1 is not in the range over 0`, `rule 9: the target of OnError is nil`, `rule 10: the function of a predicate is nil`,
		`rule 11: a state matcher has no key`, `rule 12: a matcher is nil`, `rule 12 has no target`, `there are two classifiers of the kind intent`, `classifier 2 is nil`, `unknown kind "odd"`,
		`deadline -1ns`, `there are 0 defaults`,
	} {
		require.Contains(t, err.Error(), problem)
	}
	require.Len(t, all.Problems, 29, err.Error())
	_, err = router.New("front", router.Wrap(a), router.Default(one))
	require.ErrorContains(t, err, "there are 2 defaults")
	_, err = router.New("front", router.Rules(router.When(router.Intent("x", 0.5)).To(one)), router.Default(one))
	require.ErrorContains(t, err, "there is no classifier for intent")
	_, err = router.New("front", router.Rules(router.When(router.Expr("input.intent.label == 'x'")).To(one)), router.Default(one))
	require.ErrorContains(t, err, "no classifier of that kind")
	for _, bad := range []map[string][]string{nil, {"a": {"x"}}, {"a": {"x"}, "b": nil}, {"": {"x"}, "b": {"y"}}} {
		_, err = router.HeuristicIntent(bad)
		require.Error(t, err)
	}
	_, err = router.ModelIntent(nil, []router.Label{{Name: "a"}, {Name: "b"}}, nil)
	require.ErrorContains(t, err, "model")
	_, err = modelIntent(t, scripted.Always("m", scripted.Reply(scripted.Text("x")))).Classify(t.Context(), router.Input{Text: "hello"})
	require.ErrorContains(t, err, "only by a router")
}

func TestDesk(t *testing.T) {
	r := must.Get(router.New("front", router.Rules(router.When(router.WantsHuman()).ToHuman("asked")), router.Default(router.Human("nobody else"))))
	_, err := agent.NewTree(r)
	var wrong *agent.TreeError
	require.True(t, errors.As(err, &wrong))
	require.Contains(t, fmt.Sprint(err), "the router leads to a person (rule 0, the default), but the runner has no desk")
}

// TestSpecialists: those to which no rule leads are in the tree too, and come first.
func TestSpecialists(t *testing.T) {
	var made []*router.Target
	for _, name := range []string{"a", "b", "c"} {
		made = append(made, router.Specialist(quiet(t, name)))
	}
	r := must.Get(router.New("front", router.Default(made[0]), router.Specialists(made[2], made[1])))
	var names []string
	for _, a := range r.SubAgents() {
		names = append(names, a.Name())
	}
	require.Equal(t, []string{"c", "b", "a"}, names)
	_, err := router.New("front", router.Default(made[0]), router.Specialists(nil))
	require.ErrorContains(t, err, "specialist 0 has no target")
}
