package endpoint

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// instructs reports whether a system message at this place can say who answers: it is the last one, or comes before one
// of the user.
func instructs(list []any, i int) bool {
	if i == len(list)-1 {
		return true
	}
	next, _ := list[i+1].(map[string]any)
	return next["role"] == "user"
}

// maxCallID is OpenAI's limit, in characters.
const maxCallID = 40

func (c *checker) messages(r map[string]any) {
	list, ok := r["messages"].([]any)
	if !ok || len(list) == 0 {
		c.addf("messages", "must be a non-empty array")
		return
	}
	seen := map[string]bool{} // of all calls
	var open []string         // the calls of the last assistant message that have no result yet
	var asked string          // the position of that message
	closeCalls := func() {
		for _, id := range open {
			c.addf(asked, "the call %q is not answered by a tool message right after it", id)
		}
		open = nil
	}
	for i, v := range list {
		at := fmt.Sprintf("messages[%d]", i)
		m, ok := v.(map[string]any)
		if !ok {
			c.addf(at, "must be an object")
			continue
		}
		role, _ := m["role"].(string)
		if role != "tool" {
			closeCalls()
		}
		if name, present := m["name"]; present {
			if s, _ := name.(string); !speakerName.MatchString(s) {
				c.addf(at+".name", "does not match %s", speakerName)
			}
		}
		switch role {
		case "system":
			c.fields(at, m, "role", "content", "name")
			if i != 0 && !instructs(list, i) {
				c.addf(at, "a system message can only be the first or the last message, or come before one of the user")
			}
			c.content(at, m, false, "text")
		case "user":
			c.fields(at, m, "role", "content", "name")
			c.content(at, m, false, "text", "image_url", "file", "input_audio")
		case "assistant":
			c.fields(at, m, "role", "content", "name", "tool_calls", "refusal", "reasoning_content", "audio")
			open, asked = c.assistant(at, m, seen), at
		case "tool":
			c.fields(at, m, "role", "content", "tool_call_id")
			c.content(at, m, true, "text")
			id, _ := m["tool_call_id"].(string)
			switch asks := slices.Index(open, id); {
			case id == "":
				c.addf(at+".tool_call_id", "must be a non-empty string")
			case asks >= 0:
				open = slices.Delete(open, asks, asks+1)
			case seen[id]:
				c.addf(at, "the call %q was answered before, or not by the messages right after it", id)
			default:
				c.addf(at, "no assistant message before it holds the call %q", id)
			}
		default:
			c.addf(at+".role", "is %q and must be system, user, assistant or tool", role)
		}
		if i == len(list)-1 && role == "assistant" {
			c.addf(at, "the last message must not be the assistant's")
		}
	}
	closeCalls()
}

// content checks a message's content: a string, or a non-empty list of parts of the given types. Only a tool's output
// may be empty.
func (c *checker) content(at string, m map[string]any, mayBeEmpty bool, types ...string) {
	at += ".content"
	switch v := m["content"].(type) {
	case string:
		if v == "" && !mayBeEmpty {
			c.addf(at, "must not be empty")
		}
	case []any:
		if len(v) == 0 {
			c.addf(at, "must not be an empty list")
		}
		for i, p := range v {
			c.contentPart(fmt.Sprintf("%s[%d]", at, i), p, types)
		}
	default:
		c.addf(at, "must be a string or a list of parts")
	}
}

func (c *checker) contentPart(at string, v any, types []string) {
	p, _ := v.(map[string]any)
	kind, _ := p["type"].(string)
	if !slices.Contains(types, kind) {
		c.addf(at+".type", "is %q and must be one of %s", kind, strings.Join(types, ", "))
		return
	}
	c.fields(at, p, "type", kind)
	if kind == "text" || kind == "refusal" {
		if s, _ := p[kind].(string); s == "" {
			c.addf(at+"."+kind, "must be a non-empty string")
		}
		return
	}
	at += "." + kind
	obj, ok := p[kind].(map[string]any)
	if !ok {
		c.addf(at, "must be an object")
		return
	}
	switch kind {
	case "image_url":
		c.fields(at, obj, "url", "detail")
		c.image(at+".url", obj["url"])
	case "file":
		c.fields(at, obj, "file_data", "file_id", "filename")
		data, _ := obj["file_data"].(string)
		name, _ := obj["filename"].(string)
		id, _ := obj["file_id"].(string)
		if id == "" && (name == "" || !isDataURL(data, "")) {
			c.addf(at, "must hold a file_id, or a filename and base64 file_data as a data URL")
		}
	case "input_audio":
		c.fields(at, obj, "data", "format")
		data, _ := obj["data"].(string)
		if raw, err := base64.StdEncoding.DecodeString(data); err != nil || len(raw) == 0 {
			c.addf(at+".data", "must be base64")
		}
		if f, _ := obj["format"].(string); f != "wav" && f != "mp3" {
			c.addf(at+".format", "is %q and must be wav or mp3", f)
		}
	}
}

func (c *checker) image(at string, v any) {
	if url, _ := v.(string); !isDataURL(url, "image/") && !isWebURL(url) {
		c.addf(at, "must be a web address or a base64 data URL of an image")
	}
}

func isWebURL(s string) bool {
	return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")
}

func isDataURL(s, mediaType string) bool {
	head, data, ok := strings.Cut(s, ",")
	return ok && data != "" && strings.HasPrefix(head, "data:"+mediaType) && strings.HasSuffix(head, ";base64")
}

// assistant checks an assistant message and returns the ids of its calls.
func (c *checker) assistant(at string, m map[string]any, seen map[string]bool) []string {
	if r, present := m["reasoning_content"]; present {
		if _, ok := r.(string); !ok {
			c.addf(at+".reasoning_content", "must be a string")
		}
	}
	calls, hasCalls := m["tool_calls"]
	refusal, _ := m["refusal"].(string)
	if content := m["content"]; content != nil && content != "" {
		c.content(at, m, false, "text", "refusal")
	} else if !hasCalls && refusal == "" {
		c.addf(at, "an assistant message needs content or tool_calls")
	}
	if !hasCalls {
		return nil
	}
	list, ok := calls.([]any)
	if !ok || len(list) == 0 {
		c.addf(at+".tool_calls", "must be a non-empty array, or absent")
		return nil
	}
	var ids []string
	for i, v := range list {
		at := fmt.Sprintf("%s.tool_calls[%d]", at, i)
		call, ok := v.(map[string]any)
		if !ok {
			c.addf(at, "must be an object")
			continue
		}
		c.fields(at, call, "id", "type", "function", "index")
		if call["type"] != "function" {
			c.addf(at+".type", `must be "function"`)
		}
		id, _ := call["id"].(string)
		switch {
		case id == "":
			c.addf(at+".id", "must be a non-empty string")
		case seen[id]:
			c.addf(at+".id", "%q is the id of two calls", id)
		default:
			if n := utf8.RuneCountInString(id); n > maxCallID {
				c.addf(at+".id", "has %d characters; %d are allowed", n, maxCallID)
			}
			ids = append(ids, id)
		}
		seen[id] = true
		f, ok := call["function"].(map[string]any)
		if !ok {
			c.addf(at+".function", "must be an object")
			continue
		}
		at += ".function"
		c.fields(at, f, "name", "arguments")
		c.call(at, f)
	}
	return ids
}

// call checks the name and the arguments of a call.
func (c *checker) call(at string, f map[string]any) {
	c.name(at, f)
	args, ok := f["arguments"].(string)
	if !ok {
		c.addf(at+".arguments", "must be a string that holds a JSON object")
	} else if !isObject(args) {
		c.addf(at+".arguments", "does not hold a JSON object: %.60q", args)
	}
}

// name checks the name of a function or of a schema, and returns it.
func (c *checker) name(at string, f map[string]any) string {
	name, _ := f["name"].(string)
	if !functionName.MatchString(name) {
		c.addf(at+".name", "%q does not match %s", name, functionName)
	}
	return name
}

func isObject(s string) bool {
	b := bytes.TrimSpace([]byte(s))
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}
