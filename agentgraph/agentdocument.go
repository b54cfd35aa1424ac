package agentgraph

import "github.com/agentarbor/arbor/internal/yamldoc"

// ref is the most exact reference to the agent.
func (a AgentDocument) ref() string {
	if a.Version == "" {
		return a.Name
	}
	return a.Name + "@" + a.Version
}

// agentDocument reads a document of kind Agent. Its format has many more keys than
// a graph needs, so that unknown ones are not reported.
func (r *reader) agentDocument(n yamldoc.Node) {
	get := func(n yamldoc.Node, path string, line int, names ...string) fields {
		keys := make([]key, len(names))
		for i, name := range names {
			keys[i].name = name
		}
		v, ok := r.fields(n, path, line, &table{keys: keys, foreign: true}, nil)
		if !ok && !isNull(n) {
			r.add(CodeYAML, path, n.Line(), "%s must be a mapping, not %s", leaf(path), n.Describe())
		}
		return v
	}
	below := func(f field, names ...string) fields { return get(f.value, f.path, f.line(), names...) }
	a := AgentDocument{Line: n.Line()}
	top := get(n, "", a.Line, "apiVersion", "metadata", "spec")
	version := top.get("apiVersion")
	if v, ok := r.required(version, CodeWrongAPIVersion); ok && v != APIVersionArbor && !apiVersion.MatchString(v) {
		r.add(CodeWrongAPIVersion, "apiVersion", version.line(), "apiVersion must be such as %s, not %q", APIVersion, yamldoc.Short(v))
	}
	if f := top.get("metadata"); f.empty() {
		r.add(CodeMissingField, "metadata", a.Line, "metadata is missing: it holds the agent's name")
	} else {
		meta := below(f, "name", "version", "description")
		a.Name, _ = r.required(meta.get("name"), CodeYAML)
		if version := meta.get("version"); !version.empty() {
			a.Version = r.version(version)
		}
		a.Description = r.free(meta.get("description"))
	}
	spec := top.get("spec")
	keys := below(spec, "role", "instructions", "llm")
	a.Instructions = r.free(keys.get("instructions"))
	if role := r.free(keys.get("role")); a.Instructions == "" {
		a.Instructions = role
	}
	model := below(keys.get("llm"), "model")
	a.Model = r.free(model.get("model"))
	if spec.value.Kind() == yamldoc.Mapping {
		a.Spec = r.mapping(spec)
	}
	r.agent(a)
}
