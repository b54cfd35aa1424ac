package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/eval/replay"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// counterfactual is what the flags say of playing a session again with other agents.
type counterfactual struct {
	with, tree    string
	ask, json     bool
	model, prices string

	models *models // once they are asked for
}

// counterfactualFlags adds those that sessions replay --with and bisect share.
func (p *program) counterfactualFlags(cmd *cobra.Command, f *counterfactual) {
	fs := cmd.Flags()
	fs.BoolVar(&f.ask, "ask", false, "after the first difference, continue with real models until the turn ends; tools never run")
	fs.BoolVar(&f.json, "json", false, "print one JSON object")
	fs.StringVar(&f.prices, "prices", "", "read the prices that the session's budgets used from `FILE` (YAML or JSON)")
	p.modelFlag(fs, &f.model)
}

func (p *program) replayWith(ctx context.Context, id string, until atFlag, f counterfactual) error {
	s, err := p.past(ctx, id)
	if err != nil {
		return err
	}
	at, err := s.position(until)
	if err != nil {
		return err
	}
	log, opts, err := s.replayable(ctx, f)
	if err != nil {
		return err
	}
	now, err := p.replayed(f.with, &f)
	if err != nil {
		return err
	}
	defer now.end()
	if f.tree != "" {
		old, err := p.replayed(f.tree, &f)
		if err != nil {
			return err
		}
		defer old.end()
		opts = append(opts, replay.Against(old.Root().Agent))
	}
	if until.given() {
		if at == 0 {
			return usagef("--at 0: nothing is played until there; positions begin at 1")
		}
		opts = append(opts, replay.Until(at))
	}
	if f.ask {
		opts = append(opts, replay.Live())
	}
	ctx, done := p.interrupts.turn(ctx)
	defer done()
	r, err := replay.Play(ctx, log, now.Root().Agent, opts...)
	if err != nil {
		return err
	}
	if f.json {
		render.JSON(p.Stdout, r)
	} else {
		p.tell(r)
	}
	switch {
	case r.Difference != nil:
		return statusError(StatusFindings)
	case r.Stopped != nil:
		return statusError(StatusFailed)
	}
	return nil
}

// replayable reads a session's log to be played again, and returns what goes with it.
func (s *past) replayable(ctx context.Context, f counterfactual) (*replay.Log, []replay.Option, error) {
	log, err := replay.Read(s.Key, s.db.Load(ctx, s.Key, 0))
	if err != nil {
		return nil, nil, err
	}
	own, err := s.p.runnerOpts(f.prices)
	return log, []replay.Option{
		replay.WithRunner(own...),
		replay.WithFiles(func(ctx context.Context, digest string) ([]byte, error) { return s.db.Blob(ctx, s.Key, digest) }),
	}, err
}

// replayedTree is a tree to play a session with.
type replayedTree struct {
	*agent.Tree
	end func()
}

// modelsFor returns the models of the endpoint if they are to be asked, or else nil.
func (p *program) modelsFor(f *counterfactual) (_ *models, err error) {
	if !f.ask && (f.model != "" || p.tape.record != "" || p.tape.replay != "") {
		return nil, usagef("--model, --record and --replay go with --ask: without it no model is asked")
	}
	if f.ask && f.models == nil {
		f.models, err = p.models(f.model)
	}
	return f.models, err
}

// replayed loads a tree to play a session with.
func (p *program) replayed(path string, f *counterfactual) (*replayedTree, error) {
	resolve, missing, opts := unused, false, []agentfile.Option{agentfile.WithoutCredentials()}
	models, err := p.modelsFor(f)
	if err != nil {
		return nil, err
	}
	if models != nil {
		opts = nil
		resolve = func(name string) (llm.Model, error) { return models.named(name, func() { missing = true }) }
	}
	tree, end, err := p.loadTree(path, resolve, opts...)
	if err != nil {
		return nil, err
	}
	if missing {
		end()
		return nil, models.missing
	}
	return &replayedTree{tree, end}, nil
}

// tell prints what came of a replay.
func (p *program) tell(r *replay.Result) {
	played := fmt.Sprintf("%s, %s, %s", render.Count(r.Turns, "turn"), render.Count(r.Requests, "request"), render.Count(r.Tools, "tool call"))
	switch d := r.Difference; {
	case d != nil:
		p.tellDifference(d)
		fmt.Fprintf(p.Stdout, "\nplayed: %s\n", played)
		if r.Stopped != nil {
			p.say("the turn was not played to its end: %s", r.Stopped.Reason)
		}
	case r.Stopped != nil:
		fmt.Fprintf(p.Stdout, "the same until turn %d%s: %s\n", r.Stopped.Turn, position(r.Stopped.Seq), played)
		p.say("it cannot be played further: %s", r.Stopped.Reason)
	default:
		fmt.Fprintf(p.Stdout, "same to the end: %s\n", played)
	}
	if !r.Compared && r.Difference == nil {
		p.say("what models were asked is not in a log: give --tree with the agents that made the session to compare it")
	}
}

func position(seq int64) string {
	if seq == 0 {
		return ""
	}
	return fmt.Sprintf(", position %d", seq)
}

func (p *program) tellDifference(d *replay.Difference) {
	look := p.lookOf(p.Stdout)
	fmt.Fprintf(p.Stdout, "%s\n", look.Paint(render.Bold, fmt.Sprintf("turn %d%s: %s", d.Turn, position(d.Seq), visible.Line(d.Message))))
	route := func(path []string) string { return visible.Line(strings.Join(path, " → ")) }
	open := ""
	if d.Open {
		open = " → …"
	}
	fmt.Fprintf(p.Stdout, "route then: %s\nroute now:  %s%s\n", route(d.Recorded), route(d.Route), open)
	for _, c := range d.Changes {
		fmt.Fprintf(p.Stdout, "\n%s\n", look.Paint(render.Bold, c.Part))
		printDiff(p.Stdout, look, c.Diff)
	}
}

// printDiff prints lines of a diff, those that differ in colours.
func printDiff(w io.Writer, look render.Look, diff string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(diff, "\n"), "\n") {
		line = strings.TrimRight(visible.Text(line), "\n")
		switch {
		case strings.HasPrefix(line, "-"):
			line = look.Paint(render.Red, line)
		case strings.HasPrefix(line, "+"):
			line = look.Paint(render.Green, line)
		}
		fmt.Fprintln(w, strings.TrimRight("  "+line, " "))
	}
}
