package agentgraph

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

// ResolveDocuments returns a resolver that makes LLM agents from documents of kind Agent. It resolves the [ToolRef] of
// each tool in t to a tool node. The reference name@version resolves to the document with that version, or else to one
// without a version. A name alone resolves to the document without a version, or else to the highest version.
//
// Each call makes a new agent. Its instructions are spec.instructions or spec.role. Its tools are the tools of t that
// spec.tools names. Its model and settings come from spec.llm, overridden by spec.config, and both by the node's
// configuration; [LLMConfig.Read] describes the keys. model returns the model with a name, and the default model for
// "". If a document cannot make an agent, the error is a [*DocumentError]. If a node's configuration is invalid, it is
// a [*ConfigError].
func ResolveDocuments(documents []AgentDocument, model func(name string) (llm.Model, error), t ...tools.Tool) Resolver {
	all := make([]refVersion, len(documents))
	for i, d := range documents {
		all[i] = refVersion{d.Name, d.Version}
	}
	return func(ref string, config map[string]any) (agent.Agent, error) {
		if isTool(ref) {
			return ResolveTools(t...)(ref, config)
		}
		i := pick(all, ref)
		if i < 0 {
			return nil, fmt.Errorf("%w %q: the file holds no such document", ErrUnknownRef, ref)
		}
		return documents[i].agent(config, model, t)
	}
}

// DocumentError reports why a document of kind Agent cannot make an agent.
type DocumentError struct {
	File  string // the file, or "" if it is not known
	Line  int    // the line where the document begins
	Agent string // name, or name@version
	Err   error
}

// Error returns the place, the agent and the cause.
func (e *DocumentError) Error() string {
	place := fmt.Sprintf("line %d", e.Line)
	if e.File != "" {
		place = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return fmt.Sprintf("%s: the agent %q: %v", place, e.Agent, e.Err)
}

// Unwrap returns the cause.
func (e *DocumentError) Unwrap() error { return e.Err }

// agent makes the document's agent for a node with this configuration.
func (a AgentDocument) agent(config map[string]any, model func(name string) (llm.Model, error), t []tools.Tool) (agent.Agent, error) {
	bad := func(err error) error { return &DocumentError{Line: a.Line, Agent: a.ref(), Err: err} }
	own, err := a.own()
	if err != nil {
		return nil, bad(err)
	}
	before, err := LLMConfig{}.Read(own...)
	if err != nil {
		return nil, bad(ofSpec(err))
	}
	c, err := LLMConfig{}.Read(append(own, config)...)
	if err != nil {
		return nil, err
	}
	if f := c.Settings.ResponseFormat; f != nil {
		f.Name = a.Name
	}
	mine, err := a.tools(t)
	if err != nil {
		return nil, bad(err)
	}
	if wrong := toolChoice(c.Settings.ToolChoice, mine); wrong != "" {
		err := &ConfigError{"toolChoice", wrong}
		if before.Settings.ToolChoice == c.Settings.ToolChoice {
			return nil, bad(ofSpec(err))
		}
		return nil, err
	}
	if model == nil {
		return nil, bad(errors.New("there is nothing to ask for models: give ResolveDocuments a function"))
	}
	m, err := model(c.Model)
	if err == nil && m == nil {
		err = errors.New("there is no such model")
	}
	if err != nil {
		if c.Model == "" {
			return nil, bad(fmt.Errorf("it names no model, and the default model cannot be used: %w", err))
		}
		cannot := fmt.Errorf("%q cannot be used: %w", c.Model, err)
		if before.Model != c.Model {
			return nil, &ConfigError{"model", cannot.Error()}
		}
		return nil, bad(fmt.Errorf("the model %w", cannot))
	}
	made, err := llmagent.New(a.Name, c.Prompt(a.Instructions), m,
		llmagent.WithDescription(a.Description), llmagent.WithTools(mine...), llmagent.WithSettings(c.Settings))
	if err != nil {
		return nil, bad(errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("agent %q: ", a.Name))))
	}
	return made, nil
}

// own returns the layers of the document's own configuration. It drops the keys of spec.llm that an LLM agent does not
// understand, because providers have their own keys.
func (a AgentDocument) own() ([]map[string]any, error) {
	var layers []map[string]any
	if below, ok := a.Spec["llm"].(map[string]any); ok {
		settings := new(LLMConfig).settings(new(string), nil)
		layer := maps.Clone(below)
		maps.DeleteFunc(layer, func(key string, _ any) bool { return !understood(settings, camelKey(key)) })
		layers = append(layers, layer)
	}
	if v, there := a.Spec["config"]; there && v != nil {
		config, ok := v.(map[string]any)
		if !ok {
			return nil, errors.New("spec.config must be a mapping, not " + showSetting(v))
		}
		layers = append(layers, config)
	}
	return layers, nil
}

// ofSpec turns the error of a node's configuration into one about the document's spec.
func ofSpec(err error) error {
	var bad *ConfigError
	if errors.As(err, &bad) {
		return fmt.Errorf("spec: %s %s", bad.Key, bad.Message)
	}
	return err
}

// tools returns the tools that spec.tools names.
func (a AgentDocument) tools(all []tools.Tool) (mine []tools.Tool, err error) {
	v := a.Spec["tools"]
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, errors.New("spec.tools must be a list of names, not " + showSetting(v))
	}
	for _, item := range list {
		name, ok := item.(string)
		if m, isMap := item.(map[string]any); isMap {
			name, ok = m["name"].(string)
		}
		if !ok {
			return nil, errors.New("spec.tools must be a list of names, but one of them is " + showSetting(item))
		}
		found := false
		for _, t := range all {
			if t.Info().Name == name {
				mine, found = append(mine, t), true
			}
		}
		if !found {
			return nil, fmt.Errorf("spec.tools names %q, and the program has no such tool", visible.Cut(name, 60))
		}
	}
	return mine, nil
}

// toolChoice returns what is wrong with a tool choice among these tools, or "".
func toolChoice(choice llm.ToolChoice, among []tools.Tool) string {
	switch choice {
	case "", llm.ToolChoiceAuto, llm.ToolChoiceNone, llm.ToolChoiceRequired:
		return ""
	}
	if slices.ContainsFunc(among, func(t tools.Tool) bool { return t.Info().Name == string(choice) }) {
		return ""
	}
	return fmt.Sprintf("%q is neither auto, none nor required, nor a tool of this agent", choice)
}

// refVersion is the name and version that a reference is matched against.
type refVersion struct{ name, version string }

// pick returns the index of the agent that a reference resolves to, or -1. An exact match of name and version comes
// first. A name without a version resolves to the highest version, and to the first of equal ones. If the version does
// not exist, an agent without a version matches.
func pick(all []refVersion, ref string) int {
	best := -1
	for i, a := range all {
		switch {
		case a.version == "" && a.name == ref, a.version != "" && a.name+"@"+a.version == ref:
			return i
		case a.name == ref && (best < 0 || semver.Compare("v"+a.version, "v"+all[best].version) > 0):
			best = i
		}
	}
	if at := strings.LastIndexByte(ref, '@'); best < 0 && at > 0 {
		for i, a := range all {
			if a.version == "" && a.name == ref[:at] {
				return i
			}
		}
	}
	return best
}

// ref returns the most specific reference to the agent.
func (a AgentDocument) ref() string {
	if a.Version == "" {
		return a.Name
	}
	return a.Name + "@" + a.Version
}

// agentDocument reads a document of kind Agent. It does not report unknown keys, because that format has many more keys
// than a graph needs.
func (r *reader) agentDocument(n yamldoc.Node) {
	a, role, foreign := AgentDocument{Line: n.Line()}, "", &table{foreign: true}
	below := func(name string, keys ...yamldoc.Key) yamldoc.Key {
		return yamldoc.Custom(name, "a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) {
			if n.Kind() != yamldoc.Nothing && r.object(k, n, foreign, keys...) && name == "spec" {
				a.Spec, _ = r.Any(n).(map[string]any)
			}
		})
	}
	r.mapping(&table{foreign: true, needs: []string{"apiVersion", "metadata"}}, []yamldoc.Key{
		yamldoc.Custom("apiVersion", "a text", APIVersion, func(k *yamldoc.Key, n yamldoc.Node) {
			if v, ok := r.String(k, n); ok && v != APIVersionArbor && !apiVersion.MatchString(v) {
				r.Add(n, "apiVersion must be such as %s, not %q", APIVersion, visible.Cut(v, 60))
			}
		}),
		yamldoc.Custom("metadata", "a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) {
			r.object(k, n, &table{foreign: true, needs: []string{"name"}},
				yamldoc.String("name", "", &a.Name), r.version(&a.Version, true), yamldoc.OptionalString("description", &a.Description))
		}),
		below("spec", yamldoc.OptionalString("role", &role), yamldoc.OptionalString("instructions", &a.Instructions), below("llm", yamldoc.OptionalString("model", &a.Model)))},
		"", n, a.Line)
	a.Instructions = cmp.Or(a.Instructions, role)
	r.agent(a)
}
