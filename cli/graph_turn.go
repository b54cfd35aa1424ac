package cli

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// open opens the session. Without a flag that names one, nothing is kept.
func (g *graphRun) open(ctx context.Context, root agent.Agent, models *models) (*conversation, error) {
	p := g.p
	key, err := sessionKey(g.session)
	if err != nil {
		return nil, err
	}
	if g.session == "" && p.place.db == "" {
		p.place.db = memoryDB
	}
	db, err := p.openDB(ctx, true)
	if err != nil {
		return nil, err
	}
	c := &conversation{planted: &planted{models: models}, p: p, db: db, key: key, path: g.file, json: g.json, files: g.files}
	c.at = here{stored{db, key}, c}
	opts, err := p.runnerOpts(g.prices)
	if err != nil {
		return nil, err
	}
	if g.resume {
		opts = append(opts, runner.WithWait(resumeWait))
	}
	if c.Runner, err = runner.New(root, db.Store, opts...); err != nil {
		return nil, unstarted(err)
	}
	if err = c.Start(ctx); err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// turn runs the graph, prints what came of it, and returns how it ended.
func (g *graphRun) turn(ctx context.Context, c *conversation, root *agentgraph.Agent, input json.RawMessage) error {
	p := g.p
	if g.resume {
		if _, err := c.db.find(ctx, c.key.ID); err != nil {
			return err
		}
	}
	c.notice()
	turn, done := p.interrupts.turn(ctx)
	defer done()
	decisions, err := g.decisions(ctx, c)
	if err != nil {
		return err
	}
	events := c.Run(turn, c.key, llm.UserText(string(input)))
	if g.resume {
		events = c.Resume(turn, c.key, decisions...)
	}
	began, end, failed := g.follow(ctx, c, events)
	if turn.Err() != nil && !answered(end) {
		if !c.persistent() {
			return context.Canceled
		}
		p.say("interrupted; to resume: %s", g.again(c))
		return statusError(StatusInterrupted)
	}
	if !began && failed != nil { // what the session holds are runs of others
		return failed
	}
	log, fold, err := c.log(ctx)
	if err != nil {
		return err
	}
	results, err := root.Results(each(log))
	switch {
	case err != nil:
		return err
	case len(results) == 0 && failed != nil:
		return failed
	case len(results) == 0:
		return usagef("session %s holds no run of this graph", c.key.ID)
	case !began && results[len(results)-1].Status != agentgraph.Waiting:
		p.say("the last run of session %s has ended: there is nothing to resume", c.key.ID)
	}
	result := &results[len(results)-1]
	asked := fold.Questions()
	if g.json {
		render.JSON(p.Stdout, result)
	} else {
		waits := make([]string, len(asked))
		for i, q := range asked {
			waits[i] = questionOf(q).Agent
		}
		render.GraphRun(p.Stdout, p.lookOf(p.Stdout), root.Graph(), result, failures(log), waits)
	}
	if result.Status == agentgraph.Waiting && failed == nil {
		g.waiting(c, asked)
		return statusError(StatusApproval)
	}
	if g.session == "" && c.persistent() {
		p.say("session %s keeps the run", c.key.ID)
	}
	return g.ended(result, failed)
}

// follow waits for the end of a run, and shows on a terminal which agent is at work. It
// returns whether anything happened at all, and how the graph's own run ended.
func (g *graphRun) follow(ctx context.Context, c *conversation, events iter.Seq2[*event.Event, error]) (began bool, end event.FinishReason, failed error) {
	spin := render.NewSpinner(g.p.Stdout, g.p.lookOf(g.p.Stdout))
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
			if err := c.made(ctx, d); err != nil {
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

// log returns the events of the session, and what they amount to.
func (c *conversation) log(ctx context.Context) (log []*event.Event, fold *session.Fold, err error) {
	fold = &session.Fold{}
	for e, err := range c.db.Load(ctx, c.key, 0) {
		if err != nil {
			return nil, nil, err
		}
		fold.Apply(e)
		log = append(log, e)
	}
	return log, fold, nil
}

func each(log []*event.Event) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for _, e := range log {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// failures returns the last errors of agents, by their names.
func failures(log []*event.Event) map[string]string {
	said := make(map[string]string)
	for _, e := range log {
		if d, ok := e.Data.(*event.Failure); ok {
			said[e.Agent] = d.Message
		}
	}
	return said
}

// question is what a call says that asks about a node.
type question struct {
	Agent, Question string
}

func questionOf(d *event.Relay) (q question) {
	_ = json.Unmarshal(d.Params, &q) // those of another tool's call ask nothing
	return q
}

// waiting shows which agents wait for a person and what they would get, and prints how to
// decide about them.
func (g *graphRun) waiting(c *conversation, asked []*event.Relay) {
	c.show(asked)
	for _, d := range asked {
		q := questionOf(d)
		what, how := "the run waits for an approval", "--approve "+quoteArg(d.ToolCallID)
		if d.Kind == event.RelayInput {
			what, how = "the run waits for an answer", "--answer "+quoteArg(d.ToolCallID)+"=WORDS"
		}
		if q.Agent != "" {
			what = q.Agent + " waits for an approval"
		}
		if q.Question != "" {
			what += " (" + q.Question + ")"
		}
		if !c.persistent() {
			g.p.say("%s, and the run is not stored: give --session or --db to resume it later", what)
			continue
		}
		g.p.say("%s: %s %s, or --deny %s --reason TEXT", what, g.again(c), how, quoteArg(d.ToolCallID))
	}
}

// ended prints what went wrong, and returns the status of a run.
func (g *graphRun) ended(result *agentgraph.Result, failed error) error {
	switch result.Status {
	case agentgraph.Completed, agentgraph.Recovered:
		return nil
	case agentgraph.CompletedWithErrors:
		g.p.say("the run completed with errors%s", because(result.Error))
		return nil
	}
	if failed != nil {
		g.p.report(failed)
		return statusError(status(failed))
	}
	g.p.say("the run failed%s", because(result.Error))
	return statusError(StatusFailed)
}

// because returns what is printed behind the words that a run failed.
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
func (g *graphRun) again(c *conversation) string {
	words := []string{"--resume"}
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag, quoteArg(value))
		}
	}
	add("--mock", g.mockFile)
	add("--agents", g.agents.folder)
	add("--refs", strings.Join(g.agents.names, ","))
	add("--model", g.model)
	return c.again("graph run", words...)
}
