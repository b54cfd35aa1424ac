package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// SaveFile stores a file in the session, where people, tools and agents find it by its name. The event that names the
// file is stored together with the result of the call, even if the call fails. The name is one element of a path, such
// as report.pdf. If the media type is "", it is detected from the bytes. The error is [agent.ErrBadInput] or
// [agent.ErrFileTooLarge], with a text that the model may read.
func (c Context) SaveFile(name, mediaType string, data []byte) (event.File, error) {
	save := c.call.SaveFile
	if save == nil {
		save = func(_ context.Context, name, mediaType string, data []byte) (*event.File, error) {
			f, err := event.NewFile(name, mediaType, data)
			if err == nil {
				f.Digest = session.Digest(data)
			}
			return f, err
		}
	}
	f, err := save(c.Context, name, mediaType, data)
	if err != nil {
		return event.File{}, err
	}
	made := *f // a copy for the caller
	c.call.mu.Lock()
	defer c.call.mu.Unlock()
	if c.call.ended {
		return event.File{}, errors.New("the call is over: the file " + name + " is not stored")
	}
	c.call.files = append(c.call.files, f)
	made.ToolCallID = c.call.CallID
	return made, nil
}

// ReadFile returns the bytes of a file of the session by its name or digest: a file that this call, another call or an
// agent has saved, or that the user has sent. If several files have the name, it reads the last one. The error is
// [agent.ErrNoFile] if the session has no such file. The slice is shared and must not be changed.
func (c Context) ReadFile(name string) ([]byte, error) {
	if c.call.File == nil {
		return nil, fmt.Errorf("%.80q: %w", name, agent.ErrNoFile)
	}
	c.call.mu.Lock()
	for _, f := range slices.Backward(c.call.files) {
		if f.Name == name { // the session does not know it yet
			name = f.Digest
			break
		}
	}
	c.call.mu.Unlock()
	_, data, err := c.call.File(c.Context, name)
	return data, err
}

// saved returns the files that the call has saved.
func (c Context) saved() []*event.File {
	c.call.mu.Lock()
	defer c.call.mu.Unlock()
	files := c.call.files
	c.call.files = nil
	return files
}
