// Package parts converts contents to parts of A2A messages.
package parts

import (
	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/llm"
)

// Of returns the parts of a content: at least one, which is an empty text if there is nothing else.
func Of(c llm.Content) (parts sdk.ContentParts) {
	if c.Text != "" || len(c.Parts) == 0 {
		parts = append(parts, sdk.NewTextPart(c.Text))
	}
	for _, p := range c.Parts {
		switch p := p.(type) {
		case llm.TextPart:
			parts = append(parts, sdk.NewTextPart(p.Text))
		case llm.Media:
			part := &sdk.Part{Content: sdk.Raw(p.Data), MediaType: p.MediaType, Filename: p.Name}
			if p.URL != "" {
				part.Content = sdk.URL(p.URL)
			}
			parts = append(parts, part)
		}
	}
	return parts
}
