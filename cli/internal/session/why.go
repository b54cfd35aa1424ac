package session

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/eval/routing"
	"github.com/agentarbor/arbor/internal/asked"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
)

// whyOptions are the flags of sessions why.
type whyOptions struct {
	tree    string
	samples int
}

// mostSamples is the maximal number of requests of one command.
const mostSamples = 100

func whyCommand(f *factory.Factory) *cobra.Command {
	var o whyOptions
	cmd := factory.Command("why ID [SEQ]", func(cmd *cobra.Command, args []string) error {
		seq := int64(0)
		if len(args) == 2 {
			var err error
			if seq, err = strconv.ParseInt(args[1], 10, 64); err != nil || seq < 1 {
				return factory.Usagef("SEQ %s: give a position in the log, a whole number of at least 1", visible.Line(args[1]))
			}
		}
		if err := cmp.Or(factory.InRange("--samples", o.samples, 0, mostSamples), factory.Needs(cmd.Flags(), "prices", "samples")); err != nil {
			return err
		}
		return why(cmd.Context(), f, args[0], seq, o)
	})
	fs := cmd.Flags()
	f.JSONFlag(fs, "print one JSON object with the whole request")
	fs.IntVar(&o.samples, "samples", 0, "ask the model `N` more times and count its choices")
	fs.StringVar(&f.Prices, "prices", "", "read prices from `FILE` (YAML or JSON) to report what the samples cost")
	if !f.Embedded() {
		fs.StringVar(&o.tree, "tree", "", "read the agents from `PATH`")
	}
	return cmd
}

// explanation is the JSON of sessions why --json.
type explanation struct {
	Session string `json:"session"`
	Events  int64  `json:"events"`
	*routing.Why
	Samples *asked.Samples   `json:"samples,omitempty"`
	Tally   []routing.Choice `json:"tally,omitempty"`
}

func why(ctx context.Context, f *factory.Factory, id string, seq int64, o whyOptions) error {
	noTree := o.tree == "" && !f.Embedded()
	if o.samples > 0 && noTree {
		return factory.Usagef("--samples needs --tree")
	}
	s, err := open(ctx, f, id)
	if err != nil {
		return err
	}
	if seq > s.Seq {
		return factory.Usagef("SEQ %d: session %s has the positions 1 to %d", seq, factory.ShownID(s.Key), s.Seq)
	}
	d, err := routing.Find(s.until(ctx, s.Seq), seq)
	if err != nil {
		return fmt.Errorf("session %s: %w", factory.ShownID(s.Key), err)
	}
	out := explanation{Session: factory.ShownID(s.Key), Events: s.Seq, Why: &routing.Why{Decision: *d, Targets: []routing.Target{},
		Missing: "give --tree PATH to see who could have been chosen, and what the model was asked"}}
	if !noTree {
		ctx, done := f.Interrupts.Turn(ctx)
		defer done()
		if err := out.ask(ctx, s, o); err != nil {
			return err
		}
	}
	if f.JSON {
		render.JSON(f.Stdout, out)
		return nil
	}
	return out.print(f.Stdout, f)
}

// ask adds what the tree says about the decision, and samples of the model.
func (x *explanation) ask(ctx context.Context, s *past, o whyOptions) error {
	f, t := s.f, &factory.LoadedTree{}
	var err error
	if o.samples > 0 {
		t, err = f.Load(o.tree)
	} else {
		t.Agents, err = f.LookAt(o.tree)
	}
	if err != nil {
		return err
	}
	if t.End != nil {
		defer t.End()
	}
	f.ToDesk = x.Chosen == agent.Human
	if err := f.Start(ctx, t, s.db.Store); err != nil {
		return err
	}
	if x.Why, err = routing.Explain(ctx, t.Runner, s.Key, &x.Decision); err != nil || o.samples == 0 {
		return err
	}
	if x.Request == nil {
		return factory.Usagef("--samples: there is no model to ask: %s", x.Missing)
	}
	prices, err := f.ReadPrices()
	if err != nil {
		return err
	}
	f.Say("%s is asked %s, of %s each%s", model(x.Request.Model), render.Count(o.samples, "time"), render.Count(x.Tokens, "token"), factory.Costs(prices, x.Request.Model, o.samples*x.Tokens))
	if x.Samples, err = asked.SamplesOf(ctx, t.Runner, s.Key, x.At, x.Agent, o.samples, prices); err != nil {
		return err
	}
	x.Tally = x.Why.Tally(x.Samples)
	return nil
}

// model describes a model, which may have no name here.
func model(name string) string { return strings.TrimSpace("the model " + name) }

// verdict describes a decision in a few words.
func verdict(d *routing.Decision) string {
	how := map[string]string{routing.ByTransfer: "transfer", routing.ByRoute: "by a route", routing.ByRule: "by a router", routing.ByFailure: "after an error"}[d.Kind]
	switch d.Kind {
	case routing.Answers:
		return d.Agent + " answers itself"
	case routing.Fails:
		return d.Agent + " did not answer"
	case routing.AsksUser:
		return d.Agent + " asks the user whom they mean"
	case routing.ByRule:
		if how = "no rule matches"; d.Rule != nil {
			how = fmt.Sprintf("rule %d", *d.Rule)
		}
	}
	if d.Outcome != "" && d.Kind != routing.ByRule {
		how += ", " + string(d.Outcome)
	}
	return d.Agent + " → " + d.Chosen + " (" + how + ")"
}

// maxSaid is the maximal number of characters of a printed text.
const maxSaid = 200

func (x *explanation) print(w io.Writer, f *factory.Factory) error {
	fmt.Fprintf(w, "%s\n", f.TerminalOf(w).Paint(render.Bold, visible.Line(fmt.Sprintf("%s, at %d of %d: %s", x.Session, x.Seq, x.Events, verdict(&x.Decision)))))
	row := func(what, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %-9s %s\n", what, visible.Cut(visible.Line(text), maxSaid))
		}
	}
	row("user", x.Said)
	row("reason", x.Reason)
	row("rule", x.When)
	for _, note := range x.Notes {
		row("notice", note)
	}
	row("model", x.Model)
	if r := x.Request; r != nil {
		what := "asked for an answer"
		if x.Question {
			what = "asked who answers"
		}
		row("request", fmt.Sprintf("at position %d %s is %s: %s, %s, %s", x.At, model(r.Model), what,
			render.Count(len(r.Messages), "message"), render.Count(len(r.Tools), "tool"), render.Count(x.Tokens, "token")))
	}
	if x.Missing != "" {
		f.Say("%s", x.Missing)
	}
	if err := x.printTargets(w); err != nil || x.Samples == nil {
		return err
	}
	return x.printTally(w)
}

func (x *explanation) printTargets(w io.Writer) error {
	if x.Request != nil && len(x.Targets) == 0 {
		fmt.Fprintln(w, "  no target was offered")
	}
	if len(x.Targets) == 0 {
		return nil
	}
	table := factory.Table(w, "\nTARGET\tSHARES WITH THE USER\tDESCRIPTION")
	for _, t := range x.Targets {
		shares := "-"
		if len(t.Shares) > 0 {
			shares = strings.Join(t.Shares, ", ")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", t.Name, visible.Cut(visible.Line(shares), maxCell), visible.Cut(visible.Line(t.Description), maxSaid))
	}
	return table.Flush()
}

func (x *explanation) printTally(w io.Writer) error {
	failed := map[string]int{}
	for _, a := range x.Samples.Samples {
		if a.Error != nil {
			failed[a.Error.Code+": "+a.Error.Message]++
		}
	}
	rows := factory.Table(w, "\nSAMPLES\tCHOOSE\tBETWEEN\tCONFIDENCE")
	for _, c := range x.Tally {
		name, sure := c.Name, "-"
		switch {
		case name == "":
			name = "nobody"
		case name == x.Agent:
			name += " itself"
		}
		if c.Confidence != nil {
			sure = fmt.Sprintf("%.2f", *c.Confidence)
		}
		fmt.Fprintf(rows, "%d\t%s\t%.0f %% and %.0f %%\t%s\n", c.Times, visible.Line(name), 100*c.Low, 100*c.High, sure)
	}
	for _, text := range slices.Sorted(maps.Keys(failed)) {
		fmt.Fprintf(rows, "%d\tfailed: %s\t-\t-\n", failed[text], visible.Cut(visible.Line(text), maxSaid))
	}
	return rows.Flush()
}
