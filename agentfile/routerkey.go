package agentfile

import (
	"bytes"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/router"
)

// routerKeys contains the keys of a router in a file. Its specialists are the definition's sub-agents.
type routerKeys struct {
	rules    []routerRule
	onError  []onError
	fallback item // an empty value means no default
	sticky   bool
	signals  struct {
		deadline time.Duration
		at       pos // the place of intent
		examples map[string][]string
		model    string
		labels   []router.Label
	}
	leaves []leafMatcher

	named      bool              // the key specialists is set
	classifier router.Classifier // the classifier of intents
}

type routerRule struct {
	when   router.Matcher
	to     item
	reason string
}

type onError struct {
	of string // a specialist, as written in the list
	to item
}

// leafMatcher is a matcher that contains no others, with its place.
type leafMatcher struct {
	when   router.Matcher
	at     pos
	intent string // the label, for an intent matcher
}

// routerTable returns the keys of routers.
func routerTable(p *parser) []yamldoc.Key {
	r, rules, example := p.d.router, ruleKeys(p, &routerRule{}), "[{when: {keywords: [refund]}, to: billing}]"
	if !isYAML(p.d.file) {
		example = "[{tool: refund, decision: ask}]"
		rules = append(rules, toolRuleKeys(p, &toolRule{})...)
	}
	return []yamldoc.Key{
		yamldoc.Custom("rules", "a list of mappings", example, p.rules).WithKeys(rules...),
		yamldoc.Custom("specialists", "a list of mappings", "[{agent: billing, onError: support}]", p.specialists).
			WithKeys(specialistKeys(p, new(item), new(item))...),
		target(p, "default", "support", &r.fallback),
		yamldoc.Flag("sticky", &r.sticky),
		yamldoc.Object("signals", "",
			yamldoc.Duration("deadline", "50ms", &r.signals.deadline),
			yamldoc.Custom("intent", "a mapping", "{examples: {billing: [I was charged twice]}}", p.intent).WithKeys(intentKeys(p)...)),
	}
}

// routerFile returns the keys of a router in YAML.
func routerFile(p *parser) []yamldoc.Key {
	kind := yamldoc.Custom("kind", "Router", "", func(k *yamldoc.Key, n yamldoc.Node) {
		if v, _ := n.Text(); v != "Router" {
			p.WrongType(k, n)
		}
	})
	return slices.Concat([]yamldoc.Key{kind}, ownKeys(p)[:2], routerTable(p), propertyKeys(p))
}

var routerYAML = yamldoc.Rules{
	What: "the router", Tokens: 200_000, Depth: 32, Flow: 16, Keys: 2_000, Documents: 1, Plain: true,
}

// parseRouter reads a router in YAML.
func parseRouter(r *report, file string, data []byte) *definition {
	base := strings.TrimSuffix(path.Base(file), path.Ext(file))
	d := &definition{file: file, base: base, name: base, at: map[string]pos{}, listed: true, router: &routerKeys{}}
	p := newParser(r, d)
	text, problem := yamldoc.Decode(data, maxFile)
	if problem != nil {
		p.fail(pos{problem.Line, problem.Col}, "%s", problem.Message)
	} else if p.document(text, routerYAML, routerFile(p), "kind: Router") {
		completeRouter(p)
	}
	return d
}

// routerOnly makes the definition a router, or reports router keys in another definition.
func routerOnly(p *parser) {
	at, present := p.keys["rules"]
	others := slices.DeleteFunc(routerTable(p), func(k yamldoc.Key) bool { _, present := p.keys[k.Name]; return !present || k.Name == "rules" })
	if present = present && !p.d.leaf() && !p.d.aboutTools && len(others)+len(p.d.router.rules) > 0; !present {
		why := "there is no key rules"
		if p.d.aboutTools {
			why = "the rules are about tools"
		}
		if p.d.aboutTools && len(p.d.router.rules) > 0 {
			p.add(at, "some rules are about tools, with tool and decision, and others those of a router, with when and to: a router has no tools")
		}
		for _, k := range others {
			if !p.d.leaf() {
				p.add(p.keys[k.Name], "the key %q is for routers, and %s", k.Name, why)
			}
		}
		p.d.router = nil
		return
	}
	p.only("rules", "a router has no model, and its agents have their own", append(yamldoc.Names(routerFile(p), ""), "endpoint", "reasoning")...)
	p.d.subagents, p.d.listed = slices.DeleteFunc(p.d.subagents, func(i item) bool { return !i.special }), false
	p.noBody("rules", "the rules on line %d say who answers, and a router has no system prompt")
	completeRouter(p)
}

// completeRouter reports missing keys of a router, and derives the specialists from the targets if they are not listed.
func completeRouter(p *parser) {
	k := p.d.router
	if _, present := p.keys["default"]; !present {
		p.add(p.d.pos(), "there is no default: write default: AGENT, the agent that answers if no rule matches")
	}
	if !k.named && p.d.listed {
		for _, i := range k.targets() {
			if i.value != agent.Human && !slices.ContainsFunc(p.d.subagents, func(o item) bool { return o.value == i.value }) {
				p.d.subagents = append(p.d.subagents, i)
			}
		}
	}
	p.d.incomplete = p.d.incomplete || len(p.report.problems) > 0
}

// targets returns all items that name an agent that answers.
func (k *routerKeys) targets() (all []item) {
	for _, rule := range k.rules {
		all = append(all, rule.to)
	}
	for _, o := range k.onError {
		all = append(all, o.to)
	}
	return slices.DeleteFunc(append(all, k.fallback), func(i item) bool { return i.value == "" })
}

// target returns a key for the name of an agent.
func target(p *parser, name, example string, to *item) yamldoc.Key {
	return yamldoc.Custom(name, "a text", example, func(k *yamldoc.Key, n yamldoc.Node) {
		v, _ := p.String(k, n)
		*to = item{value: strings.TrimSpace(v), at: place(n)}
	})
}

func (p *parser) rules(k *yamldoc.Key, n yamldoc.Node) {
	p.Entries(k, n, func(n yamldoc.Node) {
		if !isYAML(p.d.file) && isToolRule(n) {
			p.d.aboutTools = true
			p.toolRule(n)
			return
		}
		var rule routerRule
		p.Mapping(ruleKeys(p, &rule), "rules.", n)
		p.Needs(n, "rules", "when", "to")
		p.d.router.rules = append(p.d.router.rules, rule)
	})
}

// ruleKeys returns the keys of one rule of a router, which store into rule.
func ruleKeys(p *parser, rule *routerRule) []yamldoc.Key {
	return []yamldoc.Key{
		yamldoc.Custom("when", "a mapping", "{keywords: [refund]}", func(_ *yamldoc.Key, n yamldoc.Node) { rule.when = p.matcher(n) }).
			WithKeys((&parts{}).keys(p)...),
		target(p, "to", "billing", &rule.to),
		yamldoc.String("reason", "asks for a refund", &rule.reason),
	}
}

// specialistKeys returns the keys of one specialist, which store into the parser's definition, named and fallback.
func specialistKeys(p *parser, named, fallback *item) []yamldoc.Key {
	front := ownKeys(p)
	return slices.Concat([]yamldoc.Key{target(p, "agent", "billing", named), target(p, "onError", "support", fallback),
		front[0], front[1], *yamldoc.Find(front, "history")}, remoteTable(p))
}

func (p *parser) specialists(k *yamldoc.Key, n yamldoc.Node) {
	p.d.router.named = true
	p.Entries(k, n, func(n yamldoc.Node) {
		var named, fallback item
		d := &definition{file: p.d.file, at: map[string]pos{}}
		own := newParser(p.report, d)
		own.Mapping(specialistKeys(own, &named, &fallback), "", n)
		remoteOnly(own)
		switch at, present := own.keys["agent"]; {
		case present == d.isRemote:
			p.Add(n, "a specialist is an agent or a remote one: write agent: NAME, or a2a: URL")
			return
		case present:
			for _, name := range []string{"name", "description", "history"} {
				if at, present := own.keys[name]; present {
					p.add(at, "the key %q goes with a2a only: the file of the agent says it", name)
				}
			}
			if named.value == agent.Human {
				p.add(at, "a person is not a specialist: rules lead to %s without an entry here", agent.Human)
				return
			}
		default:
			if _, present := d.at["name"]; !present {
				d.name, d.at["name"] = d.remote.address.name(), d.at["a2a"]
			}
			named = item{value: d.name, at: d.at["name"], def: d}
		}
		if named.value == "" {
			return
		}
		named.special = true
		if slices.ContainsFunc(p.d.subagents, func(i item) bool { return i.special && i.value == named.value }) {
			p.add(named.at, "specialists names %q twice", named.value)
			return
		}
		p.d.subagents = append(p.d.subagents, named)
		if fallback.value != "" {
			p.d.router.onError = append(p.d.router.onError, onError{named.value, fallback})
		}
	})
}

var notInName = lazyregexp.New(`[^A-Za-z0-9_]+`)

// name derives an agent's name from an address: the last part of the path, or else the first label of the host. For a
// variable, it is the variable's name without _URL.
func (v value) name() string {
	name := strings.TrimSuffix(strings.ToLower(v.variable), "_url")
	if u, err := url.Parse(v.text); name == "" && err == nil {
		dir, _, _ := strings.Cut(u.Path, "/.well-known/")
		name = strings.TrimSuffix(path.Base(strings.TrimRight(dir, "/")), ".json")
		if host, _, dotted := strings.Cut(u.Hostname(), "."); name == "." && dotted && net.ParseIP(u.Hostname()) == nil {
			name = host
		} else if name == "." {
			name = u.Host
		}
	}
	return strings.Trim(notInName.Get().ReplaceAllString(name, "-"), "-")
}

// parts contains the values of a matcher, which has one key and so uses only some of them.
type parts struct {
	words                 []string
	text, label, stateKey string
	inner                 []router.Matcher
	equals                bytes.Buffer
	above                 float64
	turns                 int64
}

// matcher reads the matcher of a rule: one key with its value.
func (p *parser) matcher(n yamldoc.Node) router.Matcher {
	in, before := p.Name, p.Problems
	if n.Kind() != yamldoc.Mapping || n.Len() != 1 {
		p.Add(n, "%s must be a mapping with one key, such as {keywords: [refund]}: all and any join several of them", in)
		return nil
	}
	m := parts{above: 0.5, turns: 1}
	p.Mapping(m.keys(p), in+".", n)
	what, _ := n.Pair(0).Key.Word()
	value := n.Pair(0).Value
	in += "." + what
	switch what {
	case "keywords", "language", "all", "any":
		if value.Kind() == yamldoc.List && value.Len() == 0 {
			p.Add(value, "%s is empty", in)
		}
	case "intent", "sentiment":
		p.Needs(value, in, "label")
	case "state":
		p.Needs(value, in, "key", "equals")
	}
	if p.Problems > before {
		return nil
	}
	switch what {
	case "all":
		return router.All(m.inner...)
	case "any":
		return router.Any(m.inner...)
	case "not":
		return router.Not(m.inner[0])
	}
	leaf := leafMatcher{when: m.leaf(what), at: place(value)}
	if what == "intent" {
		leaf.intent = m.label
	}
	p.d.router.leaves = append(p.d.router.leaves, leaf)
	return leaf.when
}

// keys returns the keys of all matchers.
func (m *parts) keys(p *parser) []yamldoc.Key {
	several := func(k *yamldoc.Key, n yamldoc.Node) {
		p.Entries(k, n, func(n yamldoc.Node) { m.inner = append(m.inner, p.matcher(n)) })
	}
	level := []yamldoc.Key{
		yamldoc.String("label", "", &m.label),
		yamldoc.AnyNumber("above", "0.7", &m.above),
		yamldoc.AnyWhole("overTurns", "", func(v int64) { m.turns = v }),
	}
	const joined = "[{keywords: [refund]}, {language: [de]}]"
	return []yamldoc.Key{
		yamldoc.Strings("keywords", "[refund, return]", &m.words),
		yamldoc.String("regex", `'order \d+'`, &m.text),
		yamldoc.Object("intent", "{label: billing, above: 0.7}", level[:2]...),
		yamldoc.Object("sentiment", "{label: frustration, above: 0.7, overTurns: 2}", level...),
		yamldoc.Strings("language", "[de, fr]", &m.words),
		yamldoc.Object("state", "{key: tier, equals: gold}", yamldoc.String("key", "", &m.stateKey),
			yamldoc.Custom("equals", "a value", "", func(_ *yamldoc.Key, n yamldoc.Node) { p.json(&m.equals, n) })),
		yamldoc.Custom("wantsHuman", "true", "", func(k *yamldoc.Key, n yamldoc.Node) {
			if yes, _ := n.Bool(); !yes {
				p.WrongType(k, n)
			}
		}),
		yamldoc.String("expr", "state.tier == 'gold'", &m.text),
		yamldoc.Custom("all", "a list of mappings", joined, several),
		yamldoc.Custom("any", "a list of mappings", joined, several),
		yamldoc.Custom("not", "a mapping", "{language: [en]}", func(_ *yamldoc.Key, n yamldoc.Node) {
			m.inner = append(m.inner, p.matcher(n))
		}),
	}
}

// leaf returns a matcher that contains no others.
func (m *parts) leaf(what string) router.Matcher {
	switch what {
	case "keywords":
		return router.Keyword(m.words...)
	case "regex":
		return router.Regexp(m.text)
	case "language":
		return router.Language(m.words...)
	case "intent":
		return router.Intent(m.label, m.above)
	case "sentiment":
		return router.Sentiment(m.label).Above(m.above).OverTurns(int(min(m.turns, 1000)))
	case "state":
		return router.State(m.stateKey, decoded(m.equals.Bytes()))
	case "expr":
		return router.Expr(m.text, stateKeys(m.text)...)
	}
	return router.WantsHuman()
}

var stateKey = lazyregexp.New(`\bstate\s*\??\.?\s*(?:\[\s*["']([^"']+)["']|([A-Za-z_]\w*))`)

// stateKeys returns the state keys in an expression.
func stateKeys(source string) (keys []string) {
	for _, found := range stateKey.Get().FindAllStringSubmatch(source, -1) {
		keys = append(keys, found[1]+found[2])
	}
	return keys
}

func (p *parser) intent(k *yamldoc.Key, n yamldoc.Node) {
	s := &p.d.router.signals
	if n.Kind() != yamldoc.Mapping {
		p.WrongType(k, n)
		return
	}
	s.at = place(n)
	p.Mapping(k.Keys, p.Name+".", n)
	if (s.examples == nil) == (s.model == "") {
		p.Add(n, "signals.intent needs either examples or a model")
	} else if s.examples != nil && s.labels != nil {
		p.Add(n, "signals.intent: labels go with a model; examples name their own")
	}
}

func intentKeys(p *parser) []yamldoc.Key {
	s := &p.d.router.signals
	return []yamldoc.Key{
		yamldoc.Custom("examples", "a mapping", "{billing: [I was charged twice]}", func(k *yamldoc.Key, n yamldoc.Node) {
			s.examples = map[string][]string{}
			p.Labels(k, n, "a list of texts", func(label string, k *yamldoc.Key, n yamldoc.Node) {
				if texts := p.Texts(k, n); texts != nil {
					s.examples[label] = texts
				}
			})
		}),
		yamldoc.String("model", "gpt-4o-mini", &s.model),
		yamldoc.Custom("labels", "a mapping", "{billing: refunds and invoices}", func(k *yamldoc.Key, n yamldoc.Node) {
			p.Labels(k, n, "a text", func(label string, k *yamldoc.Key, n yamldoc.Node) {
				text, _ := p.String(k, n)
				s.labels = append(s.labels, router.Label{Name: label, Description: text})
			})
		}),
	}
}
