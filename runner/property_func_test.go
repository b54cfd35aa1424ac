package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// stepping makes an agent of the conversation of a function that uses its Step.
func (w *world) stepping(name string, box []tools.Tool, opts ...llmagent.Option) agent.Agent {
	t := traits{rules: somePolicy.Draw(w.rt, "rules"), model: true}
	w.traits[name] = t
	return must.Get(llmagent.Func(name, "A function.", steps, append(opts, llmagent.WithTools(box...), llmagent.WithToolPolicy(t.rules))...))
}

// steps says, asks and calls what a plan says. It does the same when it is called again
// for the same work.
func steps(s *llmagent.Step) error {
	w := worldOf(s.Context())
	k, err := w.work(s)
	if err != nil {
		return err
	}
	parts := []func(*llmagent.Step) error{k.plan.talks, k.plan.acts}
	if k.plan.Finish != "" {
		slices.Reverse(parts)
	}
	for _, part := range parts {
		if err := part(s); err != nil {
			return err
		}
	}
	switch k.plan.End {
	case "panic":
		panic("the function panics")
	case "stop":
		w.interrupt()
		return s.Say("stopped")
	case "":
		return nil
	}
	return &llm.Error{Code: llm.CodeServer, Message: brokenFunction}
}

// brokenFunction is the error of functions that have done all that they were to.
const brokenFunction = "broken function"

// talks says what the plan says, and asks a model for more.
func (p plan) talks(s *llmagent.Step) error {
	saves := func() error {
		f, err := s.SaveFile("said.txt", "", []byte(p.Texts[0]))
		if err != nil {
			return err
		}
		if data, err := s.ReadFile(f.Digest); err == nil && string(data) != p.Texts[0] {
			return fmt.Errorf("%q is read", data)
		} else if err != nil && s.Context().Err() == nil {
			return err
		}
		return nil
	}
	if len(p.Texts) == 2 { // so that what is streamed may come last
		if err := saves(); err != nil {
			return err
		}
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
	if len(p.Texts) > 2 {
		if err := saves(); err != nil {
			return err
		}
	}
	if p.Usage {
		if _, err := s.Ask(steppedModel{s.Invocation().Scope() != ""}, "You go on."); err != nil && (p.Finish == "" || errors.Is(err, llmagent.ErrOver)) {
			return err
		}
	}
	return nil
}

// acts makes the calls of the plan.
func (p plan) acts(s *llmagent.Step) error {
	inv := s.Invocation()
	for _, c := range p.Calls {
		input := event.ObjectInput(aim(c.Args, targets(inv.Node())))
		var err error
		if c.Name == agent.TransferTool {
			var args struct {
				To string `json:"agent_name"`
			}
			_ = json.Unmarshal(input, &args)
			if err = s.Transfer(args.To, "as planned"); err == nil {
				worldOf(s.Context()).happen("a function that hands over" + where(inv.Scope()))
			}
		} else {
			err = s.Call(c.Name, input, nil)
		}
		if errors.Is(err, llmagent.ErrOver) {
			return err
		}
	}
	return nil
}

// stepKey names the work of a run, which the runs that take it up continue.
type stepKey struct {
	agent, scope string
	since        int64
}

// stepWork is what a function was to do, and the runs in which it was called for it.
type stepWork struct {
	plan plan
	runs map[string]bool
}

// work is what a function has to do in a run. Inner scopes run side by side, so that it
// depends on nothing there but the scope.
func (w *world) work(s *llmagent.Step) (*stepWork, error) {
	inv := s.Invocation()
	key := stepKey{inv.Agent().Name(), inv.Scope(), inv.Since()}
	before := 0
	if inv.Scope() != "" {
		for e, err := range inv.Session().Events(s.Context(), 0) {
			if err != nil {
				return nil, err
			}
			if e.Scope == inv.Scope() && e.Seq <= inv.Since() {
				before++
			}
		}
	}
	w.mu.Lock()
	k := w.stepped[key]
	w.mu.Unlock()
	in := where(inv.Scope())
	switch {
	case k != nil:
		w.happen("a function called again" + in)
	case inv.Scope() == "":
		k = &stepWork{w.next(), make(map[string]bool)}
	default:
		w.happen("a function" + in)
		k = &stepWork{w.planOf(inv.Agent().Name()+s.Message(), before), make(map[string]bool)}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stepped[key] = k
	k.runs[inv.RunID()] = true
	return k, nil
}

// checkSteps: a function says and calls what it was to, in this order and once, however
// often it was called.
func (w *world) checkSteps(log []*event.Event) {
	for key, k := range w.stepped {
		var said, calls, files int // how much of the plan
		broke := false
		asked := !k.plan.Usage
		for _, e := range log {
			if e.Scope != key.scope || e.Agent != key.agent || !k.runs[e.RunID] {
				continue
			}
			switch d := e.Data.(type) {
			case *event.Text:
				for said < len(k.plan.Texts) && k.plan.Texts[said] == "" {
					said++
				}
				switch {
				case said < len(k.plan.Texts):
					if want := strings.ToValidUTF8(k.plan.Texts[said], "\uFFFD"); strings.ToValidUTF8(d.Content, "\uFFFD") != want {
						w.t.Fatalf("seq %d: %s says %q, and was to say %q", e.Seq, e.Agent, d.Content, want)
					}
					said++
				case !asked: // the words of a model
					asked = true
				case k.plan.End == "stop" && d.Content == "stopped":
				default:
					w.t.Fatalf("seq %d: %s says %q, and was to say nothing more", e.Seq, e.Agent, d.Content)
				}
			case *event.Failure:
				broke = broke || strings.Contains(d.Message, brokenFunction)
			case *event.File:
				if d.ToolCallID == "" {
					files++
				}
				if files > 1 {
					w.t.Fatalf("seq %d: %s saves a file again", e.Seq, e.Agent)
				}
			case *event.Transfer:
				if d.Outcome != event.TransferCommitted || d.TransferType != "" {
					continue
				}
				for calls < len(k.plan.Calls) && k.plan.Calls[calls].Name != agent.TransferTool {
					calls++
				}
				if calls++; calls > len(k.plan.Calls) {
					w.t.Fatalf("seq %d: %s hands over, and had gone on", e.Seq, e.Agent)
				}
			case *event.ToolCall:
				for calls < len(k.plan.Calls) && k.plan.Calls[calls].Name != d.Name {
					calls++
				}
				if calls++; calls > len(k.plan.Calls) {
					w.t.Fatalf("seq %d: %s calls %s, and was not to, or has done so before", e.Seq, e.Agent, d.Name)
				}
			}
		}
		for said < len(k.plan.Texts) && k.plan.Texts[said] == "" {
			said++
		}
		if broke {
			w.happen("a function that ends with an error")
			if said < len(k.plan.Texts) {
				w.t.Fatalf("%s ends with an error, and what it said before is not kept: %q", key.agent, k.plan.Texts[said])
			}
		}
	}
}

// checkFiles: a file that a call has made stands in the write of the call's result.
func (w *world) checkFiles(log []*event.Event) {
	for i, e := range log {
		f, ok := e.Data.(*event.File)
		if !ok {
			continue
		}
		if f.ToolCallID == "" {
			w.happen("a file of an agent")
			continue
		}
		w.happen("a file of a tool")
		if !slices.ContainsFunc(log[i:], func(r *event.Event) bool {
			_, ok := r.Data.(*event.ToolResult)
			return ok && r.ID == f.ToolCallID && r.Time.Equal(e.Time)
		}) {
			w.t.Fatalf("seq %d: the file %s is stored without the result of %s", e.Seq, f.Name, f.ToolCallID)
		}
	}
}

// steppedModel is what functions ask.
type steppedModel struct{ inner bool }

func (steppedModel) Name() string { return "stepped" }

func (m steppedModel) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
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
		if m.inner {
			w.inner(req).stream(ctx, nil, yield)
			return
		}
		w.next().stream(ctx, nil, yield)
	}
}

// happen notes what has happened, of agents and models, which run side by side.
func (w *world) happen(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happened[what] = true
}
