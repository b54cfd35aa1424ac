package factory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
)

// Stored opens the database and finds a session.
func Stored(ctx context.Context, f *Factory, id string) (*Database, session.Info, error) {
	if err := CheckName(id); err != nil {
		return nil, session.Info{}, err
	}
	db, err := f.OpenDB(ctx, false)
	if err != nil {
		return nil, session.Info{}, err
	}
	info, err := db.Find(ctx, id)
	return db, info, err
}

// Find finds the session that a name means, which is what sessions ls prints or an id
// alone. First comes the session whose key is app/user/id, then the command's own of
// that id, then the only one of any app and user that has it, and last one whose id ls
// has to print with escapes.
func (db *Database) Find(ctx context.Context, name string) (none session.Info, err error) {
	if err := CheckName(name); err != nil {
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
			return none, Usagef("%d sessions have the id %q: %s", len(found), name, strings.Join(names, ", "))
		}
	}
	return none, Usage(NoSession{name, db.Path})
}

// byKey returns the sessions whose key is app/user/id. There can be several only if
// their parts have slashes.
func (db *Database) byKey(ctx context.Context, name string) (found []session.Info, err error) {
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

func (db *Database) byID(ctx context.Context, id string) ([]session.Info, error) {
	found, err := db.List(ctx, session.Key{ID: id}, session.Page{})
	if i := slices.IndexFunc(found, func(s session.Info) bool { return Own(s.Key) }); i >= 0 {
		found = found[i : i+1]
	}
	return found, err
}

func (db *Database) byPrinted(ctx context.Context, name string) ([]session.Info, error) {
	all, err := db.List(ctx, session.Key{}, session.Page{})
	return slices.DeleteFunc(all, func(s session.Info) bool { return visible.Line(ShownID(s.Key)) != name }), err
}

// NoSession is the error of an id that nothing is stored under.
type NoSession struct{ ID, DB string }

func (e NoSession) Error() string { return fmt.Sprintf("there is no session %q in %s", e.ID, e.DB) }

func (e NoSession) Is(target error) bool { return target == ErrNoSession }
