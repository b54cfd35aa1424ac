// Package run has the commands that run turns: run, chat and resume.
package run

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/reload"
	"github.com/agentarbor/arbor/cli/internal/remote"
	"github.com/agentarbor/arbor/cli/internal/turn"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/runner"
)

// ChatCommand returns the command chat.
func ChatCommand(f *factory.Factory) *cobra.Command {
	var o turn.Options
	var d turn.DeciderOptions
	cmd := f.WithPath("chat", func(cmd *cobra.Command, path string, _ []string) error {
		if err := d.Check(cmd.Flags()); err != nil {
			return err
		}
		return turn.Chat(cmd.Context(), f, path, o, d)
	})
	remote.AtServer(f, cmd, func(cmd *cobra.Command) error { return turn.ChatAt(cmd.Context(), f, o) })
	turn.AddFlags(f, cmd, &o)
	d.Flags(cmd.Flags())
	reload.Flag(f, cmd.Flags(), &o.NoReload)
	f.DeskFlag(cmd.Flags())
	return cmd
}

// resumeOptions holds the flags of resume.
type resumeOptions struct {
	turn.Options
	turn.DecisionOptions
}

// ResumeCommand returns the command resume.
func ResumeCommand(f *factory.Factory) *cobra.Command {
	var o resumeOptions
	cmd := f.WithPath("resume --session ID", func(cmd *cobra.Command, path string, _ []string) error {
		return resumeTurn(cmd, f, path, o)
	})
	turn.AddFlags(f, cmd, &o.Options)
	o.DecisionOptions.Flags(cmd.Flags(), "approve the waiting `CALL`, which then runs (repeatable)",
		"deny the waiting `CALL` (repeatable)", "tell the model `TEXT` as the reason for denials")
	f.DeskFlag(cmd.Flags())
	f.JSONFlag(cmd.Flags(), "print one JSON object per event and line")
	return cmd
}

func resumeTurn(cmd *cobra.Command, f *factory.Factory, path string, o resumeOptions) error {
	if o.Session == "" {
		return factory.Usagef("--session is missing: %s sessions ls lists the sessions", f.Name)
	}
	if err := o.Check(cmd.Flags()); err != nil {
		return err
	}
	ctx := cmd.Context()
	c, err := turn.Converse(ctx, f, path, o.Options, runner.WithWait(factory.ResumeWait))
	if err != nil {
		return err
	}
	decisions, err := o.Decisions(ctx, c)
	if err != nil {
		return err
	}
	fold, err := c.DB.Fold(ctx, c.Key)
	if err != nil {
		return err
	}
	if fold.Seq == 0 { // a fork without shared events exists, too
		if _, err := c.DB.Find(ctx, c.Key.ID); err != nil {
			return err
		}
	}
	err = c.Turn(ctx, func(ctx context.Context) iter.Seq2[*event.Event, error] {
		if out, ok := c.Out.(*render.Printer); ok {
			out.Wait("waiting for the session")
		}
		return c.Resume(ctx, c.Key, decisions...)
	})
	switch {
	case errors.Is(err, context.Canceled):
		f.Say("interrupted; to resume: %s", c.Again("resume"))
		return factory.Exit(factory.StatusInterrupted)
	case errors.Is(err, runner.ErrNoApproval):
		return fmt.Errorf("%w; %s prints the waiting calls", err, f.CommandLine("sessions", "show", factory.QuoteArg(c.Key.ID), "--state"))
	case err == nil && c.Seen == 0:
		f.Say("the last turn of session %s is complete: there is nothing to resume", c.Key.ID)
	}
	return err
}

// Command returns the command run.
func Command(f *factory.Factory) *cobra.Command {
	var o turn.Options
	cmd := f.WithPath("run [MESSAGE|-]", func(cmd *cobra.Command, path string, args []string) error {
		return runTurn(cmd.Context(), f, path, args, o)
	})
	turn.AddFlags(f, cmd, &o)
	f.DeskFlag(cmd.Flags())
	f.JSONFlag(cmd.Flags(), "print one JSON object per event and line")
	return cmd
}

func runTurn(ctx context.Context, f *factory.Factory, path string, args []string, o turn.Options) error {
	msg, err := factory.ReadMessage(f, args)
	if err != nil {
		return err
	}
	c, err := turn.Converse(ctx, f, path, o)
	if err != nil {
		return err
	}
	err = c.Turn(ctx, func(ctx context.Context) iter.Seq2[*event.Event, error] { return c.At.Send(ctx, msg) })
	switch {
	case errors.Is(err, context.Canceled) && c.Persistent():
		f.Say("interrupted; to resume: %s", c.Again("resume"))
		return factory.Exit(factory.StatusInterrupted)
	case o.Session == "" && c.Persistent() && f.Out.Failed() == nil:
		f.Report(err)
		f.Say("session %s; to continue: %s", c.Key.ID, c.Again("run", `"…"`))
		return factory.Exit(factory.Status(err))
	}
	return err
}
