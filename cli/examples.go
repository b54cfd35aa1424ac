package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
)

// examples are the examples in the help of each command, by the command's path without the program's name. A program
// with its own tree has no TREE.
var examples = map[string][]string{
	"run":                 {`PROGRAM run TREE "I was charged twice"`, `PROGRAM run TREE --session s1 "And the invoice?"`},
	"chat":                {`PROGRAM chat TREE`, `PROGRAM chat TREE --session s1`},
	"resume":              {`PROGRAM resume TREE --session s1`, `PROGRAM resume TREE --session s1 --approve call_1`},
	"tree":                {`PROGRAM tree TREE`, `PROGRAM tree TREE --format mermaid`},
	"lint":                {`PROGRAM lint TREE`, `PROGRAM lint TREE --routing`},
	"eval":                {`PROGRAM eval TREE cases.yaml`, `PROGRAM eval TREE cases.yaml --repeat 5 --threshold 0.9`},
	"serve":               {`PROGRAM serve TREE`, `PROGRAM serve TREE --addr 0.0.0.0:8420 --users users.yaml --db postgres://localhost/arbor`},
	"dev":                 {`PROGRAM dev TREE`},
	"man":                 {`PROGRAM man man1`},
	"mcp":                 {`PROGRAM mcp TREE`},
	"new":                 {`PROGRAM new desk`, `PROGRAM new desk --small`},
	"bisect":              {`PROGRAM bisect s1 desk --good v1.2`},
	"sessions ls":         {`PROGRAM sessions ls --limit 20`},
	"sessions show":       {`PROGRAM sessions show s1`, `PROGRAM sessions show s1 --at 7 --state`},
	"sessions follow":     {`PROGRAM sessions follow s1`},
	"sessions history":    {`PROGRAM sessions history s1`},
	"sessions fork":       {`PROGRAM sessions fork s1 --at 7 --to s2`},
	"sessions edit":       {`PROGRAM sessions edit s1 --last "I was charged once"`},
	"sessions diff":       {`PROGRAM sessions diff s1 s2`},
	"sessions export":     {`PROGRAM sessions export s1 --format md`},
	"sessions import":     {`PROGRAM sessions import messages.json --agent support`},
	"sessions file":       {`PROGRAM sessions file s1`, `PROGRAM sessions file s1 invoice.pdf --output invoice.pdf`},
	"sessions check":      {`PROGRAM sessions check`, `PROGRAM sessions check s1`},
	"sessions debug":      {`PROGRAM sessions debug s1`},
	"sessions replay":     {`PROGRAM sessions replay s1 --speed 4`},
	"sessions why":        {`PROGRAM sessions why s1`, `PROGRAM sessions why s1 7 --samples 5`},
	"sessions rm":         {`PROGRAM sessions rm s1 s2`},
	"conversation reduce": {`PROGRAM sessions export s1 | PROGRAM conversation reduce --project thread`},
	"graph validate":      {`PROGRAM graph validate triage.yaml`},
	"graph draw":          {`PROGRAM graph draw triage.yaml --format svg`},
	"graph run":           {`PROGRAM graph run triage.yaml --input '{"message": "hello"}'`},
	"graph test":          {`PROGRAM graph test cases.yaml`},
	"graph schema":        {`PROGRAM graph schema > graph.schema.json`},
	"schema":              {`PROGRAM schema agent > agent.schema.json`},
	"router validate":     {`PROGRAM router validate router.yaml`},
	"router explain":      {`PROGRAM router explain router.yaml "I was charged twice"`},
	"users add":           {`PROGRAM users add ann`, `PROGRAM users add bob --may inspect,approve`},
	"users ls":            {`PROGRAM users ls`},
	"users rm":            {`PROGRAM users rm ann`},
	"desk ls":             {`PROGRAM desk ls`},
	"desk take":           {`PROGRAM desk take --name Ann`},
	"desk say":            {`PROGRAM desk say s1 "One moment, please"`},
	"desk set":            {`PROGRAM desk set s1 on_hold`},
}

// complete sets what all commands below a command have in common: their examples, and the check of their arguments.
func complete(f *factory.Factory, cmd *cobra.Command) {
	tree := "desk "
	if f.Embedded() {
		tree = ""
	}
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	var lines []string
	for _, line := range examples[name] {
		line = strings.ReplaceAll(line+" ", "TREE ", tree)
		lines = append(lines, "  "+strings.TrimSpace(strings.ReplaceAll(line, "PROGRAM", f.Name)))
	}
	cmd.Example = strings.Join(lines, "\n")
	switch {
	case name == "completion":
		cmd.RunE, cmd.Args = factory.NoCommand, cobra.ArbitraryArgs
	case cmd.Args == nil && !cmd.HasSubCommands():
		cmd.Args = factory.CheckArgs
	}
	for _, sub := range cmd.Commands() {
		complete(f, sub)
	}
}
