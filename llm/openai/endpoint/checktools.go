package endpoint

import "fmt"

// toolList checks the tools of a request. In chat completions (nested) a tool has its function as a member; in the
// Responses API it is the function, and strict unless it says otherwise.
func (c *checker) toolList(r map[string]any, nested bool) {
	v, present := r["tools"]
	if !present {
		return
	}
	c.tools = map[string]bool{}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		c.addf("tools", "must be a non-empty array, or absent")
	}
	if len(list) > 128 {
		c.addf("tools", "holds %d tools; 128 are allowed", len(list))
	}
	for i, v := range list {
		at := fmt.Sprintf("tools[%d]", i)
		f, _ := v.(map[string]any)
		if f["type"] != "function" {
			c.addf(at+".type", `must be "function"`)
		}
		fields := []string{"name", "description", "parameters", "strict"}
		if nested {
			c.fields(at, f, "type", "function")
			at += ".function"
			if f, ok = f["function"].(map[string]any); !ok {
				c.addf(at, "must be an object")
				continue
			}
		} else {
			fields = append(fields, "type")
		}
		c.fields(at, f, fields...)
		name := c.name(at, f)
		if c.tools[name] {
			c.addf(at+".name", "%q is the name of two tools", name)
		}
		c.tools[name] = true
		if d, present := f["description"]; present {
			if _, ok := d.(string); !ok {
				c.addf(at+".description", "must be a string")
			}
		}
		strict, given := f["strict"].(bool)
		if s := f["strict"]; s != nil && !given {
			c.addf(at+".strict", "must be true or false")
		}
		if p, present := f["parameters"]; present || !nested {
			c.objectSchema(at+".parameters", p, strict || !nested && !given)
		}
	}
}

// toolUse checks the parameters that require tools. See toolList for nested.
func (c *checker) toolUse(r map[string]any, nested bool) {
	for _, k := range []string{"tool_choice", "parallel_tool_calls"} {
		if _, present := r[k]; present && c.tools == nil {
			c.addf(k, "is allowed only when tools are given")
		}
	}
	c.boolean(r, "parallel_tool_calls")
	at := "tool_choice"
	choice, ok := r[at].(map[string]any)
	switch {
	case !ok:
		c.word(r, at, "none", "auto", "required")
	case choice["type"] == "allowed_tools" && nested:
		c.fields(at, choice, "type", "allowed_tools")
		allowed, _ := choice["allowed_tools"].(map[string]any)
		c.allowedTools(at+".allowed_tools", allowed, nested)
	case choice["type"] == "allowed_tools":
		c.fields(at, choice, "type", "mode", "tools")
		c.allowedTools(at, choice, nested)
	default:
		key, where := "name", ".name"
		if nested {
			key, where = "function", ".function.name"
		}
		c.fields(at, choice, "type", key)
		if name := functionOf(choice, nested); choice["type"] != "function" || name == "" {
			c.addf(at, "must be an object with the type function and the name of a tool")
		} else if c.tools != nil && !c.tools[name] {
			c.addf(at+where, "%q is none of the tools", name)
		}
	}
}

// functionOf returns the name of the function that a tool or a choice has.
func functionOf(tool map[string]any, nested bool) string {
	if nested {
		tool, _ = tool["function"].(map[string]any)
	}
	name, _ := tool["name"].(string)
	return name
}

// allowedTools checks a choice among some of the tools.
func (c *checker) allowedTools(at string, choice map[string]any, nested bool) {
	if mode, _ := choice["mode"].(string); mode != "auto" && mode != "required" {
		c.addf(at+".mode", `is %q and must be "auto" or "required"`, mode)
	}
	list, _ := choice["tools"].([]any)
	if len(list) == 0 {
		c.addf(at+".tools", "must be a non-empty array")
	}
	for i, v := range list {
		tool, _ := v.(map[string]any)
		if tool["type"] != "function" || !c.tools[functionOf(tool, nested)] {
			c.addf(fmt.Sprintf("%s.tools[%d]", at, i), "must name one of the tools")
		}
	}
}

// schemaFormat checks the JSON schema that an answer must have. more are further fields that are allowed next to it.
func (c *checker) schemaFormat(at string, format map[string]any, more ...string) {
	c.fields(at, format, append(more, "name", "description", "schema", "strict")...)
	c.name(at, format)
	strict, _ := format["strict"].(bool)
	c.objectSchema(at+".schema", format["schema"], strict)
}
