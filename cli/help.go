package cli

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/cli/internal/factory"
)

// helpText is what the help of each command says: after a line with === and the command's path, the line for the list
// of commands, a longer text, and examples. It is a template, which gets the factory and .Tree, the path of a tree in
// examples.
//
//go:embed help.txt
var helpText string

// page is the text of one command.
type page struct{ short, long, examples string }

// pages returns the texts of all commands by their paths without the program's name.
func pages(f *factory.Factory) map[string]page {
	with := struct {
		*factory.Factory
		Tree string
	}{f, " desk"}
	if f.Embedded() {
		with.Tree = ""
	}
	var text strings.Builder
	_ = template.Must(template.New("help").Parse(helpText)).Execute(&text, with) // it names no other fields
	all := make(map[string]page)
	for section := range strings.SplitSeq("\n"+text.String(), "\n=== ") {
		name, section, _ := strings.Cut(section, "\n")
		section, examples, _ := strings.Cut(section, "\nExamples:\n")
		short, long, _ := strings.Cut(section, "\n")
		all[name] = page{short, strings.TrimSpace(long), strings.TrimRight(examples, "\n")}
	}
	return all
}

// complete sets what all commands below a command have in common: their texts, and the check of their arguments.
func complete(cmd *cobra.Command, texts map[string]page) {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	if p, ok := texts[name]; ok {
		cmd.Short, cmd.Long, cmd.Example = p.short, p.long, p.examples
	}
	switch {
	case name == "completion":
		cmd.RunE, cmd.Args = factory.NoCommand, cobra.ArbitraryArgs
	case cmd.Args == nil && !cmd.HasSubCommands():
		cmd.Args = factory.CheckArgs
	}
	for _, sub := range cmd.Commands() {
		complete(sub, texts)
	}
}

// flagGroups are the groups of flags in help. The first one contains all flags that are in no other group.
var flagGroups = [...]struct{ title, names string }{
	{title: "Flags"},
	{"Session Flags", "session db redis server desk"},
	{"Model Flags", "model record replay timeout-first timeout-silence timeout-answer prices"},
	{"Decision Flags", "approve deny answer reason by approver"},
	{"Access Flags", "users token-file no-token tls-cert tls-key client-ca allow-origin sign-key allow-local-webhooks"},
	{"Limit Flags", "max-turns max-user-turns max-streams max-user-streams max-body body-time"},
}

// usage prints how to call a command: cobra's text, but with the flags in groups.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if cmd.Runnable() {
		b.WriteString("\n  " + cmd.UseLine())
	}
	commands := cmd.HasAvailableSubCommands()
	if commands {
		b.WriteString("\n  " + cmd.CommandPath() + " [command]")
	}
	if cmd.HasExample() {
		b.WriteString("\n\nExamples:\n" + cmd.Example)
	}
	if commands {
		b.WriteString("\n\nAvailable Commands:")
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			fmt.Fprintf(&b, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
	for _, text := range groupedFlags(cmd) {
		b.WriteString("\n\n" + strings.TrimRight(text, " \n"))
	}
	if commands {
		fmt.Fprintf(&b, "\n\nUse %q for more information about a command.", cmd.CommandPath()+" [command] --help")
	}
	_, err := fmt.Fprintln(cmd.OutOrStderr(), b.String())
	return err
}

// groupedFlags returns the flags of a command, one text per group that has some.
func groupedFlags(cmd *cobra.Command) (texts []string) {
	var groups [len(flagGroups)]pflag.FlagSet
	add := func(flag *pflag.Flag) {
		in := slices.IndexFunc(flagGroups[:], func(g struct{ title, names string }) bool {
			return slices.Contains(strings.Fields(g.names), flag.Name)
		})
		groups[max(in, 0)].AddFlag(flag)
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	for i := range groups {
		if groups[i].HasAvailableFlags() {
			texts = append(texts, flagGroups[i].title+":\n"+groups[i].FlagUsages())
		}
	}
	return texts
}

// manCommand writes the manual pages of a release. It is a hidden command.
func manCommand(f *factory.Factory) *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			cmd.Root().DisableAutoGenTag = true // no date at the end of each page
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: f.Name + " " + factory.Version()}, args[0])
		},
	}
}
