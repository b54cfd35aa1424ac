package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentarbor/arbor/tools"
)

// content returns the result of a call for the model. A single text that is a JSON object or list becomes that JSON. A
// result with structured content and no other content becomes that JSON. Images and other bytes become files of the
// session, and a line of text names each of them.
func content(ctx tools.Context, tool string, r *sdk.CallToolResult) (any, error) {
	if r == nil {
		return nil, errors.New("the server's answer is empty")
	}
	w := writer{ctx: ctx, tool: tool}
	text := w.all(r.Content)
	switch {
	case r.IsError && text == "":
		return nil, errors.New("the server reports that the call has failed, without a reason")
	case r.IsError:
		return nil, errors.New(text)
	case len(r.Content) == 0 && r.StructuredContent != nil:
		return r.StructuredContent, nil
	case len(r.Content) == 1 && (strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")):
		if raw := json.RawMessage(text); json.Valid(raw) {
			return raw, nil
		}
	}
	return text, nil
}

// writer converts the server's answer to text.
type writer struct {
	ctx   tools.Context
	tool  string
	files int
}

func (w *writer) all(parts []sdk.Content) string {
	if len(parts) == 1 {
		return w.text(parts[0])
	}
	lines := make([]string, 0, len(parts))
	for _, p := range parts {
		lines = append(lines, w.text(p))
	}
	return strings.Join(lines, "\n")
}

func (w *writer) text(part sdk.Content) string {
	switch p := part.(type) {
	case *sdk.TextContent:
		return p.Text
	case *sdk.ImageContent:
		return w.file(p.MIMEType, p.Data)
	case *sdk.AudioContent:
		return w.file(p.MIMEType, p.Data)
	case *sdk.ResourceLink:
		return strings.TrimSpace(fmt.Sprintf("[resource %s %s] %s", p.URI, p.Name, p.Description))
	case *sdk.EmbeddedResource:
		if p.Resource != nil {
			return w.resource(p.Resource)
		}
	}
	return "[content that cannot be shown]"
}

func (w *writer) resource(r *sdk.ResourceContents) string {
	if r.Blob != nil {
		return w.file(r.MIMEType, r.Blob)
	}
	return r.Text
}

// file saves bytes and returns a line that names the file.
func (w *writer) file(mediaType string, data []byte) string {
	w.files++
	mediaType, _, _ = mime.ParseMediaType(mediaType) // if it is "", SaveFile detects the type
	name := fmt.Sprintf("%s-%d", w.tool, w.files)
	if endings, _ := mime.ExtensionsByType(mediaType); len(endings) > 0 {
		name += endings[0]
	}
	f, err := w.ctx.SaveFile(name, mediaType, data)
	if err != nil {
		return fmt.Sprintf("[%d bytes that are not kept: %s]", len(data), err)
	}
	return "[file " + f.String() + "]"
}
