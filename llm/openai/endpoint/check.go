package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
)

// Violation is one broken rule. Param is the position in the body, such as messages[2].tool_calls[0].id.
type Violation struct{ Param, Message string }

func (v Violation) String() string {
	if v.Param == "" {
		return v.Message
	}
	return v.Param + ": " + v.Message
}

// CheckError contains the violations of a request body, between 1 and 50.
type CheckError struct {
	Violations []Violation
	protocol   string
}

func (e *CheckError) Error() string {
	all := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		all[i] = v.String()
	}
	return "the request breaks the " + e.protocol + ": " + strings.Join(all, "; ")
}

// CheckBody returns the rules of the chat-completions protocol that the body of a request breaks, as a *[CheckError];
// nil if it breaks none. The rules are those of both OpenAI's and DeepSeek's endpoints: neither refuses the form of a
// body that passes. See https://platform.openai.com/docs/api-reference/chat/create and
// https://api-docs.deepseek.com/api/create-chat-completion.
func CheckBody(body []byte) error {
	return checkBody(body, "chat-completions protocol", (*checker).request)
}

func checkBody(body []byte, protocol string, check func(*checker, map[string]any)) error {
	var c checker
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var top any
	if err := dec.Decode(&top); err != nil {
		c.addf("", "the body is not JSON: %v", err)
	} else if _, err := dec.Token(); err != io.EOF {
		c.addf("", "the body goes on after its JSON value")
	} else if obj, ok := top.(map[string]any); !ok {
		c.addf("", "the body is not a JSON object")
	} else {
		check(&c, obj)
	}
	if c.found == nil {
		return nil
	}
	return &CheckError{c.found, protocol}
}

// maxViolations is the maximal number of violations in an error.
const maxViolations = 50

type checker struct {
	found []Violation
	tools map[string]bool // the names of the offered tools
}

func (c *checker) addf(param, format string, args ...any) {
	if len(c.found) < maxViolations {
		c.found = append(c.found, Violation{param, fmt.Sprintf(format, args...)})
	}
}

var (
	functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	speakerName  = regexp.MustCompile(`^[^\s<|\\/>]{1,64}$`)
)

// requestFields are the parameters of the protocol that are not deprecated. OpenAI refuses others.
var requestFields = strings.Fields(`audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens
	messages metadata modalities model n parallel_tool_calls prediction presence_penalty prompt_cache_key
	reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature
	tool_choice tools top_logprobs top_p user verbosity web_search_options`)

// fields refuses keys of obj that are not in known.
func (c *checker) fields(param string, obj map[string]any, known ...string) {
	var odd []string
	for k := range obj {
		if !slices.Contains(known, k) {
			odd = append(odd, k)
		}
	}
	slices.Sort(odd)
	for _, k := range odd {
		c.addf(join(param, k), "unknown field")
	}
}

func join(param, field string) string {
	if param == "" {
		return field
	}
	return param + "." + field
}

func (c *checker) request(r map[string]any) {
	c.fields("", r, requestFields...)
	if s, ok := r["model"].(string); !ok || s == "" {
		c.addf("model", "must be a non-empty string")
	}
	c.toolList(r)
	c.messages(r)
	c.toolUse(r)
	c.number(r, "temperature", 0, 2)
	c.number(r, "top_p", 0, 1)
	c.number(r, "presence_penalty", -2, 2)
	c.number(r, "frequency_penalty", -2, 2)
	for _, k := range []string{"max_tokens", "max_completion_tokens", "n"} {
		if c.number(r, k, 1, math.MaxInt32) {
			if _, err := r[k].(json.Number).Int64(); err != nil {
				c.addf(k, "must be an integer")
			}
		}
	}
	if _, both := r["max_completion_tokens"]; both && r["max_tokens"] != nil {
		c.addf("max_tokens", "cannot stand beside max_completion_tokens")
	}
	if c.number(r, "seed", math.MinInt64, math.MaxInt64) {
		if _, err := r["seed"].(json.Number).Int64(); err != nil {
			c.addf("seed", "must be an integer")
		}
	}
	c.word(r, "service_tier", "auto", "default", "flex", "priority", "scale")
	c.word(r, "reasoning_effort", "none", "minimal", "low", "medium", "high", "xhigh")
	c.word(r, "prompt_cache_key")
	logProbs := c.boolean(r, "logprobs")
	if c.number(r, "top_logprobs", 0, 20) && !logProbs {
		c.addf("top_logprobs", "is allowed only when logprobs is true")
	}
	c.stop(r)
	stream := c.boolean(r, "stream")
	if o, present := r["stream_options"]; present {
		obj, ok := o.(map[string]any)
		switch {
		case !stream:
			c.addf("stream_options", "is allowed only when stream is true")
		case !ok:
			c.addf("stream_options", "must be an object")
		default:
			c.fields("stream_options", obj, "include_usage", "include_obfuscation")
			if v, present := obj["include_usage"]; present {
				if _, ok := v.(bool); !ok {
					c.addf("stream_options.include_usage", "must be true or false")
				}
			}
		}
	}
	c.responseFormat(r)
}

// number reports whether the field exists and is in range.
func (c *checker) number(r map[string]any, key string, low, high float64) bool {
	v, present := r[key]
	if !present {
		return false
	}
	n, ok := v.(json.Number)
	if !ok {
		c.addf(key, "must be a number")
		return false
	}
	if f, err := n.Float64(); err != nil || f < low || f > high {
		c.addf(key, "is %s and must be between %v and %v", n, low, high)
		return false
	}
	return true
}

// word checks a string, which must be one of words if there are any.
func (c *checker) word(r map[string]any, key string, words ...string) {
	v, present := r[key]
	s, ok := v.(string)
	switch {
	case !present:
	case !ok || s == "":
		c.addf(key, "must be a non-empty string")
	case len(words) > 0 && !slices.Contains(words, s):
		c.addf(key, "is %q and must be one of %s", s, strings.Join(words, ", "))
	}
}

func (c *checker) boolean(r map[string]any, key string) bool {
	v, present := r[key]
	b, ok := v.(bool)
	if present && !ok {
		c.addf(key, "must be true or false")
	}
	return b
}

func (c *checker) stop(r map[string]any) {
	v, present := r["stop"]
	if !present {
		return
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) < 1 || len(list) > 4 {
		c.addf("stop", "must hold 1 to 4 strings, not %d", len(list))
	}
	for _, s := range list {
		if s, ok := s.(string); !ok || s == "" {
			c.addf("stop", "must be a non-empty string or a list of them")
			return
		}
	}
}

// offered returns the list of tools, which must not be empty.
func (c *checker) offered(r map[string]any) []any {
	v, present := r["tools"]
	if !present {
		return nil
	}
	c.tools = map[string]bool{}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		c.addf("tools", "must be a non-empty array, or absent")
	}
	return list
}

func (c *checker) toolList(r map[string]any) {
	list := c.offered(r)
	if len(list) > 128 {
		c.addf("tools", "holds %d tools; 128 are allowed", len(list))
	}
	for i, t := range list {
		at := fmt.Sprintf("tools[%d]", i)
		tool, _ := t.(map[string]any)
		c.fields(at, tool, "type", "function")
		if tool["type"] != "function" {
			c.addf(at+".type", `must be "function"`)
		}
		f, ok := tool["function"].(map[string]any)
		if !ok {
			c.addf(at+".function", "must be an object")
			continue
		}
		at += ".function"
		c.fields(at, f, "name", "description", "parameters", "strict")
		name, _ := f["name"].(string)
		if !functionName.MatchString(name) {
			c.addf(at+".name", "%q does not match %s", name, functionName)
		} else if c.tools[name] {
			c.addf(at+".name", "%q is the name of two tools", name)
		}
		c.tools[name] = true
		if d, present := f["description"]; present {
			if _, ok := d.(string); !ok {
				c.addf(at+".description", "must be a string")
			}
		}
		strict := false
		if s, present := f["strict"]; present && s != nil {
			if strict, ok = s.(bool); !ok {
				c.addf(at+".strict", "must be true or false")
			}
		}
		if p, present := f["parameters"]; present {
			c.objectSchema(at+".parameters", p, strict)
		}
	}
}

// toolUse checks the parameters that require tools.
func (c *checker) toolUse(r map[string]any) {
	for _, k := range []string{"tool_choice", "parallel_tool_calls"} {
		if _, present := r[k]; present && c.tools == nil {
			c.addf(k, "is allowed only when tools are given")
		}
	}
	c.boolean(r, "parallel_tool_calls")
	switch v := r["tool_choice"].(type) {
	case nil:
		if _, present := r["tool_choice"]; present {
			c.addf("tool_choice", "must not be null")
		}
	case string:
		if v != "none" && v != "auto" && v != "required" {
			c.addf("tool_choice", `is %q and must be "none", "auto", "required" or an object that names a function`, v)
		}
	case map[string]any:
		if v["type"] == "allowed_tools" {
			c.fields("tool_choice", v, "type", "allowed_tools")
			a, _ := v["allowed_tools"].(map[string]any)
			c.allowedTools("tool_choice.allowed_tools", a, func(t map[string]any) any {
				f, _ := t["function"].(map[string]any)
				return f["name"]
			})
			return
		}
		c.fields("tool_choice", v, "type", "function")
		f, _ := v["function"].(map[string]any)
		name, _ := f["name"].(string)
		if v["type"] != "function" || name == "" {
			c.addf("tool_choice", `must be {"type": "function", "function": {"name": …}}`)
		} else if c.tools != nil && !c.tools[name] {
			c.addf("tool_choice.function.name", "%q is none of the tools", name)
		}
	default:
		c.addf("tool_choice", "must be a string or an object")
	}
}

// allowedTools checks a choice among some of the tools.
func (c *checker) allowedTools(at string, a map[string]any, name func(tool map[string]any) any) {
	if mode, _ := a["mode"].(string); mode != "auto" && mode != "required" {
		c.addf(at+".mode", `is %q and must be "auto" or "required"`, mode)
	}
	list, _ := a["tools"].([]any)
	if len(list) == 0 {
		c.addf(at+".tools", "must be a non-empty array")
	}
	for i, v := range list {
		t, _ := v.(map[string]any)
		if called, _ := name(t).(string); t["type"] != "function" || !c.tools[called] {
			c.addf(fmt.Sprintf("%s.tools[%d]", at, i), "must name one of the tools")
		}
	}
}

func (c *checker) responseFormat(r map[string]any) {
	v, present := r["response_format"]
	if !present {
		return
	}
	f, _ := v.(map[string]any)
	switch f["type"] {
	case "text":
	case "json_object":
		// OpenAI and DeepSeek both refuse this if no message tells the model to write JSON, because the model may then
		// write white space without end.
		text, _ := json.Marshal(r["messages"]) // it was decoded from JSON, so this cannot fail
		if !bytes.Contains(bytes.ToLower(text), []byte("json")) {
			c.addf("response_format", `json_object needs the word "json" in a message`)
		}
	case "json_schema":
		s, ok := f["json_schema"].(map[string]any)
		if !ok {
			c.addf("response_format.json_schema", "must be an object")
			return
		}
		c.fields("response_format.json_schema", s, "name", "description", "schema", "strict")
		if name, _ := s["name"].(string); !functionName.MatchString(name) {
			c.addf("response_format.json_schema.name", "%q does not match %s", name, functionName)
		}
		strict, _ := s["strict"].(bool)
		c.objectSchema("response_format.json_schema.schema", s["schema"], strict)
	default:
		c.addf("response_format.type", `must be "text", "json_object" or "json_schema"`)
	}
}
