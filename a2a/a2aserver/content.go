package a2aserver

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/llm"
)

func textPart(s string) *sdk.Part { return sdk.NewTextPart(s) }

// jsonValue decodes JSON for a field that can contain any JSON value.
func jsonValue(raw json.RawMessage) any {
	var v any
	_ = json.Unmarshal(raw, &v) // everything in the log is valid JSON
	return v
}

// contentOf converts the parts of a message to a user's content. Data becomes its JSON text.
func contentOf(parts sdk.ContentParts) (llm.Content, error) {
	var c llm.Content
	for i, p := range parts {
		if p == nil {
			return c, fmt.Errorf("part %d of the message is empty", i)
		}
		switch v := p.Content.(type) {
		case sdk.Text:
			c.Parts = append(c.Parts, llm.TextPart{Text: string(v)})
		case sdk.Data:
			data, err := json.Marshal(v.Value)
			if err != nil {
				return c, fmt.Errorf("part %d of the message has no JSON form", i)
			}
			c.Parts = append(c.Parts, llm.TextPart{Text: string(data)})
		case sdk.Raw:
			c.Parts = append(c.Parts, llm.Media{Kind: mediaKind(p.MediaType), MediaType: p.MediaType, Data: v, Name: p.Filename})
		case sdk.URL:
			c.Parts = append(c.Parts, llm.Media{Kind: mediaKind(p.MediaType), MediaType: p.MediaType, URL: string(v), Name: p.Filename})
		default:
			return c, fmt.Errorf("part %d of the message has no content", i)
		}
	}
	if len(c.Parts) == 1 {
		if t, ok := c.Parts[0].(llm.TextPart); ok {
			return llm.Content{Text: t.Text}, nil
		}
	}
	return c, nil
}

func mediaKind(mediaType string) llm.MediaKind {
	if strings.HasPrefix(mediaType, "image/") {
		return llm.MediaImage
	}
	return llm.MediaFile
}
