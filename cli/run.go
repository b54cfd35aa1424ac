package cli

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/event"
)

func (p *program) runCommand() *cobra.Command {
	var f turnFlags
	cmd := p.withPath(&cobra.Command{
		Short: "Run one turn: send MESSAGE and print the answer",
		Long: `Runs one turn of a session: the active agent answers MESSAGE, or transfers the
conversation. Without MESSAGE, or with -, the message is read from standard input. Put --
before a message that starts with a dash.`,
	}, "run [MESSAGE|-]", 1, func(cmd *cobra.Command, path string, args []string) error {
		return p.runTurn(cmd.Context(), path, args, f)
	})
	p.turnFlags(cmd, &f)
	deskFlag(cmd.Flags(), &f.desk)
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object per event and line")
	return cmd
}

func (p *program) runTurn(ctx context.Context, path string, args []string, f turnFlags) error {
	msg, err := p.message(args)
	if err != nil {
		return err
	}
	c, err := p.converse(ctx, path, f)
	if err != nil {
		return err
	}
	err = c.turn(ctx, func(ctx context.Context) iter.Seq2[*event.Event, error] { return c.at.begin(ctx, msg) })
	switch {
	case cutOff(err) && c.persistent():
		p.say("interrupted; to resume: %s", c.again("resume"))
		return statusError(StatusInterrupted)
	case f.session == "" && c.persistent() && p.out.failed() == nil:
		p.report(err)
		p.say("session %s; to continue: %s", c.key.ID, c.again("run", `"…"`))
		return statusError(status(err))
	}
	return err
}
