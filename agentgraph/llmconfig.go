package agentgraph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

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

// ReadLLMConfig merges configurations, later ones over earlier ones as [MergeConfig] does, and
// reads the result. It understands model; instructions, or role if there are none; and the
// settings temperature, topP, maxTokens, stop, toolChoice, parallelToolCalls, seed, reasoningEffort, thinking,
// reasoningEcho, endpoint, timeouts, leakedCalls and responseFormat, which is a JSON schema. Their names may be written with underscores as well,
// and they may be in a mapping llm. null is the same as absent. The error is a [*ConfigError].
func ReadLLMConfig(layers ...map[string]any) (LLMConfig, error) {
	var merged map[string]any
	for _, layer := range layers {
		named, err := canonicalConfig(layer)
		if err != nil {
			return LLMConfig{}, err
		}
		merged = MergeConfig(merged, named)
	}
	var c LLMConfig
	role := ""
	for _, key := range slices.Sorted(maps.Keys(merged)) {
		v := merged[key]
		read := configKeys[key]
		if key == "role" {
			read = func(_ *LLMConfig, v any) (wrong string) { role, wrong = settingText(v); return wrong }
		}
		switch {
		case read == nil:
			if c.Other == nil {
				c.Other = map[string]any{}
			}
			c.Other[key] = v
		case v != nil:
			if wrong := read(&c, v); wrong != "" {
				return LLMConfig{}, &ConfigError{key, wrong}
			}
		}
	}
	if c.Instructions == "" {
		c.Instructions = role
	}
	return c, nil
}

// configKeys are the keys that an LLM agent understands, and how their values are
// read. What they return says what is wrong with a value.
var configKeys = map[string]func(c *LLMConfig, v any) string{
	"model":             func(c *LLMConfig, v any) (wrong string) { c.Model, wrong = settingText(v); return wrong },
	"instructions":      func(c *LLMConfig, v any) (wrong string) { c.Instructions, wrong = settingText(v); return wrong },
	"role":              nil, // read by ReadLLMConfig
	"temperature":       func(c *LLMConfig, v any) string { return setFraction(&c.Settings.Temperature, v, 2) },
	"topP":              func(c *LLMConfig, v any) string { return setFraction(&c.Settings.TopP, v, 1) },
	"maxTokens":         setMaxTokens,
	"stop":              func(c *LLMConfig, v any) string { return setTexts(&c.Settings.Stop, v) },
	"toolChoice":        func(c *LLMConfig, v any) string { return setToolChoice(&c.Settings, v) },
	"parallelToolCalls": func(c *LLMConfig, v any) string { return setBool(&c.Settings.ParallelToolCalls, v) },
	"leakedCalls":       func(c *LLMConfig, v any) string { return setLeakedCalls(&c.Settings, v) },
	"seed":              setSeed,
	"reasoningEffort": func(c *LLMConfig, v any) (wrong string) {
		c.Settings.ReasoningEffort, wrong = settingText(v)
		return wrong
	},
	"thinking": func(c *LLMConfig, v any) string { return setBool(&c.Settings.Thinking, v) },
	"reasoningEcho": func(c *LLMConfig, v any) string {
		text, _ := v.(string)
		if c.Settings.Echo = llm.Echo(text); !c.Settings.Echo.Known() {
			return "must be auto, on or off, not " + showSetting(v)
		}
		return ""
	},
	"endpoint": func(c *LLMConfig, v any) string {
		if wrong := setTexts(&c.Settings.Endpoint, v); wrong != "" {
			return wrong
		}
		for _, name := range c.Settings.Endpoint {
			if !slices.Contains(openai.Endpoints(), name) {
				return fmt.Sprintf("names no endpoint: %q%s", name, nearest.Hint(name, openai.Endpoints()))
			}
		}
		return ""
	},
	"timeouts":       func(c *LLMConfig, v any) string { return setTimeouts(&c.Settings.Timeouts, v) },
	"responseFormat": func(c *LLMConfig, v any) string { return setResponseFormat(&c.Settings, v) },
}

// timeouts are the names of time limits.
func timeouts(t *llm.Timeouts) map[string]*time.Duration {
	return map[string]*time.Duration{"first": &t.First, "silence": &t.Silence, "answer": &t.Answer}
}

// TimeoutsConfig returns the value of the key timeouts, nil if no limit is set.
func TimeoutsConfig(t llm.Timeouts) (v map[string]any) {
	for name, d := range timeouts(&t) {
		if *d == 0 {
			continue
		}
		if v == nil {
			v = map[string]any{}
		}
		v[name] = d.String()
	}
	return v
}

func setTimeouts(t *llm.Timeouts, v any) string {
	given, ok := v.(map[string]any)
	if !ok {
		return "must be a mapping such as {first: 20m, silence: 2m, answer: 30m}, not " + showSetting(v)
	}
	known := timeouts(t)
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

// configJSON encodes a value that came from YAML or JSON. Of what JSON does not
// have, which only a Go program can put there, it gives Go's notation.
func configJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Appendf(nil, "%q", fmt.Sprint(v))
	}
	return bytes.TrimSpace(b.Bytes())
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

func settingText(v any) (s, wrong string) {
	s, ok := v.(string)
	switch {
	case !ok:
		return "", "must be a text, not " + showSetting(v)
	case strings.TrimSpace(s) == "":
		return "", "is empty"
	}
	return s, ""
}

func setFraction(field **float64, v any, most float64) string {
	f, ok := settingNumber(v)
	if !ok || f < 0 || f > most || math.IsNaN(f) {
		return fmt.Sprintf("must be a number from 0 to %g, not %s", most, showSetting(v))
	}
	*field = &f
	return ""
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

func setMaxTokens(c *LLMConfig, v any) string {
	f, ok := settingNumber(v)
	if !ok || f < 1 || f > math.MaxInt32 || f != math.Trunc(f) {
		return "must be a whole number from 1, not " + showSetting(v)
	}
	c.Settings.MaxTokens = int(f)
	return ""
}

func setSeed(c *LLMConfig, v any) string {
	f, ok := settingNumber(v)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return "must be a whole number, not " + showSetting(v)
	}
	seed := int64(f)
	c.Settings.Seed = &seed
	return ""
}

func setTexts(to *[]string, v any) string {
	list, isList := v.([]any)
	if s, ok := v.(string); ok {
		list, isList = []any{s}, true
	}
	if !isList {
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

func setToolChoice(s *llm.Settings, v any) string {
	choice, wrong := settingText(v)
	s.ToolChoice = llm.ToolChoice(choice)
	return wrong
}

func setBool(to **bool, v any) string {
	b, ok := v.(bool)
	if !ok {
		return "must be true or false, not " + showSetting(v)
	}
	*to = &b
	return ""
}

func setLeakedCalls(s *llm.Settings, v any) string {
	mode, _ := v.(string)
	s.LeakedCalls = llm.LeakedCalls(mode)
	if !s.LeakedCalls.Known() {
		return "must be auto, any or off, not " + showSetting(v)
	}
	return ""
}

func setResponseFormat(s *llm.Settings, v any) string {
	if _, ok := v.(map[string]any); !ok {
		return "must be a JSON schema, which is a mapping, not " + showSetting(v)
	}
	raw := json.RawMessage(configJSON(v))
	if err := jsonschema.Check(raw); err != nil {
		return "must be a JSON schema: " + err.Error()
	}
	s.ResponseFormat = &llm.ResponseFormat{Schema: raw}
	return ""
}
