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

// Func returns an agent whose runs are a Go function. The function sends text, asks models, calls tools and transfers
// the conversation with the methods of its Step. The run ends when the function returns. An error that it returns
// ends the turn.
//
// The log records what a run has said, asked and called. After a crash, or after a pause for an approval, the agent
// calls the function again from its beginning. Step then returns the recorded results, and says, asks or calls
// nothing a second time. The function must therefore make the same calls of Step again when it gets the same results:
//
//	if time.Now().Hour() < 9 { // wrong: a replay may take the other branch
//		return s.Say("We open at nine.")
//	}
//
// Anything else that the function depends on, such as a clock or a service, must be a tool.
//
// Options for an agent with a model are an error: instructions, transfers, compaction, decisions and output.
// WithHistory and WithSettings apply to the requests of Step.Ask. Transfers by the function need no approval.
//
// The function may run for several sessions at the same time. See [agent.New] for an agent that yields its events
// itself.
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
		{a.askTransfer, "approvals of transfers"}, {a.transferOptions != transferOptions{}, "how a model transfers"},
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

// function is an agent whose runs are a Go function. base is its configuration.
type function struct {
	base *Agent
	run  func(*Step) error
}

func (f *function) Name() string                             { return f.base.name }
func (f *function) Description() string                      { return f.base.description }
func (f *function) SubAgents() []agent.Agent                 { return f.base.children }
func (f *function) FindAgent(name string) agent.Agent        { return f.base.index[name] }
func (f *function) Properties() agent.Properties             { return f.base.properties }
func (f *function) Tools() []tools.Tool                      { return f.base.tools }
func (f *function) Toolsets() []tools.Set                    { return f.base.sets }
func (f *function) CheckNode(n *agent.Node) (wrong []string) { return f.base.CheckNode(n) }

// Run implements agent.Agent: the whole run.
func (f *function) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		s := &Step{execution: execution{ctx: ctx, inv: inv, yield: yield}}
		if err := f.runStep(s); err != nil && s.overErr == nil {
			s.yieldError(err)
		}
	}
}

func (f *function) runStep(s *Step) error {
	notices, err := s.begin(f.base)
	if err == nil {
		err = s.loadRecorded()
	}
	if err == nil && len(s.recorded) == 0 {
		err = s.notify(append(notices, s.returnedSets()...))
	}
	if err == nil {
		err = f.run(s)
	}
	if s.openStream != nil { // what was shown is kept, also before an error
		err = cmp.Or(err, s.openStream.Close())
	}
	return err
}
