package server

import (
	"context"
	"iter"

	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/logpage"
	"github.com/agentarbor/arbor/server/internal/stream"
	"github.com/agentarbor/arbor/session"
)

// streamTurn streams the events of a turn behind a place, until it rests.
func (d *Door) streamTurn(c *front.Call, key session.Key, first int64, after session.Position, as logpage.Shape) error {
	return d.stream(c, key, as, func(ctx context.Context) iter.Seq2[session.Entry, error] {
		return d.turns.Watch(ctx, key, first, after.String())
	})
}

func (d *Door) stream(c *front.Call, key session.Key, as logpage.Shape, entries func(context.Context) iter.Seq2[session.Entry, error]) error {
	return stream.Send(c, d.turns, d.grown(), key, as, entries)
}

func (d *Door) changes(c *front.Call) error {
	key, err := c.Key("any")
	if err != nil {
		return err
	}
	if _, err := c.Accept(front.Stream); err != nil {
		return err
	}
	return stream.Changes(c, d.turns, d.grown(), key)
}

// grown is what streams tell of the tree.
func (d *Door) grown() stream.Tree {
	return stream.Tree{Revision: func() string { return d.treeNow().revision }, OnChange: d.reloads.onChange}
}
