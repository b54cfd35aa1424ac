package runner_test

import (
	"bytes"
	"context"
	"maps"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

// read loads the log, which must go on from where it was.
func (w *world) read(r *runner.Runner) {
	log := load(w.t, r, s1)
	require.GreaterOrEqual(w.t, len(log), len(w.log), "stored events are gone")
	for i := range w.log {
		w.requireSame(i, log[i])
	}
	added := log[len(w.log):]
	w.log = log
	for _, e := range added {
		w.known = append(w.known, w.encode(e))
		w.checkLimits(e)
		w.checkSeed(len(w.known) - 1)
		w.checkEstimate(len(w.known) - 1)
		w.asksUser(e)
		w.checkRouted(len(w.known) - 1)
		w.checkHandoff(e)
		w.checkOutput(e)
		w.story.add(e, w.happened)
	}
}

// checkLimits holds the next event of the log against the limits and what came
// before it.
func (w *world) checkLimits(e *event.Event) {
	s, limits := &w.story, w.limits
	switch d := e.Data.(type) {
	case *event.Usage:
		switch run := s.runs[e.RunID]; {
		case limits.Steps > 0 && run.answers >= limits.Steps:
			w.t.Fatalf("seq %d: answer %d of a run that may have %d", e.Seq, run.answers+1, limits.Steps)
		case run.refused > 3:
			w.t.Fatalf("seq %d: an answer after %d transfers that were refused", e.Seq, run.refused)
		}
	case *event.HarnessEnd:
		for _, text := range s.promised[e.Scope] {
			if text != "Transferred to "+d.Target+"." {
				w.t.Fatalf("seq %d: a call was told %q, but the conversation went to %q", e.Seq, text, d.Target)
			}
		}
	case *event.Transfer:
		switch {
		case d.TransferType == event.TransferTypeRefused && d.To != s.handed[e.Scope].From:
			w.t.Fatalf("seq %d: what %s handed over goes back to %s", e.Seq, s.handed[e.Scope].From, d.To)
		case d.Outcome != event.TransferCommitted || limits.Transfers == 0 || d.TransferType == event.TransferTypeRefused: // what goes back goes back
		case d.Routed(), d.TransferType == event.TransferTypeHumanToBot: // without a model
		case s.transfers >= limits.Transfers:
			w.t.Fatalf("seq %d: transfer %d of a turn that may have %d", e.Seq, s.transfers+1, limits.Transfers)
		case e.Scope == "" && s.hops[[2]string{d.From, d.To}]:
			w.t.Fatalf("seq %d: %s handed over to %s before, and nothing was said or done since", e.Seq, d.From, d.To)
		}
	}
}

// checkPast holds the log against what it was when each event was first seen,
// because a payload must not be changed once it is stored.
func (w *world) checkPast() {
	for i, e := range w.log {
		if got := w.encode(e); got != w.known[i] {
			w.t.Fatalf("seq %d was changed after it was stored:\n%s\n%s", e.Seq, w.known[i], got)
		}
	}
}

func (w *world) encode(e *event.Event) string {
	return string(must.Get(e.MarshalJSON()))
}

// requireSame compares an event with the i-th of the log.
func (w *world) requireSame(i int, got *event.Event) {
	e := *w.log[i]
	if e.More = got.More; e == *got {
		return // one payload, which checkPast looks at
	}
	if have := w.encode(got); have != w.known[i] {
		w.t.Fatalf("seq %d is not what was stored:\n%s\n%s", i+1, w.known[i], have)
	}
}

// checkDelivery: what is delivered is what is stored, from the first new event
// on, after the results that a repeated decision asks for.
func (w *world) checkDelivery(got *delivery, a act, before int, cut bool) {
	events := got.events
	for _, e := range a.recalled {
		if len(events) == 0 || len(a.refused) > 0 {
			break
		}
		require.Equal(w.t, e.ID, events[0].ID, "a recorded result is not the one that comes")
		w.requireSame(int(e.Seq)-1, events[0])
		events = events[1:]
	}
	added := w.log[before:]
	if len(events) > len(added) {
		w.t.Fatalf("%d events were delivered and %d stored", len(events), len(added))
	}
	for i, e := range events {
		w.requireSame(before+i, e)
	}
	if len(a.refused) > 0 && len(added)+len(got.events) > 0 {
		w.t.Fatalf("%d events of a refused call were stored", len(added))
	}
	if cut || a.silent {
		return
	}
	if len(events) < len(added) {
		w.t.Fatalf("%d events were delivered and %d stored", len(events), len(added))
	}
	if len(got.shown) > 0 {
		w.t.Fatalf("the deltas of %v came to nothing", got.shown)
	}
	if a.said != nil {
		w.checkSaid(a, added)
	}
	if a.whole && w.story.unfinished && len(a.refused) == 0 && !a.left && !w.leftOpen(got.err) {
		w.t.Fatal("the turn is not over")
	}
}

// checkSaid looks for the user's message, which is stored word for word, for the state
// that the turn begins with, and for the agent that answers it.
func (w *world) checkSaid(a act, added []*event.Event) {
	for i, e := range added {
		if u, ok := e.Data.(*event.User); ok {
			require.Equal(w.t, strings.ToValidUTF8(a.said.PlainText(), "\uFFFD"), strings.ToValidUTF8(u.Content.PlainText(), "\uFFFD"))
			next := []string{event.TypeHarnessStart}
			if a.seeded {
				next = []string{event.TypeState, event.TypeHarnessStart}
			}
			require.Greater(w.t, len(added), i+len(next))
			for n, typ := range next {
				require.Equal(w.t, typ, added[i+1+n].Type())
			}
			return
		}
	}
	w.t.Fatal("the user's message is not in the log")
}

// checkCalls: a tool runs for a call only if it may, once unless it can be
// repeated, and no result is made up.
func (w *world) checkCalls() {
	for id, x := range w.ran {
		c := w.story.calls[id]
		if c == nil || c.tool != x.info.Name || c.agent != x.agent {
			w.t.Fatalf("%s ran for the call %s of %s, which is not recorded", x.info.Name, id, x.agent)
		}
		may := 1 + c.answered()
		if x.info.Idempotent {
			may += w.cuts
		}
		if w.traits[c.agent].without == c.tool && c.scope == "" && c.tool != "" {
			w.t.Fatalf("the call %s of %s was executed, and its agent has no such tool", id, c.tool)
		}
		if x.times > may {
			w.t.Fatalf("the call %s of %s was executed %d times", id, c.tool, x.times)
		}
		if !w.allowed(c, x.info) {
			w.t.Fatalf("the call %s of %s was executed without leave", id, c.tool)
		}
	}
	box, _ := propertyTools()
	for id, c := range w.story.calls {
		if c.scopes > 1 {
			w.t.Fatalf("the call %s of %s has run its agent %d times", id, c.tool, c.scopes)
		}
		if c.scope != "" || !w.traits[c.agent].model {
			continue
		}
		for _, t := range box {
			info := t.Info()
			if info.Name != c.tool {
				continue
			}
			if w.traits[c.agent].without == c.tool {
				w.happened["a call of a tool that only other agents have"] = true
				require.Empty(w.t, c.questions, "nobody is asked about a tool that the agent has not")
				require.Zero(w.t, c.scopes)
			}
			if c.scopes > 0 && !w.allowed(c, info) {
				w.t.Fatalf("the call %s of %s was executed without leave", id, c.tool)
			}
			if w.traits[c.agent].rules.Decide(info, c.input) == tools.Deny {
				w.happened["a call forbidden by a rule"] = true
				require.Empty(w.t, c.questions, "nobody is asked about what is forbidden")
			}
			if c.result != nil && !c.result.Data.(*event.ToolResult).IsError && w.ran[id] == nil && c.scopes == 0 && !strings.Contains(string(c.result.Data.(*event.ToolResult).Output), "from the cache") {
				w.t.Fatalf("the call %s of %s has a result, but was never executed", id, c.tool)
			}
		}
	}
	for _, e := range w.log {
		if d, ok := e.Data.(*event.Transfer); ok && d.Outcome == event.TransferCommitted && (d.TransferType == "" || d.ToolCallID != "") && e.Scope == "" && w.traits[e.Agent].asks {
			c := w.story.calls[d.ToolCallID]
			if q := c.permission(); q == nil || q.resolved == nil || !q.resolved.Approved {
				w.t.Fatalf("seq %d: a transfer that nobody approved", e.Seq)
			}
		}
	}
}

// checkAnswers: the calls of one answer run all or none, as the limit of calls says.
func (w *world) checkAnswers() {
	if w.limits.ToolCalls == 0 {
		return
	}
	number, calls := 0, make(map[string][]*event.Event) // of the turn, and of an answer by its run
	for _, e := range w.log {
		switch e.Data.(type) {
		case *event.User:
			number = 0
		case *event.ToolCall:
			number++
			calls[e.RunID] = append(calls[e.RunID], e)
		case *event.Usage:
			for _, c := range calls[e.RunID] {
				if story := w.story.calls[c.ID]; number > w.limits.ToolCalls && c.Time.Equal(e.Time) && (w.ran[c.ID] != nil || story.scopes > 0) {
					w.t.Fatalf("seq %d: a call was executed of an answer whose last is call %d of a turn that may have %d", c.Seq, number, w.limits.ToolCalls)
				}
			}
			delete(calls, e.RunID)
		}
	}
}

// checkRoutes: the condition of a route gets what its agent said last in the run, or
// in the one that waited for an approval before it, as the log has it.
func (w *world) checkRoutes() {
	before, end := make(map[string]string), new(event.Event)
	for _, e := range w.log {
		switch e.Data.(type) {
		case *event.HarnessStart:
			d, ok := end.Data.(*event.HarnessEnd)
			if ok && e.Scope == "" && e.TurnID == end.TurnID && d.FinishReason == event.FinishReasonInputRequired {
				before[e.RunID] = end.RunID
			}
		case *event.HarnessEnd:
			if e.Scope == "" {
				end = e
			}
		}
	}
	for _, r := range w.routed {
		runs := make(map[string]bool)
		for run := r.run; run != ""; run = before[run] {
			runs[run] = true
		}
		ended, last := false, ""
		for _, e := range w.log {
			if !runs[e.RunID] {
				continue
			}
			switch d := e.Data.(type) {
			case *event.Text:
				if strings.TrimSpace(d.Content) != "" {
					last = d.Content
				}
			case *event.HarnessEnd:
				ended = ended || e.RunID == r.run
			}
		}
		if ended && last != r.answer {
			w.t.Fatalf("the condition of a route got the answer %q, and not %q", r.answer, last)
		}
	}
	w.routed = w.routed[:0]
}

// allowed reports whether a call may have been executed by now.
func (w *world) allowed(c *callStory, info tools.Info) bool {
	decision := info.Approval // no agent in there has rules
	if c.scope == "" {
		decision = w.traits[c.agent].rules.Decide(info, c.input)
	}
	switch decision {
	case tools.Deny:
		return false
	case tools.Ask:
		q := c.permission()
		return q != nil && q.resolved != nil && q.resolved.Approved
	}
	return true
}

// checkCounts compares how often models and tools were called with what was
// stored in the meantime, and both with the limits. A failure that leaves its turn open is not stored.
func (w *world) checkCounts(added []*event.Event, open bool) {
	answers, failures, compactions := 0, 0, 0
	if open {
		failures++
	}
	functions := make(map[string]bool) // runs
	for _, k := range w.stepped {
		maps.Copy(functions, k.runs)
	}
	for _, e := range added {
		switch d := e.Data.(type) {
		case *event.Usage:
			answers++
		case *event.Discard:
			shown := functions[e.RunID] && d.Message == "the answer was not completed"             // the function's own words, perhaps
			if d.Code != event.CodeTripwire && !w.remotes[w.story.runs[e.RunID].agent] && !shown { // such an answer has its usage as well
				answers++
			}
		case *event.Failure:
			failures++
		case *event.Route:
			if d.Failed != nil {
				failures++
			}
		case *event.HarnessEnd:
			if d.FinishReason == event.FinishReasonCanceled {
				failures++ // a graph that stops does not wait for what its nodes have asked
			}
		case *event.Compaction:
			compactions++ // in place of a refused request, perhaps
		case *event.Notice:
			if d.Code == event.NoticeCompactionFailed || d.Code == event.NoticeUndecided {
				failures++
			}
		}
	}
	if w.asked < answers || w.asked > answers+failures+compactions {
		w.t.Fatalf("models were asked %d times, %d answers, %d failures and %d compactions are recorded", w.asked, answers, failures, compactions)
	}
	if limit := w.limits.ModelCalls; limit > 0 && answers > limit {
		w.t.Fatalf("models gave %d answers in a turn, where %d are allowed", answers, limit)
	}
	if limit := w.limits.ToolCalls; limit > 0 && w.acted > limit {
		w.t.Fatalf("%d tools ran in a turn, where %d are allowed", w.acted, limit)
	}
}

// checkWarm compares the runner, warm by now, with one that knows only the log,
// and both with the log itself.
func (w *world) checkWarm(r *runner.Runner) {
	cold := w.runner()
	n := r.Tree().Root()
	if w.story.active == agent.Human {
		n = r.Tree().Node(agent.Human)
	} else if w.story.active != "" && !w.resumeRoot {
		n = returned(r.Tree().Node(w.story.active))
		if n.Agent.Name() != w.story.active {
			w.happened["a return to the parent"] = true
		}
	} else if w.story.active != "" && w.story.active != n.Agent.Name() {
		w.happened["a return to the root"] = true
	}
	ctx := context.Background()
	for _, who := range []*runner.Runner{r, cold} {
		require.Equal(w.t, n.Agent.Name(), must.Get(who.Active(ctx, s1)))
	}
	for i, name := range w.names {
		if len(w.names) > 8 && i%4 != w.turn%4 {
			continue // of many agents some, and others the next time
		}
		a := must.Get(r.Preview(ctx, s1, name))
		b := must.Get(cold.Preview(ctx, s1, name))
		if a == nil && b == nil {
			continue // a function
		}
		if !sameMessages(a.Messages, b.Messages) {
			w.t.Fatalf("the warm view of %s is not the cold one:\n%v\n%v", name, a.Messages, b.Messages)
		}
		if a.System != b.System || !sameTools(a.Tools, b.Tools) {
			w.t.Fatalf("%s is offered something else when it is warm:\n%s %v\n%s %v", name, a.System, a.Tools, b.System, b.Tools)
		}
	}
}

func sameTools(a, b []llm.ToolSpec) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Description != b[i].Description || !bytes.Equal(a[i].Parameters, b[i].Parameters) {
			return false
		}
	}
	return true
}

func sameMessages(a, b []llm.Message) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Role != b[i].Role || a[i].Text != b[i].Text || len(a[i].Parts) != len(b[i].Parts) {
			return false
		}
		for j := range a[i].Parts {
			if !samePart(a[i].Parts[j], b[i].Parts[j]) {
				return false
			}
		}
	}
	return true
}

func samePart(a, b llm.Part) bool {
	x, ok := a.(llm.Media)
	if !ok {
		return a == b
	}
	if line, ok := b.(llm.TextPart); ok { // of a request that the endpoint has refused
		return strings.HasSuffix(line.Text, ", which the model's endpoint refused"+"]")
	}
	y, ok := b.(llm.Media)
	return ok && x.Kind == y.Kind && x.MediaType == y.MediaType && x.URL == y.URL && x.Name == y.Name && bytes.Equal(x.Data, y.Data)
}

// checkMessages requires that the messages of the log's graph are its turns: what the
// user said, and the answer to it with the runs of all agents.
func (w *world) checkMessages(log []*event.Event) {
	turns, messages := make(map[string]string), make(map[string]string) // by run, and by turn
	for _, e := range log {
		if e.Type() == event.TypeUser {
			turns[e.RunID] = "what was said in " + e.TurnID
		} else if turns[e.RunID] == "" {
			turns[e.RunID] = "the answer in " + e.TurnID
		}
	}
	for _, edge := range reduced(log).Hypergraph().Edges {
		if edge.Kind != conversation.BlockToMessage {
			continue
		}
		turn := turns[strings.TrimPrefix(edge.From[0], "block:")]
		require.NotContains(w.t, messages, turn, "%s is two messages", turn)
		messages[turn] = edge.To
		for _, block := range edge.From {
			require.Equal(w.t, turn, turns[strings.TrimPrefix(block, "block:")], "%s in %s", block, edge.To)
		}
	}
}
