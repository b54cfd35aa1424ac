package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// stepping makes an agent of a function that uses its Step.
func (w *world) stepping(name string, box []tools.Tool, opts ...llmagent.Option) agent.Agent {
	t := traits{rules: somePolicy.Draw(w.rt, "rules"), model: true, steps: true}
	w.traits[name] = t
	a, err := llmagent.Func(name, "A function.", w.steps, append(opts, llmagent.WithTools(box...), llmagent.WithToolPolicy(t.rules))...)
	require.NoError(w.t, err)
	return a
}

// steps says, asks and calls what a plan says. It does the same when it is called again
// for the same work.
func (w *world) steps(s *llmagent.Step) error {
	inv := s.Invocation()
	place := stepKey{inv.Agent().Name(), inv.Since()}
	w.mu.Lock()
	p, again := w.stepped[place]
	w.mu.Unlock()
	if again {
		w.happen("a function called again")
	} else {
		p = w.next()
		w.mu.Lock()
		w.stepped[place] = p
		w.mu.Unlock()
	}
	for i, text := range p.Texts {
		if i%2 == 0 {
			if err := s.Say(text); err != nil {
				return err
			}
			continue
		}
		out := s.Stream()
		for _, b := range []byte(text) {
			if _, err := out.Write([]byte{b}); err != nil {
				return err
			}
		}
		_ = io.Closer(out) // ended by what follows
	}
	if p.Usage {
		if _, err := s.Ask(steppedModel{}, "You go on."); err != nil && (p.Finish == "" || errors.Is(err, llmagent.ErrOver)) {
			return err
		}
	}
	for _, c := range p.Calls {
		input := event.ObjectInput(aim(c.Args, w.targets(inv.Agent().Name())))
		var err error
		if c.Name == agent.TransferTool {
			var args struct {
				To string `json:"agent_name"`
			}
			_ = json.Unmarshal(input, &args)
			err = s.Transfer(args.To, "as planned")
		} else {
			err = s.Call(c.Name, input, nil)
		}
		if errors.Is(err, llmagent.ErrOver) {
			return err
		}
	}
	switch p.End {
	case "panic":
		panic("the function panics")
	case "stop":
		w.interrupt()
		return s.Say("stopped")
	case "":
		return nil
	}
	return &llm.Error{Code: llm.CodeServer, Message: "broken function"}
}

// stepKey names the work of a run, which the runs that take it up continue.
type stepKey struct {
	agent string
	since int64
}

// steppedModel is what functions ask.
type steppedModel struct{}

func (steppedModel) Name() string { return "stepped" }

func (steppedModel) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		w := worldOf(ctx)
		w.countAsked()
		if err := view.Check(req); err != nil {
			w.problem("request of a function: %v\n%v", err, req.Messages)
		}
		if len(req.Tools) > 0 {
			w.problem("a function's request offers tools")
		}
		w.happen("a function that asks a model")
		w.next().stream(ctx, nil, yield)
	}
}

// happen notes what has happened, of agents and models, which run side by side.
func (w *world) happen(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happened[what] = true
}
