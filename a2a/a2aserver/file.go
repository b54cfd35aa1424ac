package a2aserver

import (
	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/event"
)

// file converts a file that an agent or a tool created to an artifact.
func (p *projection) file(e *event.Event, d *event.File) []sdk.Event {
	if p.outline {
		return nil
	}
	a := &sdk.Artifact{ID: sdk.ArtifactID(e.RunID + "-file-" + e.ID), Name: d.Name, Parts: sdk.ContentParts{p.filePart(d)}}
	if p.extended {
		a.Extensions, a.Metadata = []string{a2a.Extension}, p.author(e, nil)
	}
	p.task.Artifacts = append(p.task.Artifacts, a)
	return []sdk.Event{&sdk.TaskArtifactUpdateEvent{TaskID: p.task.ID, ContextID: p.task.ContextID, Artifact: a, LastChunk: true}}
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
