package server

import (
	"context"
	"iter"

	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/logpage"
	"github.com/agentarbor/arbor/server/internal/stream"
	"github.com/agentarbor/arbor/session"
)

// streamTurn streams the events of a turn after a position, until the turn has ended or paused.
func (h *Handler) streamTurn(c *front.Call, key session.Key, first int64, after session.Position, as logpage.Shape) error {
	return h.stream(c, key, as, func(ctx context.Context) iter.Seq2[session.Entry, error] {
		return h.turns.Watch(ctx, key, first, after.String())
	})
}

func (h *Handler) stream(c *front.Call, key session.Key, as logpage.Shape, entries func(context.Context) iter.Seq2[session.Entry, error]) error {
	return stream.Send(c, h.turns, h.streamTree(), key, as, entries)
}

func (h *Handler) changes(c *front.Call) error {
	key, err := c.Key("any")
	if err != nil {
		return err
	}
	if _, err := c.Accept(front.EventStream); err != nil {
		return err
	}
	return stream.Changes(c, h.turns, h.streamTree(), key)
}

// streamTree returns what streams report about the tree.
func (h *Handler) streamTree() stream.Tree {
	return stream.Tree{Revision: func() string { return h.currentTree().revision }, OnChange: h.reloads.onChange}
}
