// Package remote connects commands to the sessions of a server: it has flags, a client, and a copy of a session.
package remote

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/server/client"
	"github.com/agentarbor/arbor/session"
)

// Flags adds --server and --token-file.
func Flags(f *factory.Factory, fs *pflag.FlagSet) {
	fs.StringVar(&f.Server.URL, "server", "", "use the sessions of the server ("+f.Name+" serve) at `URL`")
	fs.StringVar(&f.Server.TokenFile, "token-file", "", "with --server, read the token from `FILE` (default: from "+factory.TokenVariable+")")
}

// Given reports whether --server is given. It returns an error for flags whose values the server decides.
func Given(f *factory.Factory, cmd *cobra.Command) (bool, error) {
	return givenWithout(f, cmd, "db", "redis", "model", "record", "replay", "prices", "desk", "no-reload", "by", "users")
}

// givenWithout reports whether --server is given. It returns an error if one of the named flags is given, too.
func givenWithout(f *factory.Factory, cmd *cobra.Command, flags ...string) (bool, error) {
	if f.Server.URL == "" {
		return false, factory.Needs(cmd.Flags(), "token-file", "server")
	}
	for _, name := range flags {
		if flag := cmd.Flag(name); flag != nil && flag.Changed {
			return true, factory.Usagef("--%s and --server exclude each other: the server runs the turns and stores the sessions", name)
		}
	}
	return true, nil
}

// AtServer adds the flags of a server to a command that works on a tree. With them, the command takes no PATH and calls
// run instead.
func AtServer(f *factory.Factory, cmd *cobra.Command, run func(*cobra.Command) error) {
	Flags(f, cmd.Flags())
	local := cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch remote, err := Given(f, cmd); {
		case err != nil:
			return err
		case !remote:
			return factory.CheckArgs(cmd, args)
		case len(args) > 0:
			return factory.Usagef("leave out %s: with --server, the server has the tree", visible.Cut(visible.Line(args[0]), 40))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.Server.URL == "" {
			return local(cmd, args)
		}
		return run(cmd)
	}
}

// Connect returns a client of the server, after asking the server for the caller's rights. told gets the errors of an
// unreachable server.
func Connect(ctx context.Context, f *factory.Factory, told func(error), opts ...client.Option) (*client.Client, error) {
	token := f.Getenv(factory.TokenVariable)
	if f.Server.TokenFile != "" {
		var err error
		if token, err = f.ReadSecret("--token-file", f.Server.TokenFile); err != nil {
			return nil, err
		}
	}
	c, err := client.New(f.Server.URL, append(opts, client.WithToken(token), client.WithLost(told))...)
	if err != nil {
		return nil, factory.Usagef("--server: %s", factory.Plain(err, "client"))
	}
	_, err = c.Me(ctx)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusUnauthorized {
		how := "the token of " + factory.TokenVariable + " is not one of its tokens"
		switch {
		case f.Server.TokenFile != "":
			how = "the token in " + f.Server.TokenFile + " is not one of its tokens"
		case token == "":
			how = "it wants a token: set " + factory.TokenVariable + ", or give --token-file"
		}
		err = factory.Usagef("the server at %s refuses: %s", f.Server.URL, how)
	}
	return c, err
}

// Away returns a function that prints the error of an unreachable server.
func Away(f *factory.Factory) func(error) { return func(err error) { f.Say("%s; trying again", err) } }

// OfServer adds the flags of a server to a command that only reads a session. With them, it reads the session from the
// server and does everything else in this process.
func OfServer(f *factory.Factory, cmd *cobra.Command) *cobra.Command {
	Flags(f, cmd.Flags())
	here := cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if f.Server.URL != "" {
			return nil // run takes none, and says so
		}
		return factory.CheckArgs(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := givenWithout(f, cmd, "db"); err != nil {
			return err
		}
		return here(cmd, args)
	}
	return cmd
}

// Find returns a session of the server.
func Find(ctx context.Context, f *factory.Factory, api *client.Client, id string) (*client.Session, error) {
	s, err := api.Session(ctx, id)
	if !Missing(err) {
		return s, err
	}
	missing := factory.NoSession{ID: id, DB: "the server at " + f.Server.URL}
	latest, _, _ := api.Sessions(ctx, "") // a caller without the right to list them gets no hint
	for _, s := range latest {
		missing.Latest = append(missing.Latest, visible.Line(s.ID))
	}
	return nil, factory.Usage(missing)
}

// fetched is a store with a session that was fetched from a server. It fetches files on demand.
type fetched struct {
	*session.Memory
	from Served
}

func (f fetched) Blob(ctx context.Context, _ session.Key, digest string) ([]byte, error) {
	return f.from.File(ctx, f.from.ID, digest)
}

// fetchPatience is how long a command that only reads waits for an unreachable server. A user who runs it again loses
// nothing.
const fetchPatience = 10 * time.Second

// Fetch copies a session from the server, up to the last event that is stored at this time.
func Fetch(ctx context.Context, f *factory.Factory, id string) (*factory.Database, session.Info, error) {
	var none session.Info
	if err := factory.CheckName(id); err != nil {
		return nil, none, err
	}
	api, err := Connect(ctx, f, Away(f), client.WithPatience(fetchPatience))
	if err != nil {
		return nil, none, err
	}
	me, err := api.Me(ctx)
	if err != nil {
		return nil, none, err
	}
	s, err := Find(ctx, f, api, id)
	if err != nil {
		return nil, none, err
	}
	var events []*event.Event
	for e, err := range api.Events(ctx, id, 0) {
		if err != nil && !Missing(err) {
			return nil, none, err
		}
		if err == nil {
			events = append(events, e)
		}
	}
	// A session that was removed meanwhile, or created again with the same id, is not the one that was found.
	if now, err := api.Session(ctx, id); Missing(err) || err == nil && !now.Created.Equal(s.Created) {
		return nil, none, fmt.Errorf("session %s was removed from the server at %s while it was read: %w", visible.Line(id), f.Server.URL, agent.ErrConflict)
	} else if err != nil {
		return nil, none, err
	}
	db := &factory.Database{Store: fetched{session.NewMemory(), Served{Client: api, ID: id}}, Path: f.Server.URL, Remote: true}
	key := session.Key{App: me.App, User: s.User, ID: s.ID}
	if _, err := db.Write(ctx, key, session.Write{Acquire: session.Self(), Events: events, Release: true}); err != nil {
		return nil, none, fmt.Errorf("session %s of the server at %s: %w", visible.Line(id), f.Server.URL, err)
	}
	info := session.Info{Key: key, Seq: int64(len(events)), Created: s.Created, Updated: s.Updated}
	if s.Parent != nil {
		info.Parent, info.ParentSeq = key, s.Parent.Seq
		info.Parent.ID = s.Parent.ID
	}
	return db, info, nil
}

// Served is a session at a server.
type Served struct {
	*client.Client
	ID string
}

func (s Served) Log(ctx context.Context, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range s.Events(ctx, s.ID, after) {
			if Missing(err) { // the session does not exist yet
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (s Served) Tail(ctx context.Context, after string) iter.Seq2[session.Entry, error] {
	return s.Follow(ctx, s.ID, after)
}

// Missing reports whether an error means that the session does not exist.
func Missing(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Code == "not_found"
}
