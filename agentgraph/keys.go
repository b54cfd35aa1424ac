package agentgraph

import (
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// table is the keys that a mapping can have. agentgraph/schema.json says the same
// for editors, and a test compares the two.
type table struct {
	keys []string
	open bool // other keys are kept, unless they look like one of these
	// meant says which key is probably meant by a word that resembles none.
	meant map[string]string
	// future are keys of features that this version of the format does not have.
	future map[string]string
}

const (
	loops    = "loops are"
	subgraph = "graphs within graphs are"
	dynamic  = "edges that are made while the graph runs are"
	shared   = "state that agents share is"
	tracing  = "a key for traces and metrics is"
	retries  = "a policy of an agent's own for errors, times and retries is"
	people   = "waiting for a person is"
)

var (
	documentKeys = table{keys: []string{"apiVersion", "kind", "metadata", "spec"}, meant: map[string]string{"version": "apiVersion", "name": "metadata"}}
	metadataKeys = table{keys: []string{"name", "version", "description", "labels", "annotations"}, open: true}
	specKeys     = table{
		keys: []string{"agents", "edges", "entrypoint", "errorHandling"},
		meant: map[string]string{"nodes": "agents", "steps": "agents", "links": "edges", "connections": "edges", "start": "entrypoint",
			"entry": "entrypoint", "startAt": "entrypoint", "onError": "errorHandling", "errors": "errorHandling", "error": "errorHandling"},
		future: map[string]string{"loops": loops, "loop": loops, "maxIterations": loops, "subgraphs": subgraph, "subgraph": subgraph, "graphs": subgraph,
			"dynamicRouting": dynamic, "dynamicEdges": dynamic, "routing": dynamic, "router": dynamic, "state": shared, "sharedState": shared, "stateManagement": shared,
			"reducers": shared, "memory": shared, "observability": tracing, "tracing": tracing, "metrics": tracing},
	}
	agentKeys = table{
		keys: []string{"id", "agentRef", "config"},
		meant: map[string]string{"name": "id", "ref": "agentRef", "agent": "agentRef", "agent_ref": "agentRef", "uses": "agentRef",
			"configuration": "config", "settings": "config", "with": "config"},
		future: map[string]string{"loop": loops, "loops": loops, "repeat": loops, "while": loops, "until": loops, "maxIterations": loops, "graph": subgraph, "graphRef": subgraph,
			"subgraph": subgraph, "state": shared, "retry": retries, "retries": retries, "maxRetries": retries, "timeout": retries, "errorHandling": retries,
			"when": people, "approval": people},
	}
	edgeKeys = table{
		keys: []string{"from", "to", "condition", "transform"},
		meant: map[string]string{"when": "condition", "if": "condition", "source": "from", "target": "to", "map": "transform",
			"mapping": "transform", "expression": "condition"},
		future: map[string]string{"loop": loops, "while": loops, "maxIterations": loops, "back": loops, "priority": dynamic, "dynamic": dynamic, "default": dynamic},
	}
	errorKeys = table{
		keys:  []string{"strategy", "maxRetries", "fallbackAgent"},
		meant: map[string]string{"retries": "maxRetries", "max_retries": "maxRetries", "fallback": "fallbackAgent", "onError": "strategy"},
	}
)

// fields reads a mapping. The result is in the order of the table's keys; other
// receives those of an open mapping. ok is false if it is no mapping.
func (r *reader) fields(n ast.Node, path string, t *table, found []field, other map[string]any) bool {
	n = r.resolve(n)
	pairs, ok := pairsOf(n)
	if !ok {
		return false
	}
	var unknown map[string]bool
	for _, p := range pairs {
		name, ok := r.keyName(p, path)
		if !ok {
			continue
		}
		i := slices.Index(t.keys, name)
		if i >= 0 {
			if found[i].there() {
				r.repeated(join(path, name), p)
				continue
			}
			found[i] = field{p, r.resolve(p.Value)}
			continue
		}
		if unknown[name] {
			r.repeated(join(path, name), p)
			continue
		}
		if unknown == nil {
			unknown = map[string]bool{}
		}
		unknown[name] = true
		if t.open && r.nearest(name, t.keys) == "" {
			other[name] = r.any(p.Value, join(path, name), 0)
			continue
		}
		r.unknown(t, name, path, p)
	}
	return true
}

func (r *reader) unknown(t *table, name, path string, p *ast.MappingValueNode) {
	line, at := tokenLine(p.Key.GetToken()), join(path, name)
	if feature, ok := t.future[name]; ok {
		r.add(CodeUnknownField, at, line, "%q: %s not part of AgentGraph v0.2.7", name, feature)
		return
	}
	hint := ""
	if meant, ok := t.meant[name]; ok {
		hint = `; did you mean "` + meant + `"?`
	} else if hint = r.didYouMean(name, t.keys); hint == "" {
		hint = "; the keys here are " + strings.Join(t.keys, ", ")
	}
	r.add(CodeUnknownField, at, line, "unknown key %q%s", short(name), hint)
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
