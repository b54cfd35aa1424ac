package cli

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval/routing"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// routingFlags are those of lint about routing.
type routingFlags struct {
	routing       bool
	model, prices string
	messages      int
}

// mostMessages bounds what a model writes for one agent.
const mostMessages = 20

func (f *routingFlags) add(fs *pflag.FlagSet) {
	fs.BoolVar(&f.routing, "routing", false, "also report what makes routing worse than necessary")
	fs.StringVar(&f.model, "model", "", "with --routing, test whether the model `NAME` can tell the targets apart and which form of transfer suits it")
	fs.IntVar(&f.messages, "messages", 3, "with --model, let the model write `N` messages per target and route them")
	fs.StringVar(&f.prices, "prices", "", "with --model, read prices from `FILE` (YAML or JSON) to report the cost")
}

func (f *routingFlags) check(cmd *cobra.Command) error {
	switch {
	case f.model != "" && !f.routing:
		return usagef("--model goes with --routing")
	case f.model == "" && (f.prices != "" || cmd.Flags().Changed("messages")):
		return usagef("--messages and --prices go with --model")
	case f.messages < 0 || f.messages > mostMessages:
		return usagef("--messages %d: it is a number from 0 to %d", f.messages, mostMessages)
	}
	return nil
}

// lintRouting prints what is found about the routing of a sound tree.
func (p *program) lintRouting(ctx context.Context, tree *agent.Tree, f routingFlags, asJSON bool) error {
	found := []routing.Finding{}
	if f.routing {
		found = append(found, routing.Lint(tree, p.placeOf)...)
	}
	asked, failed := &routing.SurveyResult{}, error(nil)
	if f.model != "" {
		asked, failed = p.survey(ctx, tree, f)
	}
	found = append(found, asked.Findings...)
	if asked.Findings = found; asJSON && f.model != "" && failed == nil {
		render.JSON(p.Stdout, asked)
	} else if asJSON {
		render.JSON(p.Stdout, found)
	} else {
		for _, finding := range found {
			fmt.Fprintln(p.Stdout, visible.Line(finding.String()))
		}
		p.printForms(asked)
	}
	switch {
	case failed != nil:
		return failed
	case len(found) == 0:
		return nil
	}
	p.say("%s", render.Count(len(found), "finding"))
	return statusError(StatusFindings)
}

// printForms prints how well the forms did in which models can be shown their targets.
func (p *program) printForms(asked *routing.SurveyResult) {
	if len(asked.Forms) == 0 {
		return
	}
	table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nFORM\tRIGHT AT THE END\tBETWEEN\tTRANSFERS\tCALLS SHOWN")
	for _, m := range asked.Forms {
		now := ""
		if m.Now {
			now = " (now)"
		}
		fmt.Fprintf(table, "%s%s\t%d of %d\t%.0f %% and %.0f %%\t%.1f\t%d\n", m.Form, now, m.Right.Right, m.Right.Of, 100*m.Right.Low, 100*m.Right.High, m.Transfers, m.Leaked)
	}
	_ = table.Flush()
	if !slices.ContainsFunc(asked.Findings, func(f routing.Finding) bool { return f.Kind == routing.Transfers }) {
		fmt.Fprintln(p.Stdout, asked.Why) // else it is one of the findings
	}
}

// survey asks a model about the targets of a tree, and says before what that takes. The result is never nil.
func (p *program) survey(ctx context.Context, tree *agent.Tree, f routingFlags) (*routing.SurveyResult, error) {
	none := &routing.SurveyResult{}
	var prices llm.Prices
	m, err := p.models(f.model)
	if err == nil && f.prices != "" {
		prices, err = readPrices(f.prices)
	}
	if err != nil {
		return none, err
	}
	model, err := m.named(f.model, func() {})
	if err != nil {
		return none, err
	}
	s := routing.NewSurvey(tree, model, f.messages, p.placeOf)
	p.say("the model %s is asked about %s, of about %s%s", f.model, render.Count(s.Questions, "question"), render.Count(s.Tokens, "token"), costs(prices, f.model, s.Tokens))
	ctx, done := p.interrupts.turn(ctx)
	defer done()
	asked, err := s.Ask(ctx)
	p.say("it has used %s and answered with %d%s", render.Count(asked.Used.InputTokens, "token"), asked.Used.OutputTokens, paid(prices, f.model, asked.Used))
	return asked, err
}

// costs says what so many tokens of requests cost, "" without a price.
func costs(prices llm.Prices, model string, tokens int) string {
	if cost, ok := prices.Cost(model, llm.Usage{InputTokens: tokens}); ok {
		return fmt.Sprintf(", which cost %.4f besides the answers", cost)
	}
	return ""
}

// paid says what was used cost, "" without a price.
func paid(prices llm.Prices, model string, used llm.Usage) string {
	if cost, ok := prices.Cost(model, used); ok {
		return fmt.Sprintf(", which cost %.4f", cost)
	}
	return ""
}

// placeOf says where an agent of the tree that was loaded last is made, "" if no file says it.
func (p *program) placeOf(name string) (file string, line int) {
	if p.sources == nil {
		return "", 0
	}
	s, _ := p.sources(name)
	return s.File, s.Line
}
