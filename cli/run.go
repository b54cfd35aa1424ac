package cli

import (
	"context"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/render"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
)

func (p *program) runCommand() *cobra.Command {
	cmd := p.withPath(&cobra.Command{
		Short: "Run one turn: say MESSAGE and print the answer",
		Long: `Runs one turn of a session: the active agent answers MESSAGE, or hands over.
Without MESSAGE, or for -, the message is read from standard input. Put -- before
a message that begins with a dash.`,
	}, "run [MESSAGE|-]", 1, p.runTurn)
	p.turnFlags(cmd)
	cmd.Flags().BoolVar(&p.flags.json, "json", false, "print one event a line, as JSON")
	return cmd
}

func (p *program) runTurn(cmd *cobra.Command, path string, args []string) error {
	msg, err := p.message(args)
	if err != nil {
		return err
	}
	c, err := p.converse(cmd.Context(), path)
	if err != nil {
		return err
	}
	err = c.turn(cmd.Context(), func(ctx context.Context) iter.Seq2[*event.Event, error] { return c.Run(ctx, c.key, msg) })
	switch {
	case cutOff(err) && c.persistent():
		p.say("interrupted; to go on: %s", c.again("resume"))
		return statusError(StatusInterrupted)
	case p.flags.session == "" && c.persistent() && p.out.failed() == nil:
		p.report(err)
		p.say("session %s; to go on: %s", c.key.ID, c.again("run", `"…"`))
		return statusError(status(err))
	}
	return err
}

// resumeWait is how long resume waits for the session's lease.
const resumeWait = 20 * time.Second

func (p *program) resumeCommand() *cobra.Command {
	cmd := p.withPath(&cobra.Command{
		Short: "Go on with a turn that was cut off",
		Long: `Goes on with the last turn of a session where an interrupt, a crash or a pause cut
it off. What was recorded is not asked for again. If another process holds the
session, resume waits up to 20 s for it, then ends with status 6.

A turn that waits for approvals goes on with the calls that --approve and --deny
name; an approved tool runs here. Deciding twice changes nothing: the recorded
result is shown again. Where an agent waits for something else, such as an
authorization at a remote agent, resume looks whether it is done.`,
	}, "resume --session ID", 0, p.resumeTurn)
	p.turnFlags(cmd)
	cmd.Flags().StringArrayVar(&p.flags.approve, "approve", nil, "let the `CALL` run that waits for an approval; may be repeated")
	cmd.Flags().StringArrayVar(&p.flags.deny, "deny", nil, "refuse the `CALL` that waits for an approval; may be repeated")
	cmd.Flags().StringVar(&p.flags.reason, "reason", "", "`TEXT` that tells the model why calls are denied")
	cmd.Flags().BoolVar(&p.flags.json, "json", false, "print one event a line, as JSON")
	return cmd
}

func (p *program) resumeTurn(cmd *cobra.Command, path string, _ []string) error {
	if p.flags.session == "" {
		return usagef("--session is missing: %s sessions ls lists the sessions", p.name)
	}
	var decisions []runner.Decision
	for _, call := range p.flags.approve {
		decisions = append(decisions, runner.Approve(call))
	}
	for _, call := range p.flags.deny {
		decisions = append(decisions, runner.Deny(call, p.flags.reason))
	}
	if p.flags.reason != "" && len(p.flags.deny) == 0 {
		return usagef("--reason goes with --deny")
	}
	c, err := p.converse(cmd.Context(), path, runner.WithWait(resumeWait))
	if err != nil {
		return err
	}
	fold, err := c.db.fold(cmd.Context(), c.key)
	if err != nil {
		return err
	}
	if fold.Seq == 0 { // a fork that shares nothing is there all the same
		if _, err := c.db.find(cmd.Context(), c.key.ID); err != nil {
			return err
		}
	}
	some := false
	err = c.turn(cmd.Context(), func(ctx context.Context) iter.Seq2[*event.Event, error] {
		if out, ok := c.out.(*render.Printer); ok {
			out.Wait("waiting for the session")
		}
		return noting(c.Resume(ctx, c.key, decisions...), &some)
	})
	switch {
	case cutOff(err):
		p.say("interrupted; to go on: %s", c.again("resume"))
		return statusError(StatusInterrupted)
	case err == nil && !some:
		p.say("the last turn of session %s is complete: there is nothing to go on with", c.key.ID)
	}
	return err
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
