package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
)

func (p *program) deskCommand() *cobra.Command {
	cmd := group("desk", "Answer conversations that were handed over to a person", p.deskList(), p.deskTake(), p.deskSay(), p.deskSet())
	p.dbFlag(cmd.PersistentFlags())
	p.redisFlag(cmd.PersistentFlags())
	p.serverFlags(cmd.PersistentFlags())
	return cmd
}

func (p *program) deskList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the conversations that wait for a person or are with one",
		Long: `Lists the conversations that wait for a person or are with one, oldest first. To name
a HANDOFF, use its id, the beginning of its id, or the id of its session.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.listHandoffs(cmd, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per handoff and line")
	return cmd
}

func (p *program) deskTake() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "take [HANDOFF]",
		Short: "Talk to the user, line by line",
		Long: `Joins a conversation; if you name none, the one that has waited longest. It prints the
conversation so far, and then what the user writes. It sends each line to the user,
except for these commands:
  /done [TEXT]   finish: the agent that requested the handoff continues
  /end           end the handoff in another way
  /hold, /unhold pause, and come back
  /quit          leave the conversation as it is; you can take it again (also Ctrl-D)`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.takeHandoff(cmd, strings.Join(args, ""), name)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "store your `NAME` in the log")
	return cmd
}

func (p *program) deskSay() *cobra.Command {
	return &cobra.Command{
		Use:   "say HANDOFF WORDS",
		Short: "Send one message to the user",
		Args:  exactly("HANDOFF", "WORDS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.seat(cmd, args[0], "")
			if err != nil {
				return err
			}
			return s.deliver(cmd.Context(), human.Event{Text: args[1]})
		},
	}
}

func (p *program) deskSet() *cobra.Command {
	var name, to, reason string
	cmd := &cobra.Command{
		Use:   "set HANDOFF STATUS",
		Short: "Set the status of a handoff",
		Long: `Sets the status: connecting, ringing, connected, on_hold, completed, ended, cancelled
or failed. Steps in between are added.`,
		Args: exactly("HANDOFF", "STATUS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			status := human.Status(args[1])
			if !status.Known() || status == human.None {
				return usagef("%s is no status of a handoff; see %s --help", render.Cut(visible.Line(args[1]), 40), cmd.CommandPath())
			}
			s, err := p.seat(cmd, args[0], to)
			if err != nil {
				return err
			}
			return s.deliver(cmd.Context(), human.Event{Update: human.Update{Status: status, TargetAgent: cmp.Or(to, name), Reason: reason}})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "store your `NAME` in the log")
	cmd.Flags().StringVar(&to, "to", "", "with completed or ended, continue with `AGENT` (default: the agent that requested the handoff)")
	cmd.Flags().StringVar(&reason, "reason", "", "give `TEXT` as the reason")
	return cmd
}

func (p *program) listHandoffs(cmd *cobra.Command, asJSON bool) error {
	d, err := p.bench(cmd, "")
	if errors.Is(err, errNoFile) && p.place.db == "" {
		p.say("no conversation waits for a person")
		return nil
	}
	if err != nil {
		return err
	}
	all, err := d.handoffs(cmd.Context())
	if err != nil {
		return err
	}
	if asJSON {
		for _, h := range all {
			render.JSON(p.Stdout, h)
		}
		return nil
	}
	if len(all) == 0 {
		p.say("no conversation waits for a person")
		return nil
	}
	table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HANDOFF\tSTATUS\tSESSION\tFROM\tSINCE\tREASON")
	for _, h := range all {
		since := h.Since
		if at, err := time.Parse(time.RFC3339, h.Since); err == nil {
			since = stamp(at)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", visible.Line(h.ID), visible.Line(string(h.Status)), visible.Line(shownID(keyOf(h))), visible.Line(h.From), since, render.Cut(visible.Line(h.Reason), 60))
	}
	return table.Flush()
}

func keyOf(h human.Handoff) session.Key {
	return session.Key{App: session.DefaultApp, User: h.User, ID: h.Session}
}

// seat is where one handoff is answered.
type seat struct {
	bench
	p *program
	human.Handoff
}

// seat finds a handoff, the oldest one that waits if the name is empty. After the handoff the agent
// named to goes on, if that is given.
func (p *program) seat(cmd *cobra.Command, name, to string) (*seat, error) {
	if p.place.db == memoryDB {
		return nil, usagef("--db %s: no other process could write to it; give a file or the address of a database", memoryDB)
	}
	d, err := p.bench(cmd, to)
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
		return h.Session != name && shownID(keyOf(h)) != name && !strings.HasPrefix(h.ID, name)
	})
	switch {
	case len(found) == 0 && name == "":
		return nil, usagef("no conversation waits for a person")
	case len(found) == 0:
		return nil, usagef("no handoff %s is under way; %s lists them", render.Cut(visible.Line(name), 60), p.commandLine("desk ls", ""))
	case len(found) > 1 && name != "":
		return nil, usagef("%d handoffs begin with %s: give more of the id", len(found), render.Cut(visible.Line(name), 60))
	}
	return &seat{d, p, found[0]}, nil
}

func (s *seat) deliver(ctx context.Context, e human.Event) error {
	e.ID, e.HandoffID = randomHex(8), s.ID
	err := s.bench.deliver(ctx, s.Handoff, e)
	switch {
	case errors.Is(err, human.ErrGone):
		return usagef("the handoff %s is over", visible.Line(s.ID))
	case errors.Is(err, human.ErrTransition):
		return usageError{err}
	}
	return err
}

// takeHandoff lets a person at the desk talk to the user.
func (p *program) takeHandoff(cmd *cobra.Command, name, who string) error {
	s, err := p.seat(cmd, name, "")
	if err != nil {
		return err
	}
	in, err := p.lines("")
	if err != nil {
		return err
	}
	if s.Status != human.Connected {
		if err := s.deliver(cmd.Context(), human.Event{Update: human.Update{Status: human.Connected, TargetAgent: who}}); err != nil {
			return err
		}
	}
	p.say("session %s; each line goes to the user, /done and /quit leave", shownID(keyOf(s.Handoff)))
	ctx, over := context.WithCancel(cmd.Context())
	defer over()
	out := p.overhearing(in)
	wait := p.overhear(ctx, s.feed(s.Handoff), 0, func(e *event.Event) {
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

func (s *seat) loop(ctx context.Context, in lines) error {
	var last error // the last line's, so that a script learns of it
	for {
		line, err := in.next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errInterrupt):
			return statusError(StatusInterrupted)
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
				s.p.say("unknown command %s: /done, /end, /hold, /unhold and /quit are possible", render.Cut(visible.Line(word), 40))
				continue
			}
			e.Text = strings.TrimPrefix(e.Text, "/")
		}
		if last = s.deliver(ctx, e); last != nil { // nothing of it is stored: it can be said again
			s.p.report(last)
			last = statusError(status(last))
			continue
		}
		if e.Status.Final() {
			return nil
		}
	}
}
