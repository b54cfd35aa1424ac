package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
