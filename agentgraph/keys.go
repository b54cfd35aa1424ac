package agentgraph

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// key is a key of a mapping. What it is about and the schema of its value, in JSON, are for editors.
type key struct{ name, about, schema string }

// table is the keys that a mapping can have. The parser and [Schema] are made of it.
type table struct {
	keys []key
	rest string // of the mapping's JSON schema: what it says besides its keys
	open bool   // other keys are kept, unless they look like one of these
	// meant says which key is probably meant by a word that resembles none.
	meant words[string]
	// future are keys of features that the version of the format does not have, or
	// has elsewhere.
	future words[feature]
	arbor  bool // the mapping is one of arbor/v1
	// foreign is a mapping of another format, whose other keys are not looked at.
	foreign bool
}

// words are words and what is known of them. It is a list, which costs nothing when a
// program starts, because it is looked into only when something is wrong.
type words[V any] []struct {
	word string
	is   V
}

// find returns what is known of a word. The last entry counts.
func (w words[V]) find(word string) (is V, ok bool) {
	for _, entry := range slices.Backward(w) {
		if entry.word == word {
			return entry.is, true
		}
	}
	return is, false
}

// feature is what AgentGraph v0.2.7 does not have.
type feature struct {
	what string // the feature that is "not part of" the format
	key  string // where arbor/v1 has it; "" is nowhere
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

// The schemas of values.
const (
	aText        = `{"$ref": "#/$defs/text"}`
	anExpression = `{"$ref": "#/$defs/expression"}`
	aTime        = `{"$ref": "#/$defs/duration"}`
	aMapping     = `{"type": ["object", "null"]}`
)

var (
	documentKeys = table{
		keys: []key{
			{"apiVersion", "The version of the format: ossa.ai/v0.2.7, or arbor/v1, which has extensions. Other versions 0.2 are read with a warning.",
				`{"type": "string", "pattern": "^(ossa\\.ai/v0\\.2\\.(0|[1-9][0-9]*)|arbor/v1)$", "examples": ["ossa.ai/v0.2.7", "arbor/v1"]}`},
			{"kind", "", `{"const": "AgentGraph"}`},
			{"metadata", "", `{"$ref": "#/$defs/metadata"}`},
			{"spec", "The graph itself: agents, edges and where it begins.", "{}"}},
		rest:  `{"required": ["apiVersion", "kind", "metadata", "spec"]}`,
		meant: words[string]{{"version", "apiVersion"}, {"name", "metadata"}},
	}
	metadataKeys = table{
		keys: []key{
			{"name", "The graph's name.", aText},
			{"version", "A semantic version, such as 1.0.0. 1.0 is a number to YAML.", `{"$ref": "#/$defs/version"}`},
			{"description", "", `{"type": ["string", "null"]}`},
			{"labels", "", aMapping},
			{"annotations", "", aMapping}},
		rest: `{"required": ["name", "version"]}`, open: true,
	}
	specKeys = table{
		keys: []key{
			{"agents", "The nodes of the graph.", `{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/agent"}}`},
			{"edges", "Where the agents' outputs go.", `{"type": ["array", "null"], "items": {"$ref": "#/$defs/edge"}}`},
			{"entrypoint", "The id of the agent that gets the input.", aText},
			{"errorHandling", "", `{"$ref": "#/$defs/errorHandling"}`}},
		rest: `{"required": ["agents", "entrypoint"]}`,
		meant: words[string]{{"nodes", "agents"}, {"steps", "agents"}, {"links", "edges"}, {"connections", "edges"}, {"start", "entrypoint"},
			{"entry", "entrypoint"}, {"startAt", "entrypoint"}, {"onError", "errorHandling"}, {"errors", "errorHandling"}, {"error", "errorHandling"}},
		future: words[feature]{{"loops", loops}, {"loop", loops}, {"maxIterations", loops}, {"subgraphs", subgraph}, {"subgraph", subgraph}, {"graphs", subgraph},
			{"dynamicRouting", dynamic}, {"dynamicEdges", dynamic}, {"routing", dynamic}, {"router", dynamic}, {"state", shared}, {"sharedState", shared}, {"stateManagement", shared},
			{"reducers", shared}, {"memory", shared}, {"observability", tracing}, {"tracing", tracing}, {"metrics", tracing}},
	}
	agentKeys = table{
		keys: []key{
			{"id", "Unique in the graph.", aText},
			{"agentRef", "The name of an agent, or name@version.", aText},
			{"config", "Overrides the agent's own configuration.", aMapping}},
		rest: `{"required": ["id", "agentRef"]}`,
		meant: words[string]{{"name", "id"}, {"ref", "agentRef"}, {"agent", "agentRef"}, {"agent_ref", "agentRef"}, {"uses", "agentRef"},
			{"configuration", "config"}, {"settings", "config"}, {"with", "config"}},
		future: words[feature]{{"loop", loops}, {"loops", loops}, {"repeat", loops}, {"while", loops}, {"until", loops}, {"maxIterations", loops}, {"graph", subgraph}, {"graphRef", subgraph},
			{"subgraph", subgraph}, {"state", shared}, {"update", shared}, {"next", dynamic}, {"retry", retries}, {"retries", retries}, {"maxRetries", retries}, {"timeout", retries},
			{"errorHandling", retries}, {"when", people}, {"ask", people}, {"approval", people},
			{"tool", toolNode}, {"toolsOf", toolNode}},
	}
	edgeKeys = table{
		keys: []key{
			{"from", "The id of the source.", aText},
			{"to", "The id of the target.", aText},
			{"condition", "Whether the edge is taken, such as output.intent == 'billing'.", anExpression},
			{"transform", `What the target gets, such as {"data": output.items}, as a text.`, anExpression}},
		rest: `{"required": ["from", "to"]}`,
		meant: words[string]{{"when", "condition"}, {"if", "condition"}, {"source", "from"}, {"target", "to"}, {"map", "transform"},
			{"mapping", "transform"}, {"expression", "condition"}},
		future: words[feature]{{"loop", loops}, {"while", loops}, {"maxIterations", loops}, {"back", loops}, {"priority", dynamic}, {"dynamic", dynamic}, {"default", dynamic}},
	}
	errorKeys = table{
		keys: []key{
			{"strategy", "", `{"enum": ["fail-fast", "continue", "retry"], "default": "fail-fast"}`},
			{"maxRetries", "", `{"type": "integer", "minimum": 0, "maximum": 2147483647, "default": 3}`},
			{"fallbackAgent", "The id of the agent that is asked after an error.", aText}},
		rest:  aMapping,
		meant: words[string]{{"retries", "maxRetries"}, {"max_retries", "maxRetries"}, {"fallback", "fallbackAgent"}, {"onError", "strategy"}},
	}
)

// The mappings that arbor/v1 has in place of those, or in addition to them.
var (
	arborSpecKeys = specKeys.extended([]key{
		{"agents", "The nodes of the graph.", `{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/arborAgent"}}`},
		{"edges", "Where the agents' outputs go.", `{"type": ["array", "null"], "items": {"$ref": "#/$defs/arborEdge"}}`},
		{"state", "Values that the agents share, by their names.", `{"type": ["object", "null"], "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$"},
			"additionalProperties": {"$ref": "#/$defs/state"}}`}}, "",
		words[string]{{"sharedState", "state"}, {"reducers", "state"}, {"memory", "state"}})
	// The first three stand as in agentKeys.
	arborAgentKeys = agentKeys.extended([]key{
		{"graph", "A graph in the agent's place: its spec, or the name of its file.", `{"oneOf": [{"$ref": "#/$defs/text"}, {"$ref": "#/$defs/arborSpec"}]}`},
		{"loop", "The agent is called again with its own output.", `{"$ref": "#/$defs/loop"}`},
		{"when", "Ask a person before the agent runs.", `{"const": "human"}`},
		{"ask", "What the person is asked.", aText},
		{"next", "The id, or a list of ids, of the targets that edges may be taken to, such as output.route.", anExpression},
		{"update", "Writes to the shared state when the agent has finished: keys and expressions.",
			`{"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/expression"}}`},
		{"timeout", "What one call may take, such as 30s; at most 24h.", aTime},
		{"retry", "Calls after an error, whatever the strategy.", `{"$ref": "#/$defs/retry"}`},
		{"history", "How much of the conversation around the graph the agent sees: full, text_only, own or last_turns:N. Nothing without it.",
			`{"type": "string", "pattern": "^(full|text_only|own|last_turns:[1-9][0-9]*)$"}`},
		{"tool", "The name of a tool, of the agent that agentRef names or of the program, which is called with the node's input.", aText},
		{"toolsOf", "The id of an agent that passes its tool calls on, for this node to run.", aText},
		{"transform", "What the node gives in place of its agent's output, such as output.text.", anExpression},
		{"by", "Who may answer: user, staff, or the names of rights.", `{"anyOf": [{"type": "string", "pattern": "^[a-z0-9_-]+$"},
			{"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[a-z0-9_-]+$"}}]}`}},
		`{"required": ["id"], "dependentRequired": {"config": ["agentRef"], "ask": ["when"], "by": ["when"]},
			"oneOf": [{"anyOf": [{"required": ["agentRef"]}, {"required": ["tool"]}]}, {"required": ["graph"]}, {"required": ["toolsOf"]}]}`,
		words[string]{{"loops", "loop"}, {"repeat", "loop"}, {"while", "loop"}, {"until", "loop"}, {"maxIterations", "loop"}, {"graphRef", "graph"}, {"subgraph", "graph"},
			{"retries", "retry"}, {"maxRetries", "retry"}, {"errorHandling", "retry"}, {"approval", "when"}, {"human", "when"}, {"state", "update"}, {"question", "ask"}, {"approver", "by"},
			{"route", "next"}, {"router", "next"}, {"goto", "next"}, {"view", "history"}, {"conversation", "history"},
			{"function", "tool"}, {"call", "tool"}, {"tools", "toolsOf"}, {"output", "transform"}, {"result", "transform"}})
	arborEdgeKeys = edgeKeys.extended([]key{
		{"priority", "Of the edges of one source with a priority only the first whose condition holds is taken, the largest number first.",
			`{"type": "integer", "minimum": 1, "maximum": 1000000}`}}, "",
		words[string]{{"order", "priority"}, {"weight", "priority"}})
	loopKeys = table{
		keys: []key{
			{"until", "Whether to stop after a call, such as output.score > 0.9.", anExpression},
			{"max", "The largest number of calls.", `{"type": "integer", "minimum": 1, "maximum": 1000}`},
			{"atMax", "Whether the agent fails if until does not hold after the last call.", `{"enum": ["continue", "fail"], "default": "continue"}`}},
		rest: `{"required": ["until", "max"]}`, arbor: true,
		meant: words[string]{{"maxIterations", "max"}, {"limit", "max"}, {"times", "max"}, {"condition", "until"}, {"while", "until"}, {"onLimit", "atMax"}, {"fail", "atMax"}},
	}
	retryKeys = table{
		keys: []key{
			{"max", "How often the agent is called again.", `{"type": "integer", "minimum": 0, "maximum": 2147483647}`},
			{"backoff", "The pause before the first of these calls, such as 1s; it doubles with each one.", aTime}},
		rest: `{"required": ["max"]}`, arbor: true,
		meant: words[string]{{"maxRetries", "max"}, {"attempts", "max"}, {"times", "max"}, {"delay", "backoff"}, {"wait", "backoff"}},
	}
	stateKeys = table{
		keys: []key{
			{"reducer", "How a value that is written joins the one that is there.",
				`{"enum": ["replace", "append", "merge", "sum", "min", "max"], "default": "replace"}`},
			{"initial", "The value at the beginning.", "{}"}},
		rest: `{"type": ["object", "null"], "allOf": [
			{"if": {"required": ["reducer"], "properties": {"reducer": {"enum": ["append"]}}}, "then": {"properties": {"initial": {"type": ["array", "null"]}}}},
			{"if": {"required": ["reducer"], "properties": {"reducer": {"enum": ["merge"]}}}, "then": {"properties": {"initial": {"type": ["object", "null"]}}}},
			{"if": {"required": ["reducer"], "properties": {"reducer": {"enum": ["sum", "min", "max"]}}}, "then": {"properties": {"initial": {"type": ["number", "null"]}}}}]}`,
		arbor: true,
		meant: words[string]{{"default", "initial"}, {"value", "initial"}, {"reduce", "reducer"}, {"merge", "reducer"}},
	}
)

// extended returns the table of arbor/v1, with further keys and some in the place of others.
func (t table) extended(keys []key, rest string, meant words[string]) table {
	all := slices.Clone(t.keys)
	for _, k := range keys {
		if i := t.index(k.name); i >= 0 {
			all[i] = k
		} else {
			all = append(all, k)
		}
	}
	return table{keys: all, rest: cmp.Or(rest, t.rest), meant: slices.Concat(t.meant, meant), future: t.future, arbor: true}
}

func (t *table) index(name string) int {
	return slices.IndexFunc(t.keys, func(k key) bool { return k.name == name })
}

func (t *table) names() []string {
	names := make([]string, len(t.keys))
	for i, k := range t.keys {
		names[i] = k.name
	}
	return names
}

// fields reads a mapping, which may not be one of other keys than the table's; other receives
// those of an open mapping. line is that of problems about keys that are missing. It is false
// if the value is no mapping.
func (r *valueReader) fields(n yamldoc.Node, path string, line int, t *table, other map[string]any) (fields, bool) {
	f := fields{path: path, line: line}
	if n.Kind() != yamldoc.Mapping {
		return f, false
	}
	r.each(n, path, func(name, at string, p yamldoc.Pair) {
		switch {
		case t.index(name) >= 0:
			f.found = append(f.found, r.field(name, at, p))
		case t.foreign:
		case t.open && r.nearest(name, t.names()) == "":
			other[name] = r.any(p.Value, at)
		default:
			r.unknown(t, name, path, p)
		}
	})
	return f, true
}

// each calls read for each key of a mapping, with its path. In free mappings 1 and true are names too.
func (r *valueReader) each(mapping yamldoc.Node, path string, read func(name, at string, p yamldoc.Pair)) {
	seen := make(map[string]bool, mapping.Len())
	for i := range mapping.Len() {
		p := mapping.Pair(i)
		name, ok := p.Key.Name()
		at := join(path, name)
		switch {
		case !ok:
			r.add(CodeYAML, path, p.Key.Line(), "a key must be a word")
		case seen[name]:
			r.add(CodeYAML, at, p.Key.Line(), "the key %s is repeated", yamldoc.Short(leaf(at)))
		default:
			seen[name] = true
			read(name, at, p)
		}
	}
}

// object reads a mapping, and reports any other value.
func (r *valueReader) object(f field, t *table, other map[string]any) (fields, bool) {
	v, ok := r.fields(f.value, f.path, f.key.Line(), t, other)
	if !ok {
		r.add(CodeYAML, f.path, f.line(), "%s must be a mapping, not %s", leaf(f.path), f.value.Describe())
	}
	return v, ok
}

func (r *valueReader) field(name, path string, p yamldoc.Pair) field {
	return field{name: name, path: path, key: p.Key, value: p.Value}
}

func (r *valueReader) unknown(t *table, name, path string, p yamldoc.Pair) {
	line, at := p.Key.Line(), join(path, name)
	future, ok := t.future.find(name)
	hint := ""
	if meant, _ := t.meant.find(name); meant != "" {
		hint = `; did you mean "` + meant + `"?`
	} else if ok {
		switch {
		case !t.arbor && future.key != "":
			hint = "; apiVersion " + APIVersionArbor + " has it: " + future.key
		case t.arbor && future.key != "":
			r.add(CodeUnknownField, at, line, "unknown key %q: %s has %s", name, APIVersionArbor, future.key)
			return
		}
		version := "AgentGraph v0.2.7"
		if t.arbor {
			version += " nor of " + APIVersionArbor
		}
		r.add(CodeUnknownField, at, line, "%q: %s not part of %s%s", name, future.what, version, hint)
		return
	} else if hint = r.didYouMean(name, t.names()); hint == "" {
		hint = "; the keys here are " + strings.Join(t.names(), ", ")
	}
	r.add(CodeUnknownField, at, line, "unknown key %q%s", yamldoc.Short(name), hint)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// leaf returns the last part of a path.
func leaf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
