package agentfile

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/summarize"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// keys returns the keys of a front matter, which store into the parser's definition. The table in docs/agentfile.md
// describes them; a test compares the two.
func keys(p *parser) []yamldoc.Key {
	return slices.Concat(ownKeys(p), propertyKeys(p), workflowTable(p), routerTable(p), remoteTable(p))
}

// ownKeys returns the keys of agents with a model, and of graphs.
func ownKeys(p *parser) []yamldoc.Key {
	d := p.d
	return []yamldoc.Key{
		yamldoc.String("name", "billing", &d.name),
		yamldoc.String("description", "Refunds and invoices", &d.description),
		yamldoc.Custom("model", "a text or a list of texts", "gpt-4o-mini", p.models),
		yamldoc.Custom("endpoint", "a text or a list of texts", "mistral", p.endpoint),
		reasoningKey(p),
		yamldoc.Object("timeouts", "",
			yamldoc.Duration("first", "20m", &d.settings.Timeouts.First),
			yamldoc.Duration("silence", "2m", &d.settings.Timeouts.Silence),
			yamldoc.Duration("answer", "30m", &d.settings.Timeouts.Answer)),
		yamldoc.Custom("subagents", "a list of names", "[billing, tech]", p.children),
		yamldoc.String("global_instruction", "You work for Example Ltd.", &d.global),
		transferKey(p),
		namesKey(p, "tools", "["+summarize.Name+"]", &d.tools),
		mcpKey(p),
		approveKey(p),
		approverKey(p),
		routesKey(p),
		historyKey(p),
		compactionKey(p),
		yamldoc.Custom("state", "true, or a list of names", "[customer, user:plan]", p.bodyState),
		settingsKey(p),
		yamldoc.Custom("graph", "a text", "triage.yaml", p.graphPath),
	}
}

func reasoningKey(p *parser) yamldoc.Key {
	s := &p.d.settings
	return yamldoc.Object("reasoning", "",
		yamldoc.OneOf("echo", "on", func(v string) { s.Echo = llm.Echo(v) }, "auto", "on", "off"),
		yamldoc.Custom("thinking", "on or off", "off", func(k *yamldoc.Key, n yamldoc.Node) {
			on, ok := n.Bool()
			if v, _ := n.Trimmed(); !ok && (v == "on" || v == "off") {
				on, ok = v == "on", true
			}
			if s.Thinking = &on; !ok {
				p.WrongType(k, n)
			}
		}),
		yamldoc.String("effort", "low", &s.ReasoningEffort))
}

func transferKey(p *parser) yamldoc.Key {
	d := p.d
	forms := map[string]transfer.Tools{"one": transfer.OneTool, "each": transfer.ToolPerTarget}
	return yamldoc.Object("transfer", "",
		yamldoc.Flag("parent", &d.policy.AllowTransferToParent),
		yamldoc.Flag("peers", &d.policy.AllowTransferToPeers),
		yamldoc.OneOf("arrival", "hold", func(string) { d.policy.HoldOnArrival = true }, "hold"),
		yamldoc.OneOf("profile", "small", func(string) { d.small = true }, "small"),
		yamldoc.Switch("human", func(b bool) { d.policy.NoHuman = !b }),
		yamldoc.OneOf("tools", "each", func(v string) { d.form = forms[v] }, "one", "each"),
		decideKey(p),
		transferApproveKey(p))
}

func settingsKey(p *parser) yamldoc.Key {
	s := &p.d.settings
	return yamldoc.Object("settings", "",
		yamldoc.Float("temperature", "0.2", 0, 2, &s.Temperature),
		yamldoc.Float("top_p", "0.9", 0, 1, &s.TopP),
		yamldoc.Int("max_tokens", "500", &s.MaxTokens),
		yamldoc.Strings("stop", `["END"]`, &s.Stop),
		yamldoc.String("tool_choice", "required", &s.ToolChoice),
		yamldoc.Int("max_tools", "64", &p.d.maxTools),
		yamldoc.Switch("parallel_tool_calls", func(b bool) { s.ParallelToolCalls = &b }),
		yamldoc.AnyWhole("seed", "7", func(v int64) { s.Seed = &v }),
		yamldoc.Custom("response_format", "a mapping",
			"{type: object, required: [intent], properties: {intent: {enum: [billing, other]}}}", p.responseFormat),
		yamldoc.OneOf("leaked_calls", "off", func(v string) { s.LeakedCalls = llm.LeakedCalls(v) }, "auto", "any", "off"))
}

// namesKey returns a key for a list of strings without duplicates.
func namesKey(p *parser, name, example string, to *[]item) yamldoc.Key {
	return yamldoc.Custom(name, "a list of names", example, func(k *yamldoc.Key, n yamldoc.Node) { *to = p.names(k, n) })
}

func (p *parser) endpoint(k *yamldoc.Key, n yamldoc.Node) {
	for _, i := range p.oneOrMore(k, n) {
		p.d.settings.Endpoint = append(p.d.settings.Endpoint, i.value)
		if !slices.Contains(openai.Endpoints(), i.value) {
			p.add(i.at, "no endpoint is called %q%s", i.value, nearest.Hint(i.value, openai.Endpoints()))
		}
	}
}

func (p *parser) children(k *yamldoc.Key, n yamldoc.Node) {
	before := p.Problems
	p.d.subagents, p.d.listed = p.names(k, n), true
	p.d.incomplete = p.d.incomplete || p.Problems > before
}

func (p *parser) models(k *yamldoc.Key, n yamldoc.Node) {
	if n.Kind() == yamldoc.List && n.Len() == 0 {
		p.Add(n, "%s is an empty list: remove the key if none is meant", p.Name)
	}
	if list := p.oneOrMore(k, n); len(list) > 0 {
		p.d.model, p.d.fallbacks = list[0].value, list[1:]
	}
}

func (p *parser) bodyState(k *yamldoc.Key, n yamldoc.Node) {
	if all, ok := n.Bool(); ok {
		p.d.withState = all
		return
	}
	p.d.state = p.names(k, n)
	p.d.withState = len(p.d.state) > 0
}

func historyKey(p *parser) yamldoc.Key {
	var turns, facts int
	return yamldoc.Custom("history", "a text or a mapping", "{last_turns: 6}", func(k *yamldoc.Key, n yamldoc.Node) {
		if n.Kind() != yamldoc.Mapping {
			p.historyText(k, n)
			return
		}
		p.Mapping(k.Keys, "history.", n)
		p.d.historySet = p.d.historySet || turns+facts > 0
		if turns > 0 {
			p.d.history = view.LastTurns(turns)
		}
		p.d.history = p.d.history.WithFacts(facts)
		if n.Len() == 0 {
			p.Add(n, "history is an empty mapping: {last_turns: N} or {facts: N} is meant")
		}
	}).WithKeys(yamldoc.Int("last_turns", "", &turns), yamldoc.Int("facts", "", &facts))
}

func (p *parser) historyText(k *yamldoc.Key, n yamldoc.Node) {
	v, ok := p.String(k, n)
	if !ok {
		return
	}
	policy, err := view.Parse(v)
	if err != nil {
		p.Add(n, "history %q is not known: full, text_only, own or {last_turns: N} with N from 1 are%s",
			v, nearest.Hint(v, []string{"full", "text_only", "own", "last_turns"}))
		return
	}
	p.d.history, p.d.historySet = policy, true
}

// item is a name in a list, with its place.
type item struct {
	value string
	at    pos
	// For a sub-agent that is not an agent of the folder: def is its definition, and unusable means that it cannot be used.
	def      *definition
	unusable bool
	special  bool // from a router's list of specialists
}

// definition is the definition of an agent in one file.
type definition struct {
	file string // relative to the folder, with slashes
	base string // the file's name without folder and .md; "" for an entry of a list, which has no file of its own
	// broken is true if the front matter could not be read, so that the agent's sub-agents are unknown.
	broken     bool
	incomplete bool // its sub-agents are unknown, for that or another reason

	name        string
	description string
	global      string
	model       string
	fallbacks   []item // the models after it, in order
	subagents   []item
	listed      bool // the key subagents is set
	policy      agent.TransferPolicy
	form        transfer.Tools // 0 for the default
	small       bool           // the profile, also for the agents below
	decide      *decideKeys    // nil: the model's tool calls decide
	tools       []item
	mcp         []*mcpKeys
	toolRules   []toolRule
	aboutTools  bool // the key rules is about tools
	askTransfer bool
	transferBy  tools.By
	approver    tools.By
	routes      []routeKeys
	guards      []item
	ignore      []item // patterns of Markdown files that are not agents
	shares      bool   // share requests, for the whole tree
	anticipates float64
	budgets     agent.Budgets
	compaction  *compactionKeys // nil: never
	history     view.Policy
	historySet  bool // the key history is set: what a workflow's agents see of the surroundings
	settings    llm.Settings
	maxTools    int
	withState   bool   // the body contains state keys
	state       []item // the listed state keys, if not all
	body        string
	bodyAt      pos
	isGraph     bool   // the key graph is set
	graph       string // the graph's file, relative to the folder
	isRemote    bool   // the key a2a is set
	remote      remoteKeys
	router      *routerKeys // nil for other agents
	workflow    workflowKeys

	at map[string]pos // the places of values, by dotted key

	children  []*edge
	parents   []*edge
	copyOf    *definition // the original, or nil
	inGraph   bool        // a graph refers to it
	duplicate bool        // another file has the same name
	suggested bool        // a misspelt name probably means this agent
}

// leaf reports whether the agent cannot have sub-agents, whatever its folder contains.
func (d *definition) leaf() bool { return d.isGraph || d.isRemote }

// hasModel reports whether the agent has its own model: it is not a graph, a remote agent, a router or a workflow.
func (d *definition) hasModel() bool { return !d.leaf() && d.router == nil && !d.isWorkflow() }

// pos returns the place of the agent's name, or the file's first line.
func (d *definition) pos() pos {
	if at, ok := d.at["name"]; ok {
		return at
	}
	return pos{1, 0}
}

// folder returns the folder of the agent's sub-agents if it lists none.
func (d *definition) folder() string { return strings.TrimSuffix(d.file, path.Ext(d.file)) }

// compactionKeys contains the keys below compaction.
type compactionKeys struct {
	llmagent.Compaction
	summarizer string
	summary    bool // summarize with the agent's own model
}

func compactionKey(p *parser) yamldoc.Key {
	c := &compactionKeys{}
	return yamldoc.Custom("compaction", "a mapping", "{window: 128000}", func(k *yamldoc.Key, n yamldoc.Node) {
		p.d.compaction = c
		if n.Kind() != yamldoc.Mapping {
			p.WrongType(k, n)
			return
		}
		p.Mapping(k.Keys, "compaction.", n)
		p.Needs(n, "compaction", "window")
	}).WithKeys(
		yamldoc.Int("window", "128000", &c.Window),
		yamldoc.Positive("at", "0.8", 1, &c.At),
		yamldoc.Positive("keep", "0.5", 1, &c.Keep),
		yamldoc.Custom("summarizer", "a text, or true", "gpt-4o-mini", func(k *yamldoc.Key, n yamldoc.Node) {
			if c.summary, _ = n.Bool(); !c.summary {
				c.summarizer, _ = p.String(k, n)
			}
		}))
}

// checkCompaction reports settings with which the agent cannot be made.
func (d *definition) checkCompaction(r *report) {
	c := d.compaction
	if c == nil || c.Window == 0 { // already reported
		return
	}
	if err := c.Check(d.settings.MaxTokens); err != nil {
		r.add(d.file, d.at["compaction"], "%s", err)
	}
}

// compactionOf returns the option for an agent with this key.
func (l *modelCache) compactionOf(d *definition, own llm.Model) (llmagent.Option, error) {
	made := d.compaction.Compaction
	var err error
	if d.compaction.summary {
		made.Summarizer = own
	} else if d.compaction.summarizer != "" {
		made.Summarizer, err = l.modelOf(d.compaction.summarizer)
	}
	return llmagent.WithCompaction(made), err
}

// decideKeys contains the keys below transfer.decide.
type decideKeys struct {
	model, question string
	threshold       *float64
	form            []llmagent.DecisionOption // how the question is asked
}

// decideKey returns the key of the question that decides which agent answers.
func decideKey(p *parser) yamldoc.Key {
	c := &decideKeys{}
	put := func(name string, when bool, o llmagent.DecisionOption) yamldoc.Key {
		return yamldoc.Switch(name, func(b bool) {
			if b == when {
				c.form = append(c.form, o)
			}
		})
	}
	noLogProbs := llmagent.DecisionSettings(func(s *llm.Settings) { s.TopLogProbs = 0 })
	return yamldoc.Custom("decide", "true or false, or a mapping", "true", func(k *yamldoc.Key, n yamldoc.Node) {
		yes, isBool := n.Bool()
		switch {
		case n.Kind() == yamldoc.Mapping:
			p.d.decide = c
			p.Mapping(k.Keys, p.Name+".", n)
		case !isBool:
			p.WrongType(k, n)
		case yes:
			p.d.decide = c
		}
	}).WithKeys(
		yamldoc.String("model", "qwen3-small", &c.model),
		yamldoc.Float("threshold", "0.6", 0, 1, &c.threshold),
		yamldoc.String("question", `"Is it about money, or about a device?"`, &c.question),
		put("brief", true, llmagent.DecisionBrief()),
		put("schema", true, llmagent.DecisionSchema()),
		put("logprobs", false, noLogProbs))
}

// decision returns the options of an agent that decides by a question, or none.
func (l *modelCache) decision(d *definition) ([]llmagent.Option, error) {
	if d.decide == nil {
		return nil, nil
	}
	var model llm.Model // nil: the agent's own model
	if d.decide.model != "" {
		var err error
		if model, err = l.modelOf(d.decide.model); err != nil {
			return nil, err
		}
	}
	var opts []llmagent.DecisionOption
	if d.decide.threshold != nil {
		opts = append(opts, llmagent.DecisionThreshold(*d.decide.threshold))
	}
	if d.decide.question != "" {
		opts = append(opts, llmagent.DecisionQuestion(d.decide.question))
	}
	opts = append(opts, d.decide.form...)
	return []llmagent.Option{llmagent.WithDecision(model, opts...)}, nil
}

// Schema returns the JSON schema (draft 2020-12) of the front matter of a Markdown agent, for editors. It is made from
// the keys that Load reads, and accepts everything that Load accepts. It lists the keys and the types of their values;
// Load checks more.
func Schema() []byte { return schemaOf("An agent of a tree", "agent.md", keys) }

// RouterSchema is like [Schema] for a router in YAML.
func RouterSchema() []byte { return schemaOf("A router", "router.yaml", routerFile) }

func schemaOf(title, file string, table func(*parser) []yamldoc.Key) []byte {
	s := yamldoc.Schema(table(newParser(&report{}, &definition{file: file, router: &routerKeys{}})))
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", title
	text, _ := json.MarshalIndent(s, "", "  ") // marshals only maps, lists and strings, so it cannot fail
	return append(text, '\n')
}
