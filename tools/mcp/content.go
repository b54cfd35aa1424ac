package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// content is the result of a call for the model. One text that is a JSON object or list is
// passed on as that; what has structure and no words is that JSON. What is no text is named
// in a line.
func content(r *sdk.CallToolResult) (any, error) {
	if r == nil {
		return nil, errors.New("the server has answered with nothing")
	}
	text := texts(r.Content)
	switch {
	case r.IsError && text == "":
		return nil, errors.New("the server says that the call has failed, and not why")
	case r.IsError:
		return nil, errors.New(text)
	case len(r.Content) == 0 && r.StructuredContent != nil:
		return r.StructuredContent, nil
	case len(r.Content) == 1 && strings.HasPrefix(text, "{") || strings.HasPrefix(text, "["):
		if raw := json.RawMessage(text); json.Valid(raw) {
			return raw, nil
		}
	}
	return text, nil
}

func texts(parts []sdk.Content) string {
	if len(parts) == 1 {
		return text(parts[0])
	}
	lines := make([]string, 0, len(parts))
	for _, p := range parts {
		lines = append(lines, text(p))
	}
	return strings.Join(lines, "\n")
}

func text(part sdk.Content) string {
	switch p := part.(type) {
	case *sdk.TextContent:
		return p.Text
	case *sdk.ImageContent:
		return bytesLine("image", "", p.MIMEType, len(p.Data))
	case *sdk.AudioContent:
		return bytesLine("audio", "", p.MIMEType, len(p.Data))
	case *sdk.ResourceLink:
		return strings.TrimSpace(fmt.Sprintf("[resource %s %s] %s", p.URI, p.Name, p.Description))
	case *sdk.EmbeddedResource:
		if p.Resource != nil {
			return resource(p.Resource)
		}
	}
	return "[content that cannot be shown]"
}

func resource(r *sdk.ResourceContents) string {
	if r.Blob != nil {
		return bytesLine("resource", r.URI, r.MIMEType, len(r.Blob))
	}
	return r.Text
}

func bytesLine(kind, uri, mediaType string, n int) string {
	return "[" + strings.Join(strings.Fields(fmt.Sprintf("%s %s %s, %d bytes]", kind, uri, mediaType, n)), " ")
}
