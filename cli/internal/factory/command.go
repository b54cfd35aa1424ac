package factory

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
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

// OneOf returns an error if the value of a flag or an argument is none of the choices.
func OneOf(name, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return Usagef("%s %s: choose %s%s", name, visible.Cut(visible.Line(value), 40), yamldoc.Or(choices), nearest.Hint(value, choices))
}

// InRange returns an error if the number of a flag is out of range. A most of 0 sets no upper bound.
func InRange(flag string, n, least, most int) error {
	switch {
	case n >= least && (most == 0 || n <= most):
		return nil
	case most == 0:
		return Usagef("%s %d: give a whole number of at least %d", flag, n, least)
	}
	return Usagef("%s %d: give a whole number from %d to %d", flag, n, least, most)
}

// CheckGiven returns an error if a flag of the command line has an empty value, as from a variable of a shell that is not
// set. Only a text may be empty.
func CheckGiven(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		name, _ := pflag.UnquoteUsage(flag)
		empty := len(values) == 0 || slices.Contains(values, "")
		if empty && flag.Value.Type() != "func" && name != "TEXT" && name != "JSON" {
			err = Usagef("--%s is empty: give %s, or leave the flag out; see %s --help", flag.Name, name, cmd.CommandPath())
		}
	})
	return err
}

// given reports whether a flag has a value that is neither empty nor false.
func given(flags *pflag.FlagSet, name string) bool {
	flag := flags.Lookup(name)
	return flag != nil && flag.Changed && flag.Value.String() != "" && flag.Value.String() != "false"
}

// Exclusive returns an error if several of the flags are given, of which a command takes only one.
func Exclusive(flags *pflag.FlagSet, names ...string) error {
	names = slices.DeleteFunc(names, func(name string) bool { return !given(flags, name) })
	if len(names) < 2 {
		return nil
	}
	return Usagef("--%s exclude each other: give only one of them", strings.Join(names, " and --"))
}

// Needs returns an error if a flag is given without one of the flags that it needs.
func Needs(flags *pflag.FlagSet, name string, needed ...string) error {
	if !given(flags, name) || slices.ContainsFunc(needed, func(name string) bool { return given(flags, name) }) {
		return nil
	}
	for i, other := range needed {
		needed[i] = "--" + other
	}
	return Usagef("--%s needs %s", name, yamldoc.Or(needed))
}

// JSONFlag adds --json.
func (o *Output) JSONFlag(fs *pflag.FlagSet, usage string) {
	fs.BoolVarP(&o.JSON, "json", "j", false, usage)
}

// WithJSON returns a command with --json.
func (o *Output) WithJSON(cmd *cobra.Command, usage string) *cobra.Command {
	o.JSONFlag(cmd.Flags(), usage)
	return cmd
}

// Size is a flag for a number of bytes, such as 32MiB.
type Size int64

func (s *Size) Set(text string) error {
	unit := int64(1)
	for i, name := range []string{"KiB", "MiB", "GiB"} {
		if number, ok := strings.CutSuffix(text, name); ok {
			text, unit = strings.TrimSpace(number), 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/unit {
		return errors.New("give a number of bytes such as 500KiB, 32MiB or 1GiB")
	}
	*s = Size(n * unit)
	return nil
}

func (s *Size) String() string {
	if *s == 0 {
		return ""
	}
	n, unit := int64(*s), ""
	for _, next := range []string{"KiB", "MiB", "GiB"} {
		if n%1024 != 0 {
			break
		}
		n, unit = n/1024, next
	}
	return fmt.Sprint(n, unit)
}

func (*Size) Type() string { return "SIZE" }

// FolderFlag adds a flag for a folder to which the command writes. The folder need not exist.
func FolderFlag(flags *pflag.FlagSet, dir *string, name, usage string) {
	flags.Func(name, usage, func(path string) error {
		if path == "" {
			return errors.New("it is empty: give the path of a folder, or leave the flag out")
		}
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return errors.New("this is a file: give the path of a folder")
		}
		*dir = path
		return nil
	})
}

// CheckOutput returns an error if the file of a flag, to which the command writes at its end, cannot be written. An
// empty path is no file.
func CheckOutput(flag, path string) error {
	info, err := os.Stat(path)
	if path == "" || err == nil && !info.IsDir() && !info.Mode().IsRegular() { // opening a pipe would wait for its reader
		return nil
	}
	create := errors.Is(err, fs.ErrNotExist)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return Usagef("%s: %w", flag, err)
	}
	if err = file.Close(); create {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
