package agentgraph

import (
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// table is the keys that a mapping can have. agentgraph/schema.json says the same
// for editors, and a test compares the two.
type table struct {
	keys []string
	open bool // other keys are kept, unless they look like one of these
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

var (
	documentKeys = table{keys: []string{"apiVersion", "kind", "metadata", "spec"}, meant: words[string]{{"version", "apiVersion"}, {"name", "metadata"}}}
	metadataKeys = table{keys: []string{"name", "version", "description", "labels", "annotations"}, open: true}
	specKeys     = table{
		keys: []string{"agents", "edges", "entrypoint", "errorHandling"},
		meant: words[string]{{"nodes", "agents"}, {"steps", "agents"}, {"links", "edges"}, {"connections", "edges"}, {"start", "entrypoint"},
			{"entry", "entrypoint"}, {"startAt", "entrypoint"}, {"onError", "errorHandling"}, {"errors", "errorHandling"}, {"error", "errorHandling"}},
		future: words[feature]{{"loops", loops}, {"loop", loops}, {"maxIterations", loops}, {"subgraphs", subgraph}, {"subgraph", subgraph}, {"graphs", subgraph},
			{"dynamicRouting", dynamic}, {"dynamicEdges", dynamic}, {"routing", dynamic}, {"router", dynamic}, {"state", shared}, {"sharedState", shared}, {"stateManagement", shared},
			{"reducers", shared}, {"memory", shared}, {"observability", tracing}, {"tracing", tracing}, {"metrics", tracing}},
	}
	agentKeys = table{
		keys: []string{"id", "agentRef", "config"},
		meant: words[string]{{"name", "id"}, {"ref", "agentRef"}, {"agent", "agentRef"}, {"agent_ref", "agentRef"}, {"uses", "agentRef"},
			{"configuration", "config"}, {"settings", "config"}, {"with", "config"}},
		future: words[feature]{{"loop", loops}, {"loops", loops}, {"repeat", loops}, {"while", loops}, {"until", loops}, {"maxIterations", loops}, {"graph", subgraph}, {"graphRef", subgraph},
			{"subgraph", subgraph}, {"state", shared}, {"update", shared}, {"next", dynamic}, {"retry", retries}, {"retries", retries}, {"maxRetries", retries}, {"timeout", retries},
			{"errorHandling", retries}, {"when", people}, {"ask", people}, {"approval", people},
			{"tool", toolNode}, {"toolsOf", toolNode}},
	}
	edgeKeys = table{
		keys: []string{"from", "to", "condition", "transform"},
		meant: words[string]{{"when", "condition"}, {"if", "condition"}, {"source", "from"}, {"target", "to"}, {"map", "transform"},
			{"mapping", "transform"}, {"expression", "condition"}},
		future: words[feature]{{"loop", loops}, {"while", loops}, {"maxIterations", loops}, {"back", loops}, {"priority", dynamic}, {"dynamic", dynamic}, {"default", dynamic}},
	}
	errorKeys = table{
		keys:  []string{"strategy", "maxRetries", "fallbackAgent"},
		meant: words[string]{{"retries", "maxRetries"}, {"max_retries", "maxRetries"}, {"fallback", "fallbackAgent"}, {"onError", "strategy"}},
	}
)

// The mappings that arbor/v1 has in place of those, or besides them.
var (
	arborSpecKeys = specKeys.extended([]string{"state"}, words[string]{{"sharedState", "state"}, {"reducers", "state"}, {"memory", "state"}})
	// The first three stand as in agentKeys.
	arborAgentKeys = agentKeys.extended([]string{"graph", "loop", "when", "ask", "next", "update", "timeout", "retry", "history", "tool", "toolsOf", "transform", "by"},
		words[string]{{"loops", "loop"}, {"repeat", "loop"}, {"while", "loop"}, {"until", "loop"}, {"maxIterations", "loop"}, {"graphRef", "graph"}, {"subgraph", "graph"},
			{"retries", "retry"}, {"maxRetries", "retry"}, {"errorHandling", "retry"}, {"approval", "when"}, {"human", "when"}, {"state", "update"}, {"question", "ask"}, {"approver", "by"},
			{"route", "next"}, {"router", "next"}, {"goto", "next"}, {"view", "history"}, {"conversation", "history"},
			{"function", "tool"}, {"call", "tool"}, {"tools", "toolsOf"}, {"output", "transform"}, {"result", "transform"}})
	arborEdgeKeys = edgeKeys.extended([]string{"priority"}, words[string]{{"order", "priority"}, {"weight", "priority"}})
	loopKeys      = table{keys: []string{"until", "max", "atMax"}, arbor: true,
		meant: words[string]{{"maxIterations", "max"}, {"limit", "max"}, {"times", "max"}, {"condition", "until"}, {"while", "until"}, {"onLimit", "atMax"}, {"fail", "atMax"}}}
	retryKeys = table{keys: []string{"max", "backoff"}, arbor: true,
		meant: words[string]{{"maxRetries", "max"}, {"attempts", "max"}, {"times", "max"}, {"delay", "backoff"}, {"wait", "backoff"}}}
	stateKeys = table{keys: []string{"reducer", "initial"}, arbor: true,
		meant: words[string]{{"default", "initial"}, {"value", "initial"}, {"reduce", "reducer"}, {"merge", "reducer"}}}
)

// extended returns the table of arbor/v1.
func (t table) extended(keys []string, meant words[string]) table {
	return table{keys: slices.Concat(t.keys, keys), meant: slices.Concat(t.meant, meant), future: t.future, arbor: true}
}

// fields reads a mapping. The result is in the order of the table's keys; other
// receives those of an open mapping. ok is false if it is no mapping.
func (r *valueReader) fields(n yamldoc.Node, path string, t *table, found []field, other map[string]any) bool {
	n = r.resolve(n)
	if n.Kind() != yamldoc.Mapping {
		return false
	}
	r.each(n, path, func(name, at string, p yamldoc.Pair) {
		switch i := slices.Index(t.keys, name); {
		case i >= 0:
			found[i] = r.field(p)
		case t.foreign:
		case t.open && r.nearest(name, t.keys) == "":
			other[name] = r.any(p.Value, at, 0)
		default:
			r.unknown(t, name, path, p)
		}
	})
	return true
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

// object reads a mapping, and reports what is none.
func (r *valueReader) object(f field, path string, t *table, found []field, other map[string]any) bool {
	if r.fields(f.value, path, t, found, other) {
		return true
	}
	r.add(CodeYAML, path, f.line(), "%s must be a mapping, not %s", leaf(path), f.value.Describe())
	return false
}

func (r *valueReader) field(p yamldoc.Pair) field {
	return field{p.Key, r.resolve(p.Value), p.Value, true}
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
	} else if hint = r.didYouMean(name, t.keys); hint == "" {
		hint = "; the keys here are " + strings.Join(t.keys, ", ")
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
