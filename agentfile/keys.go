package agentfile

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/summarize"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
	"github.com/agentarbor/arbor/workflowagent"
)

// key is one key of the front matter. The table that keys returns is the only
// description there is: the parser, the checks of types, the suggestions for
// misspelt keys and the reference page all read it.
type key struct {
	name    string
	typ     string // as the reference and the messages call it: "a text"
	example string
	meaning string
	def     string // the default, in words
	// read stores a value, or reports what is wrong with it.
	read func(p *parser, k *key, n yamldoc.Node)
	// keys are the keys of a mapping, which needs no read.
	keys []key
	// secret is true if a value of the wrong type may be a secret, which no message
	// repeats.
	secret bool
}

func keys() []key {
	return slices.Concat(ownKeys(), propertyKeys(), workflowTable(), routerTable(), remoteTable())
}

// ownKeys are those of agents with a model, and of graphs.
func ownKeys() []key {
	return []key{
		{name: "name", typ: "a text", example: "billing", def: "the file's name without `.md`",
			meaning: "The agent's name: 1 to 64 letters, digits, `_` and `-`, unique in the tree. `user` and `human` are reserved.",
			read:    text(func(d *definition) *string { return &d.name })},
		{name: "description", typ: "a text", example: "Refunds and invoices", def: "empty",
			meaning: "What the agent is for. Other agents' models choose transfer targets by it.",
			read:    text(func(d *definition) *string { return &d.description })},
		{name: "model", typ: "a text or a list of texts", example: "gpt-4o-mini", def: "the program's default model",
			meaning: "The model's name. Of a list such as `[large, small]` each next one is a [fallback](faults.md#fallbacks).",
			read:    models},
		{name: "endpoint", typ: "a text or a list of texts", example: "mistral", def: "what its address tells, and what it refuses",
			meaning: "The [provider or the quirks](models.md#providers) of the endpoint, for this agent and all below it.",
			read: func(p *parser, k *key, n yamldoc.Node) {
				list := []item{}
				if n.Kind() == yamldoc.List {
					list = p.names(k, n)
				} else if v, ok := p.text(k, n); ok {
					list = append(list, item{value: v, at: p.at(n)})
				}
				for _, i := range list {
					if p.d.settings.Endpoint = append(p.d.settings.Endpoint, i.value); !slices.Contains(openai.Endpoints(), i.value) {
						p.add(i.at, "no endpoint is called %q%s", i.value, nearest.Hint(i.value, openai.Endpoints()))
					}
				}
			}},
		{name: "reasoning", typ: "a mapping", def: "the endpoint's own",
			meaning: "How the models of this agent and of all below it think before they answer.",
			keys: []key{
				{name: "echo", typ: "a text", example: "on", def: "`auto`",
					meaning: "Whether the model gets its reasoning [back](faults.md#what-goes-back): `auto` if the endpoint wants it, `on` unless it refuses it, or `off`.",
					read: func(p *parser, k *key, n yamldoc.Node) {
						v, ok := p.text(k, n)
						if p.d.settings.Echo = llm.Echo(v); ok && !p.d.settings.Echo.Known() {
							p.add(p.at(n), "%s must be auto, on or off, not %q", p.name, v)
						}
					}},
				{name: "thinking", typ: "on or off", example: "off", def: "the endpoint's own",
					meaning: "Whether the model thinks, if the endpoint has a switch for it.",
					read: func(p *parser, k *key, n yamldoc.Node) {
						on, ok := n.Bool()
						if v, _ := textOf(n); !ok && (v == "on" || v == "off") {
							on, ok = v == "on", true
						}
						if p.d.settings.Thinking = &on; !ok {
							p.wrongType(k, n)
						}
					}},
				{name: "effort", typ: "a text", example: "low", def: "the endpoint's own",
					meaning: "How much the model thinks, in a word of the endpoint.",
					read:    text(func(d *definition) *string { return &d.settings.ReasoningEffort })},
			}},
		{name: "timeouts", typ: "a mapping", def: "those of the command, or [the adapter's](models.md#timeouts)",
			meaning: "How long an answer may take, for this agent and all below it.",
			keys: []key{
				limit("first", "20m", "The longest silence before the first word of a streamed answer.", func(t *llm.Timeouts) *time.Duration { return &t.First }),
				limit("silence", "2m", "The longest silence after the first word.", func(t *llm.Timeouts) *time.Duration { return &t.Silence }),
				limit("answer", "30m", "The whole answer.", func(t *llm.Timeouts) *time.Duration { return &t.Answer }),
			}},
		{name: "subagents", typ: "a list of names", example: "[billing, tech]", def: "the agents in the folder that is named like the file",
			meaning: "The sub-agents, in this order. With the key, only the listed agents count.",
			read:    children},
		{name: "global_instruction", typ: "a text", example: "You work for Example Ltd.", def: "none",
			meaning: "An instruction before those of this agent and of all below it. Requests that begin alike [cost less](models.md#prompt-caches) with a prompt cache.",
			read:    text(func(d *definition) *string { return &d.global })},
		{name: "transfer", typ: "a mapping", def: "none of them",
			meaning: "To which agents, in addition to its sub-agents, the agent may transfer, and when.",
			keys: []key{
				{name: "parent", typ: "true or false", example: "true", def: "false",
					meaning: "Back to its parent.",
					read:    boolean(func(d *definition, b bool) { d.policy.AllowTransferToParent = b })},
				{name: "peers", typ: "true or false", example: "true", def: "false",
					meaning: "To the other sub-agents of its parent.",
					read:    boolean(func(d *definition, b bool) { d.policy.AllowTransferToPeers = b })},
				{name: "arrival", typ: "a text", example: "hold", def: "what the other keys allow",
					meaning: "`hold`: after a transfer to it, the agent is offered only its sub-agents and a person until it has said something or a tool has answered. By default it may transfer back or to a peer at once, [once in a turn](transfer.md#on-arrival).",
					read: func(p *parser, k *key, n yamldoc.Node) {
						v, ok := p.text(k, n)
						if p.d.policy.HoldOnArrival = v == "hold"; ok && v != "hold" {
							p.add(p.at(n), "%s must be hold, not %q", p.name, v)
						}
					}},
				{name: "profile", typ: "a text", example: "small", def: "none",
					meaning: "`small` is for [small models](models.md#small-models), for this agent and all below it: `tools: each`, `arrival: hold` and `decide: true`. An agent's own `tools: one` or `decide` counts.",
					read: func(p *parser, k *key, n yamldoc.Node) {
						v, ok := p.text(k, n)
						if p.d.small = v == "small"; ok && v != "small" {
							p.add(p.at(n), "%s must be small, not %q", p.name, v)
						}
					}},
				{name: "human", typ: "true or false", example: "false", def: "true",
					meaning: "To [a person](command-serve.md#people-who-answer), if the tree or the program has a desk.",
					read:    boolean(func(d *definition, b bool) { d.policy.NoHuman = !b })},
				{name: "tools", typ: "a text", example: "each", def: "`one`",
					meaning: "`one` [tool](transfer.md#the-tool) for all targets, `transfer_to_agent`, or for `each` a tool `transfer_to_NAME`, with which small models route better.",
					read: func(p *parser, k *key, n yamldoc.Node) {
						v, ok := p.text(k, n)
						form, known := map[string]transfer.Tools{"one": transfer.OneTool, "each": transfer.ToolPerTarget}[v]
						if p.d.form = form; ok && !known {
							p.add(p.at(n), "%s must be one or each, not %q", p.name, v)
						}
					}},
				decideKey(),
				transferApproveKey(),
			}},
		{name: "tools", typ: "a list of names", example: "[" + summarize.Name + "]", def: "none",
			meaning: "Tools that the program registers, and the built-in `" + summarize.Name + "`, which uses the agent's model, and `" + workflowagent.ExitToolName + "`, which ends [the loop](#workflows) around the agent.",
			read:    func(p *parser, k *key, n yamldoc.Node) { p.d.tools = p.names(k, n) }},
		mcpKey(),
		approveKey(),
		approverKey(),
		routesKey(),
		{name: "history", typ: "a text or a mapping", example: "{last_turns: 6}", def: "`full`",
			meaning: "What [the model sees](views.md): `full`; `text_only`, without what other agents' tools did; `own`, without what other agents said and did; or a mapping with `last_turns: N`, at least the user's last N turns, and `facts: N`, at most N bytes of the inputs and results of other agents' tools. In a [workflow](#workflows): what its agents see of the conversation around it.",
			read:    history},
		compactionKey(),
		{name: "state", typ: "true, or a list of names", example: "[customer, user:plan]", def: "braces have no meaning",
			meaning: "[State in the body](tools.md#state-in-instructions): `{customer}` becomes the value of that key, for all keys or the listed ones.",
			read:    bodyState},
		{name: "settings", typ: "a mapping", def: "the endpoint's own",
			meaning: "How the model answers.",
			keys: []key{
				{name: "temperature", typ: "a number", example: "0.2", def: "the endpoint's own",
					meaning: "From 0 to 2; lower is steadier.",
					read:    number(0, 2, func(d *definition) **float64 { return &d.settings.Temperature })},
				{name: "top_p", typ: "a number", example: "0.9", def: "the endpoint's own",
					meaning: "From 0 to 1: nucleus sampling.",
					read:    number(0, 1, func(d *definition) **float64 { return &d.settings.TopP })},
				{name: "max_tokens", typ: "a whole number", example: "500", def: "the endpoint's own",
					meaning: "The most tokens of an answer, from 1.",
					read: func(p *parser, k *key, n yamldoc.Node) {
						if v, ok := p.integer(k, n); ok && p.atLeastOne(k, n, v) {
							p.d.settings.MaxTokens = int(v)
						}
					}},
				{name: "stop", typ: "a list of texts", example: `["END"]`, def: "none",
					meaning: "Texts that end an answer.",
					read: func(p *parser, k *key, n yamldoc.Node) {
						for _, s := range p.list(k, n) {
							p.d.settings.Stop = append(p.d.settings.Stop, s.value)
						}
					}},
				{name: "tool_choice", typ: "a text", example: "required", def: "`auto`",
					meaning: "`auto`, `none`, `required`, or the name of a tool. The last two hold for the first calls of each run.",
					read: func(p *parser, k *key, n yamldoc.Node) {
						v, _ := p.text(k, n)
						p.d.settings.ToolChoice = llm.ToolChoice(v)
					}},
				{name: "max_tools", typ: "a whole number", example: "64", def: "128",
					meaning: "How many tools [the endpoint takes](tools.md#what-an-endpoint-is-sent-of-tools) in a request.",
					read: func(p *parser, k *key, n yamldoc.Node) {
						if v, ok := p.integer(k, n); ok && p.atLeastOne(k, n, v) {
							p.d.maxTools = int(v)
						}
					}},
				{name: "parallel_tool_calls", typ: "true or false", example: "false", def: "the endpoint's own",
					meaning: "Whether an answer may have several calls.",
					read:    boolean(func(d *definition, b bool) { d.settings.ParallelToolCalls = &b })},
				{name: "seed", typ: "a whole number", example: "7", def: "none",
					meaning: "Asks the endpoint for repeatable answers.",
					read: func(p *parser, k *key, n yamldoc.Node) {
						if v, ok := p.integer(k, n); ok {
							p.d.settings.Seed = &v
						}
					}},
				{name: "response_format", typ: "a mapping", example: "{type: object, required: [intent], properties: {intent: {enum: [billing, other]}}}", def: "free text",
					meaning: "A JSON schema that [the answer](tools.md#answers-with-a-form) must fit.",
					read:    responseFormat},
				{name: "leaked_calls", typ: "a text", example: "off", def: "`auto`, unless the program chose otherwise",
					meaning: "What becomes of a tool call that the model writes as text: `auto` makes it [a call](models.md#calls-that-leak), `any` also if no tool has its name, so that it is refused, and `off` leaves it.",
					read: func(p *parser, k *key, n yamldoc.Node) {
						v, ok := p.text(k, n)
						if p.d.settings.LeakedCalls = llm.LeakedCalls(v); ok && !p.d.settings.LeakedCalls.Known() {
							p.add(p.at(n), "%s must be auto, any or off, not %q", p.name, v)
						}
					}},
			}},
		{name: "graph", typ: "a text", example: "triage.yaml", def: "none",
			meaning: "The file of a [graph](#graphs) that is the agent, relative to this file's folder. Only `name`, `description`, `guards` and `budgets` go with it, and no body.",
			read:    graphPath},
	}
}

// limit is the key of a time limit.
func limit(name, example, meaning string, field func(*llm.Timeouts) *time.Duration) key {
	return key{name: name, typ: "a time with its unit", example: example, def: "as above", meaning: meaning,
		read: duration(func(d *definition) *time.Duration { return field(&d.settings.Timeouts) })}
}

func text(field func(*definition) *string) func(*parser, *key, yamldoc.Node) {
	return func(p *parser, k *key, n yamldoc.Node) {
		if v, ok := p.text(k, n); ok {
			*field(p.d) = v
		}
	}
}

func boolean(set func(*definition, bool)) func(*parser, *key, yamldoc.Node) {
	return func(p *parser, k *key, n yamldoc.Node) {
		if b, ok := n.Bool(); ok {
			set(p.d, b)
			return
		}
		p.wrongType(k, n)
	}
}

func number(low, high float64, field func(*definition) **float64) func(*parser, *key, yamldoc.Node) {
	return func(p *parser, k *key, n yamldoc.Node) {
		v, ok := p.number(k, n)
		switch {
		case !ok:
		case v < low || v > high:
			p.add(p.at(n), "%s must be a number from %g to %g, not %g", p.name, low, high, v)
		default:
			*field(p.d) = &v
		}
	}
}

func children(p *parser, k *key, n yamldoc.Node) {
	before := len(p.report.problems)
	p.d.subagents, p.d.listed = p.names(k, n), true
	p.d.unsure = p.d.unsure || len(p.report.problems) > before
}

func models(p *parser, k *key, n yamldoc.Node) {
	if n.Kind() != yamldoc.List {
		p.d.model, _ = p.text(k, n)
		return
	}
	switch list := p.names(k, n); {
	case len(list) > 0:
		p.d.model, p.d.fallbacks = list[0].value, list[1:]
	case n.Len() == 0:
		p.add(p.at(n), "%s is an empty list: remove the key if none is meant", p.name)
	}
}

func bodyState(p *parser, k *key, n yamldoc.Node) {
	if all, ok := n.Bool(); ok {
		p.d.withState = all
		return
	}
	p.d.state = p.names(k, n)
	p.d.withState = len(p.d.state) > 0
}

func history(p *parser, k *key, n yamldoc.Node) {
	if n.Kind() != yamldoc.Mapping {
		v, ok := p.text(k, n)
		if !ok {
			return
		}
		policy, err := view.Parse(v)
		if err != nil {
			p.add(p.at(n), "history %q is not known: full, text_only, own or {last_turns: N} with N from 1 are%s",
				v, nearest.Hint(v, []string{"full", "text_only", "own", "last_turns"}))
			return
		}
		p.d.history, p.d.around = policy, true
		return
	}
	least := func(name string, set func(n int)) key {
		return key{name: name, typ: "a whole number", read: func(p *parser, k *key, n yamldoc.Node) {
			if v, ok := p.integer(k, n); ok && p.atLeastOne(k, n, v) {
				p.d.around = true
				set(int(v))
			}
		}}
	}
	var turns, facts int
	p.pairs([]key{least("last_turns", func(n int) { turns = n }), least("facts", func(n int) { facts = n })}, "history.", n)
	if turns > 0 {
		p.d.history = view.LastTurns(turns)
	}
	p.d.history = p.d.history.WithFacts(facts)
	if n.Len() == 0 {
		p.add(p.at(n), "history is an empty mapping: {last_turns: N} or {facts: N} is meant")
	}
}

// item is a name in a list, with its place.
type item struct {
	value string
	at    pos
	// Of a sub-agent that is no agent of the folder: what it is instead, or that it cannot
	// be used.
	def     *definition
	void    bool
	special bool // it is of a router's list of specialists
}

// definition is what one file says about its agent.
type definition struct {
	file string // relative to the folder, with slashes
	base string // the file's name without folder and .md
	// broken is true when the front matter could not be read, so that the
	// agent's sub-agents are not known.
	broken bool
	unsure bool // its sub-agents are not known, for that or another reason

	name        string
	description string
	global      string
	model       string
	fallbacks   []item // the models behind it, in their order
	subagents   []item
	listed      bool // the key subagents is there
	policy      agent.TransferPolicy
	form        transfer.Tools // 0 for the default
	small       bool           // the profile, for the agents under it too
	decide      *decideKeys    // nil: the model's calls decide
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
	shares      bool   // requests, of the whole tree
	anticipates float64
	budgets     agent.Budgets
	compaction  *compactionKeys // nil: never
	history     view.Policy
	around      bool // the key history is there: in a workflow, what its agents see around
	settings    llm.Settings
	maxTools    int
	withState   bool   // the body names keys of the state
	state       []item // if not all of them
	body        string
	bodyAt      pos
	isGraph     bool   // the key graph is there
	graph       string // the graph's file, relative to the folder
	isRemote    bool   // the key a2a is there
	remote      remoteKeys
	router      *routerKeys // nil for other agents
	workflow    workflowKeys

	at map[string]pos // the place of a key's value, by its dotted name

	children []*edge
	parents  []*edge
	copyOf   *definition // nil for what is no copy
	inGraph  bool        // a graph refers to it
	doubled  bool        // another file has the name already
	hinted   bool        // a misspelt sub-agent is probably this one
}

// leaf reports whether the agent can have no sub-agents, whatever its folder holds.
func (d *definition) leaf() bool { return d.isGraph || d.isRemote }

// pos returns the place of the agent's name, or the file's first line.
func (d *definition) pos() pos {
	if at, ok := d.at["name"]; ok {
		return at
	}
	return pos{1, 0}
}

// folder is where the agent's sub-agents are if it lists none.
func (d *definition) folder() string { return strings.TrimSuffix(d.file, path.Ext(d.file)) }

// allKeys returns the names of all keys, those of mappings with their mapping's
// name in front.
func allKeys(table []key, prefix string) (names []string) {
	for _, k := range table {
		names = append(names, prefix+k.name)
		if k.read == nil { // not those of the mappings in a list
			names = append(names, allKeys(k.keys, prefix+k.name+".")...)
		}
	}
	return names
}

// leaf cuts the mapping's name from a dotted key.
func leaf(dotted string) (mapping, name string) {
	if i := strings.LastIndexByte(dotted, '.'); i >= 0 {
		return dotted[:i], dotted[i+1:]
	}
	return "", dotted
}
