package view

import (
	"context"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// file takes in a file that somebody has made. One that a call has made is named in the
// call's result, or behind the line about another agent's call.
func (v *View) file(d *event.File, e *event.Event, mine bool) {
	if !mine && !v.policy.shows(e) {
		return
	}
	if c := v.find(d.ToolCallID); c != nil {
		c.files = append(c.files, d)
		return
	}
	v.flush()
	v.addFile(d, e.Agent, e.Seq)
}

// withFiles is the output of a call with a line for each file that it has made.
func withFiles(output string, files []*event.File) string {
	for _, f := range files {
		output += "\n[file " + f.String() + "]"
	}
	return output
}

// addFile shows a file as one line, and as a part if the policy says so.
func (v *View) addFile(d *event.File, by string, seq int64) {
	line := "[file " + d.String() + "]"
	if by != v.agent {
		line = "[" + by + "] made the file " + d.String()
	}
	if !v.policy.files {
		v.add(llm.UserText(line), seq)
		return
	}
	v.add(llm.UserParts(llm.TextPart{Text: line}, llm.Media{Kind: kindOf(d.MediaType), MediaType: d.MediaType, Name: d.Name, URL: d.URL, Digest: d.Digest}), seq)
}

func kindOf(mediaType string) llm.MediaKind {
	if strings.HasPrefix(mediaType, "image/") {
		return llm.MediaImage
	}
	return llm.MediaFile
}

// withoutMedia puts lines in the place of images and files, if the policy says so.
func (p Policy) withoutMedia(c llm.Content) llm.Content {
	if !p.lines {
		return c
	}
	c.Parts = slices.Clone(c.Parts) // those of the log stay as they are
	for i, part := range c.Parts {
		if m, ok := part.(llm.Media); ok {
			f := event.File{Name: event.FileName(m.Name, "without a name"), MediaType: m.MediaType, Size: int64(len(m.Data))}
			line := f.String()
			if m.URL != "" {
				line = f.Name + ", at an address"
			}
			c.Parts[i] = llm.TextPart{Text: "[" + string(m.Kind) + " " + oneLine(line) + "]"}
		}
	}
	return c
}

// Filled returns the messages of the view as [Fill] does. Where they name no file it costs the
// same for a conversation of any length.
func (v *View) Filled(ctx context.Context, load func(ctx context.Context, digest string) (*event.File, []byte, error)) []llm.Message {
	messages := v.Messages()
	if !v.shown.nameFiles() {
		return messages
	}
	return Fill(ctx, messages, load)
}

// fileNamed returns a part of a message that names a file, whose bytes it has not got.
func fileNamed(p llm.Part) (m llm.Media, ok bool) {
	m, ok = p.(llm.Media)
	return m, ok && m.Digest != "" && m.Data == nil
}

// Fill returns messages with the bytes of the files that they name by their digests, for
// a model to read. In the place of one that load finds no bytes for is a line that says so. The
// messages given stay as they are, and are returned if there is nothing to fill in.
func Fill(ctx context.Context, messages []llm.Message, load func(ctx context.Context, digest string) (*event.File, []byte, error)) []llm.Message {
	filled := messages
	for i := range messages {
		for j, part := range messages[i].Parts {
			m, ok := fileNamed(part)
			if !ok {
				continue
			}
			if &filled[0] == &messages[0] {
				filled = slices.Clone(messages)
			}
			if &filled[i].Parts[0] == &messages[i].Parts[0] {
				filled[i].Parts = slices.Clone(messages[i].Parts)
			}
			filled[i].Parts[j] = llm.TextPart{Text: "(the file " + m.Name + " cannot be read)"}
			if _, data, err := load(ctx, m.Digest); err == nil && len(data) > 0 {
				m.Data, m.Digest = data, ""
				filled[i].Parts[j] = m
			}
		}
	}
	return filled
}
