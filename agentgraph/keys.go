package agentgraph

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// table describes a mapping of the format, except for the keys that its functions read.
type table struct {
	needs []string // the required keys
	rest  string   // the rest of the mapping's JSON schema
	open  bool     // unknown keys are kept unless they resemble a known one
	// meant maps words that do not resemble a key to the key that the author probably meant.
	meant words[string]
	// future maps keys of features that this version of the format does not have, or has in another place.
	future words[feature]
	arbor  bool // the mapping belongs to arbor/v1
	// foreign marks a mapping of another format, whose unknown keys are ignored.
	foreign bool
}

// words are values, each with the words for it. It is a list, not a map, so that it costs nothing at program start; it
// is searched only after an error.
type words[V any] []struct {
	meaning V
	words   string // with spaces between them
}

// find returns the value of a word. If several entries have the word, the last one counts.
func (w words[V]) find(word string) (meaning V, ok bool) {
	for _, entry := range slices.Backward(w) {
		if slices.Contains(strings.Fields(entry.words), word) {
			return entry.meaning, true
		}
	}
	return meaning, false
}

// feature is a feature that AgentGraph v0.2.7 does not have.
type feature struct {
	what string // the subject of "not part of the format", with its verb
	key  string // where arbor/v1 has it; "" if it does not
}

var (
	loops    = feature{"loops are", "loop of an agent"}
	subgraph = feature{"graphs within graphs are", "graph of an agent"}
	dynamic  = feature{"edges that are made while the graph runs are", "next of an agent, or priority of an edge"}
	shared   = feature{"state that agents share is", "state of spec, and update of an agent"}
	tracing  = feature{"a key for traces and metrics is", ""}
	retries  = feature{"a policy of an agent's own for errors, times and retries is", "retry or timeout of an agent"}
	toolNode = feature{"a tool in an agent's place is", "tool or toolsOf of an agent"}
	people   = feature{"waiting for a person is", "when: human of an agent"}
)

// The JSON schemas of common values.
const (
	aText    = `{"$ref": "#/$defs/text"}`
	aMapping = `{"type": ["object", "null"]}`
)

var (
	documentTable = table{
		needs: []string{"apiVersion", "kind", "metadata", "spec"},
		meant: words[string]{{"apiVersion", "version"}, {"metadata", "name"}},
	}
	metadataTable = table{needs: []string{"name", "version"}, open: true}
	specTable     = table{
		needs: []string{"agents", "entrypoint"},
		meant: words[string]{{"agents", "nodes steps"}, {"edges", "links connections"},
			{"entrypoint", "start entry startAt"}, {"errorHandling", "onError errors error"}},
		future: words[feature]{{loops, "loops loop maxIterations"}, {subgraph, "subgraphs subgraph graphs"},
			{dynamic, "dynamicRouting dynamicEdges routing router"},
			{shared, "state sharedState stateManagement reducers memory"}, {tracing, "observability tracing metrics"}},
	}
	agentTable = table{
		needs: []string{"id"}, rest: `{"required": ["id", "agentRef"]}`,
		meant: words[string]{{"id", "name"}, {"agentRef", "ref agent agent_ref uses"},
			{"config", "configuration settings with"}},
		future: words[feature]{{loops, "loop loops repeat while until maxIterations"},
			{subgraph, "graph graphRef subgraph"}, {shared, "state update"}, {dynamic, "next"},
			{retries, "retry retries maxRetries timeout errorHandling"}, {people, "when ask approval"},
			{toolNode, "tool toolsOf"}},
	}
	edgeTable = table{
		needs: []string{"from", "to"},
		meant: words[string]{{"condition", "when if expression"}, {"from", "source"}, {"to", "target"},
			{"transform", "map mapping"}},
		future: words[feature]{{loops, "loop while maxIterations back"}, {dynamic, "priority dynamic default"}},
	}
	errorTable = table{
		rest: aMapping,
		meant: words[string]{{"maxRetries", "retries max_retries"}, {"fallbackAgent", "fallback"},
			{"strategy", "onError"}},
	}
)

// The tables of the arbor/v1 mappings.
var (
	arborSpecTable  = specTable.extended("", words[string]{{"state", "sharedState reducers memory"}})
	arborAgentTable = agentTable.extended(
		`{"required": ["id"], "dependentRequired": {"config": ["agentRef"], "ask": ["when"], "by": ["when"]},
			"oneOf": [{"anyOf": [{"required": ["agentRef"]}, {"required": ["tool"]}]}, {"required": ["graph"]}, {"required": ["toolsOf"]}]}`,
		words[string]{{"loop", "loops repeat while until maxIterations"}, {"graph", "graphRef subgraph"},
			{"retry", "retries maxRetries errorHandling"}, {"when", "approval human"}, {"update", "state"},
			{"ask", "question"}, {"by", "approver"}, {"next", "route router goto"}, {"history", "view conversation"},
			{"tool", "function call"}, {"toolsOf", "tools"}, {"transform", "output result"}})
	arborEdgeTable = edgeTable.extended("", words[string]{{"priority", "order weight"}})
	loopTable      = table{
		needs: []string{"until", "max"}, arbor: true,
		meant: words[string]{{"max", "maxIterations limit times"}, {"until", "condition while"},
			{"atMax", "onLimit fail"}},
	}
	retryTable = table{
		needs: []string{"max"}, arbor: true,
		meant: words[string]{{"max", "maxRetries attempts times"}, {"backoff", "delay wait"}},
	}
	stateTable = table{
		rest: `{"type": ["object", "null"], "allOf": [
			{"if": {"required": ["reducer"], "properties": {"reducer": {"enum": ["append"]}}}, "then": {"properties": {"initial": {"type": ["array", "null"]}}}},
			{"if": {"required": ["reducer"], "properties": {"reducer": {"enum": ["merge"]}}}, "then": {"properties": {"initial": {"type": ["object", "null"]}}}},
			{"if": {"required": ["reducer"], "properties": {"reducer": {"enum": ["sum", "min", "max"]}}}, "then": {"properties": {"initial": {"type": ["number", "null"]}}}}]}`,
		arbor: true,
		meant: words[string]{{"initial", "default value"}, {"reducer", "reduce merge"}},
	}
)

// extended returns the arbor/v1 table that extends t.
func (t table) extended(rest string, meant words[string]) table {
	return table{needs: t.needs, rest: cmp.Or(rest, t.rest), meant: slices.Concat(t.meant, meant), future: t.future, arbor: true}
}

func (r *reader) documentKeys() []yamldoc.Key {
	spec := func(k *yamldoc.Key, n yamldoc.Node) { r.spec(r.top, k, n) }
	return []yamldoc.Key{
		yamldoc.Custom("apiVersion", "a text", APIVersion, r.apiVersion).
			About("ossa.ai/v0.2.7, or arbor/v1, which has extensions. Other versions 0.2 are read with a warning.").
			WithSchema(`{"type": "string", "pattern": "^(ossa\\.ai/v0\\.2\\.(0|[1-9][0-9]*)|arbor/v1)$"}`),
		yamldoc.Custom("kind", "AgentGraph", "", func(*yamldoc.Key, yamldoc.Node) {}), // already read
		yamldoc.Custom("metadata", "a mapping with name and version", "", r.metadata).WithSchema(`{"$ref": "#/$defs/metadata"}`),
		yamldoc.Custom("spec", "a mapping with agents, edges and entrypoint", "", spec).WithSchema("{}"),
	}
}

func (r *reader) metadataKeys() []yamldoc.Key {
	g := r.top.graph
	other := func(name string) yamldoc.Key {
		return r.free(name, func(m map[string]any) { r.other[name] = m })
	}
	return []yamldoc.Key{
		yamldoc.String("name", "", &g.Name).About("The graph's name."),
		r.version(&g.Version, false).About("A semantic version, such as 1.0.0. 1.0 is a number to YAML.").WithSchema(`{"$ref": "#/$defs/version"}`),
		yamldoc.OptionalString("description", &g.Description),
		other("labels"),
		other("annotations"),
	}
}

func (r *reader) specKeys(c *checker) (*table, []yamldoc.Key) {
	t, schemas, keys := &specTable, []string{"agent", "edge"}, []yamldoc.Key(nil)
	if r.arbor {
		t, schemas = &arborSpecTable, []string{"arborAgent", "arborEdge"}
		state := func(k *yamldoc.Key, n yamldoc.Node) { r.state(c.draft, k, n) }
		keys = append(keys, yamldoc.Custom("state", "a mapping of names to {reducer, initial}", "", state).About("Values that the agents share, by their names.").
			WithSchema(`{"type": ["object", "null"], "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$"}, "additionalProperties": {"$ref": "#/$defs/state"}}`))
	}
	list := func(name, schema string, read func(*checker, *yamldoc.Key, yamldoc.Node)) yamldoc.Key {
		return yamldoc.Custom(name, "a list", "", func(k *yamldoc.Key, n yamldoc.Node) { read(c, k, n) }).WithSchema(schema)
	}
	handling := func(k *yamldoc.Key, n yamldoc.Node) {
		if n.Kind() != yamldoc.Nothing {
			r.object(k, n, &errorTable, r.errorKeys(c)...)
		}
	}
	return t, append(keys,
		list("agents", `{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/`+schemas[0]+`"}}`, r.nodes).About("The nodes of the graph."),
		list("edges", `{"type": ["array", "null"], "items": {"$ref": "#/$defs/`+schemas[1]+`"}}`, r.edges).About("Where the agents' outputs go."),
		r.placed("entrypoint", &c.graph.Entrypoint, &c.entrypoint).About("The id of the agent that gets the input."),
		yamldoc.Custom("errorHandling", "a mapping", "", handling).WithSchema(`{"$ref": "#/$defs/errorHandling"}`))
}

// placed returns a key whose value is text, and stores its line too.
func (r *reader) placed(name string, to *string, line *int) yamldoc.Key {
	return yamldoc.Custom(name, "a text", "", func(k *yamldoc.Key, n yamldoc.Node) {
		if v, ok := r.String(k, n); ok {
			*to, *line = v, n.Line()
		}
	}).WithSchema(aText)
}

func (r *reader) errorKeys(c *checker) []yamldoc.Key {
	h := &c.graph.OnError
	return []yamldoc.Key{
		yamldoc.OneOf("strategy", "", func(v string) { h.Strategy = Strategy(v) }, string(FailFast), string(Continue), string(Retry)),
		r.whole("maxRetries", CodeBadMaxRetries, 0, math.MaxInt32, &h.MaxRetries).About("3 by default."),
		r.placed("fallbackAgent", &h.Fallback, &c.fallback).About("The id of the agent that is asked after an error."),
	}
}

func (r *reader) edgeKeys(d *draft, e *Edge) (*table, []yamldoc.Key) {
	keys := []yamldoc.Key{
		yamldoc.String("from", "", &e.From).About("The id of the source."),
		yamldoc.String("to", "", &e.To).About("The id of the target."),
		r.compiles(d, "condition", condition, &e.Condition).About("Whether the edge is taken, such as output.intent == 'billing'."),
		r.compiles(d, "transform", transform, &e.Transform).About(`What the target gets, such as {"data": output.items}, as a text.`),
	}
	if !r.arbor {
		return &edgeTable, keys
	}
	return &arborEdgeTable, append(keys, r.whole("priority", CodeYAML, 1, maxPriority, &e.Priority).
		About("Of the edges of one source with a priority only the first whose condition holds is taken, the largest number first."))
}

func (r *reader) agentKeys(d *draft, node *Node) (*table, []yamldoc.Key) {
	keys := []yamldoc.Key{
		yamldoc.String("id", "", &node.ID).About("Unique in the graph."),
		yamldoc.String("agentRef", "", &node.Ref).About("The name of an agent, or name@version."),
		r.free("config", func(m map[string]any) { node.Config = m }).About("Overrides the agent's own configuration."),
	}
	if !r.arbor {
		return &agentTable, keys
	}
	with := func(name, typ string, read func(k *yamldoc.Key, n yamldoc.Node)) yamldoc.Key {
		return yamldoc.Custom(name, typ, "", read)
	}
	return &arborAgentTable, append(keys, // tool and toolsOf come before graph: if either is set, graph is not read
		yamldoc.String("tool", "", &node.Tool).
			About("The name of a tool, of the agent that agentRef names or of the program, which is called with the node's input."),
		yamldoc.String("toolsOf", "", &node.ToolsOf).About("The id of an agent that passes its tool calls on, for this node to run."),
		with("graph", "a mapping with agents, edges and entrypoint, or the name of a file", func(k *yamldoc.Key, n yamldoc.Node) { r.subgraph(d, node, k, n) }).
			About("A graph in the agent's place: its spec, or the name of its file.").
			WithSchema(`{"oneOf": [{"$ref": "#/$defs/text"}, {"$ref": "#/$defs/arborSpec"}]}`),
		with("loop", "a mapping", func(k *yamldoc.Key, n yamldoc.Node) {
			node.Loop = &Loop{}
			r.object(k, n, &loopTable, r.loop(d, node.Loop)...)
		}).About("The agent is called again with its own output.").WithSchema(`{"$ref": "#/$defs/loop"}`),
		with("when", "a text", func(k *yamldoc.Key, n yamldoc.Node) { r.when(node, k, n) }).About("Ask a person before the agent runs.").
			WithSchema(`{"const": "human"}`),
		with("ask", "a text", func(k *yamldoc.Key, n yamldoc.Node) { node.approval().Ask, _ = r.String(k, n) }).About("What the person is asked.").
			WithSchema(aText),
		r.compiles(d, "next", choice, &node.Next).About("The id, or a list of ids, of the targets that edges may be taken to, such as output.route."),
		with("update", "a mapping of keys of the state to expressions", func(k *yamldoc.Key, n yamldoc.Node) { r.updates(d, node, k, n) }).
			About("Writes to the shared state when the agent has finished: keys and expressions.").
			WithSchema(`{"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/expression"}}`),
		r.duration("timeout", &node.Timeout).About("What one call may take, such as 30s; at most 24h."),
		with("retry", "a mapping", func(k *yamldoc.Key, n yamldoc.Node) {
			node.Retry = &RetryPolicy{}
			r.object(k, n, &retryTable, r.retry(node.Retry)...)
		}).About("Calls after an error, whatever the strategy.").WithSchema(`{"$ref": "#/$defs/retry"}`),
		r.history(node).About("How much of the conversation around the graph the agent sees: full, text_only, own or last_turns:N. Nothing without it.").
			WithSchema(`{"type": "string", "pattern": "^(full|text_only|own|last_turns:[1-9][0-9]*)$"}`),
		r.compiles(d, "transform", transform, &node.Transform).About("What the node gives in place of its agent's output, such as output.text."),
		with("by", "a text or a list of texts", func(k *yamldoc.Key, n yamldoc.Node) { r.by(node, k, n) }).
			About("Who may answer: user, staff, or the names of rights.").WithSchema(`{"anyOf": [{"type": "string", "pattern": "^[a-z0-9_-]+$"},
				{"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[a-z0-9_-]+$"}}]}`))
}

// maxTimeout is the longest duration that a file can set for a timeout or a backoff.
const maxTimeout = 24 * time.Hour

// duration matches the format of time.ParseDuration without a sign.
var duration = lazyregexp.New(`^(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)

// history returns the key that selects how much of the conversation a node's agents see.
func (r *reader) history(node *Node) yamldoc.Key {
	return yamldoc.Custom("history", `"full", "text_only", "own" or "last_turns:N" with N from 1`, "", func(k *yamldoc.Key, n yamldoc.Node) {
		text, _ := n.Text()
		policy, err := view.Parse(text)
		if node.History = &policy; err != nil {
			r.wrongType(CodeYAML, k, n)
		}
	})
}

func (r *reader) loop(d *draft, l *Loop) []yamldoc.Key {
	return []yamldoc.Key{
		r.compiles(d, "until", condition, &l.Until).About("Whether to stop after a call, such as output.score > 0.9."),
		r.whole("max", CodeYAML, 1, maxCalls, &l.Max).About("The largest number of calls."),
		yamldoc.OneOf("atMax", "", func(v string) { l.Fail = v == "fail" }, "continue", "fail").
			About("Whether the agent fails if until does not hold after the last call."),
	}
}

func (r *reader) retry(p *RetryPolicy) []yamldoc.Key {
	return []yamldoc.Key{
		r.whole("max", CodeBadMaxRetries, 0, math.MaxInt32, &p.Max).About("How often the agent is called again."),
		r.duration("backoff", &p.Backoff).About("The pause before the first of these calls, such as 1s; it doubles with each one."),
	}
}

// approval returns the node's approval, which several keys fill in. It creates the approval if there is none.
func (n *Node) approval() *Approval {
	if n.Human == nil {
		n.Human = &Approval{}
	}
	return n.Human
}

func (r *reader) when(node *Node, k *yamldoc.Key, n yamldoc.Node) {
	node.approval()
	if word, ok := r.String(k, n); ok && word != "human" {
		r.Add(n, "when takes only the word human, not %q: write conditions on edges", visible.Cut(word, 60))
	}
}

func (r *reader) by(node *Node, k *yamldoc.Key, n yamldoc.Node) {
	words, before := []string(nil), r.Problems
	r.as = CodeYAML
	defer func() { r.as = "" }()
	if n.Kind() != yamldoc.List || n.Len() > 0 {
		r.Words(k, n, func(word string, _ yamldoc.Node) { words = append(words, word) })
	}
	var err error
	if node.approval().By, err = tools.ReadBy(words...); err != nil && r.Problems == before {
		r.Add(n, "by: %v", err)
	}
}

// duration returns a key whose value is a duration.
func (r *reader) duration(name string, to *time.Duration) yamldoc.Key {
	return yamldoc.Custom(name, "a time with a unit", `"30s", "1m30s" or "500ms"`, func(k *yamldoc.Key, n yamldoc.Node) {
		text, _ := n.Text()
		t, err := time.ParseDuration(text)
		switch {
		case !duration.MatchString(text):
			r.wrongType(CodeYAML, k, n)
		case err != nil || t <= 0 || t > maxTimeout:
			r.Add(n, "%s is a time above 0 and up to 24h, which %s is not", name, visible.Cut(text, 60))
		default:
			*to = t
		}
	}).WithSchema(`{"$ref": "#/$defs/duration"}`)
}
