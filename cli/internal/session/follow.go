package session

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/remote"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/session"
)

// followOptions is what the flags of follow say.
type followOptions struct {
	after          string
	from           session.Position // the same
	json, untilEnd bool
}

func followCommand(f *factory.Factory) *cobra.Command {
	var o followOptions
	words := " Answers come whole: the database is looked into a\nfew times a second."
	if f.Redis != nil {
		words = ` With --redis here and there the answers come word
by word; without it they come whole, because then the database is looked into a few
times a second.`
	}
	cmd := &cobra.Command{
		Use:   "follow ID",
		Short: "Print a session while it runs",
		Long: `Prints the session so far, and then each new event until an interrupt. Another process
runs the session.` + words + ` With --server
they come word by word. The session need not exist yet.`,
		Args: factory.Exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.from, err = session.ParsePosition(o.after); err != nil {
				return factory.Usagef("--after: %w", err)
			}
			remote, err := remote.Given(f, cmd)
			if err != nil {
				return err
			}
			ctx, done := f.Interrupts.Turn(cmd.Context())
			defer done()
			if remote {
				err = followServed(ctx, f, args[0], o)
			} else {
				err = followSession(ctx, f, args[0], o)
			}
			if ctx.Err() != nil {
				return factory.Exit(factory.StatusInterrupted)
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.after, "after", "", "start after the entry `ID`, such as 12-0, or 12 for the event at that position")
	fs.BoolVarP(&o.json, "json", "j", false, `print one JSON object per entry and line: {"id": …, "event": …}`)
	fs.BoolVar(&o.untilEnd, "until-end", false, "stop when the turn ends")
	f.RedisFlag(fs)
	remote.Flags(f, fs)
	return cmd
}

// jsonEntry is the form of sessions follow --json.
type jsonEntry struct {
	ID    string       `json:"id"`
	Event *event.Event `json:"event"`
}

func followSession(ctx context.Context, f *factory.Factory, id string, o followOptions) error {
	if f.Place.DB == factory.MemoryDB {
		return factory.Usagef("--db %s: no other process could write to it; give a file or the address of a database", factory.MemoryDB)
	}
	db, err := f.OpenDB(ctx, false)
	if err != nil {
		return err
	}
	info, err := db.Find(ctx, id)
	switch {
	case errors.Is(err, factory.ErrNoSession):
		info.Key = session.ID(id)
		f.Say("there is no session %q yet: waiting for it", id)
	case err != nil:
		return err
	}
	return follow(ctx, f, render.Transcript(f.Stdout, f.LookOf(f.Stdout)), factory.StoredSession{DB: db, Key: info.Key}, info.Seq, o)
}

// followServed follows a session at a server.
func followServed(ctx context.Context, f *factory.Factory, id string, o followOptions) error {
	out := render.Transcript(f.Stdout, f.LookOf(f.Stdout))
	api, err := remote.Connect(ctx, f, func(err error) {
		out.Break() // in the middle of words
		f.Say("%s; trying again", err)
	})
	if err != nil {
		return err
	}
	s, err := api.Session(ctx, id)
	for told := false; remote.Missing(err); told = true {
		if !told {
			f.Say("there is no session %q yet: waiting for it", id)
		}
		select {
		case <-time.After(time.Second):
			s, err = api.Session(ctx, id)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err != nil {
		return err
	}
	return follow(ctx, f, out, remote.Served{Client: api, ID: id}, s.Seq, o)
}

// follow prints entries until the context ends, or with --until-end until what is stored, as far
// as seq, is printed and the turn is over.
func follow(ctx context.Context, f *factory.Factory, out *render.Printer, of factory.Feed, seq int64, o followOptions) error {
	fold := &session.Fold{}
	if o.untilEnd {
		for e, err := range of.Log(ctx, 0) {
			if err != nil {
				return err
			}
			if e.Seq > o.from.Seq {
				break
			}
			fold.Apply(e)
		}
	}
	defer out.Hide()
	for entry, err := range of.Tail(ctx, o.after) {
		if err != nil {
			return err
		}
		if o.json {
			render.JSON(f.Stdout, jsonEntry{entry.ID, entry.Event})
		} else {
			out.Event(entry.Event)
		}
		if err := f.Out.Failed(); err != nil {
			return err
		}
		fold.Apply(entry.Event)
		if o.untilEnd && !entry.Event.Partial && fold.Seq >= seq && fold.Turn.ID != "" && !fold.Unfinished() {
			out.Finish()
			return nil
		}
	}
	return nil
}
