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

// WithFileLimit bounds the bytes of one file that an agent or a tool makes. The default is
// 32 MiB.
func WithFileLimit(bytes int64) Option { return func(r *Runner) { r.fileLimit = bytes } }

// files are those that a log names; of each name the last one.
type files []fileAt

type fileAt struct {
	*event.File       // without a digest if it is in a user's message
	Seq         int64 // of that message
}

func (f *files) add(d *event.File, seq int64) {
	*f = slices.DeleteFunc(*f, func(old fileAt) bool { return old.Name == d.Name })
	*f = append(*f, fileAt{d, seq})
}

// sent takes in the files of a user's message that have names.
func (f *files) sent(u *event.User, seq int64) {
	for _, p := range u.Content.Parts {
		if m, ok := p.(llm.Media); ok && m.Name != "" {
			f.add(&event.File{Name: m.Name, MediaType: m.MediaType, Size: int64(len(m.Data))}, seq)
		}
	}
}

// SaveFile implements agent.Runtime. It may be called from the goroutine of a tool.
func (l *lane) SaveFile(ctx context.Context, name, mediaType string, data []byte) (*event.File, error) {
	t := l.t
	f, err := event.NewFile(name, mediaType, data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", agent.ErrBadInput, err)
	case f.Size > t.r.fileLimit:
		return nil, fmt.Errorf("%w: %s has %d bytes, and at most %d are kept", agent.ErrFileTooLarge, name, f.Size, t.r.fileLimit)
	}
	t.mu.Lock()
	key := t.key
	t.mu.Unlock()
	if f.Digest, err = t.r.store.PutBlob(ctx, key, t.lease, data); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		t.r.logger.Error("a file could not be stored", "session", key.String(), "file", name, "error", err)
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

// unsaved is what a store says, in words that a model may read.
type unsaved struct {
	words string
	cause error
}

func (e *unsaved) Error() string { return e.words }
func (e *unsaved) Unwrap() error { return e.cause }

// checkFile makes sure that an event names bytes that are there.
func (l *lane) checkFile(d *event.File) error {
	if err := d.Check(); err != nil {
		return fmt.Errorf("the agent yielded a file event that is none: %w", err)
	}
	if d.ToolCallID != "" && !l.awaits(d.ToolCallID) {
		return fmt.Errorf("the agent yielded a file of %q, which is no call that waits for a result", d.ToolCallID)
	}
	if d.URL != "" {
		return nil
	}
	l.t.mu.Lock()
	size, ok := l.t.saved[d.Digest]
	l.t.mu.Unlock()
	if !ok {
		data, err := l.t.r.store.Blob(l.ctx, l.t.key, d.Digest)
		if errors.Is(err, agent.ErrNoFile) {
			return fmt.Errorf("the agent yielded the file %s, whose bytes are not stored: SaveFile stores them: %w", d.Name, agent.ErrNoFile)
		} else if err != nil {
			return l.t.outage(err)
		}
		size = int64(len(data))
	}
	if size != d.Size {
		return fmt.Errorf("the agent yielded the file %s with %d bytes, and it has %d", d.Name, d.Size, size)
	}
	return nil
}

// File implements agent.Session.
func (t *turn) File(ctx context.Context, name string) (*event.File, []byte, error) {
	t.mu.Lock()
	key := t.key
	found := fileAt{}
	for _, f := range t.w.files {
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
	data, err := t.r.store.Blob(ctx, key, found.Digest)
	if err != nil {
		if ctx.Err() == nil {
			t.r.logger.Error("a file could not be read", "session", key.String(), "file", found.Name, "error", err)
		}
		return nil, nil, &unsaved{"the file " + found.Name + " could not be read", err}
	}
	return found.File, data, nil
}

// sentFile returns a file out of a user's message.
func (t *turn) sentFile(ctx context.Context, f fileAt) (*event.File, []byte, error) {
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
