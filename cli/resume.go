package cli

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/runner"
)

// resumeWait is how long resume waits for the session's lease.
const resumeWait = 20 * time.Second

// resuming is what the flags of resume say.
type resuming struct {
	turnFlags
	decided
}

func (p *program) resumeCommand() *cobra.Command {
	var f resuming
	cmd := p.withPath(&cobra.Command{
		Short: "Resume an interrupted turn",
		Long: `Resumes the last turn of a session after an interrupt, a crash or a pause. It does not ask
again for what the log has. If another process holds the session, resume waits up to 20 s
for it and then ends with status 6.

If the turn waits for approvals, --approve and --deny decide about its calls; if it asks a
question, --answer answers it. An approved tool runs here. A second decision about a call
changes nothing and shows the stored result. If an agent waits for something else, such as
an authorization at a remote agent, resume checks whether it is done.`,
	}, "resume --session ID", 0, func(cmd *cobra.Command, path string, _ []string) error {
		return p.resumeTurn(cmd.Context(), path, f)
	})
	p.turnFlags(cmd, &f.turnFlags)
	f.decided.flags(cmd.Flags(), "approve the waiting `CALL`, which then runs (repeatable)",
		"deny the waiting `CALL` (repeatable)", "tell the model `TEXT` as the reason for denials")
	deskFlag(cmd.Flags(), &f.desk)
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object per event and line")
	return cmd
}

func (p *program) resumeTurn(ctx context.Context, path string, f resuming) error {
	if f.session == "" {
		return usagef("--session is missing: %s sessions ls lists the sessions", p.name)
	}
	if err := f.check(); err != nil {
		return err
	}
	c, err := p.converse(ctx, path, f.turnFlags, runner.WithWait(resumeWait))
	if err != nil {
		return err
	}
	decisions, err := f.decisions(ctx, c)
	if err != nil {
		return err
	}
	fold, err := c.db.fold(ctx, c.key)
	if err != nil {
		return err
	}
	if fold.Seq == 0 { // a fork that shares nothing is there all the same
		if _, err := c.db.find(ctx, c.key.ID); err != nil {
			return err
		}
	}
	some := false
	err = c.turn(ctx, func(ctx context.Context) iter.Seq2[*event.Event, error] {
		if out, ok := c.out.(*render.Printer); ok {
			out.Wait("waiting for the session")
		}
		return noting(c.Resume(ctx, c.key, decisions...), &some)
	})
	switch {
	case cutOff(err):
		p.say("interrupted; to resume: %s", c.again("resume"))
		return statusError(StatusInterrupted)
	case err == nil && !some:
		p.say("the last turn of session %s is complete: there is nothing to resume", c.key.ID)
	}
	return err
}

// decided is what flags say about calls that wait for an approval.
type decided struct {
	approve, deny []string // calls
	answer        []string // CALL=TEXT, to what calls ask
	reason        string
	decider
}

func (d *decided) flags(fs *pflag.FlagSet, approve, deny, reason string) {
	fs.StringArrayVar(&d.approve, "approve", nil, approve)
	fs.StringArrayVar(&d.deny, "deny", nil, deny)
	fs.StringArrayVar(&d.answer, "answer", nil, "answer the question of a call, as `CALL=TEXT` (repeatable)")
	fs.StringVar(&d.reason, "reason", "", reason)
	d.decider.flags(fs)
}

// check looks at what the flags say together.
func (d *decided) check() error {
	for _, given := range d.answer {
		if !strings.Contains(given, "=") {
			return usagef("--answer %s: it is CALL=WORDS", render.Cut(given, 40))
		}
	}
	if d.by != "" && len(d.approve)+len(d.deny)+len(d.answer) == 0 {
		return usagef("--by goes with --approve, --deny or --answer")
	}
	if d.reason != "" && len(d.deny) == 0 {
		return usagef("--reason goes with --deny")
	}
	return nil
}

// decisions are those of the flags. What --answer gives depends on what was asked.
func (d *decided) decisions(ctx context.Context, c *conversation) (all []runner.Decision, err error) {
	for _, call := range d.approve {
		all = append(all, runner.Approve(call))
	}
	for _, given := range d.answer {
		call, words, _ := strings.Cut(given, "=")
		answer, err := c.answer(ctx, call, words)
		if err != nil {
			return nil, err
		}
		all = append(all, answer)
	}
	for _, call := range d.deny {
		all = append(all, runner.Deny(call, d.reason))
	}
	return c.sign(ctx, d.decider, all)
}

// noting reports in some whether the sequence yielded something.
func noting(seq iter.Seq2[*event.Event, error], some *bool) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range seq {
			*some = true
			if !yield(e, err) {
				return
			}
		}
	}
}
