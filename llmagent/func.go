package llmagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/tools"
)

// Func makes an agent whose runs are a Go function. The function talks, asks models, calls
// tools and transfers the conversation with the methods of its Step, and the run ends
// when it returns. An error that it returns ends the turn.
//
// What a run has said, asked and called is in the log. After a crash, or after
// waiting for an approval, the agent calls the function again from its beginning, and its
// Step returns the recorded results without saying, asking or calling anything a second
// time. So the function must do the same again when it gets the same results: if it
// depends on anything else, such as a clock or a service, put that into a tool.
//
// Options for an agent with a model of its own are an error: its
// instructions, its transfers, compaction and decisions. WithHistory and
// WithSettings apply to the requests of Step.Ask. Transfers by the function need no
// approval.
//
// The function may run for many sessions at the same time. See [agent.New] for an agent that
// yields its events itself.
func Func(name, description string, run func(*Step) error, opts ...Option) (agent.Agent, error) {
	a := &Agent{name: name, description: description}
	errs := a.configure(opts)
	if run == nil {
		errs = append(errs, errors.New("the function is nil"))
	}
	for _, unfit := range []struct {
		given bool
		what  string
	}{
		{a.instructions != nil || a.inPrompt != nil, "instructions"}, {a.compaction != nil, "a compaction"}, {a.decision != nil, "a decision"}, {a.output != nil, "a form of answers"},
		{a.askTransfer, "approvals of transfers"}, {a.wording != wording{}, "how a model transfers"},
	} {
		if unfit.given {
			errs = append(errs, fmt.Errorf("an option sets %s, and a function has no model of its own", unfit.what))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("agent %q: %w", name, err)
	}
	a.properties.Stepwise = false
	f := &function{a, run}
	a.index = agent.Index(f)
	return f, nil
}

// function is an agent whose runs are a Go function. The rest of it is that of like.
type function struct {
	like *Agent
	run  func(*Step) error
}

func (f *function) Name() string                             { return f.like.name }
func (f *function) Description() string                      { return f.like.description }
func (f *function) SubAgents() []agent.Agent                 { return f.like.children }
func (f *function) FindAgent(name string) agent.Agent        { return f.like.index[name] }
func (f *function) Properties() agent.Properties             { return f.like.properties }
func (f *function) Tools() []tools.Tool                      { return f.like.tools }
func (f *function) Toolsets() []tools.Set                    { return f.like.sets }
func (f *function) CheckNode(n *agent.Node) (wrong []string) { return f.like.CheckNode(n) }

// Run implements agent.Agent: the whole run.
func (f *function) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		s := &Step{execution: execution{ctx: ctx, inv: inv, yield: yield}}
		if err := f.runStep(s); err != nil && s.over == nil {
			s.finish(err)
		}
	}
}

func (f *function) runStep(s *Step) error {
	notices, err := s.begin(f.like)
	if err == nil {
		err = s.recall()
	}
	if err == nil && len(s.before) == 0 {
		err = s.notify(append(notices, s.arrived()...))
	}
	if err == nil {
		err = f.run(s)
	}
	if s.writing != nil { // what was shown is kept, also before an error
		err = cmp.Or(err, s.writing.Close())
	}
	return err
}
