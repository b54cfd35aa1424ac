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
	c.toolList(r, true)
	c.messages(r)
	c.toolUse(r, true)
	c.number(r, "temperature", 0, 2)
	c.number(r, "top_p", 0, 1)
	c.number(r, "presence_penalty", -2, 2)
	c.number(r, "frequency_penalty", -2, 2)
	c.integer(r, "max_tokens", 1)
	c.integer(r, "max_completion_tokens", 1)
	c.integer(r, "n", 1)
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
	if o, present := r["stream_options"]; present && !stream {
		c.addf("stream_options", "is allowed only when stream is true")
	} else if obj, ok := o.(map[string]any); present && !ok {
		c.addf("stream_options", "must be an object")
	} else {
		c.fields("stream_options", obj, "include_usage", "include_obfuscation")
		if v, present := obj["include_usage"]; present && v != true && v != false {
			c.addf("stream_options.include_usage", "must be true or false")
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

// integer is number for a whole number of at least low.
func (c *checker) integer(r map[string]any, key string, low float64) {
	if c.number(r, key, low, math.MaxInt32) {
		if _, err := r[key].(json.Number).Int64(); err != nil {
			c.addf(key, "must be an integer")
		}
	}
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
		c.schemaFormat("response_format.json_schema", s)
	default:
		c.addf("response_format.type", `must be "text", "json_object" or "json_schema"`)
	}
}
