package cli

import (
	_ "embed"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

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
