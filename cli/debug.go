package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/debugbundle"
	"github.com/agentarbor/arbor/runner"
)

func (p *program) debugCommand() *cobra.Command {
	var tree string
	var decisions int
	var inOneLine bool
	cmd := &cobra.Command{
		Use:   "debug ID",
		Short: "Print why a session is in its state, without any message text",
		Long: `Prints one JSON object for finding a cause, or for attaching to a report: the active
agent, the last decisions of routers, the state of a handoff to a person and, with
--tree, the structure of the tree. It contains no text of people, models or tools.
Anything that looks like a secret is removed from reasons and addresses.`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if decisions < 1 {
				return usagef("--decisions %d: it is a number from 1", decisions)
			}
			b, err := p.debugBundle(cmd.Context(), args[0], tree, debugbundle.Options{Decisions: decisions})
			if err != nil {
				return err
			}
			return p.printJSON(b, inOneLine)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&decisions, "decisions", 20, "print the last `N` decisions")
	fs.BoolVar(&inOneLine, "json", false, "print JSON on one line")
	if !p.embedded() {
		fs.StringVar(&tree, "tree", "", "also print the agents in `PATH`")
	}
	return cmd
}

func (p *program) debugBundle(ctx context.Context, id, path string, o debugbundle.Options) (*debugbundle.Bundle, error) {
	s, err := p.past(ctx, id)
	if err != nil {
		return nil, err
	}
	if path == "" && !p.embedded() {
		return debugbundle.Stored(ctx, s.db.Store, s.Key, o)
	}
	tree, err := p.lookAt(path)
	if err != nil {
		return nil, err
	}
	r, err := runner.New(tree.Root().Agent, s.db.Store, p.seats(tree, false)...)
	if err != nil {
		return nil, err
	}
	return debugbundle.New(ctx, r, s.Key, o)
}
