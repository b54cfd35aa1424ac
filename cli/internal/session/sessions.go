// Package session is the command sessions, and bisect, which replays a session with earlier revisions of a tree.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/remote"
	"github.com/agentarbor/arbor/cli/internal/turn"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
)

// Command returns the command sessions.
func Command(f *factory.Factory) *cobra.Command {
	cmd := factory.Group("sessions",
		listCommand(f), remote.OfServer(f, showCommand(f)), remote.OfServer(f, historyCommand(f)), forkCommand(f), editCommand(f), diffCommand(f), remote.OfServer(f, replayCommand(f)),
		remote.OfServer(f, exportCommand(f)), importCommand(f), removeCommand(f), followCommand(f), remote.OfServer(f, fileCommand(f)), checkCommand(f), remote.OfServer(f, debugCommand(f)), remote.OfServer(f, whyCommand(f)))
	f.DBFlag(cmd.PersistentFlags())
	return cmd
}

func listCommand(f *factory.Factory) *cobra.Command {
	var limit int
	cmd := factory.Command("ls", func(cmd *cobra.Command, _ []string) error { return listSessions(cmd.Context(), f, limit) })
	f.JSONFlag(cmd.Flags(), "print one JSON object per session and line")
	cmd.Flags().IntVar(&limit, "limit", 0, "list at most `N` sessions (0: all)")
	return cmd
}

// jsonSession is the JSON of sessions ls --json.
type jsonSession struct {
	ID      string    `json:"id"`
	App     string    `json:"app"`
	User    string    `json:"user"`
	Events  int64     `json:"events"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// For a fork: the session whose log contains the last shared event, and its position.
	Parent    string `json:"parent,omitempty"`
	ParentSeq int64  `json:"parentSeq,omitempty"`
}

func listSessions(ctx context.Context, f *factory.Factory, limit int) error {
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
	if len(all) == 0 && !f.JSON {
		f.Say("there are no sessions yet")
		return nil
	}
	head, forks := "ID\tEVENTS\tCREATED (UTC)\tUPDATED (UTC)", slices.ContainsFunc(all, isFork)
	if forks {
		head += "\tFORK OF"
	}
	rows := f.Rows(head)
	for _, s := range all {
		cells := []string{visible.Line(factory.ShownID(s.Key)), fmt.Sprint(s.Seq), sessionform.Stamp(s.Created), sessionform.Stamp(s.Updated)}
		if isFork(s) {
			cells = append(cells, fmt.Sprintf("%s at %d", visible.Line(factory.ShownID(s.Parent)), s.ParentSeq))
		} else if forks {
			cells = append(cells, "")
		}
		rows.Add(jsonSession{s.Key.ID, s.Key.App, s.Key.User, s.Seq, s.Created.UTC(), s.Updated.UTC(), s.Parent.ID, s.ParentSeq}, cells...)
	}
	return rows.Flush()
}

func isFork(s session.Info) bool { return s.Parent != (session.Key{}) }

func removeCommand(f *factory.Factory) *cobra.Command {
	return factory.Command("rm ID...", func(cmd *cobra.Command, args []string) error { return removeSessions(f, cmd, args) })
}

func removeSessions(f *factory.Factory, cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	db, _, err := factory.Stored(ctx, f, args[0])
	if err != nil {
		return err
	}
	found, err := named(ctx, db, args)
	if err != nil {
		return err
	}
	return remove(ctx, db, found, func(s session.Info) {
		f.Say("removed session %s, which had %s", factory.ShownID(s.Key), render.Count(int(s.Seq), "event"))
	})
}

// named finds the sessions of the ids. It returns each session once.
func named(ctx context.Context, db *factory.Database, ids []string) (found []session.Info, err error) {
	for _, id := range ids {
		info, err := db.Find(ctx, id)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(found, func(s session.Info) bool { return s.Key == info.Key }) {
			found = append(found, info)
		}
	}
	return found, nil
}

// remove deletes sessions. It takes all their leases first, so that no turn loses its session.
func remove(ctx context.Context, db *factory.Database, all []session.Info, done func(session.Info)) (failed error) {
	leases := make(map[session.Key]session.Lease, len(all))
	defer func() {
		for key, lease := range leases {
			_, err := db.Write(context.WithoutCancel(ctx), key, session.Write{Lease: lease, Release: true})
			failed = cmp.Or(failed, err)
		}
	}()
	for _, s := range all {
		lease, err := db.Write(ctx, s.Key, session.Write{Acquire: session.Self()})
		if errors.Is(err, agent.ErrSessionBusy) {
			return fmt.Errorf("session %s has a turn under way, and nothing was removed: %w", factory.ShownID(s.Key), err)
		}
		if err != nil {
			return err
		}
		leases[s.Key] = lease
	}
	for _, s := range all {
		if err := db.Delete(ctx, s.Key); err != nil {
			return err
		}
		delete(leases, s.Key)
		done(s)
	}
	return nil
}

// past is a stored session with access to all of its log.
type past struct {
	*checkpoint.Sessions
	session.Info
	f  *factory.Factory
	db *factory.Database
}

// open finds a session, in the database or at the server of --server.
func open(ctx context.Context, f *factory.Factory, id string) (*past, error) {
	db, info, err := find(ctx, f, id)
	if err != nil {
		return nil, err
	}
	sessions, err := checkpoint.New(db.Store)
	if err != nil {
		return nil, err
	}
	return &past{sessions, info, f, db}, nil
}

func find(ctx context.Context, f *factory.Factory, id string) (*factory.Database, session.Info, error) {
	if f.Server.URL != "" {
		return remote.Fetch(ctx, f, id)
	}
	return factory.Stored(ctx, f, id)
}

// atFlag is the value of --at, a position in a log.
type atFlag struct {
	value int64
	flag  *pflag.Flag
}

func (a *atFlag) add(cmd *cobra.Command, usage string) {
	cmd.Flags().Int64Var(&a.value, "at", 0, usage)
	a.flag = cmd.Flags().Lookup("at")
}

func (a *atFlag) given() bool { return a.flag.Changed }

// openAt opens a session like open. It also returns --at, or the end of the log.
func openAt(ctx context.Context, f *factory.Factory, id string, at atFlag) (*past, int64, error) {
	s, err := open(ctx, f, id)
	switch {
	case err != nil:
		return nil, 0, err
	case !at.given():
		return s, s.Seq, nil
	case at.value < 0 || at.value > s.Seq:
		return nil, 0, factory.Usagef("--at %d: session %s has the positions 0 to %d", at.value, factory.ShownID(s.Key), s.Seq)
	}
	return s, at.value, nil
}

// replay sends the events up to a position to a sink, and returns their fold.
func (s *past) replay(ctx context.Context, until int64, out render.Sink) (*session.Fold, error) {
	fold := &session.Fold{}
	for e, err := range s.until(ctx, until) {
		if err != nil {
			return nil, err
		}
		fold.Apply(e)
		out.Event(e)
	}
	out.Finish()
	return fold, nil
}

// until returns the events up to a position, or until the command's output is closed. A fork that shares nothing may
// have none.
func (s *past) until(ctx context.Context, at int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if at == 0 {
			return
		}
		for e, err := range s.Replay(ctx, s.Key, at) {
			if err == nil {
				err = s.f.Out.Failed()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// toFlag adds --to, the id of a session that is created from another one.
func toFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "to", "", "name the new session `ID` (default: the old name and a random suffix)")
}

// target returns the key of a new session: that of --to, or a generated one with the session's app and user.
func (s *past) target(id string) (session.Key, error) {
	to := s.Key
	if id != "" {
		to.ID = id
		return to, factory.CheckSession(to.ID)
	}
	to.ID = sessionform.ChildID(to.ID, factory.RandomHex(3))
	return to, nil
}

// explain adds advice to an error of package checkpoint.
func (s *past) explain(err error, to session.Key) error {
	switch {
	case errors.Is(err, agent.ErrConflict):
		return factory.Usagef("session %q exists already: give another id with --to", to.ID)
	case errors.Is(err, agent.ErrBadInput):
		return factory.Usagef("%w; %s lists the positions", err, s.f.CommandLine("sessions history", "", factory.QuoteArg(factory.ShownID(s.Key))))
	}
	return err
}

// begun prints a new session's id, and to people a description and how to continue it.
func begun(ctx context.Context, f *factory.Factory, db *factory.Database, key session.Key, news string) error {
	id := key.ID // in the form of --session
	if !factory.Own(key) {
		id = key.String()
	}
	if _, err := io.WriteString(f.Stdout, id+"\n"); err != nil {
		return err
	}
	asked, fold, err := db.Asked(ctx, key)
	if err != nil {
		return err
	}
	news = "session " + factory.ShownID(key) + " " + news
	switch {
	case !factory.Own(key): // run cannot name it
	case fold.Paused() && len(asked) > 0:
		f.ShowQuestions(f.Stderr, asked)
		news += "; it waits for " + turn.ToAnswer(asked[0], factory.QuoteArg(asked[0].ToolCallID), func(flag, value string) string { return again(f, "resume", key, flag, value) })
	case fold.Unfinished() || fold.Held():
		news += "; to continue: " + again(f, "resume", key)
	default:
		news += "; to continue: " + again(f, "run", key, `"…"`)
	}
	f.Say("%s", news)
	return nil
}

// again returns the command line that continues a session of any tree.
func again(f *factory.Factory, command string, key session.Key, rest ...string) string {
	path := "PATH"
	if f.Embedded() {
		path = ""
	}
	return f.CommandLine(command, path, append([]string{"--session", factory.QuoteArg(key.ID)}, rest...)...)
}
