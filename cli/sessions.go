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

	"github.com/agentarbor/arbor/cli/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
)

func (p *program) sessionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                "sessions",
		Short:              "List, show, fork, compare, export, import, check and remove sessions",
		RunE:               noCommand,
		Args:               cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, // the unknown command is the news
	}
	p.dbFlag(cmd.PersistentFlags())
	ls := &cobra.Command{Use: "ls", Short: "List the sessions, the latest first", Args: exactly(), RunE: p.listSessions}
	ls.Flags().BoolVar(&p.flags.json, "json", false, "print one session a line, as JSON")
	ls.Flags().IntVar(&p.flags.limit, "limit", 0, "how many sessions are listed at most; 0 is all")
	cmd.AddCommand(ls, p.showCommand(), p.historyCommand(), p.forkCommand(), p.editCommand(), p.diffCommand(), p.replayCommand(),
		p.exportCommand(), p.importCommand(), p.removeCommand(), p.followCommand(), p.checkCommand())
	return cmd
}

// exactly is the check for arguments that must all be there.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing; see %s --help", names[len(args)], cmd.CommandPath())
		}
		if len(args) > len(names) {
			return fmt.Errorf("%s too many: %q; see %s --help", render.Count(len(args)-len(names), "argument"), args[len(names):], cmd.CommandPath())
		}
		return nil
	}
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

func (p *program) listSessions(cmd *cobra.Command, _ []string) error {
	db, err := p.openDB(cmd.Context(), false)
	if errors.Is(err, errNoFile) && p.flags.db == "" {
		p.say("there are no sessions yet")
		return nil
	}
	if err != nil {
		return err
	}
	all, err := db.List(cmd.Context(), session.Key{}, session.Page{Limit: p.flags.limit})
	if err != nil {
		return err
	}
	if p.flags.json {
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
// slash stands with all parts, so that it cannot be taken for another session's key.
func shownID(key session.Key) string {
	if own(key) && !strings.Contains(key.ID, "/") {
		return key.ID
	}
	return key.String()
}

// own reports whether a session is one of the command itself, as --session names them.
func own(key session.Key) bool { return key == session.ID(key.ID) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// stored opens the database and finds a session.
func (p *program) stored(ctx context.Context, id string) (*database, session.Info, error) {
	if err := checkName(id); err != nil {
		return nil, session.Info{}, err
	}
	db, err := p.openDB(ctx, false)
	if err != nil {
		return nil, session.Info{}, err
	}
	info, err := db.find(ctx, id)
	return db, info, err
}

// find finds the session that a name means, which is what sessions ls prints or an id
// alone. First comes the session whose key is app/user/id, then the command's own of
// that id, then the only one of any app and user that has it, and last one whose id ls
// has to print with escapes.
func (db *database) find(ctx context.Context, name string) (none session.Info, err error) {
	if err := checkName(name); err != nil {
		return none, err
	}
	for _, look := range []func(context.Context, string) ([]session.Info, error){db.byKey, db.byID, db.byPrinted} {
		found, err := look(ctx, name)
		switch {
		case err != nil:
			return none, err
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			var names []string
			for _, s := range found {
				names = append(names, s.Key.String())
			}
			return none, usagef("%d sessions have the id %q: %s", len(found), name, strings.Join(names, ", "))
		}
	}
	return none, usageError{noSession{name, db.path}}
}

// byKey returns the sessions whose key is app/user/id. There can be several only if
// their parts have slashes.
func (db *database) byKey(ctx context.Context, name string) (found []session.Info, err error) {
	const most = 8 // an id can have more slashes, but apps and users hardly have
	parts := strings.Split(name, "/")
	for i := 1; i < min(len(parts)-1, most); i++ {
		for j := i + 1; j < min(len(parts), most); j++ {
			key := session.Key{App: strings.Join(parts[:i], "/"), User: strings.Join(parts[i:j], "/"), ID: strings.Join(parts[j:], "/")}
			if key.App == "" || key.User == "" || key.ID == "" { // which would match all
				continue
			}
			some, err := db.List(ctx, key, session.Page{})
			if err != nil {
				return nil, err
			}
			found = append(found, some...)
		}
	}
	return found, nil
}

func (db *database) byID(ctx context.Context, id string) ([]session.Info, error) {
	found, err := db.List(ctx, session.Key{ID: id}, session.Page{})
	if i := slices.IndexFunc(found, func(s session.Info) bool { return own(s.Key) }); i >= 0 {
		found = found[i : i+1]
	}
	return found, err
}

func (db *database) byPrinted(ctx context.Context, name string) ([]session.Info, error) {
	all, err := db.List(ctx, session.Key{}, session.Page{})
	return slices.DeleteFunc(all, func(s session.Info) bool { return visible.Line(shownID(s.Key)) != name }), err
}

// noSession is the error of an id that nothing is stored under.
type noSession struct{ id, db string }

func (e noSession) Error() string        { return fmt.Sprintf("there is no session %q in %s", e.id, e.db) }
func (e noSession) Is(target error) bool { return target == errNoSession }
