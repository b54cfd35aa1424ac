package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
)

func (p *program) listCommand() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the sessions, latest first",
		Args:  exactly(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return p.listSessions(cmd.Context(), limit, asJSON) },
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

func (p *program) listSessions(ctx context.Context, limit int, asJSON bool) error {
	db, err := p.openDB(ctx, false)
	if errors.Is(err, errNoFile) && p.place.db == "" {
		p.say("there are no sessions yet")
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
			render.JSON(p.Stdout, jsonSession{s.Key.ID, s.Key.App, s.Key.User, s.Seq, s.Created.UTC(), s.Updated.UTC(), s.Parent.ID, s.ParentSeq})
		}
		return nil
	}
	if len(all) == 0 {
		p.say("there are no sessions yet")
		return nil
	}
	table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	head, forks := "ID\tEVENTS\tCREATED\tUPDATED", slices.ContainsFunc(all, isFork)
	if forks {
		head += "\tFORK OF"
	}
	fmt.Fprintln(table, head)
	for _, s := range all {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s", visible.Line(shownID(s.Key)), s.Seq, stamp(s.Created), stamp(s.Updated))
		if isFork(s) {
			fmt.Fprintf(table, "\t%s at %d", visible.Line(shownID(s.Parent)), s.ParentSeq)
		} else if forks {
			fmt.Fprint(table, "\t")
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

func isFork(s session.Info) bool { return s.Parent != (session.Key{}) }

// shownID leaves out the parts of a key that the command fills in itself. An id with a
// slash is shown with all parts, so that it cannot be taken for another session's key.
func shownID(key session.Key) string {
	if own(key) && !strings.Contains(key.ID, "/") {
		return key.ID
	}
	return key.String()
}

// own reports whether a session is one of the command itself, as --session names them.
func own(key session.Key) bool { return key == session.ID(key.ID) }

func stamp(t time.Time) string { return sessionform.Stamp(t) }
