package cli

import (
	"context"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
)

// showing is what the flags of show say.
type showing struct {
	at                 atFlag
	json, state, usage bool
	view, tree, prices string
}

func (p *program) showCommand() *cobra.Command {
	var f showing
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print a session",
		Long: `Prints a session, whole or up to a position: --at 7 prints what the log contained when its
seventh event had been stored. --state and --view print more about that moment.`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return p.showSession(cmd.Context(), args[0], f) },
	}
	fs := cmd.Flags()
	f.at.add(cmd, "show the session up to position `SEQ` (default: the end)")
	fs.BoolVar(&f.json, "json", false, "print one JSON object per event and line")
	fs.BoolVar(&f.state, "state", false, "print the active agent, the state, the waiting calls and the tokens used as one JSON object instead")
	fs.StringVar(&f.view, "view", "", "print the request that the model of `AGENT` would get there instead")
	if !p.embedded() {
		fs.StringVar(&f.tree, "tree", "", "with --view, read the agents from `PATH`")
	}
	fs.BoolVar(&f.usage, "usage", false, "print the tokens used by each agent instead")
	fs.StringVar(&f.prices, "prices", "", "with --usage, read prices from `FILE` (YAML or JSON) and print costs")
	return cmd
}

func (p *program) showSession(ctx context.Context, id string, f showing) error {
	switch {
	case f.prices != "" && !f.usage:
		return usagef("--prices goes with --usage")
	case f.tree != "" && f.view == "":
		return usagef("--tree goes with --view")
	case f.state && f.usage || f.view != "" && (f.state || f.usage):
		return usagef("--state, --view and --usage exclude each other")
	}
	out, err := p.shown(f)
	if err != nil {
		return err
	}
	s, err := p.past(ctx, id)
	if err != nil {
		return err
	}
	at, err := s.position(f.at)
	if err != nil {
		return err
	}
	if f.view != "" {
		return s.showView(ctx, at, f)
	}
	fold, err := s.replay(ctx, at, out)
	switch {
	case err != nil:
		return err
	case f.state:
		return p.printJSON(sessionform.MomentOf(s.Key, fold), f.json)
	case f.at.given() && !f.json && !f.usage:
		p.say("%s", sessionform.Line(fold, s.Seq))
	case !f.at.given() && !f.json && !f.usage && fold.Unfinished() && !s.Leased:
		news := "the last turn was cut off"
		if own(s.Key) {
			news += "; to continue: " + p.again("resume", s.Key)
		}
		p.say("%s", news)
	}
	return nil
}

// shown returns what the flags of show want to be done with the events.
func (p *program) shown(f showing) (render.Sink, error) {
	switch {
	case f.state || f.view != "":
		return render.Nothing{}, nil
	case f.usage:
		var prices llm.Prices
		if f.prices != "" {
			var err error
			if prices, err = readPrices(f.prices); err != nil {
				return nil, err
			}
		}
		return render.Usage(p.Stdout, f.json, prices), nil
	case f.json:
		return render.JSONLines(p.Stdout), nil
	}
	return p.transcript(), nil
}

// transcript returns a printer of stored events.
func (p *program) transcript() *render.Printer {
	l := p.lookOf(p.Stdout)
	l.Live = false // nothing is awaited
	return render.Transcript(p.Stdout, l)
}

// printJSON writes one object: in one line with --json, else indented.
func (p *program) printJSON(v any, inOneLine bool) error {
	if inOneLine {
		render.JSON(p.Stdout, v)
		return nil
	}
	return render.IndentedJSON(p.Stdout, v)
}

// jsonView is the form of sessions show --view: a request of the chat completions
// protocol.
type jsonView struct {
	Agent  string `json:"agent"`
	Seq    int64  `json:"seq"`
	Tokens int    `json:"tokens"`
	chatform.Request
}

// showView prints what an agent's model was shown at a position. No model is
// called.
func (s *past) showView(ctx context.Context, at int64, f showing) error {
	p, name := s.p, f.view
	if !p.embedded() && f.tree == "" {
		return usagef("--view needs --tree PATH, the folder of the agents")
	}
	tree, err := p.lookAt(f.tree)
	if err != nil {
		return err
	}
	if tree.Node(name) == nil {
		var names []string
		for n := range tree.Walk() {
			names = append(names, n.Agent.Name())
		}
		return usagef("--view %s: there is no such agent; the tree has %s", name, strings.Join(names, ", "))
	}
	r, err := runner.New(tree.Root().Agent, s.db.Store)
	if err != nil {
		return err
	}
	preview, err := r.PreviewAt(ctx, s.Key, at, name)
	switch {
	case err != nil:
		return err
	case preview == nil:
		return usagef("--view %s: this agent has no model of its own, and so no view", name)
	case f.json:
		render.JSON(p.Stdout, jsonView{name, at, preview.Tokens, chatform.RequestOf(preview.Request)})
		return nil
	}
	render.View(p.Stdout, p.lookOf(p.Stdout), preview.Request)
	p.say("what the model of %s is shown at position %d of %d: %s, %s, %s", name, at, s.Seq,
		render.Count(len(preview.Messages), "message"), render.Count(len(preview.Tools), "tool"), render.Count(preview.Tokens, "token"))
	return nil
}

// readPrices reads a table of prices: YAML, or JSON, which is YAML too.
func readPrices(path string) (llm.Prices, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("--prices: %w", err)
	}
	prices := llm.Prices{}
	if err := yaml.UnmarshalWithOptions(data, &prices, yaml.Strict()); err != nil {
		return nil, usagef("--prices %s: %s", path, yaml.FormatError(err, false, true))
	}
	if len(prices) == 0 {
		return nil, usagef("--prices %s: there are no prices in it", path)
	}
	if err := prices.Check(); err != nil {
		return nil, usagef("--prices %s: %w", path, err)
	}
	return prices, nil
}
