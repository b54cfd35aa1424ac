package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/client"
	"github.com/agentarbor/arbor/session"
)

// serverFlags say where a server is whose sessions are used.
type serverFlags struct{ url, tokenFile string }

// serverFlags adds --server and --token-file.
func (p *program) serverFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.server.url, "server", "", "use the sessions of the server ("+p.name+" serve) at `URL`")
	fs.StringVar(&p.server.tokenFile, "token-file", "", "with --server, read the token from `FILE` (default: from "+tokenVariable+")")
}

// words are the flags that lead to the same server.
func (f serverFlags) words() []string {
	words := []string{"--server", quoteArg(f.url)}
	if f.tokenFile != "" {
		words = append(words, "--token-file", quoteArg(f.tokenFile))
	}
	return words
}

// remote reports whether --server is given, and refuses flags that say what the server decides.
func (p *program) remote(cmd *cobra.Command) (bool, error) {
	return p.remoteWithout(cmd, "db", "redis", "model", "record", "replay", "prices", "desk", "no-reload", "by", "users")
}

// remoteWithout reports whether --server is given, and refuses flags that do not go with it.
func (p *program) remoteWithout(cmd *cobra.Command, flags ...string) (bool, error) {
	if p.server.url == "" {
		if p.server.tokenFile != "" {
			return false, usagef("--token-file goes with --server")
		}
		return false, nil
	}
	for _, name := range flags {
		if f := cmd.Flag(name); f != nil && f.Changed {
			return true, usagef("--%s does not go with --server: the server runs the turns and keeps the sessions", name)
		}
	}
	return true, nil
}

// atServer gives a command that works on a tree the flags of a server, with which it has no PATH
// and runs in its stead.
func (p *program) atServer(cmd *cobra.Command, run func(*cobra.Command) error) {
	p.serverFlags(cmd.Flags())
	here := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch remote, err := p.remote(cmd); {
		case err != nil:
			return err
		case !remote:
			return here(cmd, args)
		case len(args) > 0:
			return usagef("%q is too much: with --server the tree is the server's", args[0])
		}
		return run(cmd)
	}
}

// connect makes a client of the server and asks it who calls. told hears of a server that is away.
func (p *program) connect(ctx context.Context, told func(error), opts ...client.Option) (*client.Client, error) {
	token := p.Getenv(tokenVariable)
	if p.server.tokenFile != "" {
		var err error
		if token, err = readSecret("--token-file", p.server.tokenFile); err != nil {
			return nil, err
		}
	}
	c, err := client.New(p.server.url, append(opts, client.WithToken(token), client.WithLost(told))...)
	if err != nil {
		return nil, usagef("--server: %s", strings.TrimPrefix(err.Error(), "client: "))
	}
	_, err = c.Me(ctx)
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		how := "the token of " + tokenVariable + " is not one of its tokens"
		switch {
		case p.server.tokenFile != "":
			how = "the token in " + p.server.tokenFile + " is not one of its tokens"
		case token == "":
			how = "it wants a token: set " + tokenVariable + ", or give --token-file"
		}
		err = usagef("the server at %s refuses: %s", p.server.url, how)
	}
	return c, err
}

// away says that a server is waited for.
func (p *program) away(err error) { p.say("%s; trying again", err) }

// ofServer gives a command that only looks at a session the flags of a server, which has the
// session then. All else that the command asks for is done here.
func (p *program) ofServer(cmd *cobra.Command) *cobra.Command {
	p.serverFlags(cmd.Flags())
	here := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := p.remoteWithout(cmd, "db"); err != nil {
			return err
		}
		return here(cmd, args)
	}
	return cmd
}

// fetched is a store with a session that was fetched from a server. Its files are fetched when
// they are asked for.
type fetched struct {
	*session.Memory
	from served
}

func (f fetched) Blob(ctx context.Context, _ session.Key, digest string) ([]byte, error) {
	return f.from.File(ctx, f.from.id, digest)
}

// fetchPatience is how long a server that has gone away is waited for by a command that only looks: who
// calls it again loses nothing.
const fetchPatience = 10 * time.Second

// fetch fetches a session from the server, as far as it has got.
func (p *program) fetch(ctx context.Context, id string) (*database, session.Info, error) {
	var none session.Info
	if err := checkName(id); err != nil {
		return nil, none, err
	}
	api, err := p.connect(ctx, p.away, client.WithPatience(fetchPatience))
	if err != nil {
		return nil, none, err
	}
	me, err := api.Me(ctx)
	if err != nil {
		return nil, none, err
	}
	s, err := api.Session(ctx, id)
	if missing(err) {
		err = usageError{noSession{id, "the server at " + p.server.url}}
	}
	if err != nil {
		return nil, none, err
	}
	var events []*event.Event
	for e, err := range api.Events(ctx, id, 0) {
		if err != nil && !missing(err) {
			return nil, none, err
		}
		if err == nil {
			events = append(events, e)
		}
	}
	// What was removed meanwhile, and what was begun anew under its id, is not what was found.
	if now, err := api.Session(ctx, id); missing(err) || err == nil && !now.Created.Equal(s.Created) {
		return nil, none, fmt.Errorf("session %s was removed from the server at %s while it was read: %w", visible.Line(id), p.server.url, agent.ErrConflict)
	} else if err != nil {
		return nil, none, err
	}
	db := &database{Store: fetched{session.NewMemory(), served{api, id}}, path: p.server.url, remote: true}
	key := session.Key{App: me.App, User: s.User, ID: s.ID}
	if _, err := db.Write(ctx, key, session.Write{Acquire: session.Self(), Events: events, Release: true}); err != nil {
		return nil, none, fmt.Errorf("session %s of the server at %s: %w", visible.Line(id), p.server.url, err)
	}
	info := session.Info{Key: key, Seq: int64(len(events)), Created: s.Created, Updated: s.Updated}
	if s.Parent != nil {
		info.Parent, info.ParentSeq = key, s.Parent.Seq
		info.Parent.ID = s.Parent.ID
	}
	return db, info, nil
}

// served is a session at a server.
type served struct {
	*client.Client
	id string
}

func (s served) log(ctx context.Context, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range s.Events(ctx, s.id, after) {
			if missing(err) { // it has not begun
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (s served) follow(ctx context.Context, after string) iter.Seq2[session.Entry, error] {
	return s.Follow(ctx, s.id, after)
}

// missing reports whether there is no such session.
func missing(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Code == "not_found"
}

// there is a conversation whose turns run at a server.
type there struct {
	served
	p *program
}

// chatAt is chat with the tree of a server.
func (p *program) chatAt(ctx context.Context, f turnFlags) error {
	key, err := sessionKey(f.session)
	if err != nil {
		return err
	}
	c := &conversation{p: p, key: key, files: f.files, chatting: true}
	api, err := p.connect(ctx, func(err error) {
		if out, ok := c.out.(*render.Printer); ok {
			out.Break()
		}
		p.sayTo(c.errors(), err.Error()+"; trying again")
	})
	if err != nil {
		return err
	}
	c.at = there{served{api, key.ID}, p}
	c.draw()
	in, err := p.lines(p.historyFile(&database{remote: true}))
	if err != nil {
		return err
	}
	c.pages, _ = in.(*editor)
	if err := c.greet(ctx); err != nil {
		return err
	}
	return c.loop(ctx, in)
}

func (t there) begin(ctx context.Context, msg llm.Message) iter.Seq2[*event.Event, error] {
	return t.turn(ctx, func(ctx context.Context) (*client.Turn, int64, error) {
		turn, err := t.Begin(ctx, t.id, client.Message{Content: msg.Content})
		return turn, 0, err
	})
}

func (t there) resume(ctx context.Context, f *session.Fold, decisions ...runner.Decision) iter.Seq2[*event.Event, error] {
	if len(decisions) == 0 && !f.Unfinished() && !f.Held() {
		return func(func(*event.Event, error) bool) {} // there is nothing to resume
	}
	return t.turn(ctx, func(ctx context.Context) (*client.Turn, int64, error) {
		var turn *client.Turn
		var err error
		if len(decisions) > 0 {
			made := make([]client.Decision, len(decisions))
			for i, d := range decisions {
				made[i] = client.Decision{CallID: d.CallID, Approved: d.Approved, Content: d.Content, Reason: d.Reason}
			}
			turn, err = t.Decide(ctx, t.id, f.Turn.ID, made...)
		} else {
			turn, err = t.Resume(ctx, t.id, f.Turn.ID)
		}
		return turn, f.Seq, err
	})
}

// turn yields the events of a turn after a position, and then why it failed. If the context ends
// before, the turn is stopped, as one that runs here is.
func (t there) turn(ctx context.Context, begin func(context.Context) (turn *client.Turn, after int64, err error)) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		patient, cancel := outlive(ctx)
		turn, after, err := begin(patient)
		cancel()
		if err != nil {
			if errors.Is(err, context.Canceled) {
				t.p.say("the server has not said whether it has begun the turn")
			}
			yield(nil, cmp.Or(ctx.Err(), err))
			return
		}
		for entry, err := range t.Watch(ctx, t.id, turn.ID, session.Position{Seq: max(after, turn.First-1)}.String()) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				if ctx.Err() != nil {
					t.halt(ctx, turn)
				}
				yield(nil, err)
				return
			}
			if !yield(entry.Event, nil) {
				return
			}
		}
		if turn, err = t.Turn(ctx, t.id, turn.ID); err == nil {
			if err = turn.Err(); turn.State == "cut_off" {
				err = fmt.Errorf("the turn was stopped elsewhere: /resume resumes it: %w", agent.ErrSuspended)
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// outlive returns a context that ends a moment after another one: who interrupts a request has to
// know whether it has begun a turn, which else nobody would stop.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, func() { time.AfterFunc(3*time.Second, cancel) })
	return longer, func() { undo(); cancel() }
}

// halt stops a turn that is interrupted here.
func (t there) halt(ctx context.Context, turn *client.Turn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if _, err := t.Stop(ctx, t.id, turn.ID); err != nil {
		t.p.say("the server could not be asked to stop the turn, which continues there: %s", err)
	}
}

func (t there) agents(ctx context.Context, w io.Writer, look render.Look) error {
	var tree struct{ Root *render.Outline }
	if err := t.Agents(ctx, &tree); err != nil {
		return err
	}
	s, err := t.Session(ctx, t.id)
	switch {
	case missing(err):
		s.Active = tree.Root.Name
	case err != nil:
		return err
	}
	tree.Root.Draw(w, look, s.Active)
	return nil
}

func (t there) running(ctx context.Context) (bool, error) {
	s, err := t.Session(ctx, t.id)
	return s.State == "running", err
}

func (t there) blob(ctx context.Context, digest string) ([]byte, error) {
	return t.File(ctx, t.id, digest)
}
