package cli

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/render"
)

// command builds the tree of commands.
func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:           p.name,
		Short:         "Run trees of LLM agents that transfer a conversation to each other",
		Long:          p.help(),
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			p.began = true
			return checkDB(p.place.db)
		},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE:              noCommand,
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(p.runCommand(), p.chatCommand(), p.resumeCommand(), p.treeCommand(), p.lintCommand(), p.evalCommand(), p.sessionsCommand(), p.conversationCommand(), p.graphCommand(), p.routerCommand(), p.serveCommand(), p.devCommand(), p.usersCommand(), p.deskCommand())
	if !p.embedded() {
		root.AddCommand(p.newCommand(), p.bisectCommand())
	}
	if p.mcp != nil {
		root.AddCommand(p.mcpCommand())
	}
	p.addExamples(root)
	return root
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown version)"
}

func (p *program) help() string {
	path := "PATH is a folder of Markdown agents, or the file of a router or a graph.\n\n"
	if p.embedded() {
		path = ""
	}
	database := ""
	if p.postgres != nil {
		database = ", or with --db postgres://… in a database"
	}
	return fmt.Sprintf(`%[1]s runs trees of LLM agents. When another agent fits better, the active agent
transfers the conversation to it; that agent answers and stays in charge.

%[2]sThe environment chooses the model:
  OPENAI_BASE_URL  address of an OpenAI-compatible endpoint (default: OpenAI's own)
  OPENAI_API_KEY   its key; without a key, no Authorization header is sent
  OPENAI_MODEL     the model of all agents that name none
If none of them is set, the offline model answers: it uses no network and only
compares words; standard error says so.

Sessions are stored in a SQLite file, by default %[3]s
below $XDG_STATE_HOME or ~/.local/state%[4]s.

Exit status: 0 answered; 1 a check found something, such as an evaluation below its
threshold or a tree that may route badly; 2 bad input or configuration; 3 the model or
a tool failed, or transfers were rejected; 4 a limit was reached; 5 waiting for an
approval; 6 the session is busy; 130 interrupted.`, p.name, path, p.stateFile(), database)
}

// group makes a command of commands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:                use,
		Short:              short,
		RunE:               noCommand,
		Args:               cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, // the unknown command is the news
	}
	cmd.AddCommand(commands...)
	return cmd
}

// noCommand is what a command does that has only subcommands.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	cmd.SetOut(cmd.ErrOrStderr())
	_ = cmd.Help()
	return statusError(StatusUsage)
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 && about.HasSubCommands() {
				return unknownCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}

func unknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	msg := fmt.Sprintf("unknown command %q for %q", name, cmd.CommandPath())
	if s := cmd.SuggestionsFor(name); len(s) > 0 {
		msg += "; did you mean " + strings.Join(s, " or ") + "?"
	}
	return usagef("%s", msg)
}

// asUsage turns an error of the command line's parser into one of ours, with a
// suggestion in one line.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	msg, suggestions, _ := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	if names := strings.Fields(suggestions); len(names) > 0 {
		msg += "; did you mean " + strings.Join(names, " or ") + "?"
	}
	return usagef("%s", strings.TrimSpace(msg))
}

// flagError adds the nearest flag's name to an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	hint := "see " + cmd.CommandPath() + " --help"
	switch {
	case errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "bool":
		return usagef("--%s is a switch: give it without a value; %s", invalid.GetFlag().Name, hint) // the value may be a secret
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return usagef("unknown shorthand flag: '%.1s'; %s", unknown.GetSpecifiedShortnames(), hint) // what follows it as well
	case errors.As(err, &unknown):
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if meant := nearest.Within(unknown.GetSpecifiedName(), known, 2); meant != "" {
			hint = "did you mean --" + meant + "?"
		}
	}
	return usagef("%w; %s", err, hint)
}

// withPath makes a command that works on a tree: its usage begins with PATH
// unless the tree is part of the program, and run gets the path and the rest of
// the arguments, at most extra.
func (p *program) withPath(cmd *cobra.Command, use string, extra int, run func(cmd *cobra.Command, path string, args []string) error) *cobra.Command {
	words := strings.Fields(use)
	if !p.embedded() {
		words = slices.Insert(words, 1, "PATH")
	}
	cmd.Use = strings.Join(words, " ")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := ""
		if !p.embedded() {
			if len(args) == 0 {
				return usagef("PATH is missing: name a folder of Markdown agents, or the file of a router or a graph; see %s --help", cmd.CommandPath())
			}
			path, args = args[0], args[1:]
		}
		if len(args) > extra {
			hint := "see " + cmd.CommandPath() + " --help"
			if extra > 0 {
				hint = "put a message of several words in quotes"
			}
			return usagef("%s too many: %q; %s", render.Count(len(args)-extra, "argument"), args[extra], hint)
		}
		return run(cmd, path, args)
	}
	return cmd
}

// exactly is the check for arguments that must all be there.
func exactly(names ...string) cobra.PositionalArgs {
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
