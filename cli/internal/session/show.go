package session

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/remote"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

func historyCommand(f *factory.Factory) *cobra.Command {
	return f.WithJSON(factory.Command("history ID", func(cmd *cobra.Command, args []string) error { return showHistory(cmd.Context(), f, args[0]) }), "print one JSON object per checkpoint and line")
}

func showHistory(ctx context.Context, f *factory.Factory, id string) error {
	s, err := open(ctx, f, id)
	if err != nil {
		return err
	}
	rows := f.Rows("SEQ\tTIME (UTC)\tACTIVE\tWHAT")
	for row, err := range sessionform.History(ctx, s.Sessions, s.Info, func(e *event.Event) *event.Event { return e }) {
		if err != nil {
			return err
		}
		rows.Add(row, fmt.Sprint(row.Seq), sessionform.Stamp(row.Time), cmp.Or(visible.Line(row.Active), "-"), row.What)
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	if isFork(s.Info) && !f.JSON {
		f.Say("a fork of %s, with which it shares all until %d", factory.ShownID(s.Parent), s.ParentSeq)
	}
	return nil
}

// showOptions holds the flags of show.
type showOptions struct {
	at                 atFlag
	state, usage, cost bool
	view, tree         string
}

func showCommand(f *factory.Factory) *cobra.Command {
	var o showOptions
	cmd := factory.Command("show ID", func(cmd *cobra.Command, args []string) error {
		fs := cmd.Flags()
		err := cmp.Or(
			factory.Needs(fs, "prices", "usage", "cost"),
			factory.Needs(fs, "tree", "view"),
			factory.Exclusive(fs, "state", "view", "usage", "cost"),
		)
		if err != nil {
			return err
		}
		return showSession(cmd.Context(), f, args[0], o)
	})
	fs := cmd.Flags()
	o.at.add(cmd, "show the session up to position `SEQ` (default: the end)")
	f.JSONFlag(fs, "print one JSON object per event and line")
	fs.BoolVar(&o.state, "state", false, "print the active agent, the state, the waiting calls and the tokens used as one JSON object instead")
	fs.StringVar(&o.view, "view", "", "print the request that the model of `AGENT` would get there instead")
	if !f.Embedded() {
		fs.StringVar(&o.tree, "tree", "", "with --view, read the agents from `PATH`")
	}
	fs.BoolVar(&o.usage, "usage", false, "print the tokens used by each agent instead")
	fs.BoolVar(&o.cost, "cost", false, "print the tokens used by each agent in each turn instead, and those that were read anew because of transfers")
	fs.StringVar(&f.Prices, "prices", "", "with --usage or --cost, read prices from `FILE` (YAML or JSON) and print costs")
	return cmd
}

func showSession(ctx context.Context, f *factory.Factory, id string, o showOptions) error {
	out, err := shown(f, o)
	if err != nil {
		return err
	}
	s, at, err := openAt(ctx, f, id, o.at)
	if err != nil {
		return err
	}
	if o.view != "" {
		return s.showView(ctx, at, o)
	}
	fold, err := s.replay(ctx, at, out)
	switch {
	case err != nil:
		return err
	case o.state:
		return f.PrintJSON(sessionform.MomentOf(s.Key, fold))
	case o.usage, o.cost, f.JSON:
	case o.at.given():
		f.Say("%s", sessionform.Line(fold, s.Seq))
	case fold.Unfinished() && !s.Leased:
		news := "the last turn was cut off"
		if factory.Own(s.Key) {
			news += "; to continue: " + again(f, "resume", s.Key)
		}
		f.Say("%s", news)
	}
	return nil
}

// shown returns the sink that the flags of show select.
func shown(f *factory.Factory, o showOptions) (render.Sink, error) {
	switch {
	case o.state || o.view != "":
		return render.Nothing{}, nil
	case o.usage, o.cost:
		prices, err := f.ReadPrices()
		if o.cost {
			return render.Cost(f.Stdout, f.JSON, prices), err
		}
		return render.Usage(f.Stdout, f.JSON, prices), err
	case f.JSON:
		return render.JSONLines(f.Stdout), nil
	}
	return transcript(f), nil
}

// transcript returns a printer of stored events.
func transcript(f *factory.Factory) *render.Printer {
	l := f.TerminalOf(f.Stdout)
	l.Live = false // no spinner
	return render.Transcript(f.Stdout, l)
}

// jsonView is the JSON of sessions show --view: a request of the chat-completions protocol.
type jsonView struct {
	Agent  string `json:"agent"`
	Seq    int64  `json:"seq"`
	Tokens int    `json:"tokens"`
	chatform.Request
}

// showView prints the request that an agent's model gets at a position. It calls no model.
func (s *past) showView(ctx context.Context, at int64, o showOptions) error {
	f, name := s.f, o.view
	if !f.Embedded() && o.tree == "" {
		return factory.Usagef("--view needs --tree PATH, the folder of the agents")
	}
	tree, err := f.LookAt(o.tree)
	if err != nil {
		return err
	}
	if tree.Node(name) == nil {
		var names []string
		for n := range tree.Walk() {
			names = append(names, n.Agent.Name())
		}
		return factory.Usagef("--view %s: there is no such agent; the tree has %s", name, strings.Join(names, ", "))
	}
	r, err := runner.New(tree.Root().Agent, s.db.Store)
	if err != nil {
		return err
	}
	preview, err := r.PreviewAt(ctx, s.Key, at, name)
	switch {
	case err != nil:
		return err
	case preview == nil:
		return factory.Usagef("--view %s: this agent has no model of its own, and so no view", name)
	case f.JSON:
		render.JSON(f.Stdout, jsonView{name, at, preview.Tokens, chatform.RequestOf(preview.Request)})
		return nil
	}
	render.View(f.Stdout, f.TerminalOf(f.Stdout), preview.Request)
	f.Say("what the model of %s is shown at position %d of %d: %s, %s, %s", name, at, s.Seq,
		render.Count(len(preview.Messages), "message"), render.Count(len(preview.Tools), "tool"), render.Count(preview.Tokens, "token"))
	return nil
}

// followOptions holds the flags of follow.
type followOptions struct {
	after    string
	from     session.Position // the position that after names
	untilEnd bool
}

func followCommand(f *factory.Factory) *cobra.Command {
	var o followOptions
	cmd := factory.Command("follow ID", func(cmd *cobra.Command, args []string) (err error) {
		if o.from, err = session.ParsePosition(o.after); err != nil {
			return factory.Usagef("--after %s: give a position in the session, such as 12, or the id of an entry, such as 12-0", visible.Cut(visible.Line(o.after), 40))
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
	})
	fs := cmd.Flags()
	fs.StringVar(&o.after, "after", "", "start after the entry `ID`, such as 12-0, or 12 for the event at that position")
	f.JSONFlag(fs, `print one JSON object per entry and line: {"id": …, "event": …}`)
	fs.BoolVar(&o.untilEnd, "until-end", false, "stop when the turn ends")
	f.RedisFlag(fs)
	remote.Flags(f, fs)
	return cmd
}

// jsonEntry is the JSON of sessions follow --json.
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
	if err != nil {
		return err
	}
	return follow(ctx, f, render.Transcript(f.Stdout, f.TerminalOf(f.Stdout)), factory.StoredSession{DB: db, Key: info.Key}, info.Seq, o)
}

// followServed follows a session at a server.
func followServed(ctx context.Context, f *factory.Factory, id string, o followOptions) error {
	out := render.Transcript(f.Stdout, f.TerminalOf(f.Stdout))
	api, err := remote.Connect(ctx, f, func(err error) {
		out.Break() // in the middle of a text
		f.Say("%s; trying again", err)
	})
	if err != nil {
		return err
	}
	s, err := remote.Find(ctx, f, api, id)
	if err != nil {
		return err
	}
	return follow(ctx, f, out, remote.Served{Client: api, ID: id}, s.Seq, o)
}

// follow prints entries until the context ends. With --until-end it stops when the events up to seq are printed and the
// turn is over.
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
		if f.JSON {
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
