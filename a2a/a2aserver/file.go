package a2aserver

import (
	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/event"
)

// file converts a file that an agent or a tool created to an artifact.
func (p *projection) file(e *event.Event, d *event.File) []sdk.Event {
	if p.outline {
		return nil
	}
	return p.addArtifact(p.artifact(e, e.RunID+"-file-"+e.ID, d.Name, p.filePart(d)))
}

// filePart returns the part for a file: its bytes, its URL, or a text that says why the bytes are missing.
func (p *projection) filePart(d *event.File) *sdk.Part {
	part := &sdk.Part{MediaType: d.MediaType, Filename: d.Name}
	if d.URL != "" {
		part.Content = sdk.URL(d.URL)
		return part
	}
	if p.blob == nil || d.Size > p.maxFile {
		return textPart("(the file " + d.String() + ", is too large to be sent)")
	}
	data, err := p.blob(d.Digest)
	if err != nil {
		return textPart("(the file " + d.String() + ", cannot be read)")
	}
	part.Content = sdk.Raw(data)
	return part
}
