package session

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/checkpoint"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/remote"
	"github.com/agentarbor/arbor/cli/internal/turn"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/session"
)

// past is a stored session with access to all that it was.
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

// atFlag is --at, a position in a log.
type atFlag struct {
	value int64
	flag  *pflag.Flag
}

func (a *atFlag) add(cmd *cobra.Command, usage string) {
	cmd.Flags().Int64Var(&a.value, "at", 0, usage)
	a.flag = cmd.Flags().Lookup("at")
}

func (a *atFlag) given() bool { return a.flag.Changed }

// openAt is open, and returns --at, or the end of the log.
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

// replay sends the events until a position to a sink, and returns what they
// amount to.
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

// until returns the events until a position, or until nobody reads the command's output any more.
// A fork may share nothing, and then has none.
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

// toFlag adds --to, the id of a session that is made of another one.
func toFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "to", "", "name the new session `ID` (default: the old name and a random suffix)")
}

// target returns the key of a new session: that of --to, or one like the session's
// own.
func (s *past) target(id string) (session.Key, error) {
	to := s.Key
	if id != "" {
		to.ID = id
		return to, factory.CheckSession(to.ID)
	}
	to.ID = sessionform.ChildID(to.ID, factory.RandomHex(3))
	return to, nil
}

// explain adds to an error of checkpoints what can be done about it.
func (s *past) explain(err error, to session.Key) error {
	switch {
	case errors.Is(err, agent.ErrConflict):
		return factory.Usagef("session %q exists already: give another id with --to", to.ID)
	case errors.Is(err, agent.ErrBadInput):
		return factory.Usagef("%w; %s lists the positions", err, s.f.CommandLine("sessions history", "", factory.QuoteArg(factory.ShownID(s.Key))))
	}
	return err
}

// begun prints a new session's id, and for people what it is and how to continue it.
func begun(ctx context.Context, f *factory.Factory, db *factory.Database, key session.Key, news string) error {
	id := key.ID // as --session takes it
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
	case !factory.Own(key): // not one that run could name
	case fold.Paused() && len(asked) > 0:
		f.ShowQuestions(f.Stderr, asked)
		news += "; it waits for " + turn.ToAnswer(asked[0], func(flag, value string) string { return again(f, "resume", key, flag, value) })
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
