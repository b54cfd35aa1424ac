package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	graph "github.com/agentarbor/arbor/conversation" // the name is a type of this package
)

func (p *program) conversationCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                "conversation",
		Short:              "Turn events into the graph of a conversation",
		RunE:               noCommand,
		Args:               cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, // the unknown command is the news
	}
	var project string
	var asJSON bool
	reduce := &cobra.Command{
		Use:   "reduce",
		Short: "Read events from standard input, one JSON object a line, and print what follows from them",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			return p.reduceConversation(project, asJSON)
		},
	}
	reduce.Flags().StringVar(&project, "project", "graph", "what to print: graph")
	reduce.Flags().BoolVar(&asJSON, "json", false, "print it in one line")
	cmd.AddCommand(reduce)
	return cmd
}

func (p *program) reduceConversation(project string, oneLine bool) error {
	if project != "graph" {
		return usagef("--project %s: graph is possible", project)
	}
	g, err := p.readConversation()
	if err != nil {
		return err
	}
	if oneLine {
		writeJSON(p.Stdout, g)
		return nil
	}
	enc := json.NewEncoder(p.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(g)
}

// readConversation reduces the events of standard input. Empty lines are
// skipped.
func (p *program) readConversation() (*graph.Graph, error) {
	g := graph.New()
	if p.Stdin == nil {
		return g, nil
	}
	in := bufio.NewReader(p.Stdin)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, usagef("the events cannot be read: %w", err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var wrong error
			if g, wrong = g.ReduceJSON(line); wrong != nil {
				return nil, usagef("line %d: %w", n, wrong)
			}
		}
		if err != nil {
			return g, nil
		}
	}
}
