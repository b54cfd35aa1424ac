package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/internal/visible"
)

func (p *program) historyCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history ID",
		Short: "List the positions at which a session can be forked",
		Long: `Lists the checkpoints of a session, one per line: the position, the time, what the step
before it did, and the agent in charge after it.`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return p.showHistory(cmd.Context(), args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per checkpoint and line")
	return cmd
}

func (p *program) showHistory(ctx context.Context, id string, asJSON bool) error {
	s, err := p.past(ctx, id)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(table, "SEQ\tTIME\tACTIVE\tWHAT")
	}
	for line, err := range sessionform.History(ctx, s.Sessions, s.Info, func(e *event.Event) *event.Event { return e }) {
		if err != nil {
			return err
		}
		if asJSON {
			render.JSON(p.Stdout, line)
			continue
		}
		active := visible.Line(line.Active)
		if active == "" {
			active = "-"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", line.Seq, stamp(line.Time), active, line.What)
	}
	if asJSON {
		return nil
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if isFork(s.Info) {
		p.say("a fork of %s, with which it shares all until %d", shownID(s.Parent), s.ParentSeq)
	}
	return nil
}
