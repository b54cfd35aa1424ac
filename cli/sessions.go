package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/session"
)

func (p *program) sessionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                "sessions",
		Short:              "List, show and export sessions",
		RunE:               noCommand,
		Args:               cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, // the unknown command is the news
	}
	p.dbFlag(cmd.PersistentFlags())
	ls := &cobra.Command{Use: "ls", Short: "List the sessions, the latest first", Args: exactly(), RunE: p.listSessions}
	ls.Flags().BoolVar(&p.flags.json, "json", false, "print one session a line, as JSON")
	show := &cobra.Command{Use: "show ID", Short: "Print what was said and done in a session", Args: exactly("ID"), RunE: p.showSession}
	show.Flags().BoolVar(&p.flags.json, "json", false, "print one event a line, as JSON")
	show.Flags().BoolVar(&p.flags.usage, "usage", false, "print what each agent's models have used instead")
	show.Flags().StringVar(&p.flags.prices, "prices", "", "with --usage, a YAML or JSON file of prices, to print costs as well")
	export := &cobra.Command{Use: "export ID", Short: "Write a session as events or as Markdown", Args: exactly("ID"), RunE: p.exportSession}
	export.Flags().StringVar(&p.flags.export, "format", "jsonl", "jsonl or md")
	cmd.AddCommand(ls, show, export)
	return cmd
}

// exactly is the check for arguments that must all be there.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing; see %s --help", names[len(args)], cmd.CommandPath())
		}
		if len(args) > len(names) {
			return fmt.Errorf("%s too many: %q; see %s --help", count(len(args)-len(names), "argument"), args[len(names):], cmd.CommandPath())
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
}

func (p *program) listSessions(cmd *cobra.Command, _ []string) error {
	db, err := p.openDB(false)
	if errors.Is(err, errNoFile) && p.flags.db == "" {
		p.say("there are no sessions yet")
		return nil
	}
	if err != nil {
		return err
	}
	all, err := db.List(cmd.Context(), session.Key{})
	if err != nil {
		return err
	}
	if p.flags.json {
		for _, s := range all {
			writeJSON(p.Stdout, jsonSession{s.Key.ID, s.Key.App, s.Key.User, s.Seq, s.Created.UTC(), s.Updated.UTC()})
		}
		return nil
	}
	if len(all) == 0 {
		p.say("there are no sessions yet")
		return nil
	}
	table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tEVENTS\tCREATED\tUPDATED")
	for _, s := range all {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", oneLine(shownID(s.Key)), s.Seq, stamp(s.Created), stamp(s.Updated))
	}
	return table.Flush()
}

// shownID leaves out the parts of a key that the command fills in itself.
func shownID(key session.Key) string {
	if key == session.ID(key.ID) {
		return key.ID
	}
	return key.String()
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// stored opens the database and finds a session by its id: the command's own,
// else the only one of any app and user that has it.
func (p *program) stored(ctx context.Context, id string) (*database, session.Key, error) {
	key := session.ID(id)
	if err := checkSession(id); err != nil {
		return nil, key, err
	}
	db, err := p.openDB(false)
	if err != nil {
		return nil, key, err
	}
	found, err := db.List(ctx, session.Key{ID: id})
	switch {
	case err != nil:
		return nil, key, err
	case len(found) == 0:
		return nil, key, usagef("there is no session %q in %s", id, db.path)
	}
	var names []string
	for _, s := range found {
		if s.Key == key {
			return db, key, nil
		}
		names = append(names, s.Key.String())
	}
	if len(found) > 1 {
		return nil, key, usagef("%d sessions have the id %q: %s", len(found), id, strings.Join(names, ", "))
	}
	return db, found[0].Key, nil
}

func (p *program) showSession(cmd *cobra.Command, args []string) error {
	out := sink(jsonLines{p.Stdout})
	switch {
	case p.flags.prices != "" && !p.flags.usage:
		return usagef("--prices goes with --usage")
	case p.flags.usage:
		l := &ledger{w: p.Stdout, json: p.flags.json}
		if p.flags.prices != "" {
			var err error
			if l.prices, err = readPrices(p.flags.prices); err != nil {
				return err
			}
		}
		out = l
	case !p.flags.json:
		l := p.lookOf(p.Stdout)
		l.live = false
		printer := newPrinter(p.Stdout, l, nil)
		printer.transcript = true
		out = printer
	}
	return p.replay(cmd.Context(), args[0], out)
}

func (p *program) exportSession(cmd *cobra.Command, args []string) error {
	switch p.flags.export {
	case "jsonl":
		return p.replay(cmd.Context(), args[0], jsonLines{p.Stdout})
	case "md":
		return p.replay(cmd.Context(), args[0], &markdown{w: p.Stdout, title: args[0]})
	}
	return usagef("--format %s: jsonl and md are possible", oneLine(p.flags.export))
}

// replay sends the events of a stored session to a sink.
func (p *program) replay(ctx context.Context, id string, out sink) error {
	db, key, err := p.stored(ctx, id)
	if err != nil {
		return err
	}
	for e, err := range db.Load(ctx, key, 0) {
		if err != nil {
			return err
		}
		out.event(e)
		if err := p.out.failed(); err != nil {
			return err
		}
	}
	out.finish()
	return nil
}
