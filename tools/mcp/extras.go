package mcp

import (
	"cmp"
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// extra is a tool for the resources or prompts of a server.
type extra struct {
	info tools.Info
	call func(tools.Context, json.RawMessage) (any, error)
}

// page is the largest number of resources or prompts that one call lists.
const page = 200

// extras returns the tools that WithResources and WithPrompts add.
func (s *Server) extras() (all []extra) {
	add := func(name, description, schema string, call func(ctx tools.Context, c *conn, in map[string]any) (any, error)) {
		info := tools.Info{ToolSpec: llm.ToolSpec{Name: legal(s.prefix + name), Description: description, Parameters: json.RawMessage(schema)},
			Own: name, Source: s.name, Idempotent: true, Timeout: s.timeout, MaxOutput: s.maxOutput}
		all = append(all, extra{info, func(ctx tools.Context, input json.RawMessage) (any, error) {
			var in map[string]any
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, err
			}
			c, err := s.ready(ctx, false)
			if err != nil {
				return nil, err
			}
			out, err := within(ctx, func() (any, error) { return call(ctx, c, in) })
			if err != nil {
				return nil, s.errorf("%s", plain(err))
			}
			return out, nil
		}})
	}
	if s.resources {
		add("list_resources", "Lists what can be read with read_resource of "+s.name+".", listSchema, listResources)
		add("read_resource", "Reads a resource of "+s.name+".", readSchema, readResource)
	}
	if s.prompts {
		add("list_prompts", "Lists the prompts that get_prompt of "+s.name+" makes.", listSchema, listPrompts)
		add("get_prompt", "Makes a prompt of "+s.name+": messages that somebody may want to use.", promptSchema, getPrompt)
	}
	return all
}

const (
	listSchema   = `{"type":"object","properties":{"cursor":{"type":"string","description":"Where an earlier list was cut"}},"additionalProperties":false}`
	readSchema   = `{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"],"additionalProperties":false}`
	promptSchema = `{"type":"object","properties":{"name":{"type":"string"},` +
		`"arguments":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"],"additionalProperties":false}`
)

func listResources(ctx tools.Context, c *conn, in map[string]any) (any, error) {
	cursor, _ := in["cursor"].(string)
	res, err := c.session.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
	if err != nil {
		return nil, err
	}
	var list []map[string]string
	for _, r := range res.Resources[:min(len(res.Resources), page)] {
		list = append(list, row("uri", r.URI, "name", cmp.Or(r.Title, r.Name), "description", r.Description, "mediaType", r.MIMEType))
	}
	out := map[string]any{"resources": list, "cursor": res.NextCursor}
	if templates, err := c.session.ListResourceTemplates(ctx, nil); cursor == "" && err == nil && len(templates.ResourceTemplates) > 0 {
		var list []map[string]string
		for _, r := range templates.ResourceTemplates[:min(len(templates.ResourceTemplates), page)] {
			list = append(list, row("uriTemplate", r.URITemplate, "name", cmp.Or(r.Title, r.Name), "description", r.Description))
		}
		out["templates"] = list
	}
	return out, nil
}

func readResource(ctx tools.Context, c *conn, in map[string]any) (any, error) {
	uri, _ := in["uri"].(string)
	res, err := c.session.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
	if err != nil {
		return nil, err
	}
	var parts []string
	w := writer{ctx: ctx, tool: "resource"}
	for _, r := range res.Contents {
		if r != nil {
			parts = append(parts, w.resource(r))
		}
	}
	return strings.Join(parts, "\n"), nil
}

func listPrompts(ctx tools.Context, c *conn, in map[string]any) (any, error) {
	cursor, _ := in["cursor"].(string)
	res, err := c.session.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
	if err != nil {
		return nil, err
	}
	var list []map[string]any
	for _, p := range res.Prompts[:min(len(res.Prompts), page)] {
		list = append(list, map[string]any{"name": p.Name, "description": cmp.Or(p.Description, p.Title), "arguments": p.Arguments})
	}
	return map[string]any{"prompts": list, "cursor": res.NextCursor}, nil
}

func getPrompt(ctx tools.Context, c *conn, in map[string]any) (any, error) {
	params := &sdk.GetPromptParams{Arguments: map[string]string{}}
	params.Name, _ = in["name"].(string)
	given, _ := in["arguments"].(map[string]any)
	for k, v := range given {
		params.Arguments[k], _ = v.(string)
	}
	res, err := c.session.GetPrompt(ctx, params)
	if err != nil {
		return nil, err
	}
	var lines []string
	w := writer{ctx: ctx, tool: "prompt"}
	for _, m := range res.Messages {
		if m != nil {
			lines = append(lines, string(m.Role)+": "+w.text(m.Content))
		}
	}
	return strings.Join(lines, "\n"), nil
}

func row(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			m[pairs[i]] = pairs[i+1]
		}
	}
	return m
}

// within calls f and returns its result, or the context's error when the context ends. The SDK may wait longer if the
// server does not read a message.
func within(ctx tools.Context, f func() (any, error)) (any, error) {
	type given struct {
		out any
		err error
	}
	done := make(chan given, 1)
	go func() {
		out, err := f()
		done <- given{out, err}
	}()
	select {
	case g := <-done:
		return g.out, g.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
