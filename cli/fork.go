package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/internal/render"
)

func (p *program) forkCommand() *cobra.Command {
	var at atFlag
	var to string
	cmd := &cobra.Command{
		Use:   "fork ID",
		Short: "Begin a new session that shares another one's past",
		Long: `Begins a new session that has all of another one until a position, and goes on by
itself. Nothing is copied, and the other session stays as it is. The new session's
id is printed. If the position is in the middle of a turn, resume goes on with it.`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return p.forkSession(cmd.Context(), args[0], at, to) },
	}
	at.add(cmd, "position until which both are the same (default: the end)")
	toFlag(cmd, &to)
	return cmd
}

func (p *program) forkSession(ctx context.Context, id string, until atFlag, name string) error {
	s, err := p.past(ctx, id)
	if err != nil {
		return err
	}
	at, err := s.position(until)
	if err != nil {
		return err
	}
	to, err := s.target(name)
	if err != nil {
		return err
	}
	if err := s.Fork(ctx, s.Key, at, to); err != nil {
		return s.explain(err, to)
	}
	return p.begun(ctx, s.db, to, fmt.Sprintf("shares %s with %s", render.Count(int(at), "event"), shownID(s.Key)))
}
