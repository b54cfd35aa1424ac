package turn

import (
	"context"
	"io"
	"iter"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// host is where the turns of a session run: in this process, or at a server.
type host interface {
	factory.Feed
	Send(ctx context.Context, msg llm.Message) iter.Seq2[*event.Event, error]
	// GoOn goes on with the last turn, which f is the log of.
	GoOn(ctx context.Context, f *session.Fold, decisions ...runner.Decision) iter.Seq2[*event.Event, error]
	// running reports whether somebody works on the last turn.
	running(ctx context.Context) (bool, error)
	// DrawAgents draws the tree, and marks who would answer next.
	DrawAgents(ctx context.Context, w io.Writer, look render.Look) error
	// FileBytes returns the bytes of a file.
	FileBytes(ctx context.Context, digest string) ([]byte, error)
}

// here is a conversation whose turns run in this process.
type here struct {
	factory.StoredSession
	c *Conversation // with the newest tree
}

func (h here) Send(ctx context.Context, msg llm.Message) iter.Seq2[*event.Event, error] {
	return h.c.Run(ctx, h.Key, msg)
}

func (h here) GoOn(ctx context.Context, _ *session.Fold, decisions ...runner.Decision) iter.Seq2[*event.Event, error] {
	decisions, err := h.c.sign(ctx, h.c.decider, decisions)
	if err != nil {
		return func(yield func(*event.Event, error) bool) { yield(nil, err) }
	}
	return h.c.Resume(ctx, h.Key, decisions...)
}

func (h here) running(ctx context.Context) (bool, error) {
	info, _, err := session.Find(ctx, h.DB, h.Key)
	return info.Leased, err
}

func (h here) DrawAgents(ctx context.Context, w io.Writer, look render.Look) error {
	active, err := h.c.Active(ctx, h.Key)
	if err == nil {
		render.Tree(w, h.c.Tree(), look, active)
	}
	return err
}
