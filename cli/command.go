package cli

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/cli/internal/conversation"
	"github.com/agentarbor/arbor/cli/internal/desk"
	"github.com/agentarbor/arbor/cli/internal/eval"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/graph"
	"github.com/agentarbor/arbor/cli/internal/run"
	"github.com/agentarbor/arbor/cli/internal/serve"
	"github.com/agentarbor/arbor/cli/internal/session"
	"github.com/agentarbor/arbor/cli/internal/tree"
	"github.com/agentarbor/arbor/cli/internal/users"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/visible"
)

// command returns the root command.
func command(f *factory.Factory) *cobra.Command {
	root := &cobra.Command{
		Use:           f.Name,
		Version:       factory.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			f.Began = true
			return cmp.Or(factory.CheckGiven(cmd), factory.CheckDB(f.Place.DB))
		},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE:              factory.NoCommand,
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}" + factory.Commit() + "\n")
	root.SetIn(f.Stdin)
	root.SetOut(f.Stdout)
	root.SetErr(f.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(usage)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(run.Command(f), run.ChatCommand(f), run.ResumeCommand(f), tree.Command(f), tree.LintCommand(f), tree.SchemaCommand(f), eval.Command(f), session.Command(f), conversation.Command(f), graph.Command(f), tree.RouterCommand(f), serve.Command(f), serve.DevCommand(f), users.Command(f), desk.Command(f))
	if !f.Embedded() {
		root.AddCommand(tree.NewCommand(f), session.BisectCommand(f))
	}
	if f.MCP != nil && f.MCP.Server != nil {
		root.AddCommand(serve.MCPCommand(f))
	}
	root.AddCommand(manCommand(f))
	root.InitDefaultCompletionCmd()
	complete(root, pages(f))
	return root
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 && about.HasSubCommands() {
				return factory.UnknownCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}

// wanted says which values a flag takes.
func wanted(err *pflag.InvalidValueError) string {
	switch err.GetFlag().Value.Type() {
	case "int", "int64":
		return "give a whole number"
	case "float64":
		return "give a number, such as 0.5"
	case "duration":
		return "give a time with its unit, such as 30s or 10m"
	}
	return err.Unwrap().Error()
}

// flagError adds the nearest flag's name to an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	hint := "see " + cmd.CommandPath() + " --help"
	switch {
	case errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "bool":
		return factory.Usagef("--%s is a switch: give it without a value; %s", invalid.GetFlag().Name, hint) // the value may be secret
	case errors.As(err, &invalid):
		value := visible.Cut(visible.Line(invalid.GetValue()), 40)
		return factory.Usagef("--%s %s: %s; %s", invalid.GetFlag().Name, value, wanted(invalid), hint)
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return factory.Usagef("unknown shorthand flag: '%.1s'; %s", unknown.GetSpecifiedShortnames(), hint) // so may the text after it
	case errors.As(err, &unknown):
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		name := unknown.GetSpecifiedName()
		if meant := nearest.Within(name, known, min(2, len(name)/2)); meant != "" {
			hint = "did you mean --" + meant + "?"
		}
	}
	return factory.Usagef("%w; %s", err, hint)
}
