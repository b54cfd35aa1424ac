package runner_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/view"
)

// foreseen begins the answers of models that are asked ahead.
const foreseen = "Foreseen. "

// predicts is a predictor that is mostly right about the first call of the next plan, and wrong in several ways.
func (w *world) predicts(_ context.Context, p runner.Prospect) (string, float64) {
	targets := w.targets(p.Agent.Agent.Name())
	possible := func(name string) bool {
		return slices.ContainsFunc(p.Targets, func(n *agent.Node) bool { return n.Agent.Name() == name })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch next := w.at + len(p.Message.Text); {
	case next%23 == 0:
		panic("the predictor panics")
	case next%19 == 0:
		return "nobody", 1
	case next%7 == 0 || w.at >= len(w.script) || len(w.script[w.at].Calls) == 0:
		return p.Targets[next%len(p.Targets)].Agent.Name(), float64(next%3) / 2
	}
	var args struct {
		To string `json:"agent_name"`
	}
	call := w.script[w.at].Calls[0]
	if _ = json.Unmarshal([]byte(aim(call.Args, targets)), &args); args.To == "" {
		args.To = strings.TrimPrefix(aim(call.Name, targets), "transfer_to_")
	}
	if !possible(args.To) {
		args.To = p.Targets[0].Agent.Name()
	}
	return args.To, 1
}

// foresees answers a request that is made before the transfer to the agent. The script is for what is asked for certain,
// so it takes no plan of it.
func (m *plannedModel) foresees(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
	w := worldOf(ctx)
	w.happen("a target asked before the transfer to it")
	if err := view.Check(req); err != nil {
		w.problem("request of %s, asked ahead: %v\n%v", m.name, err, req.Messages)
	}
	if candidates(req) != nil {
		m.decides(ctx, req, yield)
		return
	}
	p := w.planOf(req.Messages[0].Text, len(req.Messages))
	if p.Texts = slices.Insert(slices.Clone(p.Texts), 0, foreseen); m.typed {
		p.Texts, p.Calls = []string{`{"n": 1}`}, nil
	}
	p.stream(ctx, w.targets(m.name), yield)
}

// checkAhead notes what became of answers that were anticipated, and checks what is recorded of those in vain.
func (w *world) checkAhead(added []*event.Event) {
	turns := make(map[string]int)
	for _, e := range added {
		switch d := e.Data.(type) {
		case *event.Text:
			if strings.HasPrefix(d.Content, foreseen) {
				w.happened["an answer that was anticipated"] = true
			}
		case *event.Discard:
			if d.Code != event.CodeAnticipated {
				continue
			}
			w.happened["an answer that was anticipated in vain"] = true
			if turns[e.TurnID]++; turns[e.TurnID] > 1 || e.Scope != "" || len(d.IDs) > 0 || e.Agent == agent.Human {
				w.t.Fatalf("seq %d: an answer was anticipated where none may be: %+v", e.Seq, d)
			}
		}
	}
}
