package factory

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/internal/render"
)

// Version returns the version from which the program was built.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown version)"
}

// Commit returns the commit from which the program was built, as " (commit 0123456789ab)". It is empty if the program
// was built from a module and not from a repository.
func Commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return " (commit " + s.Value[:min(12, len(s.Value))] + ")"
			}
		}
	}
	return ""
}

// Group returns a command with subcommands.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:                use,
		Short:              short,
		RunE:               NoCommand,
		Args:               cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, // report the unknown command instead
	}
	cmd.AddCommand(commands...)
	return cmd
}

// NoCommand is the action of a command that has only subcommands.
func NoCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UnknownCommand(cmd, args[0])
	}
	cmd.SetOut(cmd.ErrOrStderr())
	_ = cmd.Help()
	return Exit(StatusUsage)
}

// UnknownCommand returns the error for a command that does not exist, with the nearest name.
func UnknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	msg := fmt.Sprintf("unknown command %q for %q", name, cmd.CommandPath())
	if s := cmd.SuggestionsFor(name); len(s) > 0 {
		msg += "; did you mean " + strings.Join(s, " or ") + "?"
	}
	return Usagef("%s", msg)
}

// WithPath adds the tree to a command: its usage begins with PATH unless the tree is part of the program. run gets the
// path and the other arguments, at most extra.
func (f *Factory) WithPath(cmd *cobra.Command, use string, extra int, run func(cmd *cobra.Command, path string, args []string) error) *cobra.Command {
	words := strings.Fields(use)
	if !f.Embedded() {
		words = slices.Insert(words, 1, "PATH")
	}
	cmd.Use = strings.Join(words, " ")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := ""
		if !f.Embedded() {
			if len(args) == 0 {
				return Usagef("PATH is missing: name a folder of Markdown agents, or the file of a router or a graph; see %s --help", cmd.CommandPath())
			}
			path, args = args[0], args[1:]
		}
		if len(args) > extra {
			hint := "see " + cmd.CommandPath() + " --help"
			if extra > 0 {
				hint = "put a message of several words in quotes"
			}
			return Usagef("%s too many: %q; %s", render.Count(len(args)-extra, "argument"), args[extra], hint)
		}
		return run(cmd, path, args)
	}
	return cmd
}

// Exactly requires exactly these arguments.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing; see %s --help", names[len(args)], cmd.CommandPath())
		}
		if len(args) > len(names) {
			return fmt.Errorf("%s too many: %q; see %s --help", render.Count(len(args)-len(names), "argument"), args[len(names):], cmd.CommandPath())
		}
		return nil
	}
}
