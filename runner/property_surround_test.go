package runner_test

import (
	"context"
	"regexp"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// forgetful is a session beside which nothing is kept.
type forgetful struct{ agent.Session }

func (forgetful) Memo(_ any, create func() any) any { return create() }

// Turns makes a view read the log from its start.
func (forgetful) Turns() agent.Turns { return agent.Turns{} }

// instructed is the instruction of an agent of an inner scope, by which its requests are known. What the log alone says of the
// conversation around the scope is noted.
func instructed(ctx context.Context, inv *agent.Invocation) (string, error) {
	name := inv.Agent().Name() + " in " + inv.Scope()
	w, ok := ctx.Value(worldKey{}).(*world)
	if !ok || inv.Around() == nil {
		return name, nil
	}
	v := view.New(inv.Node(), view.Full(), inv.Scope())
	err := v.Begin(ctx, agent.NewInvocation(agent.InvocationParams{Node: inv.Node(), Tree: inv.Tree(), Session: inv.Session(), Scope: inv.Scope(),
		Around: fromLog(inv.Around())}))
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.surround[name] = v.Messages()
	}
	return name, nil // what cannot be read is the runner's to say
}

func fromLog(a *agent.Around) *agent.Around {
	if a == nil {
		return nil
	}
	all := *a
	all.Session, all.Around = forgetful{a.Session}, fromLog(a.Around)
	return &all
}

var instruction = regexp.MustCompile(`^\S+ in i[0-9]+`)

// checkSurround: a request of an inner scope begins with the conversation around it, if its agent is to see that.
func (w *world) checkSurround(m *plannedModel, req *llm.Request) {
	w.mu.Lock()
	want := w.surround[instruction.FindString(req.System)]
	w.mu.Unlock()
	if len(want) == 0 || candidates(req) != nil || compacted(req) {
		return
	}
	w.happen("a conversation around an inner scope")
	if len(req.Messages) < len(want) || !sameMessages(want, req.Messages[:len(want)]) {
		w.problem("%s was not shown this of the conversation around it:\n%v\nbut this:\n%v", m.name, want, req.Messages)
	}
}
