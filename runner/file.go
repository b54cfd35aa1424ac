package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// File implements agent.Session.
func (t *turnSession) File(ctx context.Context, name string) (*event.File, []byte, error) {
	t.mu.Lock()
	found := fileAt{}
	for _, f := range t.cached.files {
		if name != "" && (f.Name == name || f.Digest == name) {
			found = f
		}
	}
	t.mu.Unlock()
	if found.File == nil && session.IsDigest(name) { // of a call that has no result yet, or of a name that has another file now
		found.File = &event.File{Name: name, Digest: name}
	}
	switch {
	case found.File == nil:
		return nil, nil, fmt.Errorf("%.80q: %w", name, agent.ErrNoFile)
	case found.Seq > 0:
		return t.sentFile(ctx, found)
	case found.URL != "":
		return nil, nil, fmt.Errorf("%.80q is at an address, and its bytes are not here: %w", name, agent.ErrNoFile)
	}
	data, err := t.r.store.Blob(ctx, t.key, found.Digest)
	if err != nil {
		if ctx.Err() == nil {
			t.r.logger.Error("a file could not be read", "session", t.key.String(), "file", found.Name, "error", err)
		}
		return nil, nil, &unsaved{"the file " + found.Name + " could not be read", err}
	}
	return found.File, data, nil
}

// sentFile returns a file of a user's message.
func (t *turnSession) sentFile(ctx context.Context, f fileAt) (*event.File, []byte, error) {
	for e, err := range t.Events(ctx, f.Seq-1) {
		if err != nil {
			return nil, nil, &unsaved{"the file " + f.Name + " could not be read", err}
		}
		u, ok := e.Data.(*event.User)
		if !ok {
			break
		}
		for _, p := range slices.Backward(u.Content.Parts) {
			if m, ok := p.(llm.Media); ok && m.Name == f.Name && m.URL == "" {
				return &event.File{Name: f.Name, MediaType: f.MediaType, Size: f.Size, Digest: session.Digest(m.Data)}, m.Data, nil
			}
		}
		break
	}
	return nil, nil, fmt.Errorf("%.80q was sent as a link, and not as bytes: %w", f.Name, agent.ErrNoFile)
}

// saveFile stores the bytes of a file.
func (t *turnSession) saveFile(ctx context.Context, name, mediaType string, data []byte) (*event.File, error) {
	f, err := event.NewFile(name, mediaType, data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", agent.ErrBadInput, err)
	case f.Size > t.r.fileLimit:
		return nil, fmt.Errorf("%w: %s has %d bytes, and at most %d are kept", agent.ErrFileTooLarge, name, f.Size, t.r.fileLimit)
	}
	if f.Digest, err = t.r.store.PutBlob(ctx, t.key, t.lease, data); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		t.r.logger.Error("a file could not be stored", "session", t.key.String(), "file", name, "error", err)
		return nil, &unsaved{"the file " + name + " could not be stored", err}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved == nil {
		t.saved = make(map[string]int64)
	}
	t.saved[f.Digest] = f.Size
	return f, nil
}

// fileSize returns the size of the stored bytes that have a digest. The error is agent.ErrNoFile if there are none.
func (t *turnSession) fileSize(ctx context.Context, digest string) (int64, error) {
	t.mu.Lock()
	size, ok := t.saved[digest]
	t.mu.Unlock()
	if ok {
		return size, nil
	}
	data, err := t.r.store.Blob(ctx, t.key, digest)
	if err != nil && !errors.Is(err, agent.ErrNoFile) {
		err = t.outage(err)
	}
	return int64(len(data)), err
}
