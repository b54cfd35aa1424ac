package agentgraph

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
	jsonschema "github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
)

// LLMConfig is the configuration of an LLM agent. The zero value sets nothing.
type LLMConfig struct {
	Model        string // the model's name, or "" if not set
	Instructions string // replace the agent's own, or "" if not set
	// Settings contains the model settings. A response format has no name; the agent sets it.
	Settings llm.Settings
	// Other contains the keys that are not settings of a model. They are for the agent itself; [LLMConfig.Prompt] adds
	// them to the prompt.
	Other map[string]any
}

// ConfigError reports an invalid value in a configuration.
type ConfigError struct {
	Key     string // such as temperature, or llm.temperature if it is below llm
	Message string // what the value must be, and what it is
}

// Error returns the key and the message.
func (e *ConfigError) Error() string { return "config." + e.Key + " " + e.Message }

// Read applies configurations to this one, in order, and merges mappings like [MergeConfig]. It understands model;
// instructions, or else role; and the settings temperature, topP, maxTokens, stop, toolChoice, parallelToolCalls, seed,
// reasoningEffort, thinking, reasoningEcho, endpoint, timeouts, leakedCalls and responseFormat, which is a JSON schema.
// Their names may also be written with underscores, and they may be in a mapping llm. null resets a value, and an empty
// list resets a list. The error is a [*ConfigError] with the first problem; its message contains the others too.
func (c LLMConfig) Read(layers ...map[string]any) (LLMConfig, error) {
	var wrong *ConfigError
	report := func(key, message string) {
		if wrong == nil {
			wrong = &ConfigError{key, message}
		} else {
			wrong.Message += "; " + key + " " + message
		}
	}
	role, d := "", &yamldoc.Decoder{}
	d.Report = func(_, _ int, message string) {
		name, _, _ := strings.Cut(d.Name, ".")
		key, text, _ := strings.Cut(message, " ")
		if !strings.HasPrefix(key, name) {
			key, text = name, "has an "+message
		}
		report(key, text)
	}
	known := c.settings(&role, d)
	keys := make([]yamldoc.Key, len(known))
	for i, s := range known {
		keys[i] = s.key
	}
	for _, layer := range layers {
		given, other, err := canonicalConfig(layer, known)
		if err != nil {
			return LLMConfig{}, err
		}
		values := map[string]json.RawMessage{}
		for _, s := range known {
			v, present := given[s.key.Name]
			if _, merged := v.(map[string]any); present && !merged {
				s.clear()
			}
			value, err := event.Marshal(v)
			switch {
			case err != nil:
				report(s.key.Name, "has no JSON form: "+err.Error())
			case string(value) == "null", string(value) == "[]" && strings.HasSuffix(s.key.Type, "a list of texts"):
			default:
				values[s.key.Name] = value
			}
		}
		file, problems := yamldoc.Parse(string(configJSON(values)), yamldoc.Rules{}) // JSON is YAML
		if file == nil {
			return LLMConfig{}, &ConfigError{"llm", "cannot be read: " + problems[0].Message}
		}
		d.Mapping(keys, "", file.Documents[0])
		if len(other) > 0 {
			c.Other = MergeConfig(c.Other, other)
		}
	}
	if wrong != nil {
		return LLMConfig{}, wrong
	}
	c.Instructions = cmp.Or(c.Instructions, role)
	return c, nil
}

// setting is a key that an LLM agent understands.
type setting struct {
	key   yamldoc.Key
	clear func()
}

func to[T any](field *T, key yamldoc.Key) setting {
	return setting{key, func() { *field = *new(T) }}
}

// settings returns the keys that an LLM agent understands. d reads their values.
func (c *LLMConfig) settings(role *string, d *yamldoc.Decoder) []setting {
	s := &c.Settings
	endpoint := func(name string, n yamldoc.Node) {
		if !slices.Contains(openai.Endpoints(), name) {
			d.Add(n, "endpoint names no endpoint: %q%s", name, nearest.Hint(name, openai.Endpoints()))
		}
	}
	return []setting{
		to(&c.Model, yamldoc.String("model", "", &c.Model)),
		to(&c.Instructions, yamldoc.String("instructions", "", &c.Instructions)),
		to(role, yamldoc.String("role", "", role)),
		to(&s.Temperature, yamldoc.Float("temperature", "", 0, 2, &s.Temperature)),
		to(&s.TopP, yamldoc.Float("topP", "", 0, 1, &s.TopP)),
		to(&s.MaxTokens, yamldoc.Int("maxTokens", "", &s.MaxTokens)),
		to(&s.Stop, yamldoc.Words("stop", &s.Stop)),
		to(&s.ToolChoice, yamldoc.String("toolChoice", "", &s.ToolChoice)),
		to(&s.ParallelToolCalls, yamldoc.Switch("parallelToolCalls", func(b bool) { s.ParallelToolCalls = &b })),
		to(&s.LeakedCalls, yamldoc.OneOf("leakedCalls", "off", func(v string) { s.LeakedCalls = llm.LeakedCalls(v) }, "auto", "any", "off")),
		to(&s.Seed, yamldoc.AnyWhole("seed", "", func(v int64) { s.Seed = &v })),
		to(&s.ReasoningEffort, yamldoc.String("reasoningEffort", "", &s.ReasoningEffort)),
		to(&s.Thinking, yamldoc.Switch("thinking", func(b bool) { s.Thinking = &b })),
		to(&s.Echo, yamldoc.OneOf("reasoningEcho", "on", func(v string) { s.Echo = llm.Echo(v) }, "auto", "on", "off")),
		to(&s.Endpoint, yamldoc.Words("endpoint", &s.Endpoint, endpoint)),
		to(&s.Timeouts, yamldoc.Object("timeouts", "{first: 20m, silence: 2m, answer: 30m}",
			yamldoc.Duration("first", "20m", &s.Timeouts.First),
			yamldoc.Duration("silence", "2m", &s.Timeouts.Silence),
			yamldoc.Duration("answer", "30m", &s.Timeouts.Answer))),
		to(&s.ResponseFormat, yamldoc.Custom("responseFormat", "a JSON schema, which is a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) {
			if n.Kind() != yamldoc.Mapping {
				d.WrongType(k, n)
				return
			}
			s.ResponseFormat = readFormat(d, s.ResponseFormat, n)
		})),
	}
}

// canonicalConfig splits a configuration into its settings, under their names without underscores and without llm, and
// its other keys.
func canonicalConfig(layer map[string]any, known []setting) (given, other map[string]any, err error) {
	given, other = map[string]any{}, maps.Clone(layer)
	from := map[string]string{}
	take := func(prefix string, m map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			name := camelKey(key)
			switch {
			case !understood(known, name):
				continue
			case from[name] != "" && err == nil:
				err = &ConfigError{prefix + key, "is given a second time: " + from[name] + " is the same"}
			}
			given[name], from[name] = m[key], prefix+key
			delete(m, key)
		}
	}
	take("", other)
	if v := other["llm"]; v != nil {
		below, ok := v.(map[string]any)
		if !ok {
			return nil, nil, &ConfigError{"llm", "must be a mapping such as {model: gpt-4o-mini}, not " + showSetting(v)}
		}
		below = maps.Clone(below)
		take("llm.", below)
		if other["llm"] = below; len(below) == 0 {
			delete(other, "llm")
		}
	}
	return given, other, err
}

func understood(known []setting, name string) bool {
	return slices.ContainsFunc(known, func(s setting) bool { return s.key.Name == name })
}

// camelKey turns max_tokens into maxTokens.
func camelKey(key string) string {
	if !strings.Contains(key, "_") {
		return key
	}
	words := strings.Split(key, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// Prompt returns the system prompt of an agent with the instructions own. The configuration's instructions replace
// them. The last line contains the Other keys as JSON.
func (c LLMConfig) Prompt(own string) string {
	if c.Instructions != "" {
		own = c.Instructions
	}
	if len(c.Other) == 0 {
		return own
	}
	line := "Configuration: " + string(configJSON(c.Other))
	if strings.TrimSpace(own) == "" {
		return line
	}
	return strings.TrimRight(own, "\n") + "\n\n" + line
}

// configJSON returns a value as JSON, or as a quoted string if it has no JSON form, such as a function.
func configJSON(v any) []byte {
	text, err := event.Marshal(v)
	if err != nil {
		return fmt.Appendf(nil, "%q", fmt.Sprint(v))
	}
	return text
}

// showSetting describes a value for a message.
func showSetting(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("the text %q", visible.Cut(v, 60))
	}
	return fmt.Sprintf("%v", v)
}

func readFormat(d *yamldoc.Decoder, before *llm.ResponseFormat, n yamldoc.Node) *llm.ResponseFormat {
	var own map[string]any
	if before != nil {
		_ = json.Unmarshal(before.Schema, &own) // already checked
	}
	over, _ := d.Any(n).(map[string]any)
	raw := json.RawMessage(configJSON(MergeConfig(own, over)))
	if err := jsonschema.Check(raw); err != nil {
		d.Add(n, "responseFormat must be a JSON schema: %v", err)
	}
	return &llm.ResponseFormat{Schema: raw}
}

// MergeConfig merges the configuration over into own. Mappings are merged key by key at any depth; any other value of
// over, including a list, replaces the value of own. The result shares no mapping or list with own or over. It is nil
// if both are nil.
func MergeConfig(own, over map[string]any) map[string]any {
	if own == nil && over == nil {
		return nil
	}
	merged := make(map[string]any, len(own)+len(over))
	for key, v := range own {
		merged[key] = copyConfig(v)
	}
	for key, v := range over {
		below, isMap := v.(map[string]any)
		mine, both := merged[key].(map[string]any)
		if isMap && both {
			merged[key] = MergeConfig(mine, below)
		} else {
			merged[key] = copyConfig(v)
		}
	}
	return merged
}

// copyConfig returns a deep copy of a JSON value.
func copyConfig(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[key] = copyConfig(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = copyConfig(inner)
		}
		return out
	}
	return v
}
