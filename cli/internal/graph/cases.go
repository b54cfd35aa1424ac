package graph

import (
	"context"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agentgraph/graphtest"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// testOptions holds the flags of graph test.
type testOptions struct {
	agents agentOptions
	only   string // a part of the names of the cases to run
}

func testCommand(f *factory.Factory) *cobra.Command {
	var o testOptions
	cmd := factory.Command("test CASES…", func(cmd *cobra.Command, args []string) error { return testGraphs(cmd.Context(), f, args, o) })
	o.agents.flags(cmd.Flags())
	cmd.Flags().StringVar(&o.only, "run", "", "run only cases whose names match `REGEXP`")
	f.JSONFlag(cmd.Flags(), "print one JSON object a line for each case")
	return cmd
}

// testedCase is the JSON of a case with --json.
type testedCase struct {
	File        string             `json:"file"`
	Line        int                `json:"line"`
	Name        string             `json:"name"`
	OK          bool               `json:"ok"`
	Differences []string           `json:"differences"`
	Result      *agentgraph.Result `json:"result"`
}

func testGraphs(ctx context.Context, f *factory.Factory, files []string, o testOptions) error {
	wanted, err := regexp.Compile(o.only)
	if err != nil {
		return factory.Usagef("--run: %w", err)
	}
	var opts []graphtest.LoadOption
	if o.agents.folder != "" || len(o.agents.names) > 0 {
		known, err := o.agents.known(f, "")
		if err != nil {
			return err
		}
		opts = append(opts, graphtest.WithKnown(known...))
	}
	cases, err := factory.Cases(files, func(file string) ([]graphtest.Case, error) { return caseFile(file, opts) })
	if err != nil {
		return err
	}
	turn, done := f.Interrupts.Turn(ctx)
	defer done()
	ran, failed := 0, 0
	for i := range cases {
		c := &cases[i]
		if !wanted.MatchString(c.Name) {
			continue
		}
		out, err := c.Run(turn)
		if turn.Err() != nil {
			return context.Canceled
		}
		if err != nil {
			return factory.Usagef("%s:%d: %s: %w", c.File, c.Line, c.Name, err)
		}
		if ran++; !out.OK() {
			failed++
		}
		tested(f, c, out)
		if err := f.Out.Failed(); err != nil {
			return err
		}
	}
	if ran == 0 {
		return factory.Usagef("--run %s: none of %s has such a name", factory.QuoteArg(o.only), render.Count(len(cases), "case"))
	}
	total := render.Count(ran, "case") + " passed"
	if failed > 0 {
		total = fmt.Sprintf("%d of %s failed", failed, render.Count(ran, "case"))
	}
	if f.JSON {
		f.Say("%s", total)
	} else {
		fmt.Fprintln(f.Stdout, total)
	}
	if failed > 0 {
		return factory.Exit(factory.StatusFailed)
	}
	return nil
}

// caseFile reads a file of cases, and checks that each agent of a graph that runs has a mock.
func caseFile(file string, opts []graphtest.LoadOption) ([]graphtest.Case, error) {
	found, err := graphtest.LoadCaseFile(file, opts...)
	if err != nil {
		return nil, err
	}
	var problems []graphtest.Problem
	for _, c := range found {
		if c.Refused != nil {
			continue
		}
		for _, n := range c.Mocks.Unmocked(c.Graph) {
			problems = append(problems, graphtest.Problem{File: c.File, Line: c.Line, Message: fmt.Sprintf("the case %s: its agent %s has no mock", c.Name, n.ID)})
		}
	}
	return found, yamldoc.AsError(problems)
}

// tested prints the result of a case.
func tested(f *factory.Factory, c *graphtest.Case, out *graphtest.Outcome) {
	if f.JSON {
		t := testedCase{c.File, c.Line, c.Name, out.OK(), out.Differences, &out.Result}
		if c.Refused != nil {
			t.Result = nil
		}
		if t.Differences == nil {
			t.Differences = []string{}
		}
		render.JSON(f.Stdout, t)
		return
	}
	terminal := f.TerminalOf(f.Stdout)
	word := terminal.Paint(render.Green, "ok  ")
	if !out.OK() {
		word = terminal.Paint(render.Red, "FAIL")
	}
	fmt.Fprintf(f.Stdout, "%s %s\n", word, visible.Line(c.Name))
	for _, d := range out.Differences {
		fmt.Fprintf(f.Stdout, "     %s\n", visible.Line(d))
	}
}
