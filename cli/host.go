package cli

import (
	"context"
	"io"
	"iter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// feed is where a session's events come from.
type feed interface {
	// log yields the stored events after a position.
	log(ctx context.Context, after int64) iter.Seq2[*event.Event, error]
	// follow yields what comes after an entry, as session.Tail does.
	follow(ctx context.Context, after string) iter.Seq2[session.Entry, error]
}

// host is where the turns of a session run: in this process, or at a server.
type host interface {
	feed
	begin(ctx context.Context, msg llm.Message) iter.Seq2[*event.Event, error]
	// resume goes on with the last turn, which f is the log of.
	resume(ctx context.Context, f *session.Fold, decisions ...runner.Decision) iter.Seq2[*event.Event, error]
	// running reports whether somebody works on the last turn.
	running(ctx context.Context) (bool, error)
	// agents draws the tree, and marks who would answer next.
	agents(ctx context.Context, w io.Writer, look render.Look) error
	// blob returns the bytes of a file.
	blob(ctx context.Context, digest string) ([]byte, error)
}

// stored is a session of the database.
type stored struct {
	db  *database
	key session.Key
}

func (s stored) log(ctx context.Context, after int64) iter.Seq2[*event.Event, error] {
	return s.db.Load(ctx, s.key, after)
}

func (s stored) follow(ctx context.Context, after string) iter.Seq2[session.Entry, error] {
	tail, err := s.db.tail()
	if err != nil {
		return func(yield func(session.Entry, error) bool) { yield(session.Entry{}, err) }
	}
	return tail.Follow(ctx, s.key, after)
}

func (s stored) blob(ctx context.Context, digest string) ([]byte, error) {
	return s.db.Blob(ctx, s.key, digest)
}

// here is a conversation whose turns run in this process.
type here struct {
	stored
	c *conversation // with the newest tree
}

func (h here) begin(ctx context.Context, msg llm.Message) iter.Seq2[*event.Event, error] {
	return h.c.Run(ctx, h.key, msg)
}

func (h here) resume(ctx context.Context, _ *session.Fold, decisions ...runner.Decision) iter.Seq2[*event.Event, error] {
	decisions, err := h.c.sign(ctx, h.c.decider, decisions)
	if err != nil {
		return func(yield func(*event.Event, error) bool) { yield(nil, err) }
	}
	return h.c.Resume(ctx, h.key, decisions...)
}

func (h here) running(ctx context.Context) (bool, error) {
	info, _, err := session.Find(ctx, h.db, h.key)
	return info.Leased, err
}

func (h here) agents(ctx context.Context, w io.Writer, look render.Look) error {
	active, err := h.c.Active(ctx, h.key)
	if err == nil {
		render.Tree(w, h.c.Tree(), look, active)
	}
	return err
}
