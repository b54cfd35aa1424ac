package tree

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/eval/routing"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// routingOptions are those of lint about routing.
type routingOptions struct {
	routing       bool
	model, prices string
	messages      int
}

// mostMessages bounds what a model writes for one agent.
const mostMessages = 20

func (f *routingOptions) add(fs *pflag.FlagSet) {
	fs.BoolVar(&f.routing, "routing", false, "also report what makes routing worse than necessary")
	fs.StringVar(&f.model, "model", "", "with --routing, test whether the model `NAME` can tell the targets apart and which form of transfer suits it")
	fs.IntVar(&f.messages, "messages", 3, "with --model, let the model write `N` messages per target and route them")
	fs.StringVar(&f.prices, "prices", "", "with --model, read prices from `FILE` (YAML or JSON) to report the cost")
}

func (f *routingOptions) check(cmd *cobra.Command) error {
	switch {
	case f.model != "" && !f.routing:
		return factory.Usagef("--model goes with --routing")
	case f.model == "" && (f.prices != "" || cmd.Flags().Changed("messages")):
		return factory.Usagef("--messages and --prices go with --model")
	case f.messages < 0 || f.messages > mostMessages:
		return factory.Usagef("--messages %d: it is a number from 0 to %d", f.messages, mostMessages)
	}
	return nil
}

// lintRouting prints what is found about the routing of a sound tree.
func lintRouting(ctx context.Context, f *factory.Factory, tree *agent.Tree, o routingOptions, asJSON bool) error {
	found := []routing.Finding{}
	if o.routing {
		found = append(found, routing.Lint(tree, placeOf(f))...)
	}
	asked, failed := &routing.SurveyResult{}, error(nil)
	if o.model != "" {
		asked, failed = survey(ctx, f, tree, o)
	}
	found = append(found, asked.Findings...)
	if asked.Findings = found; asJSON && o.model != "" && failed == nil {
		render.JSON(f.Stdout, asked)
	} else if asJSON {
		render.JSON(f.Stdout, found)
	} else {
		for _, finding := range found {
			fmt.Fprintln(f.Stdout, visible.Line(finding.String()))
		}
		printForms(f, asked)
	}
	switch {
	case failed != nil:
		return failed
	case len(found) == 0:
		return nil
	}
	f.Say("%s", render.Count(len(found), "finding"))
	return factory.Exit(factory.StatusFindings)
}

// printForms prints how well the forms did in which models can be shown their targets.
func printForms(f *factory.Factory, asked *routing.SurveyResult) {
	if len(asked.Forms) == 0 {
		return
	}
	table := tabwriter.NewWriter(f.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nFORM\tRIGHT AT THE END\tBETWEEN\tTRANSFERS\tCALLS SHOWN")
	for _, m := range asked.Forms {
		now := ""
		if m.Now {
			now = " (now)"
		}
		fmt.Fprintf(table, "%s%s\t%d of %d\t%.0f %% and %.0f %%\t%.1f\t%d\n", m.Form, now, m.Right.Right, m.Right.Of, 100*m.Right.Low, 100*m.Right.High, m.Transfers, m.Leaked)
	}
	_ = table.Flush()
	if !slices.ContainsFunc(asked.Findings, func(finding routing.Finding) bool { return finding.Kind == routing.Transfers }) {
		fmt.Fprintln(f.Stdout, asked.Why) // else it is one of the findings
	}
}

// survey asks a model about the targets of a tree, and says before what that takes. The result is never nil.
func survey(ctx context.Context, f *factory.Factory, tree *agent.Tree, o routingOptions) (*routing.SurveyResult, error) {
	none := &routing.SurveyResult{}
	var prices llm.Prices
	m, err := f.Models(o.model)
	if err == nil && o.prices != "" {
		prices, err = factory.ReadPrices(o.prices)
	}
	if err != nil {
		return none, err
	}
	model, err := m.Named(o.model, func() {})
	if err != nil {
		return none, err
	}
	s := routing.NewSurvey(tree, model, o.messages, placeOf(f))
	f.Say("the model %s is asked about %s, of about %s%s", o.model, render.Count(s.Questions, "question"), render.Count(s.Tokens, "token"), factory.Costs(prices, o.model, s.Tokens))
	ctx, done := f.Interrupts.Turn(ctx)
	defer done()
	asked, err := s.Ask(ctx)
	f.Say("it has used %s and answered with %d%s", render.Count(asked.Used.InputTokens, "token"), asked.Used.OutputTokens, factory.Paid(prices, o.model, asked.Used))
	return asked, err
}

// placeOf returns what says where an agent of the tree that was loaded last is made, "" if no file says it.
func placeOf(f *factory.Factory) func(name string) (file string, line int) {
	return func(name string) (file string, line int) {
		if f.Sources == nil {
			return "", 0
		}
		s, _ := f.Sources(name)
		return s.File, s.Line
	}
}
