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
	get := func(n yamldoc.Node, path string, names ...string) []field {
		found, keys := make([]field, len(names)), make([]key, len(names))
		for i, name := range names {
			keys[i].name = name
		}
		if !isNull(n) && !r.fields(n, path, &table{keys: keys, foreign: true}, found, nil) {
			r.add(CodeYAML, path, n.Line(), "%s must be a mapping, not %s", leaf(path), r.resolve(n).Describe())
		}
		return found
	}
	a := AgentDocument{Line: n.Line()}
	top := get(n, "", "apiVersion", "metadata", "spec")
	if v, ok := r.required(top[0], "apiVersion", a.Line, CodeWrongAPIVersion); ok && v != APIVersionArbor && !apiVersion.MatchString(v) {
		r.add(CodeWrongAPIVersion, "apiVersion", top[0].line(), "apiVersion must be such as %s, not %q", APIVersion, yamldoc.Short(v))
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
		if top[2].value.Kind() == yamldoc.Mapping {
			a.Spec = r.mapping(top[2], "spec")
		}
	}
	r.agent(a)
}
