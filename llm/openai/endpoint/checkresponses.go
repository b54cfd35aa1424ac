package endpoint

import (
	"fmt"
	"slices"
	"strings"
)

// CheckResponses returns the rules of OpenAI's Responses API that the body of a request breaks, as a *[CheckError]; nil
// if it breaks none. It only accepts requests that store nothing at the endpoint: it refuses references to stored
// responses or items. See https://platform.openai.com/docs/api-reference/responses/create.
func CheckResponses(body []byte) error {
	return checkBody(body, "Responses API", (*checker).responses)
}

var responsesFields = strings.Fields(`include input instructions max_output_tokens metadata model parallel_tool_calls prompt_cache_key reasoning
	safety_identifier service_tier store stream temperature text tool_choice tools top_logprobs top_p truncation`)

func (c *checker) responses(r map[string]any) {
	c.fields("", r, responsesFields...)
	c.word(r, "model")
	c.word(r, "instructions")
	c.word(r, "prompt_cache_key")
	c.word(r, "service_tier", "auto", "default", "flex", "priority", "scale")
	c.boolean(r, "stream")
	if store, ok := r["store"].(bool); !ok || store {
		c.addf("store", "must be false: nothing is kept here")
	}
	c.number(r, "temperature", 0, 2)
	c.number(r, "top_p", 0, 1)
	c.integer(r, "max_output_tokens", 16)
	c.integer(r, "top_logprobs", 0)
	included := c.include(r)
	if _, present := r["top_logprobs"]; present && !included["message.output_text.logprobs"] {
		c.addf("top_logprobs", "is allowed only when message.output_text.logprobs is included")
	}
	c.toolList(r, false)
	c.toolUse(r, false)
	c.thinking(r)
	c.textFormat(r)
	c.input(r, included["reasoning.encrypted_content"])
}

func (c *checker) include(r map[string]any) map[string]bool {
	v, present := r["include"]
	found := map[string]bool{}
	list, ok := v.([]any)
	if present && !ok {
		c.addf("include", "must be an array")
	}
	for i, v := range list {
		s, _ := v.(string)
		if s != "reasoning.encrypted_content" && s != "message.output_text.logprobs" {
			c.addf(fmt.Sprintf("include[%d]", i), "%q cannot be included here", s)
		}
		found[s] = true
	}
	return found
}

func (c *checker) thinking(r map[string]any) {
	v, present := r["reasoning"]
	if !present {
		return
	}
	t, _ := v.(map[string]any)
	if len(t) == 0 {
		c.addf("reasoning", "must be an object with fields, or absent")
	}
	c.fields("reasoning", t, "effort", "summary")
	for key, words := range map[string][]string{"effort": {"none", "minimal", "low", "medium", "high", "xhigh"}, "summary": {"auto", "concise", "detailed"}} {
		if v, present := t[key]; present {
			if s, _ := v.(string); !slices.Contains(words, s) {
				c.addf("reasoning."+key, "must be one of %s", strings.Join(words, ", "))
			}
		}
	}
}

func (c *checker) textFormat(r map[string]any) {
	v, present := r["text"]
	if !present {
		return
	}
	t, _ := v.(map[string]any)
	c.fields("text", t, "format", "verbosity")
	f, _ := t["format"].(map[string]any)
	if f["type"] != "json_schema" {
		c.addf("text.format.type", `must be "json_schema"`)
		return
	}
	c.schemaFormat("text.format", f, "type")
}

// input checks the items: results follow their calls, and an item of the assistant follows each reasoning item.
func (c *checker) input(r map[string]any, encrypted bool) {
	list, ok := r["input"].([]any)
	if !ok || len(list) == 0 {
		c.addf("input", "must be a non-empty array")
		return
	}
	open, seen, thought := map[string]string{}, map[string]bool{}, ""
	for i, v := range list {
		at := fmt.Sprintf("input[%d]", i)
		item, _ := v.(map[string]any)
		kind, _ := item["type"].(string)
		if kind == "" && item["role"] != nil {
			kind = "message"
		}
		said := kind == "function_call" || kind == "message" && item["role"] == "assistant"
		if thought != "" && !said && kind != "reasoning" {
			c.addf(thought, "reasoning without the item that it has led to")
		}
		if thought = ""; kind == "reasoning" {
			thought = at
		}
		if kind == "message" && len(open) > 0 {
			c.addf(at, "a message before the calls are answered")
			clear(open)
		}
		switch kind {
		case "message":
			c.inputMessage(at, item, len(list) > 1 && instructs(list, i))
		case "reasoning":
			c.fields(at, item, "type", "id", "summary", "encrypted_content")
			if s, _ := item["encrypted_content"].(string); s == "" || !encrypted {
				c.addf(at, "needs encrypted_content, and reasoning.encrypted_content included: nothing is kept here")
			}
			if _, ok := item["summary"].([]any); !ok {
				c.addf(at+".summary", "must be an array")
			}
		case "function_call":
			id, _ := item["call_id"].(string)
			c.inputCall(at, item, id, seen[id])
			open[id], seen[id] = at, true
		case "function_call_output":
			c.fields(at, item, "type", "id", "call_id", "output", "status")
			id, _ := item["call_id"].(string)
			if open[id] == "" {
				c.addf(at+".call_id", "no call %q waits for an output", id)
			}
			delete(open, id)
			if _, ok := item["output"].(string); !ok {
				c.addf(at+".output", "must be a string")
			}
		default:
			c.addf(at+".type", "%q is not an item that can be sent here", kind)
		}
		if i == len(list)-1 && said && kind == "message" {
			c.addf(at, "the last item must not be a message of the assistant")
		}
	}
	if thought != "" {
		c.addf(thought, "reasoning without the item that it has led to")
	}
	for id, at := range open {
		c.addf(at, "the call %q is not answered", id)
	}
}

func (c *checker) inputCall(at string, item map[string]any, id string, seen bool) {
	c.fields(at, item, "type", "id", "call_id", "name", "arguments", "status")
	if id == "" || len(id) > 64 || seen {
		c.addf(at+".call_id", "%q must be a new string of 1 to 64 characters", id)
	}
	c.call(at, item)
}

func (c *checker) inputMessage(at string, m map[string]any, instructs bool) {
	c.fields(at, m, "type", "role", "content", "id", "status")
	if role, _ := m["role"].(string); role != "user" && role != "assistant" && !(role == "system" && instructs) {
		c.addf(at+".role", "is %q and must be user or assistant, or system for the last one or one before the user's", role)
	}
	at += ".content"
	switch v := m["content"].(type) {
	case string:
		if v == "" {
			c.addf(at, "must not be empty")
		}
	case []any:
		if len(v) == 0 || m["role"] == "assistant" {
			c.addf(at, "must be a string, or the user's parts")
		}
		for i, p := range v {
			c.inputPart(fmt.Sprintf("%s[%d]", at, i), p)
		}
	default:
		c.addf(at, "must be a string or a list of parts")
	}
}

func (c *checker) inputPart(at string, v any) {
	p, _ := v.(map[string]any)
	text := func(key string) string { s, _ := p[key].(string); return s }
	switch kind := text("type"); kind {
	case "input_text":
		c.fields(at, p, "type", "text")
		if text("text") == "" {
			c.addf(at+".text", "must be a non-empty string")
		}
	case "input_image":
		c.fields(at, p, "type", "image_url", "detail")
		c.image(at+".image_url", p["image_url"])
	case "input_file":
		c.fields(at, p, "type", "filename", "file_data", "file_url")
		if !isWebURL(text("file_url")) && (text("filename") == "" || !isDataURL(text("file_data"), "")) {
			c.addf(at, "must hold a file_url, or a filename and base64 file_data as a data URL")
		}
	case "input_audio":
		c.contentPart(at, v, []string{"input_audio"})
	default:
		c.addf(at+".type", "is %q and must be one of input_text, input_image, input_file, input_audio", kind)
	}
}
