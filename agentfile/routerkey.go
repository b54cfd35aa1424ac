package agentfile

import (
	"bytes"
	"cmp"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/router"
)

// routerKeys is what a file says of a router. Its specialists are in the definition's list
// of sub-agents.
type routerKeys struct {
	rules    []routerRule
	onError  []onError
	fallback item // without a value there is none
	sticky   bool
	signals  struct {
		deadline time.Duration
		at       pos // of intent
		examples map[string][]string
		model    string
		labels   []router.Label
	}
	leaves []leafMatcher

	named    bool              // the key specialists is there
	measured router.Classifier // of intents
}

type routerRule struct {
	when   router.Matcher
	to     item
	reason string
}

type onError struct {
	of string // a specialist, as the list has it
	to item
}

// leafMatcher is a matcher that holds no others, with its place.
type leafMatcher struct {
	when   router.Matcher
	at     pos
	intent string // the label, if it is about one
}

// routerTable describes the keys of routers.
func routerTable() []key {
	return []key{
		{name: "rules", typ: "a list of mappings", example: "[{tool: refund, decision: ask}]", def: "none",
			meaning: "[Rules about tools](#rules-about-tools), or, such as `[{when: {keywords: [refund]}, to: billing}]`, of [a router](router.md#a-router-in-a-file), with the keys below.",
			read:    readRules},
		{name: "specialists", typ: "a list of mappings", example: "[{agent: billing, onError: support}]", def: "the agents in the folder that is named like the file",
			meaning: "Of a router: the agents that it may choose, and their replacements after an error.",
			read:    readSpecialists},
		{name: "default", typ: "a text", example: "support", def: "required in a router",
			meaning: "Of a router: who answers where no rule matches.",
			read: func(p *parser, k *key, n yamldoc.Node) {
				p.d.router.fallback = p.target(k, n)
			}},
		{name: "sticky", typ: "true or false", example: "true", def: "false",
			meaning: "Of a router: the active agent answers where no rule matches.",
			read:    boolean(func(d *definition, b bool) { d.router.sticky = b })},
		{name: "signals", typ: "a mapping", def: "none",
			meaning: "Of a router: what recognizes intents.",
			keys: []key{
				{name: "deadline", typ: "a time with its unit", example: "50ms", def: "50 ms; required for a model",
					meaning: "How long a message waits for a signal.",
					read:    duration(func(d *definition) *time.Duration { return &d.router.signals.deadline })},
				{name: "intent", typ: "a mapping", example: "{examples: {billing: [I was charged twice]}}", def: "none",
					meaning: "`examples` of messages for each label, or a `model`, with `labels` that describe them.",
					read:    readIntent},
			}},
	}
}

// routerFile describes the keys of a router in YAML.
func routerFile() []key {
	kind := key{name: "kind", typ: "Router", read: func(p *parser, k *key, n yamldoc.Node) {
		if v, _ := n.Text(); v != "Router" {
			p.wrongType(k, n)
		}
	}}
	return slices.Concat([]key{kind, *find(ownKeys(), "name"), *find(ownKeys(), "description")}, routerTable(), propertyKeys())
}

var routerYAML = yamldoc.Rules{
	What: "the router", Tokens: 200_000, Depth: 32, Flow: 16, Keys: 2_000, Documents: 1,
	NoAliases:    "anchors, aliases and merge keys are not allowed in a router: write the value out",
	NoTags:       "tags and directives are not allowed in a router",
	NoDirectives: "tags and directives are not allowed in a router",
}

// parseRouter reads a router in YAML.
func parseRouter(r *report, file string, data []byte) *definition {
	base := strings.TrimSuffix(path.Base(file), path.Ext(file))
	d := &definition{file: file, base: base, name: base, at: map[string]pos{}, listed: true, router: &routerKeys{}}
	p := &parser{report: r, d: d, keys: map[string]pos{}, opened: map[string]bool{}}
	text, problem := yamldoc.Decode(data, MaxFile)
	if problem != nil {
		p.fail(pos{problem.Line, problem.Col}, "%s", problem.Message)
	} else if p.document(text, routerYAML, routerFile(), "kind: Router") {
		p.routerWhole()
	}
	return d
}

// routerOnly makes the definition that of a router, or reports its keys where there is none.
func (p *parser) routerOnly() {
	at, there := p.keys["rules"]
	others := slices.DeleteFunc(routerTable(), func(k key) bool { _, there := p.keys[k.name]; return !there || k.name == "rules" })
	if there = there && !p.d.leaf() && !p.d.aboutTools && len(others)+len(p.d.router.rules) > 0; !there {
		why := "there is no key rules"
		if p.d.aboutTools {
			why = "the rules are about tools"
		}
		if p.d.aboutTools && len(p.d.router.rules) > 0 {
			p.add(at, "some rules are about tools, with tool and decision, and others those of a router, with when and to: a router has no tools")
		}
		for _, k := range others {
			if !p.d.leaf() {
				p.add(p.keys[k.name], "the key %q is for routers, and %s", k.name, why)
			}
		}
		p.d.router = nil
		return
	}
	own := routerFile()
	for _, k := range keys() {
		if at, there := p.keys[k.name]; there && find(own, k.name) == nil && k.name != "endpoint" && k.name != "reasoning" {
			p.add(at, "the key %q does not go with rules: a router has no model, and its agents have their own", k.name)
		}
	}
	p.d.subagents, p.d.listed = slices.DeleteFunc(p.d.subagents, func(i item) bool { return !i.special }), false
	if p.d.body != "" {
		p.add(p.d.bodyAt, "the body must be empty: the rules on line %d say who answers, and a router has no system prompt", at.line)
	}
	p.routerWhole()
}

// routerWhole reports what is missing in a router, and finds its specialists if there is no list.
func (p *parser) routerWhole() {
	k := p.d.router
	if _, there := p.keys["default"]; !there {
		p.add(p.d.pos(), "there is no default: write default: AGENT, who answers where no rule matches")
	}
	if !k.named && p.d.listed {
		for _, i := range k.targets() {
			if i.value != agent.Human && !slices.ContainsFunc(p.d.subagents, func(o item) bool { return o.value == i.value }) {
				p.d.subagents = append(p.d.subagents, i)
			}
		}
	}
	p.d.unsure = p.d.unsure || len(p.report.problems) > 0
}

// targets are all places that name who answers.
func (k *routerKeys) targets() (all []item) {
	for _, rule := range k.rules {
		all = append(all, rule.to)
	}
	for _, o := range k.onError {
		all = append(all, o.to)
	}
	return slices.DeleteFunc(append(all, k.fallback), func(i item) bool { return i.value == "" })
}

func (p *parser) target(k *key, n yamldoc.Node) item {
	v, _ := p.text(k, n)
	return item{value: strings.TrimSpace(v), at: p.at(n)}
}

// entries reads a list of mappings.
func (p *parser) entries(k *key, n yamldoc.Node, read func(yamldoc.Node)) {
	if n.Kind() != yamldoc.List {
		p.wrongType(k, n)
		return
	}
	name := p.name
	for i := range n.Len() {
		entry := n.Item(i)
		if p.name = name; entry.Kind() != yamldoc.Mapping {
			p.add(p.at(entry), "%s must be %s, but one of them is %s", name, k.typ, describe(entry))
			continue
		}
		read(entry)
	}
}

// needs reports keys that a mapping must have.
func (p *parser) needs(mapping yamldoc.Node, in string, names ...string) {
	for i := range mapping.Len() {
		name, _ := mapping.Pair(i).Key.Word()
		names = slices.DeleteFunc(names, func(n string) bool { return n == name })
	}
	for _, name := range names {
		p.add(p.at(mapping), "%s.%s is missing", in, name)
	}
}

func readRules(p *parser, k *key, n yamldoc.Node) {
	p.entries(k, n, func(n yamldoc.Node) {
		if !isYAML(p.d.file) && isToolRule(n) {
			p.d.aboutTools = true
			readToolRule(p, n)
			return
		}
		var rule routerRule
		p.pairs([]key{
			{name: "when", typ: "a mapping", example: "{keywords: [refund]}", read: func(p *parser, k *key, n yamldoc.Node) { rule.when = p.matcher(n) }},
			{name: "to", typ: "a text", example: "billing", read: func(p *parser, k *key, n yamldoc.Node) { rule.to = p.target(k, n) }},
			{name: "reason", typ: "a text", example: "asks for a refund", read: into(&rule.reason)},
		}, "rules.", n)
		p.needs(n, "rules", "when", "to")
		p.d.router.rules = append(p.d.router.rules, rule)
	})
}

func readSpecialists(p *parser, k *key, n yamldoc.Node) {
	p.d.router.named = true
	p.entries(k, n, func(n yamldoc.Node) {
		var named, instead item
		d := &definition{file: p.d.file, at: map[string]pos{}}
		own := &parser{report: p.report, d: d, keys: map[string]pos{}, opened: map[string]bool{}}
		own.pairs(slices.Concat([]key{
			{name: "agent", typ: "a text", example: "billing", read: func(p *parser, k *key, n yamldoc.Node) { named = p.target(k, n) }},
			{name: "onError", typ: "a text", example: "support", read: func(p *parser, k *key, n yamldoc.Node) { instead = p.target(k, n) }},
			*find(ownKeys(), "name"), *find(ownKeys(), "description"), *find(ownKeys(), "history")}, remoteTable()), "", n)
		own.remoteOnly()
		switch at, there := own.keys["agent"]; {
		case there == d.isRemote:
			p.add(p.at(n), "a specialist is an agent or a remote one: write agent: NAME, or a2a: URL")
			return
		case there:
			for _, name := range []string{"name", "description", "history"} {
				if at, there := own.keys[name]; there {
					p.add(at, "the key %q goes with a2a only: the file of the agent says it", name)
				}
			}
			if named.value == agent.Human {
				p.add(at, "a person is no specialist: rules lead to %s without an entry here", agent.Human)
				return
			}
		default:
			if _, there := d.at["name"]; !there {
				d.name, d.at["name"] = d.remote.address.name(), d.at["a2a"]
			}
			d.base = d.name
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
		if instead.value != "" {
			p.d.router.onError = append(p.d.router.onError, onError{named.value, instead})
		}
	})
}

var notInName = lazyregexp.New(`[^A-Za-z0-9_]+`)

// name makes the name of an agent of an address: the last part of its path, or else the
// beginning of its host; of a variable its own, without _URL.
func (v value) name() string {
	name := strings.TrimSuffix(strings.ToLower(v.variable), "_url")
	if u, err := url.Parse(v.text); name == "" && err == nil {
		way, _, _ := strings.Cut(u.Path, "/.well-known/")
		name = strings.TrimSuffix(path.Base(strings.TrimRight(way, "/")), ".json")
		if host, _, dotted := strings.Cut(u.Hostname(), "."); name == "." && dotted && net.ParseIP(u.Hostname()) == nil {
			name = host
		} else if name == "." {
			name = u.Host
		}
	}
	return strings.Trim(notInName.Get().ReplaceAllString(name, "-"), "-")
}

// matcher reads what a rule is for: one key with its value.
func (p *parser) matcher(n yamldoc.Node) router.Matcher {
	in, before := p.name, len(p.report.problems)
	if n.Kind() != yamldoc.Mapping || n.Len() != 1 {
		p.add(p.at(n), "%s must be a mapping with one key, such as {keywords: [refund]}: all and any join several of them", in)
		return nil
	}
	var words []string
	var text, label, stateKey string
	var parts []router.Matcher
	var equals bytes.Buffer
	above, turns := 0.5, int64(1)
	list := func(p *parser, k *key, n yamldoc.Node) {
		for _, i := range p.list(k, n) {
			words = append(words, i.value)
		}
	}
	several := func(p *parser, k *key, n yamldoc.Node) {
		p.entries(k, n, func(n yamldoc.Node) { parts = append(parts, p.matcher(n)) })
	}
	level := []key{{name: "label", typ: "a text", read: into(&label)},
		{name: "above", typ: "a number", example: "0.7", read: func(p *parser, k *key, n yamldoc.Node) { above, _ = p.number(k, n) }},
		{name: "overTurns", typ: "a whole number", read: func(p *parser, k *key, n yamldoc.Node) { turns, _ = p.integer(k, n) }}}
	p.pairs([]key{
		{name: "keywords", typ: "a list of texts", example: "[refund, return]", read: list},
		{name: "regex", typ: "a text", example: `'order \d+'`, read: into(&text)},
		{name: "intent", typ: "a mapping", example: "{label: billing, above: 0.7}", keys: level[:2]},
		{name: "sentiment", typ: "a mapping", example: "{label: frustration, above: 0.7, overTurns: 2}", keys: level},
		{name: "language", typ: "a list of texts", example: "[de, fr]", read: list},
		{name: "state", typ: "a mapping", example: "{key: tier, equals: gold}", keys: []key{{name: "key", typ: "a text", read: into(&stateKey)},
			{name: "equals", typ: "a value", read: func(p *parser, k *key, n yamldoc.Node) { p.json(&equals, n) }}}},
		{name: "wantsHuman", typ: "true", read: func(p *parser, k *key, n yamldoc.Node) {
			if yes, _ := n.Bool(); !yes {
				p.wrongType(k, n)
			}
		}},
		{name: "expr", typ: "a text", example: "state.tier == 'gold'", read: into(&text)},
		{name: "all", typ: "a list of mappings", example: "[{keywords: [refund]}, {language: [de]}]", read: several},
		{name: "any", typ: "a list of mappings", example: "[{keywords: [refund]}, {language: [de]}]", read: several},
		{name: "not", typ: "a mapping", example: "{language: [en]}", read: func(p *parser, k *key, n yamldoc.Node) { parts = append(parts, p.matcher(n)) }},
	}, in+".", n)
	what, _ := n.Pair(0).Key.Word()
	value := n.Pair(0).Value
	in += "." + what
	switch what {
	case "keywords", "language", "all", "any":
		if value.Kind() == yamldoc.List && value.Len() == 0 {
			p.add(p.at(value), "%s is empty", in)
		}
	case "intent", "sentiment":
		p.needs(value, in, "label")
	case "state":
		p.needs(value, in, "key", "equals")
	}
	if len(p.report.problems) > before {
		return nil
	}
	leaf := leafMatcher{at: p.at(value)}
	switch what {
	case "all":
		return router.All(parts...)
	case "any":
		return router.Any(parts...)
	case "not":
		return router.Not(parts[0])
	case "keywords":
		leaf.when = router.Keyword(words...)
	case "regex":
		leaf.when = router.Regexp(text)
	case "language":
		leaf.when = router.Language(words...)
	case "intent":
		leaf.when, leaf.intent = router.Intent(label, above), label
	case "sentiment":
		leaf.when = router.Sentiment(label).Above(above).OverTurns(int(min(turns, 1000)))
	case "state":
		leaf.when = router.State(stateKey, decoded(equals.Bytes()))
	case "wantsHuman":
		leaf.when = router.WantsHuman()
	case "expr":
		leaf.when = p.expression(in, leaf.at, text)
	}
	p.d.router.leaves = append(p.d.router.leaves, leaf)
	return leaf.when
}

// into reads a text.
func into(to *string) func(*parser, *key, yamldoc.Node) {
	return func(p *parser, k *key, n yamldoc.Node) { *to, _ = p.text(k, n) }
}

var (
	quotedText = lazyregexp.New("\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`")
	stateKey   = lazyregexp.New(`\bstate\s*\??\.?\s*(?:\[\s*["']([^"']+)["']|([A-Za-z_]\w*))`)
	inputField = lazyregexp.New(`\binput\s*\??\.\s*([A-Za-z_]\w*)`)
)

// expression makes the matcher of an expression, which may ask for any key of the state.
func (p *parser) expression(in string, at pos, source string) router.Matcher {
	fields := []string{"message", "metadata", "language", "intent", "sentiment"}
	for _, f := range inputField.Get().FindAllStringSubmatch(quotedText.Get().ReplaceAllString(source, "''"), -1) {
		if !slices.Contains(fields, f[1]) {
			p.add(at, "%s: input has no %q%s", in, f[1], cmp.Or(nearest.Hint(f[1], fields), "; it has "+strings.Join(fields, ", ")))
		}
	}
	return router.Expr(source, stateKeys(source)...)
}

// stateKeys returns the keys of the state that an expression names.
func stateKeys(source string) (keys []string) {
	for _, found := range stateKey.Get().FindAllStringSubmatch(source, -1) {
		keys = append(keys, found[1]+found[2])
	}
	return keys
}

func readIntent(p *parser, k *key, n yamldoc.Node) {
	s := &p.d.router.signals
	if n.Kind() != yamldoc.Mapping {
		p.wrongType(k, n)
		return
	}
	s.at = p.at(n)
	p.pairs([]key{
		{name: "examples", typ: "a mapping", example: "{billing: [I was charged twice]}", read: func(p *parser, k *key, n yamldoc.Node) {
			s.examples = map[string][]string{}
			p.labels(k, n, "a list of texts", func(label string, k *key, n yamldoc.Node) {
				for _, i := range p.list(k, n) {
					s.examples[label] = append(s.examples[label], i.value)
				}
			})
		}},
		{name: "model", typ: "a text", example: "gpt-4o-mini", read: into(&s.model)},
		{name: "labels", typ: "a mapping", example: "{billing: refunds and invoices}", read: func(p *parser, k *key, n yamldoc.Node) {
			p.labels(k, n, "a text", func(label string, k *key, n yamldoc.Node) {
				text, _ := p.text(k, n)
				s.labels = append(s.labels, router.Label{Name: label, Description: text})
			})
		}},
	}, p.name+".", n)
	if (s.examples == nil) == (s.model == "") {
		p.add(s.at, "signals.intent needs either examples or a model")
	} else if s.examples != nil && s.labels != nil {
		p.add(s.at, "signals.intent: labels go with a model; examples name their own")
	}
}

// labels reads a mapping whose keys are labels.
func (p *parser) labels(k *key, n yamldoc.Node, typ string, read func(label string, k *key, n yamldoc.Node)) {
	if n.Kind() != yamldoc.Mapping {
		p.wrongType(k, n)
		return
	}
	in, seen := p.name, map[string]bool{}
	for i := range n.Len() {
		pair := n.Pair(i)
		label, ok := pair.Key.Name()
		if !ok || seen[label] {
			p.add(p.at(pair.Key), "%s: a label must be a word that is there once, not %s", in, describe(pair.Key))
			continue
		}
		seen[label], p.keyAt, p.name = true, p.at(pair.Key), in+"."+label
		read(label, &key{typ: typ}, pair.Value)
	}
}
