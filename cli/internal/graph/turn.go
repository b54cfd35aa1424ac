package graph

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/turn"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// open opens the session. If no flag names one, the session is kept only in memory.
func (g *runOptions) open(ctx context.Context, root agent.Agent, models *factory.Models) (*turn.Conversation, error) {
	if g.Session == "" && g.f.Place.DB == "" {
		g.f.Place.DB = factory.MemoryDB
	}
	tree, err := agent.NewTree(root)
	if err != nil {
		return nil, factory.Usage(err)
	}
	var opts []runner.Option
	if g.resume {
		opts = append(opts, runner.WithWait(factory.ResumeWait))
	}
	return turn.Open(ctx, g.f, &factory.LoadedTree{Agents: tree, Models: models, End: func() {}}, g.file, g.Options, opts...)
}

// turn runs the graph, prints the result, and returns how it ended.
func (g *runOptions) turn(ctx context.Context, c *turn.Conversation, root *agentgraph.Agent, input json.RawMessage) error {
	f := g.f
	if g.resume {
		if _, err := c.DB.Find(ctx, c.Key.ID); err != nil {
			return err
		}
	}
	c.Notice()
	running, done := f.Interrupts.Turn(ctx)
	defer done()
	decisions, err := g.Decisions(ctx, c)
	if err != nil {
		return err
	}
	events := c.Run(running, c.Key, llm.UserText(string(input)))
	if g.resume {
		events = c.Resume(running, c.Key, decisions...)
	}
	began, end, failed := g.follow(ctx, c, events)
	if running.Err() != nil && !turn.Answered(end) {
		if !c.Persistent() {
			return context.Canceled
		}
		f.Say("interrupted; to resume: %s", g.again(c))
		return factory.Exit(factory.StatusInterrupted)
	}
	if !began && failed != nil { // the session contains runs of other graphs
		return c.Explain(failed)
	}
	fold, failures, err := read(ctx, c)
	if err != nil {
		return err
	}
	results, err := root.Runs(c.DB.Load(ctx, c.Key, 0))
	switch {
	case err != nil:
		return err
	case len(results) == 0 && failed != nil:
		return failed
	case len(results) == 0:
		return factory.Usagef("session %s holds no run of this graph", c.Key.ID)
	case !began && results[len(results)-1].Status != agentgraph.Waiting:
		f.Say("the last run of session %s has ended: there is nothing to resume", c.Key.ID)
	}
	result := &results[len(results)-1].Result
	asked := fold.Questions()
	if f.JSON {
		render.JSON(f.Stdout, result)
	} else {
		waits := make([]string, len(asked))
		for i, q := range asked {
			waits[i] = questionOf(q).Agent
		}
		render.GraphRun(f.Stdout, f.TerminalOf(f.Stdout), root.Graph(), result, failures, waits)
	}
	if result.Status == agentgraph.Waiting && failed == nil {
		g.waiting(ctx, c, asked)
		return factory.Exit(factory.StatusApproval)
	}
	if g.Session == "" && c.Persistent() {
		f.Say("session %s keeps the run", c.Key.ID)
	}
	return g.ended(result, failed)
}

// follow waits for the end of a run, and shows on a terminal which agent is running. It returns whether any event came,
// and how the graph's own run ended.
func (g *runOptions) follow(ctx context.Context, c *turn.Conversation, events iter.Seq2[*event.Event, error]) (began bool, end event.FinishReason, failed error) {
	spin := render.NewSpinner(g.f.Stdout, g.f.TerminalOf(g.f.Stdout))
	defer spin.Hide()
	for e, err := range events {
		if err != nil {
			return began, end, err
		}
		began = true
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			spin.Show(e.Agent)
		case *event.File:
			spin.Hide()
			if err := c.Made(ctx, d); err != nil {
				return began, end, err
			}
		case *event.HarnessEnd:
			if e.Scope == "" {
				end = d.FinishReason
			}
		}
	}
	return began, end, nil
}

// read returns the fold of the session, and the last error of each agent by name.
func read(ctx context.Context, c *turn.Conversation) (*session.Fold, map[string]string, error) {
	fold, failures := &session.Fold{}, make(map[string]string)
	for e, err := range c.DB.Load(ctx, c.Key, 0) {
		if err != nil {
			return nil, nil, err
		}
		fold.Apply(e)
		if d, ok := e.Data.(*event.Failure); ok {
			failures[e.Agent] = d.Message
		}
	}
	return fold, failures, nil
}

// question contains the parameters of a call that asks about a node.
type question struct {
	Agent, Question string
}

func questionOf(d *event.Relay) (q question) {
	_ = json.Unmarshal(d.Params, &q) // the parameters of another tool's call contain no question
	return q
}

// waiting shows the agents that wait for a person and their input, and prints how to decide about them.
func (g *runOptions) waiting(ctx context.Context, c *turn.Conversation, asked []*event.Relay) {
	c.Show(asked)
	for _, d := range asked {
		q := questionOf(d)
		what, how := "the run waits for an approval", "--approve "+c.ToApprove(ctx, d)
		if d.Kind == event.RelayInput {
			what, how = "the run waits for an answer", "--answer "+factory.QuoteArg(d.ToolCallID)+"=TEXT"
		}
		if q.Agent != "" {
			what = q.Agent + " waits for an approval"
		}
		if q.Question != "" {
			what += " (" + q.Question + ")"
		}
		if !c.Persistent() {
			g.f.Say("%s, and the run is not stored: give --session or --db to resume it later", what)
			continue
		}
		g.f.Say("%s: %s %s, or --deny %s --reason TEXT", what, g.again(c), how, factory.QuoteArg(d.ToolCallID))
	}
}

// ended prints the failures, and returns the status of a run.
func (g *runOptions) ended(result *agentgraph.Result, failed error) error {
	switch result.Status {
	case agentgraph.Completed, agentgraph.Recovered:
		return nil
	case agentgraph.CompletedWithErrors:
		g.f.Say("the run completed with errors%s", because(result.Error))
		return nil
	}
	if failed != nil {
		g.f.Report(failed)
		return factory.Exit(factory.Status(failed))
	}
	g.f.Say("the run failed%s", because(result.Error))
	return factory.Exit(factory.StatusFailed)
}

// because returns the text after the message that a run failed.
func because(e *agentgraph.ResultError) string {
	switch {
	case e == nil:
		return ""
	case e.Edge != "":
		return ": " + e.Message
	}
	return ": " + e.Agent + ": " + e.Message
}

// again returns the command line that continues the run.
func (g *runOptions) again(c *turn.Conversation) string {
	words := factory.Words("--mock", g.mockFile, "--agents", g.agents.folder, "--refs", strings.Join(g.agents.names, ","))
	return c.Again("graph run", append([]string{"--resume"}, words...)...)
}
