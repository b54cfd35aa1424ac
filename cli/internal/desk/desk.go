// Package desk is the command desk, with which people answer conversations that were transferred to them.
package desk

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/prompt"
	"github.com/agentarbor/arbor/cli/internal/remote"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/client"
	"github.com/agentarbor/arbor/session"
)

// Command returns the command desk.
func Command(f *factory.Factory) *cobra.Command {
	cmd := factory.Group("desk", deskList(f), deskTake(f), deskSay(f), deskSet(f))
	f.DBFlag(cmd.PersistentFlags())
	f.RedisFlag(cmd.PersistentFlags())
	remote.Flags(f, cmd.PersistentFlags())
	return cmd
}

func deskList(f *factory.Factory) *cobra.Command {
	return f.WithJSON(factory.Command("ls", func(cmd *cobra.Command, _ []string) error { return listHandoffs(f, cmd) }), "print one JSON object per handoff and line")
}

func deskTake(f *factory.Factory) *cobra.Command {
	var name string
	cmd := factory.Command("take [HANDOFF]", func(cmd *cobra.Command, args []string) error {
		return takeHandoff(f, cmd, strings.Join(args, ""), name)
	})
	cmd.Flags().StringVar(&name, "name", "", "store your `NAME` in the log")
	return cmd
}

func deskSay(f *factory.Factory) *cobra.Command {
	return factory.Command("say HANDOFF TEXT", func(cmd *cobra.Command, args []string) error {
		s, err := take(f, cmd, args[0], "")
		if err != nil {
			return err
		}
		return s.deliver(cmd.Context(), human.Event{Text: args[1]})
	})
}

var statuses = []string{"connecting", "ringing", "connected", "on_hold", "completed", "ended", "cancelled", "failed"}

func deskSet(f *factory.Factory) *cobra.Command {
	var name, to, reason string
	cmd := factory.Command("set HANDOFF STATUS", func(cmd *cobra.Command, args []string) error {
		if err := factory.OneOf("STATUS", args[1], statuses...); err != nil {
			return err
		}
		s, err := take(f, cmd, args[0], to)
		if err != nil {
			return err
		}
		return s.deliver(cmd.Context(), human.Event{Update: human.Update{Status: human.Status(args[1]), TargetAgent: cmp.Or(to, name), Reason: reason}})
	})
	cmd.Flags().StringVar(&name, "name", "", "store your `NAME` in the log")
	cmd.Flags().StringVar(&to, "to", "", "with completed or ended, continue with `AGENT` (default: the agent that requested the handoff)")
	cmd.Flags().StringVar(&reason, "reason", "", "give `TEXT` as the reason")
	return cmd
}

func listHandoffs(f *factory.Factory, cmd *cobra.Command) error {
	d, err := openBench(f, cmd, "")
	if errors.Is(err, factory.ErrNoFile) && f.Place.DB == "" {
		f.Say("no conversation waits for a person")
		return nil
	}
	if err != nil {
		return err
	}
	all, err := d.handoffs(cmd.Context())
	if err != nil {
		return err
	}
	if len(all) == 0 && !f.JSON {
		f.Say("no conversation waits for a person")
		return nil
	}
	rows := f.Rows("HANDOFF\tSTATUS\tSESSION\tFROM\tSINCE (UTC)\tREASON")
	for _, h := range all {
		since := h.Since
		if at, err := time.Parse(time.RFC3339, h.Since); err == nil {
			since = sessionform.Stamp(at)
		}
		rows.Add(h, visible.Line(h.ID), visible.Line(string(h.Status)), visible.Line(factory.ShownID(keyOf(h))), visible.Line(h.From), since,
			visible.Cut(visible.Line(h.Reason), 60))
	}
	return rows.Flush()
}

func keyOf(h human.Handoff) session.Key {
	return session.Key{App: session.DefaultApp, User: h.User, ID: h.Session}
}

// seat is a handoff that a person answers.
type seat struct {
	bench
	f *factory.Factory
	human.Handoff
}

// take finds a handoff by its name; "" means the oldest waiting one. The agent to continues after the handoff; if to is
// "", the tree chooses it.
func take(f *factory.Factory, cmd *cobra.Command, name, to string) (*seat, error) {
	if f.Place.DB == factory.MemoryDB {
		return nil, factory.Usagef("--db %s: no other process could write to it; give a file or the address of a database", factory.MemoryDB)
	}
	d, err := openBench(f, cmd, to)
	if err != nil {
		return nil, err
	}
	all, err := d.handoffs(cmd.Context())
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(all, func(h human.Handoff) bool {
		if name == "" {
			return h.Status == human.Connected || h.Status == human.OnHold
		}
		return h.Session != name && factory.ShownID(keyOf(h)) != name && !strings.HasPrefix(h.ID, name)
	})
	switch {
	case len(found) == 0 && name == "":
		return nil, factory.Usagef("no conversation waits for a person")
	case len(found) == 0:
		return nil, factory.Usagef("no handoff %s is under way; %s lists them", visible.Cut(visible.Line(name), 60), f.CommandLine("desk ls", ""))
	case len(found) > 1 && name != "":
		return nil, factory.Usagef("%d handoffs begin with %s: give more of the id", len(found), visible.Cut(visible.Line(name), 60))
	}
	return &seat{d, f, found[0]}, nil
}

func (s *seat) deliver(ctx context.Context, e human.Event) error {
	e.ID, e.HandoffID = factory.RandomHex(8), s.ID
	err := s.bench.deliver(ctx, s.Handoff, e)
	switch {
	case errors.Is(err, human.ErrGone):
		return factory.Usagef("the handoff %s is over", visible.Line(s.ID))
	case errors.Is(err, human.ErrTransition):
		return factory.Usage(err)
	}
	return err
}

// takeHandoff connects a person at the desk with the user.
func takeHandoff(f *factory.Factory, cmd *cobra.Command, name, who string) error {
	s, err := take(f, cmd, name, "")
	if err != nil {
		return err
	}
	in, err := prompt.New(f, "")
	if err != nil {
		return err
	}
	if s.Status != human.Connected {
		if err := s.deliver(cmd.Context(), human.Event{Update: human.Update{Status: human.Connected, TargetAgent: who}}); err != nil {
			return err
		}
	}
	f.Say("session %s; each line goes to the user, /done and /quit leave", factory.ShownID(keyOf(s.Handoff)))
	ctx, over := context.WithCancel(cmd.Context())
	defer over()
	out := prompt.Printer(f, in)
	wait := prompt.Follow(ctx, f, s.feed(s.Handoff), 0, func(e *event.Event) {
		if out.Event(e); s.ends(e) {
			over()
		}
	})
	err = s.loop(ctx, in)
	over()
	wait()
	out.Finish()
	return err
}

// ends reports whether an event is the end of the handoff.
func (s *seat) ends(e *event.Event) bool {
	d, ok := e.Data.(*event.HandoffStatus)
	return ok && d.HandoffID == s.ID && event.HandoffOver(d.Status)
}

func (s *seat) loop(ctx context.Context, in prompt.Lines) error {
	var last error // the error of the last line, so that a script gets it
	for {
		line, err := in.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, prompt.ErrInterrupt):
			return factory.Exit(factory.StatusInterrupted)
		case err != nil: // the end of the input
			return last
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		e := human.Event{Text: strings.TrimSpace(line)}
		switch word {
		case "":
			continue
		case "/quit", "/exit":
			return last
		case "/done":
			e = human.Event{Text: strings.TrimSpace(rest), Update: human.Update{Status: human.Completed}}
		case "/end":
			e = human.Event{Update: human.Update{Status: human.Ended}}
		case "/hold":
			e = human.Event{Update: human.Update{Status: human.OnHold}}
		case "/unhold":
			e = human.Event{Update: human.Update{Status: human.Connected}}
		default:
			if strings.HasPrefix(word, "/") && !strings.HasPrefix(word, "//") {
				s.f.Say("unknown command %s: choose /done, /end, /hold, /unhold or /quit", visible.Cut(visible.Line(word), 40))
				continue
			}
			e.Text = strings.TrimPrefix(e.Text, "/")
		}
		if last = s.deliver(ctx, e); last != nil { // nothing was stored, so the person can send it again
			s.f.Report(last)
			last = factory.Exit(factory.Status(last))
			continue
		}
		if e.Status.Final() {
			return nil
		}
	}
}

// bench is the place where people answer: the database, or a server.
type bench interface {
	// handoffs returns the open handoffs, oldest first.
	handoffs(ctx context.Context) ([]human.Handoff, error)
	// deliver stores what the person said or did. Its error wraps human.ErrGone or human.ErrTransition, or is another
	// one.
	deliver(ctx context.Context, h human.Handoff, e human.Event) error
	// feed returns the session of a handoff.
	feed(h human.Handoff) factory.Feed
}

// openBench opens the bench that the flags name. The agent to continues after a handoff; if to is "", the tree chooses
// it.
func openBench(f *factory.Factory, cmd *cobra.Command, to string) (bench, error) {
	served, err := remote.Given(f, cmd)
	if err != nil {
		return nil, err
	}
	if served {
		if flag := cmd.Flag("name"); flag != nil && flag.Changed {
			return nil, factory.Usagef("--name and --server exclude each other: the log then names the user of the token")
		}
		api, err := remote.Connect(cmd.Context(), f, remote.Away(f))
		return servedBench{api}, err
	}
	db, err := f.OpenDB(cmd.Context(), false)
	if err != nil {
		return nil, err
	}
	// The agents of the tree are not needed, because none runs.
	nobody, err := agent.New(cmp.Or(to, "nobody"), "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(func(*event.Event, error) bool) {}
	})
	if err != nil {
		return nil, factory.Usagef("--to: %w", err)
	}
	run, err := runner.New(nobody, db.Store, runner.WithDesk(human.Log{}), runner.WithWait(factory.ResumeWait))
	return ownBench{db, run}, err
}

// ownBench is the database of this machine.
type ownBench struct {
	db  *factory.Database
	run *runner.Runner
}

func (b ownBench) handoffs(ctx context.Context) ([]human.Handoff, error) {
	state, err := b.db.SharedState(ctx, session.ID("desk"))
	return human.Handoffs(state), err
}

func (b ownBench) deliver(ctx context.Context, h human.Handoff, e human.Event) error {
	return b.run.Deliver(ctx, keyOf(h), e)
}

func (b ownBench) feed(h human.Handoff) factory.Feed {
	return factory.StoredSession{DB: b.db, Key: keyOf(h)}
}

// servedBench is a server.
type servedBench struct{ *client.Client }

func (b servedBench) handoffs(ctx context.Context) ([]human.Handoff, error) { return b.Handoffs(ctx) }

func (b servedBench) deliver(ctx context.Context, _ human.Handoff, e human.Event) error {
	err := b.Deliver(ctx, e)
	if remote.Missing(err) {
		return human.ErrGone
	}
	return err
}

func (b servedBench) feed(h human.Handoff) factory.Feed {
	return remote.Served{Client: b.Of(h.User), ID: h.Session}
}
