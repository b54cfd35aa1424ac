package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/tail"
)

// following is what the flags of follow say.
type following struct {
	after          string
	from           session.Position // the same
	json, untilEnd bool
}

func (p *program) followCommand() *cobra.Command {
	var f following
	words := " Answers come whole: the database is looked into a\nfew times a second."
	if p.redis != nil {
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
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if f.from, err = session.ParsePosition(f.after); err != nil {
				return usagef("--after: %w", err)
			}
			follow := p.followSession
			if remote, err := p.remote(cmd); err != nil {
				return err
			} else if remote {
				follow = p.followServed
			}
			ctx, done := p.interrupts.turn(cmd.Context())
			defer done()
			if err = follow(ctx, args[0], f); ctx.Err() != nil {
				return statusError(StatusInterrupted)
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.after, "after", "", "start after the entry `ID`, such as 12-0, or 12 for the event at that position")
	fs.BoolVar(&f.json, "json", false, `print one JSON object per entry and line: {"id": …, "event": …}`)
	fs.BoolVar(&f.untilEnd, "until-end", false, "stop when the turn ends")
	p.redisFlag(fs)
	p.serverFlags(fs)
	return cmd
}

// pollInterval is how often follow looks into a database that has no live tail.
const pollInterval = 250 * time.Millisecond

// jsonEntry is the form of sessions follow --json.
type jsonEntry struct {
	ID    string       `json:"id"`
	Event *event.Event `json:"event"`
}

func (p *program) followSession(ctx context.Context, id string, f following) error {
	if p.place.db == memoryDB {
		return usagef("--db %s: no other process could write to it; give a file or the address of a database", memoryDB)
	}
	db, err := p.openDB(ctx, false)
	if err != nil {
		return err
	}
	info, err := db.find(ctx, id)
	switch {
	case errors.Is(err, errNoSession):
		info.Key = session.ID(id)
		p.say("there is no session %q yet: waiting for it", id)
	case err != nil:
		return err
	}
	return p.follow(ctx, render.Transcript(p.Stdout, p.lookOf(p.Stdout)), stored{db, info.Key}, info.Seq, f)
}

// followServed follows a session at a server.
func (p *program) followServed(ctx context.Context, id string, f following) error {
	out := render.Transcript(p.Stdout, p.lookOf(p.Stdout))
	api, err := p.connect(ctx, func(err error) {
		out.Break() // in the middle of words
		p.away(err)
	})
	if err != nil {
		return err
	}
	s, err := api.Session(ctx, id)
	for told := false; missing(err); told = true {
		if !told {
			p.say("there is no session %q yet: waiting for it", id)
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
	return p.follow(ctx, out, served{api, id}, s.Seq, f)
}

// follow prints entries until the context ends, or with --until-end until what is stored, as far
// as seq, is printed and the turn is over.
func (p *program) follow(ctx context.Context, out *render.Printer, of feed, seq int64, f following) error {
	fold := &session.Fold{}
	if f.untilEnd {
		for e, err := range of.log(ctx, 0) {
			if err != nil {
				return err
			}
			if e.Seq > f.from.Seq {
				break
			}
			fold.Apply(e)
		}
	}
	defer out.Hide()
	for entry, err := range of.follow(ctx, f.after) {
		if err != nil {
			return err
		}
		if f.json {
			render.JSON(p.Stdout, jsonEntry{entry.ID, entry.Event})
		} else {
			out.Event(entry.Event)
		}
		if err := p.out.failed(); err != nil {
			return err
		}
		fold.Apply(entry.Event)
		if f.untilEnd && !entry.Event.Partial && fold.Seq >= seq && fold.Turn.ID != "" && !fold.Unfinished() {
			out.Finish()
			return nil
		}
	}
	return nil
}

// followed is a store that can be followed.
type followed interface {
	session.Store
	session.Tail
}

// tail returns the database as one that can be followed: by its live tail, or by
// looking into it.
func (db *database) tail() (followed, error) {
	if t, ok := db.Store.(followed); ok {
		return t, nil
	}
	t, err := tail.New(db.Store, tail.WithPoll(pollInterval))
	if err != nil {
		return nil, err
	}
	db.Store = t
	return t, nil
}
