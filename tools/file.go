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

// SaveFile keeps a file in the session, where people, other tools and agents find it by
// its name. The event that names it is stored together with the call's result, also a
// failed one's. The name is one element of a path, such as report.pdf; an empty media
// type is found out from the bytes. What is wrong with them is an [agent.ErrBadInput] or
// an [agent.ErrFileTooLarge], in words that the model may read.
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
	made := *f // the caller's own
	c.call.mu.Lock()
	defer c.call.mu.Unlock()
	if c.call.ended {
		return event.File{}, errors.New("the call is over: the file " + name + " is not kept")
	}
	c.call.files = append(c.call.files, f)
	made.ToolCallID = c.call.CallID
	return made, nil
}

// ReadFile returns the bytes of a file of the session by its name, or by the digest of its
// event: what this call has saved, what other calls and agents have made, or what the user has sent
// under a name. Of several it reads the last one. The error is [agent.ErrNoFile] if the
// session has no file of that name. The slice is shared: it must not be changed.
func (c Context) ReadFile(name string) ([]byte, error) {
	if c.call.File == nil {
		return nil, fmt.Errorf("%.80q: %w", name, agent.ErrNoFile)
	}
	c.call.mu.Lock()
	for _, f := range slices.Backward(c.call.files) {
		if f.Name == name { // nobody else knows it yet
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
