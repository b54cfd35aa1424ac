package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
)

func listCommand(f *factory.Factory) *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the sessions, latest first",
		Args:  factory.Exactly(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return listSessions(cmd.Context(), f, limit, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per session and line")
	cmd.Flags().IntVar(&limit, "limit", 0, "list at most `N` sessions (0: all)")
	return cmd
}

// jsonSession is the form of sessions ls --json.
type jsonSession struct {
	ID      string    `json:"id"`
	App     string    `json:"app"`
	User    string    `json:"user"`
	Events  int64     `json:"events"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// Of a fork: the session whose log holds the last shared event, and its position.
	Parent    string `json:"parent,omitempty"`
	ParentSeq int64  `json:"parentSeq,omitempty"`
}

func listSessions(ctx context.Context, f *factory.Factory, limit int, asJSON bool) error {
	db, err := f.OpenDB(ctx, false)
	if errors.Is(err, factory.ErrNoFile) && f.Place.DB == "" {
		f.Say("there are no sessions yet")
		return nil
	}
	if err != nil {
		return err
	}
	all, err := db.List(ctx, session.Key{}, session.Page{Limit: limit})
	if err != nil {
		return err
	}
	if asJSON {
		for _, s := range all {
			render.JSON(f.Stdout, jsonSession{s.Key.ID, s.Key.App, s.Key.User, s.Seq, s.Created.UTC(), s.Updated.UTC(), s.Parent.ID, s.ParentSeq})
		}
		return nil
	}
	if len(all) == 0 {
		f.Say("there are no sessions yet")
		return nil
	}
	table := tabwriter.NewWriter(f.Stdout, 0, 0, 2, ' ', 0)
	head, forks := "ID\tEVENTS\tCREATED\tUPDATED", slices.ContainsFunc(all, isFork)
	if forks {
		head += "\tFORK OF"
	}
	fmt.Fprintln(table, head)
	for _, s := range all {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s", visible.Line(factory.ShownID(s.Key)), s.Seq, factory.Stamp(s.Created), factory.Stamp(s.Updated))
		if isFork(s) {
			fmt.Fprintf(table, "\t%s at %d", visible.Line(factory.ShownID(s.Parent)), s.ParentSeq)
		} else if forks {
			fmt.Fprint(table, "\t")
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

func isFork(s session.Info) bool { return s.Parent != (session.Key{}) }
