package agentgraph

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
	jsonschema "github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
)

// LLMConfig is a configuration as an LLM agent understands it. Its zero value sets
// nothing.
type LLMConfig struct {
	Model        string // a name; "" if the configuration does not say
	Instructions string // in place of the agent's own; "" if the configuration does not say
	// Settings are the model settings that the configuration names. A response format
	// has no name: that is for the agent to give.
	Settings llm.Settings
	// Other are the keys that mean nothing to a model's endpoint. They are for the
	// agent itself, and [LLMConfig.Prompt] tells the model about them.
	Other map[string]any
}

// ConfigError is a configuration with a value that cannot be used.
type ConfigError struct {
	Key     string // such as temperature, or llm.temperature if it is written below llm
	Message string // what the value must be, and what it is
}

// Error returns the key and the message.
func (e *ConfigError) Error() string { return "config." + e.Key + " " + e.Message }

// Read lays configurations over this one, in their order: mappings are merged as [MergeConfig] does it.
// It understands model; instructions, or else role; and the
// settings temperature, topP, maxTokens, stop, toolChoice, parallelToolCalls, seed, reasoningEffort, thinking,
// reasoningEcho, endpoint, timeouts, leakedCalls and responseFormat, which is a JSON schema. Their names may be written with underscores as well,
// and they may be in a mapping llm. null takes a value back. The error is a [*ConfigError].
func (c LLMConfig) Read(layers ...map[string]any) (LLMConfig, error) {
	role := ""
	for _, layer := range layers {
		named, err := canonicalConfig(layer)
		if err != nil {
			return LLMConfig{}, err
		}
		other := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(named)) {
			v, wrong := named[key], ""
			switch read, understood := configKeys[key]; {
			case key == "role":
				wrong = readText(&role, v)
			case understood:
				wrong = read(&c, v)
			default:
				other[key] = v
			}
			if wrong != "" {
				return LLMConfig{}, &ConfigError{key, wrong}
			}
		}
		if len(other) > 0 {
			c.Other = MergeConfig(c.Other, other)
		}
	}
	c.Instructions = cmp.Or(c.Instructions, role)
	return c, nil
}

// configKeys are the keys that an LLM agent understands, and how their values are
// read. What they return says what is wrong with a value.
var configKeys = map[string]func(c *LLMConfig, v any) string{
	"model":        func(c *LLMConfig, v any) string { return readText(&c.Model, v) },
	"instructions": func(c *LLMConfig, v any) string { return readText(&c.Instructions, v) },
	"role":         nil, // read by Read
	"temperature": func(c *LLMConfig, v any) string {
		return readAs(&c.Settings.Temperature, v, "a number from 0 to 2", upTo(2))
	},
	"topP": func(c *LLMConfig, v any) string { return readAs(&c.Settings.TopP, v, "a number from 0 to 1", upTo(1)) },
	"maxTokens": func(c *LLMConfig, v any) string {
		return readAs(&c.Settings.MaxTokens, v, "a whole number from 1", tokens)
	},
	"stop":       func(c *LLMConfig, v any) string { return readTexts(&c.Settings.Stop, v) },
	"toolChoice": func(c *LLMConfig, v any) string { return readText(&c.Settings.ToolChoice, v) },
	"parallelToolCalls": func(c *LLMConfig, v any) string {
		return readAs(&c.Settings.ParallelToolCalls, v, "true or false", truth)
	},
	"leakedCalls": func(c *LLMConfig, v any) string {
		return readAs(&c.Settings.LeakedCalls, v, "auto, any or off", oneOf(llm.LeakedCalls.Known))
	},
	"seed":            func(c *LLMConfig, v any) string { return readAs(&c.Settings.Seed, v, "a whole number", whole) },
	"reasoningEffort": func(c *LLMConfig, v any) string { return readText(&c.Settings.ReasoningEffort, v) },
	"thinking":        func(c *LLMConfig, v any) string { return readAs(&c.Settings.Thinking, v, "true or false", truth) },
	"reasoningEcho": func(c *LLMConfig, v any) string {
		return readAs(&c.Settings.Echo, v, "auto, on or off", oneOf(llm.Echo.Known))
	},
	"endpoint": func(c *LLMConfig, v any) string {
		if wrong := readTexts(&c.Settings.Endpoint, v); wrong != "" {
			return wrong
		}
		for _, name := range c.Settings.Endpoint {
			if !slices.Contains(openai.Endpoints(), name) {
				return fmt.Sprintf("names no endpoint: %q%s", name, nearest.Hint(name, openai.Endpoints()))
			}
		}
		return ""
	},
	"timeouts":       func(c *LLMConfig, v any) string { return readTimeouts(&c.Settings.Timeouts, v) },
	"responseFormat": func(c *LLMConfig, v any) string { return readFormat(&c.Settings.ResponseFormat, v) },
}

// canonicalConfig gives the understood keys of a configuration one spelling, and takes
// those below llm out of it.
func canonicalConfig(layer map[string]any) (map[string]any, error) {
	if layer == nil {
		return nil, nil
	}
	named, from := make(map[string]any, len(layer)), map[string]string{}
	add := func(prefix string, m map[string]any) (rest map[string]any, err error) {
		rest = map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			name := camelKey(key)
			if _, understood := configKeys[name]; !understood {
				rest[key] = m[key]
				continue
			}
			if other, twice := from[name]; twice {
				return nil, &ConfigError{prefix + key, "is given a second time: " + other + " is the same"}
			}
			named[name], from[name] = m[key], prefix+key
		}
		return rest, nil
	}
	rest, err := add("", layer)
	if err != nil {
		return nil, err
	}
	if v, there := rest["llm"]; there && v != nil {
		below, ok := v.(map[string]any)
		if !ok {
			return nil, &ConfigError{"llm", "must be a mapping such as {model: gpt-4o-mini}, not " + showSetting(v)}
		}
		left, err := add("llm.", below)
		if err != nil {
			return nil, err
		}
		if rest["llm"] = left; len(left) == 0 {
			delete(rest, "llm")
		}
	}
	maps.Copy(named, rest)
	return named, nil
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

// Prompt is the system prompt of an agent with these instructions of its own: the
// configuration's instructions take their place, and a last line has, as JSON, the
// keys that mean nothing to an endpoint.
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

// configJSON returns a value as JSON, and as a text if it has no JSON form, such as a function.
func configJSON(v any) []byte {
	text, err := event.Marshal(v)
	if err != nil {
		return fmt.Appendf(nil, "%q", fmt.Sprint(v))
	}
	return text
}

// showSetting names a value in a message.
func showSetting(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("the text %q", yamldoc.Short(v))
	}
	return fmt.Sprintf("%v", v)
}

func readText[T ~string](to *T, v any) string {
	s, ok := v.(string)
	switch *to = T(s); {
	case v == nil:
	case !ok:
		return "must be a text, not " + showSetting(v)
	case strings.TrimSpace(s) == "":
		return "is empty"
	}
	return ""
}

// readAs sets a value, or removes it if the setting is null. must says what the value must be.
func readAs[T any](to *T, v any, must string, as func(v any) (T, bool)) string {
	if v == nil {
		*to = *new(T)
		return ""
	}
	is, ok := as(v)
	if !ok {
		return "must be " + must + ", not " + showSetting(v)
	}
	*to = is
	return ""
}

func oneOf[T ~string](known func(T) bool) func(v any) (T, bool) {
	return func(v any) (T, bool) {
		s, _ := v.(string)
		return T(s), known(T(s))
	}
}

func upTo(most float64) func(v any) (*float64, bool) {
	return func(v any) (*float64, bool) {
		f, ok := settingNumber(v)
		return &f, ok && f >= 0 && f <= most
	}
}

func whole(v any) (*int64, bool) {
	f, ok := settingNumber(v)
	n := int64(f)
	return &n, ok && f == math.Trunc(f) && math.Abs(f) <= 1<<53
}

func tokens(v any) (int, bool) {
	n, ok := whole(v)
	return int(*n), ok && *n >= 1 && *n <= math.MaxInt32
}

func truth(v any) (*bool, bool) {
	b, ok := v.(bool)
	return &b, ok
}

// settingNumber reads a number of whatever type YAML, JSON or a Go program gives it.
func settingNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

func readTexts(to *[]string, v any) string {
	list, isList := v.([]any)
	if s, ok := v.(string); ok {
		list, isList = []any{s}, true
	}
	if *to = nil; !isList && v != nil {
		return "must be a list of texts, not " + showSetting(v)
	}
	for _, item := range list {
		s, ok := item.(string)
		if !ok || s == "" {
			return "must be a list of texts, but one of them is " + showSetting(item)
		}
		*to = append(*to, s)
	}
	return ""
}

func readTimeouts(to *llm.Timeouts, v any) string {
	if v == nil {
		*to = llm.Timeouts{}
		return ""
	}
	given, ok := v.(map[string]any)
	if !ok {
		return "must be a mapping such as {first: 20m, silence: 2m, answer: 30m}, not " + showSetting(v)
	}
	known := map[string]*time.Duration{"first": &to.First, "silence": &to.Silence, "answer": &to.Answer}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		text, _ := given[name].(string)
		d, err := time.ParseDuration(text)
		switch {
		case known[name] == nil:
			return fmt.Sprintf("has no limit %q%s", name, nearest.Hint(name, slices.Sorted(maps.Keys(known))))
		case err != nil || d <= 0:
			return name + " must be a time with its unit, such as 20m, not " + showSetting(given[name])
		}
		*known[name] = d
	}
	return ""
}

func readFormat(to **llm.ResponseFormat, v any) string {
	over, ok := v.(map[string]any)
	switch {
	case v == nil:
		*to = nil
		return ""
	case !ok:
		return "must be a JSON schema, which is a mapping, not " + showSetting(v)
	}
	var own map[string]any
	if *to != nil {
		_ = json.Unmarshal((*to).Schema, &own) // which was checked
	}
	raw := json.RawMessage(configJSON(MergeConfig(own, over)))
	if err := jsonschema.Check(raw); err != nil {
		return "must be a JSON schema: " + err.Error()
	}
	*to = &llm.ResponseFormat{Schema: raw}
	return ""
}
