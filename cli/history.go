package cli

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
)

func (p *program) historyCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history ID",
		Short: "List the positions that a session can be forked at",
		Long: `Lists the checkpoints of a session, one a line: the position, when it was reached,
what was done in the step that ends there, and which agent then had the
conversation.`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return p.showHistory(cmd.Context(), args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one checkpoint a line, as JSON")
	return cmd
}

// jsonCheckpoint is the form of sessions history --json.
type jsonCheckpoint struct {
	Seq    int64     `json:"seq"`
	Time   time.Time `json:"time"`
	What   string    `json:"what"`
	Active string    `json:"active,omitempty"`
	Events int       `json:"events"`
	// Shared says that it is one of the session from which this one was forked.
	Shared bool `json:"shared,omitempty"`
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
	fold := &session.Fold{}
	for c, err := range s.History(ctx, s.Key) {
		if err != nil {
			return err
		}
		for _, e := range c.Events {
			fold.Apply(e)
		}
		line := jsonCheckpoint{c.Seq, c.Time.UTC(), render.Step(c.Events), activeOf(fold), len(c.Events), c.Seq <= s.ParentSeq}
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
