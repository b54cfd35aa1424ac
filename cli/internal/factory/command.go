package factory

import (
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
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

// Command returns a command. Its texts are in cli/help.txt.
func Command(use string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, RunE: run}
}

// Group returns a command with subcommands.
func Group(use string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:                use,
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
		return UnknownCommand(cmd, args...)
	}
	cmd.SetOut(cmd.ErrOrStderr())
	_ = cmd.Help()
	return Exit(StatusUsage)
}

// UnknownCommand returns the error for arguments that begin with no command. It suggests the command with the nearest
// name, the command of this name one level below, or the command that sends the arguments to a tree.
func UnknownCommand(cmd *cobra.Command, args ...string) error {
	name, hint := args[0], "see "+cmd.CommandPath()+" --help"
	if line := asMessage(cmd, args); line != "" {
		hint = "did you mean " + line + "?"
	}
	var known []string
	for _, c := range cmd.Commands() {
		if c.Hidden {
			continue
		}
		known = append(known, c.Name())
		for _, below := range c.Commands() {
			if below.Name() == name && !below.Hidden {
				hint = "did you mean " + below.CommandPath() + "?"
			}
		}
	}
	meant := nearest.Within(name, known, min(2, len(name)/2))
	if meant != "" && !strings.Contains(name, "/") { // which a path has
		hint = "did you mean " + meant + "?"
	}
	if name == "version" && !cmd.HasParent() {
		hint = "did you mean " + cmd.CommandPath() + " --version?"
	}
	return Usagef("unknown command %q for %q; %s", name, cmd.CommandPath(), hint)
}

// asMessage returns the command line that runs a tree, if the words after the program's name are the path of a tree and
// a message, or a message of several words. Otherwise it returns "".
func asMessage(cmd *cobra.Command, args []string) string {
	words := append(strings.Fields(cmd.CommandPath())[1:], args...)
	run, _, _ := cmd.Root().Find([]string{"run"})
	line := run.CommandPath() + " "
	switch takesPath := strings.Contains(run.Use, "PATH"); {
	case takesPath && exists(words[0]):
		path := QuoteArg(visible.Line(words[0]))
		if len(words) == 1 {
			chat, _, _ := cmd.Root().Find([]string{"chat"})
			return chat.CommandPath() + " " + path
		}
		line, words = line+path+" ", words[1:]
	case cmd.HasParent(), takesPath && !strings.Contains(args[0], " "):
		return ""
	case takesPath:
		line += "PATH "
	}
	return line + QuoteArg(visible.Line(strings.Join(words, " ")))
}

// WithPath returns a command about a tree: its usage begins with PATH unless the tree is part of the program. run gets
// the path, "" for the program's tree, and the other arguments.
func (f *Factory) WithPath(use string, run func(cmd *cobra.Command, path string, args []string) error) *cobra.Command {
	cmd := &cobra.Command{}
	name, rest, _ := strings.Cut(use, " ")
	if f.Embedded() {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, "", args) }
	} else {
		rest = "PATH " + rest
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, args[0], args[1:]) }
	}
	cmd.Use = strings.TrimSpace(name + " " + rest)
	return cmd
}

// what describes arguments whose names do not say enough.
var what = map[string]string{
	"PATH":  ": name a folder of Markdown agents, or the file of a router or a graph",
	"CASES": ": name a file of cases",
}

// CheckArgs compares the arguments of a command with its usage. There, ID is required, [ID] is optional, and ID… may be
// repeated.
func CheckArgs(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	if flag := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "-") }); flag >= 0 {
		names = names[:flag]
	}
	help := "see " + cmd.CommandPath() + " --help"
	for i, name := range names {
		if i < len(args) || strings.HasPrefix(name, "[") {
			continue
		}
		name, _, _ = strings.Cut(strings.TrimRight(name, "…."), "|")
		return Usagef("%s is missing%s; %s", name, what[name], help)
	}
	if len(args) <= len(names) || len(names) > 0 && strings.ContainsAny(names[len(names)-1], "….") {
		return nil
	}
	if strings.Contains(cmd.Use, "MESSAGE") || strings.Contains(cmd.Use, "TEXT") {
		help = "put a message of several words in quotes"
	}
	return Usagef("%s too many: %q; %s", render.Count(len(args)-len(names), "argument"), args[len(names)], help)
}
