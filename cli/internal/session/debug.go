package session

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/debugbundle"
	"github.com/agentarbor/arbor/runner"
)

func debugCommand(f *factory.Factory) *cobra.Command {
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
		Args: factory.Exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if decisions < 1 {
				return factory.Usagef("--decisions %d: it is a number from 1", decisions)
			}
			b, err := debugBundle(cmd.Context(), f, args[0], tree, debugbundle.Options{Decisions: decisions})
			if err != nil {
				return err
			}
			return printJSON(f, b, inOneLine)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&decisions, "decisions", 20, "print the last `N` decisions")
	fs.BoolVar(&inOneLine, "json", false, "print JSON on one line")
	if !f.Embedded() {
		fs.StringVar(&tree, "tree", "", "also print the agents in `PATH`")
	}
	return cmd
}

func debugBundle(ctx context.Context, f *factory.Factory, id, path string, o debugbundle.Options) (*debugbundle.Bundle, error) {
	s, err := open(ctx, f, id)
	if err != nil {
		return nil, err
	}
	if path == "" && !f.Embedded() {
		return debugbundle.Stored(ctx, s.db.Store, s.Key, o)
	}
	tree, err := f.LookAt(path)
	if err != nil {
		return nil, err
	}
	r, err := runner.New(tree.Root().Agent, s.db.Store, f.Seats(tree, false)...)
	if err != nil {
		return nil, err
	}
	return debugbundle.New(ctx, r, s.Key, o)
}
