package agentgraph

import "github.com/goccy/go-yaml/ast"

// ref is the most exact reference to the agent.
func (a AgentDocument) ref() string {
	if a.Version == "" {
		return a.Name
	}
	return a.Name + "@" + a.Version
}

// agentDocument reads a document of kind Agent. Its format has many more keys than
// a graph needs, so that unknown ones are not reported.
func (r *reader) agentDocument(n ast.Node) {
	get := func(n ast.Node, path string, names ...string) []field {
		found := make([]field, len(names))
		t := table{keys: names}
		pairs, ok := pairsOf(r.resolve(n))
		if !ok && !isNull(n) {
			r.add(CodeYAML, path, lineOf(n), "%s must be a mapping, not %s", leaf(path), describe(r.resolve(n)))
		}
		for _, p := range pairs {
			for i, name := range t.keys {
				if k, isText := p.Key.(*ast.StringNode); isText && k.Value == name {
					if found[i].there() {
						r.repeated(join(path, name), p)
						continue
					}
					found[i] = field{p, r.resolve(p.Value)}
				}
			}
		}
		return found
	}
	a := AgentDocument{Line: lineOf(n)}
	top := get(n, "", "apiVersion", "metadata", "spec")
	if v, ok := r.required(top[0], "apiVersion", a.Line, CodeWrongAPIVersion); ok && v != APIVersionArbor && !apiVersion.MatchString(v) {
		r.add(CodeWrongAPIVersion, "apiVersion", top[0].line(), "apiVersion must be such as %s, not %q", APIVersion, short(v))
	}
	if !top[1].there() || isNull(top[1].value) {
		r.add(CodeMissingField, "metadata", a.Line, "metadata is missing: it holds the agent's name")
	} else {
		meta := get(top[1].value, "metadata", "name", "version", "description")
		a.Name, _ = r.required(meta[0], "metadata.name", top[1].line(), CodeYAML)
		if meta[1].there() && !isNull(meta[1].value) {
			a.Version = r.version(meta[1], a.Line)
		}
		a.Description = r.free(meta[2], "metadata.description")
	}
	if top[2].there() && !isNull(top[2].value) {
		spec := get(top[2].value, "spec", "role", "instructions", "llm")
		a.Instructions = r.free(spec[1], "spec.instructions")
		if role := r.free(spec[0], "spec.role"); a.Instructions == "" {
			a.Instructions = role
		}
		if spec[2].there() && !isNull(spec[2].value) {
			a.Model = r.free(get(spec[2].value, "spec.llm", "model")[0], "spec.llm.model")
		}
		if _, ok := pairsOf(top[2].value); ok {
			a.Spec = r.mapping(top[2], "spec")
		}
	}
	r.agent(a)
}
