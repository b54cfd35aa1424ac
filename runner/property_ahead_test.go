package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
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

// failedCase tells a person what was played in a case that has failed: in a file that
// stays, in the style of the transcripts. It is the last one that has failed, which is
// the smallest that was found, and also there if it fails by chance.
type failedCase struct {
	t         *testing.T
	why, text string // why is what was said last about a failure
}

// close takes in how a case has ended: panics is what ended it, nil if nothing did. Most
// panics are rapid's own, by which it plays a case no further.
func (f *failedCase) close(w *world, panics any) {
	own := strings.HasPrefix(strings.TrimPrefix(fmt.Sprintf("%T", panics), "*"), "rapid.")
	if panics != nil && !own {
		f.why = fmt.Sprint("panic: ", panics)
	}
	if w.rt.Failed() || panics != nil && !own {
		f.text = w.tell(strings.TrimSpace(f.why))
	}
	if panics != nil {
		panic(panics)
	}
}

// done prints what was played, and last where it is kept.
func (f *failedCase) done() {
	if f.text == "" {
		return
	}
	dir := os.TempDir()
	if flag.Lookup("test.artifacts").Value.String() == "true" {
		dir = f.t.ArtifactDir()
	}
	file := must.Get(os.CreateTemp(dir, "property-*.txtar"))
	_, err := file.WriteString(f.text)
	if err = errors.Join(err, file.Close()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Logf("%s\nThis is kept in %s", f.text, file.Name())
}

func (w *world) tell(why string) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s\n\n-- agents --\n", why)
	if w.root == nil || w.store == nil {
		return b.String() + "It failed while these were made.\n"
	}
	w.tellAgents(b, w.root, "")
	for name, g := range w.graphs {
		fmt.Fprintf(b, "graph %s: strategy %s, fallback %q, at most %d at once, edges %+v\n", name, g.strategy, g.fallback, g.concurrency, g.edges)
		for id, n := range g.nodes {
			fmt.Fprintf(b, "  %s %+v\n", id, *n)
		}
	}
	for name, f := range w.flows {
		fmt.Fprintf(b, "workflow %s: %+v\n", name, *f)
	}
	fmt.Fprintf(b, "%+v, streaming %v, resume at the root %v\n-- script --\n", w.limits, w.streaming, w.resumeRoot)
	for i, p := range w.script {
		fmt.Fprintf(b, "%d: thinks %.60q, says %.60q, calls %.200q, ends %q %q\n", i, p.Thoughts, p.Texts, p.Calls, p.Finish, p.End)
	}
	fmt.Fprintf(b, "-- acts --\n%s\n", strings.Join(w.acts, "\n"))
	for _, key := range append([]session.Key{s1}, w.forks...) {
		var lines, log strings.Builder // for a person, and with all that is in it
		for e := range w.store.Load(context.Background(), key, 0) {
			if e == nil {
				break
			}
			fmt.Fprintf(&lines, "%*s", 2*min(1, len(e.Scope)), "")
			writeEvent(&lines, e, nil, 0)
			data, _ := e.MarshalJSON()
			fmt.Fprintf(&log, "%s\n", data)
		}
		fmt.Fprintf(b, "-- events of %v --\n%s-- log of %v --\n%s", key, &lines, key, &log)
	}
	return b.String()
}

func (w *world) tellAgents(b *strings.Builder, a agent.Agent, indent string) {
	t := w.traits[a.Name()]
	fmt.Fprintf(b, "%s%s: has a model %v, with rules %v, asks before it hands over %v, is guarded %v\n", indent, a.Name(), t.model, t.rules != nil, t.asks, w.guarded[a.Name()])
	for _, kid := range a.SubAgents() {
		w.tellAgents(b, kid, indent+"  ")
	}
}
