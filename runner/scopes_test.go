package runner_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
)

// firm is a tree whose root, front, has two agents as tools: buyer, who has a third one as a
// tool, clerk, and lawyer. Each of them can pay, which waits for an approval, look, and ask.
type firm struct {
	t      *testing.T
	script *scripted.Script
	store  session.Store
	ran    []string // what tools have done
	opts   []runner.Option
	wide   []tools.Tool // more tools of front
}

func newFirm(t *testing.T, script string) *firm {
	s := must.Get(scripted.Parse([]byte(script)))
	store := must.Get(sqlite.Open(filepath.Join(t.TempDir(), "s.db")))
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &firm{t: t, script: s, store: store}
}

// process returns a runner that knows only what is stored.
func (f *firm) process() *runner.Runner {
	type in struct {
		Amount int `json:"amount,omitempty"`
	}
	tool := func(name string, do func(tools.Context, in) (string, error), opts ...tools.Option) tools.Tool {
		return must.Get(tools.Func(name, "Does "+name+".", do, opts...))
	}
	common := []tools.Tool{
		tool("pay", func(c tools.Context, in in) (string, error) {
			f.ran = append(f.ran, fmt.Sprint("pay ", in.Amount))
			return fmt.Sprint("paid ", in.Amount), nil
		}, tools.NeedsApproval()),
		tool("look", func(tools.Context, in) (string, error) { f.ran = append(f.ran, "look"); return "seen", nil }),
		tool("ask", func(c tools.Context, in in) (string, error) {
			how, err := c.Ask("How many?", []byte(`{"type":"integer","minimum":1}`))
			if err != nil {
				return "", err
			}
			what, err := c.Ask("Of what?", nil)
			if err != nil {
				return "", err
			}
			f.ran = append(f.ran, "ask")
			return fmt.Sprintf("%s of %s", how, what), nil
		}),
	}
	make := func(name string, more ...tools.Tool) agent.Agent {
		return must.Get(llmagent.New(name, "", checked{f.script.Model(name)}, llmagent.WithDescription("Is "+name+"."), llmagent.WithTools(slices.Concat(common, more)...)))
	}
	asTool := func(a agent.Agent) tools.Tool {
		return must.Get(agenttool.New(a))
	}
	front := make("front", slices.Concat([]tools.Tool{asTool(make("buyer", asTool(make("clerk")))), asTool(make("lawyer"))}, f.wide)...)
	return newRunner(f.t, front, f.store, f.opts...)
}

func (f *firm) say(text string) []*event.Event {
	r := f.process()
	return run(f.t, r, s1, text)
}

// calls maps an agent's name and a number to the id of the agent's call with this number, from 1.
func (f *firm) calls() map[string]string {
	calls, made := make(map[string]string), make(map[string]int)
	for _, e := range load(f.t, f.process(), s1) {
		if e.Type() == event.TypeToolCall {
			made[e.Agent]++
			calls[fmt.Sprint(e.Agent, made[e.Agent])] = e.ID
		}
	}
	return calls
}

// name is how the tests call the call with this id.
func (f *firm) name(id string) string {
	for name, call := range f.calls() {
		if call == id {
			return name
		}
	}
	return id
}

func (f *firm) decide(decisions ...runner.Decision) ([]*event.Event, error) {
	calls := f.calls()
	for i := range decisions {
		decisions[i].CallID = calls[decisions[i].CallID]
	}
	return collect(f.process().Resume(context.Background(), s1, decisions...))
}

func (f *firm) resume(decisions ...runner.Decision) []*event.Event {
	return must.Get(f.decide(decisions...))
}

// waits lists what is asked: the call, and the agents around it.
func (f *firm) waits() (asked []string) {
	pending := must.Get(f.process().Pending(context.Background(), s1))
	for _, q := range pending {
		asked = append(asked, strings.TrimSpace(strings.Join(append(slices.Clone(q.Within), f.name(q.ToolCallID)), " ")))
	}
	return asked
}

func (f *firm) last() string {
	events := load(f.t, f.process(), s1)
	_, text := lastText(events)
	return text
}

const twoLevels = `
front: call look#c3 {} call buyer#c1 {"input": "buy"} call lawyer#c2 {"input": "check"}
front: expect result "checked" "All done."
buyer: call look#b1 {} call clerk#b2 {"input": "write"}
buyer: expect result "written" "bought"
clerk: call pay#k1 {"amount": 7}
clerk: expect result "paid 7" "written"
lawyer: call pay#l1 {"amount": 9}
lawyer: expect result "denied: no" "checked"`

// TestApprovalsInside: agents inside of agents inside of tools ask, each where it is. Their
// questions are decided one by one, each in another process, and what stood beside them stays
// as it was.
func TestApprovalsInside(t *testing.T) {
	f := newFirm(t, twoLevels)
	events := f.say("Go")
	require.Equal(t, event.FinishReasonInputRequired, endOf(events))
	require.ElementsMatch(t, []string{"front buyer clerk1", "front lawyer1"}, f.waits())
	require.Equal(t, []string{"look", "look"}, f.ran)
	require.Empty(t, f.resume(), "nobody has decided")
	_, err := f.decide(runner.Approve("buyer2"))
	require.ErrorIs(t, err, runner.ErrNoApproval, "nobody asked about the call around the question")
	_, err = f.decide(runner.Answer("clerk1", "seven"))
	require.ErrorIs(t, err, agent.ErrBadInput, "it is a permission")

	events = f.resume(runner.Deny("lawyer1", "no"))
	require.Equal(t, event.FinishReasonInputRequired, endOf(events))
	require.Equal(t, []string{"front buyer clerk1"}, f.waits())
	for _, e := range events {
		require.NotEqual(t, "clerk", e.Agent, "nothing was decided there")
		require.NotEqual(t, "buyer", e.Agent, "nothing was decided there")
	}
	events = f.resume(runner.Approve("clerk1"))
	require.Equal(t, event.FinishReasonStop, endOf(events))
	require.Equal(t, "All done.", f.last())
	require.Equal(t, []string{"look", "look", "pay 7"}, f.ran)
	require.Empty(t, f.waits())
	require.NoError(t, f.script.Done())

	again := f.resume(runner.Approve("clerk1"))
	require.Len(t, again, 1, "the recorded result")
	require.Equal(t, `"paid 7"`, string(again[0].Data.(*event.ToolResult).Output))
}

// TestApprovalsInsideAtOnce: all decided in one call.
func TestApprovalsInsideAtOnce(t *testing.T) {
	f := newFirm(t, twoLevels)
	f.say("Go")
	require.Equal(t, event.FinishReasonStop, endOf(f.resume(runner.Approve("clerk1"), runner.Deny("lawyer1", "no"))))
	require.Equal(t, "All done.", f.last())
	require.NoError(t, f.script.Done())
}

// TestApprovalsInsideGivenUp: a message, or Cancel, withdraws what waits inside, inside out.
func TestApprovalsInsideGivenUp(t *testing.T) {
	for name, give := range map[string]func(*firm) []*event.Event{
		"message": func(f *firm) []*event.Event { return f.say("Something else") },
		"cancel": func(f *firm) []*event.Event {
			return must.Get(f.process().Cancel(context.Background(), s1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFirm(t, strings.Replace(twoLevels, `front: expect result "checked" "All done."`, `front: "Fine."`, 1))
			f.say("Go")
			f.resume(runner.Deny("lawyer1", "no"))
			events := give(f)
			var withdrawn []string
			for _, e := range events {
				if r, ok := e.Data.(*event.ToolResult); ok {
					require.True(t, r.IsError)
					withdrawn = append(withdrawn, f.name(e.ID))
				}
			}
			require.Equal(t, []string{"clerk1", "buyer2", "front2"}, withdrawn)
			require.Empty(t, f.waits())
			for _, call := range []string{"front2", "clerk1"} { // clerk1 was withdrawn
				_, err := f.decide(runner.Approve(call))
				require.ErrorIs(t, err, runner.ErrNoApproval)
			}
			require.NotContains(t, f.ran, "pay 7")
		})
	}
}

// TestApprovalsInsideFork: what waits inside stays in its session, too, and the fork goes on
// without it.
func TestApprovalsInsideFork(t *testing.T) {
	f := newFirm(t, strings.NewReplacer("paid 7", "forked", "denied: no", "forked").Replace(twoLevels)+`
front: expect result "withdrawn" "Other."`)
	f.say("Go")
	before := load(t, f.process(), s1)
	ctx, fork := context.Background(), session.ID("fork")
	require.NoError(t, f.store.Fork(ctx, s1, int64(len(before)), fork))
	r := f.process()
	for _, name := range []string{"clerk1", "lawyer1"} {
		id := f.calls()[name]
		_, err := collect(r.Resume(ctx, fork, runner.Approve(id)))
		require.ErrorIs(t, err, runner.ErrNoApproval)
	}
	finish(t, r.Resume(ctx, fork))
	_, text := lastText(load(t, r, fork))
	require.Equal(t, "All done.", text)
	require.Equal(t, before, load(t, r, s1))
	require.Equal(t, []string{"look", "look"}, f.ran)
	require.Len(t, f.waits(), 2)
	written := make(map[string]bool)
	for _, e := range before {
		written[e.RunID] = true
	}
	for _, e := range load(t, r, fork)[len(before):] {
		require.False(t, written[e.RunID], "seq %d is written to a run of the other session", e.Seq)
	}
	finish(t, r.Run(ctx, s1, llm.UserText("Else")))
}

// TestAskInside: a tool asks in mid-call, twice, in an agent inside of a tool.
func TestAskInside(t *testing.T) {
	f := newFirm(t, `
front: call lawyer#c1 {"input": "ask"}
front: expect result "3 of" "Thanks."
lawyer: call ask#q1 {}
lawyer: expect result "3 of" "3 of them"`)
	events := f.say("Go")
	var asked *event.Relay
	for _, e := range events {
		if d, ok := e.Data.(*event.Relay); ok {
			asked = d
		}
	}
	require.Equal(t, &event.Relay{Kind: event.RelayInput, ToolCallID: asked.ToolCallID, Tool: "ask", Params: []byte(`{}`), Message: "How many?",
		Schema: []byte(`{"type":"integer","minimum":1}`), Within: []string{"front"}, Digest: asked.Digest}, asked)
	require.Equal(t, "lawyer1", f.name(asked.ToolCallID))
	before := len(load(t, f.process(), s1))
	for _, wrong := range []runner.Decision{runner.Answer("lawyer1", 0), runner.Answer("lawyer1", "three"), runner.Approve("lawyer1"), {CallID: "lawyer1", Approved: true, Content: []byte("{")}} {
		_, err := f.decide(wrong)
		require.ErrorIs(t, err, agent.ErrBadInput)
	}
	require.Len(t, load(t, f.process(), s1), before, "nothing was stored")
	require.Equal(t, event.FinishReasonInputRequired, endOf(f.resume(runner.Answer("lawyer1", 3))))
	require.Empty(t, f.ran)
	require.Equal(t, []string{"front lawyer1"}, f.waits())
	require.Equal(t, event.FinishReasonStop, endOf(f.resume(runner.Answer("lawyer1", "apples"))))
	require.Equal(t, []string{"ask"}, f.ran)
	require.Equal(t, "Thanks.", f.last())
	require.NoError(t, f.script.Done())
}

// TestAskDeclined: the tool gets the user's reason, and the model reads it.
func TestAskDeclined(t *testing.T) {
	f := newFirm(t, `
front: call ask#q1 {}
front: expect result "declined to answer: none of your business" "Sorry."`)
	f.say("Go")
	require.Equal(t, event.FinishReasonStop, endOf(f.resume(runner.Deny("front1", "none of your business"))))
	require.NoError(t, f.script.Done())
}

// TestWaitsForNobody: a tool that says that it waits, but neither asks nor runs anybody who
// does, has failed; one that gets around an agent that waits withdraws what that asked.
func TestWaitsForNobody(t *testing.T) {
	f := newFirm(t, `
front: call idle#c1 {} call around#c2 {}
front: expect result "went on" "Well."
deaf: call pay#d1 {"amount": 1}`)
	type none struct{}
	idle := must.Get(tools.Func("idle", "Waits.", func(tools.Context, none) (string, error) { return "", fmt.Errorf("hm: %w", agent.ErrWaits) }))
	pay := must.Get(tools.Func("pay", "Pays.", func(tools.Context, none) (string, error) { return "", errors.New("never") }, tools.NeedsApproval()))
	deaf := must.Get(llmagent.New("deaf", "", checked{f.script.Model("deaf")}, llmagent.WithTools(pay)))
	around := must.Get(tools.Func("around", "Goes on.", func(c tools.Context, _ none) (string, error) {
		_, err := c.RunAgent(deaf, "pay")
		require.ErrorIs(t, err, agent.ErrWaits)
		return "went on", nil
	}))
	f.wide = []tools.Tool{idle, around}
	events := f.say("Go")
	require.Equal(t, event.FinishReasonStop, endOf(events))
	for _, e := range events {
		if r, ok := e.Data.(*event.ToolResult); ok && e.ID == "front2" {
			require.Contains(t, string(r.Output), "neither asks anybody")
		}
	}
	require.Empty(t, f.waits())
	res := must.Get(runner.Collect(f.process().Resume(context.Background(), s1)))
	require.Empty(t, res.Pending)
}
