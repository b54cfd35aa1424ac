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
		Short: "Create a session that shares the past of another one",
		Long: `Creates a session that has the events of another one up to a position and continues by
itself. Nothing is copied, and the other session does not change. The command prints the
id of the new session. If the position is in the middle of a turn, resume continues it.`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return p.forkSession(cmd.Context(), args[0], at, to) },
	}
	at.add(cmd, "share the events up to position `SEQ` (default: the end)")
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
