package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/session/sharded"
)

// isShards reports whether the value of --db is a file that lists databases.
func isShards(db string) bool {
	ext := strings.ToLower(filepath.Ext(db))
	return !strings.Contains(db, "://") && (ext == ".yaml" || ext == ".yml")
}

// shardList is what such a file says.
type shardList struct {
	shards []shardEntry
	former []string
}

type shardEntry struct {
	line     int
	name, db string
	leaving  bool
}

// maxShards bounds a file that lists databases, in bytes.
const maxShards = 1 << 20

// listError is all mistakes of a file that lists databases.
type listError []string

// Error returns one mistake a line.
func (e listError) Error() string { return strings.Join(e, "\n") }

// quoted finds what a mistake repeats of the file.
var quoted = lazyregexp.New(`"(?:[^"\\]|\\.)*"`)

// isAddress reports whether a text is, or is meant as, the address of a server.
func isAddress(text string) bool { return strings.Contains(text, "://") || checkDB(text) != nil }

// readShards reads a file that lists databases. The error has all mistakes, each with its line, and
// no address, wherever it stands in the file: it may have a password in it.
func readShards(path string) (*shardList, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("the list of databases cannot be read: %w", err)
	}
	var mistakes listError
	r := &yamldoc.Reader{Report: func(line int, message string) {
		message = quoted.Get().ReplaceAllStringFunc(message, func(text string) string {
			if isAddress(strings.Trim(text, `"`)) {
				return `"…"`
			}
			return text
		})
		mistakes = append(mistakes, fmt.Sprintf("%s:%d: %s", path, line, message))
	}}
	l := &shardList{}
	for i, doc := range r.Documents(data, maxShards) {
		if i > 0 {
			r.Add(doc.Before+1, "a list of databases is one document")
			break
		}
		l.read(r, r.Parse(doc), filepath.Dir(path))
	}
	if len(l.shards) == 0 && len(mistakes) == 0 {
		r.Add(1, "the file names no database: give a list of shards, each with a name and a db")
	}
	if len(mistakes) > 0 {
		return nil, usageError{mistakes}
	}
	return l, nil
}

func (l *shardList) read(r *yamldoc.Reader, body yamldoc.Node, dir string) {
	f := r.Fields(body, "a list of databases", nil, "shards", "former")
	if p := f["former"]; p != nil {
		l.former = r.Words(p)
		if slices.ContainsFunc(l.former, isAddress) {
			r.Add(p.Line, "former has the names of shards, and no addresses")
		}
	}
	p := f["shards"]
	if p == nil {
		return
	}
	list := r.List(p)
	for i := range list.Len() {
		n := list.Item(i)
		f := r.Fields(n, "a shard", nil, "name", "db", "leaving")
		if n.Kind() != yamldoc.Mapping {
			continue
		}
		x := shardEntry{line: n.Line()}
		if f["name"] == nil || f["db"] == nil {
			r.Add(x.line, "a shard has a name and a db")
			continue
		}
		x.name, x.db = r.Text(f["name"]), r.Text(f["db"])
		if f["leaving"] != nil {
			x.leaving = r.Flag(f["leaving"])
		}
		if isAddress(x.name) {
			r.Add(f["name"].Line, "name: a shard is called by a word that stays when its address changes, and not by an address")
		}
		switch {
		case x.db == "":
			continue // reported
		case x.db == memoryDB:
			r.Add(f["db"].Line, "db: a shard is a SQLite file or a postgres:// address: what is kept in memory would be gone at the end of the command")
		case isShards(x.db):
			r.Add(f["db"].Line, "db: a shard is a SQLite file or a postgres:// address, and no list of databases")
		case checkDB(x.db) != nil:
			r.Add(f["db"].Line, "%s", strings.TrimPrefix(checkDB(x.db).Error(), "--"))
		case !strings.Contains(x.db, "://") && !filepath.IsAbs(x.db):
			x.db = filepath.Join(dir, x.db)
		}
		if i := slices.IndexFunc(l.shards, func(y shardEntry) bool { return sameDatabase(y.db, x.db) }); i >= 0 {
			r.Add(f["db"].Line, "db: this is the database of %s as well", l.shards[i].name)
		}
		l.shards = append(l.shards, x)
	}
	stays := func(x shardEntry) bool { return !x.leaving }
	if n := len(l.shards); n > 0 && n == list.Len() && !slices.ContainsFunc(l.shards, stays) { // else one with a mistake may stay
		r.Add(p.Line, "every shard is leaving: sessions need one that stays")
	}
}

// sameDatabase reports whether two addresses are the same, or two paths lead to one file.
func sameDatabase(a, b string) bool {
	if a == b || strings.Contains(a+b, "://") {
		return a == b
	}
	first, err := os.Stat(a)
	second, e := os.Stat(b)
	if err == nil && e == nil {
		return os.SameFile(first, second)
	}
	a, err = filepath.Abs(a)
	b, e = filepath.Abs(b)
	return err == nil && e == nil && a == b
}

// openShards opens all databases that a file lists. Those that sessions have been in must be there, also with create.
func (p *program) openShards(ctx context.Context, path string, create bool) (_ *database, err error) {
	l, err := readShards(path)
	if err != nil {
		return nil, err
	}
	var shards []sharded.Shard
	defer func() {
		if err != nil {
			for _, s := range shards {
				_ = s.Store.Close()
			}
		}
	}()
	for _, x := range l.shards {
		db, err := p.openStore(ctx, x.db, create && !x.leaving && !slices.Contains(l.former, x.name))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: shard %s: %w", path, x.line, x.name, err)
		}
		shards = append(shards, sharded.Shard{Name: x.name, Store: db.Store, Leaving: x.leaving})
	}
	var opts []sharded.Option
	if len(l.former) > 0 {
		opts = append(opts, sharded.Former(l.former...))
	}
	store, err := sharded.New(shards, opts...)
	if err != nil {
		return nil, usagef("%s: %w", path, err)
	}
	return &database{Store: store, path: path, remote: true}, nil
}

func (p *program) rebalanceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rebalance",
		Short: "Move sessions to the database where they belong",
		Long: `Moves sessions among the databases that the file of --db lists, after one was added
or is to be taken away. Those of users who have a session under way stay where they
are: the status is then 6, and the command can be called again. If sessions stay on a
database that is leaving, it must not be taken away: the status is then 1. Sessions
can be used all the while.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !isShards(p.place.db) {
				return usagef("sessions rebalance moves sessions among several databases: give --db FILE.yaml, which lists them")
			}
			db, err := p.openDB(cmd.Context(), true)
			if err != nil {
				return err
			}
			report, err := db.Store.(*sharded.Store).Rebalance(cmd.Context())
			if err != nil {
				return fmt.Errorf("%s moved before this: %w", render.Count(report.Moved, "session"), err)
			}
			if report.Left > 0 {
				p.say("%s moved; %d of users who have one under way were left: call this again", render.Count(report.Moved, "session"), report.Left)
				return statusError(StatusBusy)
			}
			if report.Stay > 0 {
				p.say("%s moved; %d stay on a database that is leaving: they are forks of other users' sessions, for which it has to be kept in the list, or former does not name it",
					render.Count(report.Moved, "session"), report.Stay)
				return statusError(StatusFindings)
			}
			p.say("%s moved; all are where they belong", render.Count(report.Moved, "session"))
			return nil
		},
	}
}
