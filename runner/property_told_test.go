package runner_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

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
	file, err := os.CreateTemp(dir, "property-*.txtar")
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = file.WriteString(f.text)
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
