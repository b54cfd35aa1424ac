package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// plan is one answer of a model.
type plan struct {
	Texts, Thoughts []string
	Calls           []plannedCall
	Usage           bool
	Absurd          *llm.Usage // in its place
	Finish          llm.FinishReason
	End             string // "", cut, fail (retryable), refuse, long (for the window), panic, stop (cancels the turn)
}

type plannedCall struct{ ID, Name, Args string }

// next takes the next plan of the script; when there is none left, models say
// "ok".
func (w *world) next() plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == len(w.script) {
		return plan{Texts: []string{"ok"}}
	}
	p := w.script[w.at]
	w.at++
	w.panics = w.panics || p.End == "panic"
	return p
}

// inner is the plan of a model in an inner scope. Such scopes run side by side,
// so it is a function of the request alone: the script from some point on.
func (w *world) inner(req *llm.Request) plan {
	return w.planOf(req.Messages[0].Text, len(req.Messages)-1)
}

// planOf is a plan of the script for what was said first, and so much since then.
func (w *world) planOf(first string, since int) plan {
	h := fnv.New32a()
	_, _ = h.Write([]byte(first))
	i := int(h.Sum32()%8) + since
	if i >= len(w.script) {
		return plan{Texts: []string{"ok"}}
	}
	return w.script[i]
}

// plannedModel is the model of one agent. Inner ones are asked in several scopes.
type plannedModel struct {
	name    string
	inner   bool
	each    bool // it is offered a tool for each target
	history viewChoice
	typed   bool // its agent's answers have a form
	shares  bool // its requests, with all agents of the conversation
}

func (m *plannedModel) Name() string {
	if m.shares {
		return "shared"
	}
	return m.name
}

func (m *plannedModel) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		w := worldOf(ctx)
		w.countAsked()
		if llm.Anticipated(ctx) {
			m.foresees(ctx, req, yield)
			return
		}
		m.check(w, req)
		if candidates(req) != nil {
			m.decides(ctx, req, yield)
			return
		}
		if m.inner {
			w.inner(req).stream(ctx, innerTargets[m.name], yield)
			return
		}
		p := w.next()
		if m.typed && len(p.Calls) == 0 && p.End == "" && len(req.Messages)%7 > 1 { // else it may be wrong twice
			p.Texts = []string{`{"n": `, "1}"}
		}
		p.stream(ctx, w.targets(m.name), yield)
	}
}

// aim puts the name of a legal target where a tool's name or arguments say "@0" or so.
func aim(text string, targets []string) string {
	before, after, found := strings.Cut(text, "@")
	if !found {
		return text
	}
	name := "nobody"
	if len(targets) > 0 {
		name = targets[int(after[0]-'0')%len(targets)]
	}
	return before + name + after[1:]
}

// targets returns where an agent of the conversation may transfer to.
func (w *world) targets(name string) []string {
	return targets(w.processes[0].Tree().Node(name))
}

func targets(n *agent.Node) (names []string) {
	for _, n := range n.Targets() {
		names = append(names, n.Agent.Name())
	}
	return names
}

func (p plan) stream(ctx context.Context, targets []string, yield func(llm.Chunk, error) bool) {
	for _, c := range p.chunks(targets) {
		if err := ctx.Err(); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		if !yield(c, nil) {
			return
		}
	}
	switch p.End {
	case "stop":
		worldOf(ctx).interrupt()
		yield(llm.Chunk{}, ctx.Err())
	case "panic":
		panic("the model's adapter panics")
	case "fail":
		yield(llm.Chunk{}, &llm.Error{Code: llm.CodeServer, Status: 503, Retryable: true, Message: "busy"})
	case "long":
		yield(llm.Chunk{}, &llm.Error{Code: llm.CodeContextLength, Status: 400, Message: "too long"})
	case "bad":
		yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest, Status: 400, Message: "no images"})
	case "refuse":
		yield(llm.Chunk{}, &llm.Error{Code: llm.CodeRateLimited, Status: 429, Message: "no quota"})
	}
}

func (p plan) chunks(targets []string) []llm.Chunk {
	var chunks []llm.Chunk
	for _, s := range p.Thoughts {
		chunks = append(chunks, llm.Chunk{Reasoning: thinks + s})
	}
	for _, s := range p.Texts {
		chunks = append(chunks, llm.Chunk{Text: s})
	}
	for _, c := range p.Calls {
		chunks = append(chunks, llm.Chunk{Call: &llm.ToolCall{ID: c.ID, Name: aim(c.Name, targets), Arguments: aim(c.Args, targets)}})
	}
	if p.End == "" {
		last := llm.Chunk{Finish: p.Finish}
		if last.Finish == "" {
			last.Finish = llm.FinishStop
		}
		if p.Usage {
			last.Usage = &llm.Usage{InputTokens: 1500, OutputTokens: 20}
		}
		if p.Absurd != nil {
			last.Usage = p.Absurd
		}
		chunks = append(chunks, last)
	}
	return chunks
}

// shown is the last request of an agent.
type shown struct {
	turn     int
	messages []llm.Message
	agent    string
	req      *llm.Request
}

// compacted reports whether something was left out of a request.
func compacted(req *llm.Request) bool {
	first := req.Messages[0].Text
	return strings.HasPrefix(first, view.LeftOut) || strings.HasPrefix(first, view.SummaryHead)
}

// check holds a request against the wire rules, and against the agent's last
// one: a conversation only grows at its end.
func (m *plannedModel) check(w *world, req *llm.Request) {
	if err := view.Check(req); err != nil {
		w.problem("request of %s: %v\n%v", m.name, err, req.Messages)
	}
	who := m.name
	if m.inner {
		who = req.System // which names the scope
	}
	if m.inner {
		w.checkSurround(m, req)
	} else {
		w.notes(m, req)
	}
	w.checkView(m, req)
	w.mu.Lock()
	defer w.mu.Unlock()
	if candidates(req) != nil { // a question about the conversation, and no part of it
		return
	}
	_, messages, shared := instructions(req)
	if shared { // the next request of any agent continues this one
		who = "shared " + req.Agent
	}
	last, ok := w.last[who]
	if ok && !compacted(req) && (!m.history.trims || last.turn == w.turn) {
		if len(last.messages) > len(messages) || !sameMessages(last.messages, messages[:len(last.messages)]) {
			w.problems = append(w.problems, fmt.Sprintf("request of %s does not continue its last one:\n%v\n%v", who, last.messages, messages))
		}
		if who != m.name && !m.inner {
			if last.agent != m.name {
				w.happened["a shared request after that of another agent"] = true
			}
			if last.turn == w.turn && (last.req.System != req.System || !sameTools(last.req.Tools, req.Tools)) { // else the client may have others
				w.problems = append(w.problems, fmt.Sprintf("request of %s differs from that of %s:\n%s\n%v\n%s\n%v", m.name, last.agent, last.req.System, last.req.Tools, req.System, req.Tools))
			}
		}
	}
	w.last[who] = shown{w.turn, messages, m.name, req}
}

// instructions returns the instructions of a request of agents that share their requests, and the conversation without
// them, without the user's message that they repeat, and without what is said after an answer that was discarded.
func instructions(req *llm.Request) (text string, conversation []llm.Message, shared bool) {
	for i, m := range req.Messages {
		if m.Role == llm.RoleSystem {
			end := i + 1
			if end < len(req.Messages) && req.Messages[end].Role == llm.RoleUser {
				end++
			}
			conversation = slices.Delete(slices.Clone(req.Messages), i, end)
			if n := len(conversation) - 1; n >= 0 && strings.HasPrefix(conversation[n].Text, "[Your answer ") {
				conversation = conversation[:n]
			}
			return m.Text, conversation, true
		}
	}
	return "", req.Messages, false
}

func (w *world) countAsked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
}

// summarizer writes the summaries of compactions, if it does not fail.
type summarizer struct{}

func (summarizer) Name() string { return "summarizer" }

func (summarizer) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		w := worldOf(ctx)
		w.countAsked()
		if err := view.Check(req); err != nil {
			w.problem("request of the summarizer: %v\n%v", err, req.Messages)
		}
		switch len(req.Messages[0].Text) % 4 {
		case 0:
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeServer, Message: "busy"})
		case 1:
			yield(llm.Chunk{Text: "They talked, \xff.", Finish: llm.FinishStop}, nil)
		default:
			yield(llm.Chunk{Text: "They talked.", Finish: llm.FinishStop, Usage: &llm.Usage{InputTokens: 9, OutputTokens: 3}}, nil)
		}
	}
}

// goesOn counts the steps that a run of a function takes in an action: an answer and its
// tools are two for a model, and who has none may take as many. A step that finds calls
// without results is not held to the limit.
func (w *world) goesOn(runID string, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken[runID]++; w.limits.Steps > 0 && !waits && w.taken[runID] > 2*w.limits.Steps-1 {
		w.problems = append(w.problems, fmt.Sprintf("a function takes %d steps in a run that may have %d answers", w.taken[runID], w.limits.Steps))
	}
}

// function is a function agent: it says the texts of a plan, and transfers
// without asking first. Calls that an earlier step of its run has left, before
// or after a crash, it answers first.
func (w *world) function(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		var open []string
		for e, err := range inv.Session().Events(ctx, 0) {
			if err != nil {
				yield(nil, err)
				return
			}
			switch e.Data.(type) {
			case *event.ToolCall:
				if e.Agent == inv.Agent().Name() && e.TurnID == inv.TurnID() && e.Scope == inv.Scope() { // a fork goes on in a run of its own
					open = append(open, e.ID)
				}
			case *event.ToolResult:
				open = slices.DeleteFunc(open, func(id string) bool { return id == e.ID })
			}
		}
		w.goesOn(inv.RunID(), len(open) > 0)
		for _, id := range open {
			if !yield(&event.Event{ID: id, Data: &event.ToolResult{Name: "own", Output: json.RawMessage(`"forgotten"`)}}, nil) {
				return
			}
		}
		p := w.next()
		for _, s := range p.Texts {
			if !yield(&event.Event{Data: &event.Text{Content: s}}, nil) {
				return
			}
		}
		for _, c := range p.Calls {
			var args struct {
				To string `json:"agent_name"`
			}
			_ = json.Unmarshal([]byte(aim(c.Args, w.targets(inv.Agent().Name()))), &args)
			switch c.Name {
			case agent.TransferTool:
				if !yield(&event.Event{Data: &event.Transfer{To: args.To, Outcome: event.TransferCommitted}}, nil) {
					return
				}
			case "fine": // a call and its result
				call := &event.Event{ID: c.ID, Data: &event.ToolCall{Name: "own", Input: event.ObjectInput(c.Args)}}
				if !yield(call, nil) || !yield(&event.Event{ID: call.ID, Data: &event.ToolResult{Name: "own", Output: json.RawMessage(`1`)}}, nil) {
					return
				}
			case "remember":
				f, err := inv.Runtime().SaveFile(ctx, "own.txt", "", []byte(inv.RunID()))
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(&event.Event{Data: &event.State{Delta: map[string]any{"seen": true}}, More: true}, nil) || !yield(&event.Event{Data: f}, nil) {
					return
				}
			case "broken", "ask", inquiry, "nested": // a call that it forgets
				if !yield(&event.Event{ID: c.ID, Data: &event.ToolCall{Name: "own", Input: event.ObjectInput(c.Args)}, More: p.Usage}, nil) {
					return
				}
			}
		}
		switch {
		case p.End == "panic":
			panic("the function panics")
		case p.End == "stop":
			w.interrupt()
			yield(nil, ctx.Err())
		case p.End != "":
			yield(nil, &llm.Error{Code: llm.CodeServer, Message: "broken function"})
		case p.Finish != "" || len(p.Texts) == 3:
			yield(&event.Event{Data: &event.Continue{}}, nil)
		}
	}
}

// The parts of plans that do not depend on the tree.
var (
	someWords  = rapid.SampledFrom([]string{"Hello.", " ", "", "é世界", "[a0] said", "line\nline", "bad \xff byte"})
	someIDs    = rapid.SampledFrom([]string{"", "c1", "c1", "c2", "bad id\n", strings.Repeat("x", 70)})
	someTools  = rapid.SampledFrom([]string{"fine", "nested", "ask", inquiry, "again", "broken", "remember", "nested_again", "nested_steps", "nested_steps", "nested_steps_again", "nested_switch", "panics", "stop", "outside", "outside", "odd"})
	oddTools   = rapid.SampledFrom([]string{agent.TransferTool, "fine", "nested", "unknown", "bad name", "\xff", strings.Repeat("n", 65)})
	plainArgs  = rapid.SampledFrom([]string{"", `{"n": 3}`, `{"n": 4}`, `{"n": 15}`, `{"n": 16}`, `{"n": 19}`, `{"n": 2}`, `{"n": 0}`})
	aims       = rapid.SampledFrom([]string{`{"agent_name": "@0"}`, `{"agent_name": "@1"}`, `{"agent_name": "the_@0"}`, `{"agent_name": "@2", "reason": "so", "input": {"n": 1}}`, ""})
	aimedTools = rapid.SampledFrom([]string{"transfer_to_@0", "transfer_to_@1", "transfer_to_@2", "transfer_to_the_@0", "@0", "transfer_to_A0", "transfer_to_nobody", "transfer_to_", agent.TransferTool})
	bareArgs   = rapid.SampledFrom([]string{"", "{}", `{"reason": "so", "input": {"n": 1}}`, `{"input": {"n": 1}}`, `{"agent_name": "@1"}`, `{"Agent_Name": 3, "more": [1]}`, "no JSON"})
	innerArgs  = rapid.SampledFrom([]string{`{"input": "do it"}`, `{"input": "do that"}`, `{"input": "and this"}`, `{"input": " "}`})
	someFinish = rapid.SampledFrom([]llm.FinishReason{llm.FinishLength, llm.FinishToolCalls, llm.FinishContentFilter, "weird"})
	someEnds   = rapid.SampledFrom([]string{"cut", "cut", "fail", "refuse", "panic", "stop", "long", "bad"})
	someOdds   = rapid.IntRange(0, 5)
	oneInFour  = rapid.IntRange(0, 3)
)

func (w *world) plans() *rapid.Generator[plan] {
	name := rapid.SampledFrom(append(w.names[:len(w.names):len(w.names)], "left", "nobody", "", "A0", " a0 ", agent.Human))
	args := rapid.OneOf(
		rapid.SampledFrom([]string{"", "{}", `{"n": 3}`, `{"n": "x"}`, "[1]", "{oops", `"text"`, "null", `{"input":"do it"}`, "{\"n\": 1,\n\"x\": \"\xff\"}"}),
		rapid.Map(name, func(n string) string { return fmt.Sprintf(`{"agent_name": %q, "reason": "because\nof it"}`, n) }),
		rapid.Map(name, func(n string) string { return fmt.Sprintf("%q", fmt.Sprintf(`{"agent_name": %q}`, n)) }),
		rapid.SampledFrom([]string{`{"agent_name": 3}`, `{"agent_name": null}`, `{"reason": "x"}`}),
	)
	call := rapid.Custom(func(t *rapid.T) plannedCall {
		c := plannedCall{ID: someIDs.Draw(t, "id")}
		switch someOdds.Draw(t, "kind") {
		case 0:
			c.Name, c.Args = aimedTools.Draw(t, "transfer tool"), bareArgs.Draw(t, "args")
		case 1:
			c.Name, c.Args = agent.TransferTool, aims.Draw(t, "aim")
			if c.Args == "" {
				c.Args = fmt.Sprintf(`{"agent_name": %q}`, name.Draw(t, "target"))
			}
		case 2, 3:
			if c.Name = someTools.Draw(t, "tool"); strings.HasPrefix(c.Name, "nested") || c.Name == "outside" {
				c.Args = innerArgs.Draw(t, "args")
			} else {
				c.Args = plainArgs.Draw(t, "args")
			}
		case 4:
			c.Name, c.Args = name.Draw(t, "bare name"), args.Draw(t, "args")
		default:
			c.Name, c.Args = oddTools.Draw(t, "odd tool"), args.Draw(t, "args")
		}
		return c
	})
	words, calls := rapid.SliceOfN(someWords, 1, 3), rapid.SliceOfN(call, 1, 4)
	return rapid.Custom(func(t *rapid.T) plan {
		p := plan{Usage: oneInTen.Draw(t, "no usage") < 9}
		if oneInFour.Draw(t, "think") == 3 {
			p.Thoughts = words.Draw(t, "thoughts")
		}
		if rapid.Bool().Draw(t, "speak") {
			p.Texts = words.Draw(t, "texts")
		}
		if oneInFour.Draw(t, "act") > 0 {
			p.Calls = calls.Draw(t, "calls")
		}
		if oneInFour.Draw(t, "odd finish") == 3 {
			p.Finish = someFinish.Draw(t, "finish")
		}
		if oneInTen.Draw(t, "hostile") == 9 {
			p.hostile(w, t)
			w.happened["hostile words"] = true
		}
		if oneInTen.Draw(t, "odd end") == 9 {
			p.End = someEnds.Draw(t, "end")
		}
		return p
	})
}
