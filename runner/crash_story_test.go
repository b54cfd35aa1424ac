package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/workflowagent"
)

// crashStory is a conversation that processes of TestCrash continue from
// wherever the log is. Its models and tools are functions of what they see, so
// that another process does what the first one would have done.
type crashStory struct {
	name      string
	messages  []string
	decisions map[int][]bool // by turn, from 1: the answers to its questions, in their order
	denies    string         // or this tool alone is denied, wherever it is asked about
	streaming bool
	delivers  map[int][]human.Event // by turn: what the desk says when it is over
	asks      int                   // so many models may be asked at once
	once      []string              // tools that must not run again when their outcome is unknown
	tree      func(*stage) (agent.Agent, error)

	interceptors []agent.Interceptor
	some         bool // some of the points at which processes can be killed are enough
}

var crashStories = behindRouters([]crashStory{
	{name: "cash desk", messages: []string{"Pay"}, asks: 1, once: []string{"pay"}, tree: cashDesk},
	{name: "approvals", messages: []string{"Money back", "Thanks"}, asks: 1, once: []string{"refund"}, tree: refundDesk,
		decisions: map[int][]bool{1: {true, false, true}}},
	{name: "approval of one turn", messages: []string{"Money back"}, asks: 1, once: []string{"refund"}, tree: refundDesk,
		decisions: map[int][]bool{1: {true, true, true}}},
	{name: "approval of transfers", messages: []string{"Billing, please", "Now, please"}, asks: 1, tree: guardedDesk,
		decisions: map[int][]bool{1: {false}, 2: {true}}},
	{name: "workflows", messages: []string{"Write a report"}, asks: 2, once: []string{"stamp"}, tree: reportDesk},
	{name: "agent tools", messages: []string{"Find out"}, asks: 2, once: []string{"stamp"}, tree: researchDesk},
	{name: "approvals inside of agent tools", messages: []string{"Buy", "Thanks"}, asks: 2, once: []string{"order"}, tree: buyingDesk, denies: "sign"},
	{name: "a server of tools", messages: []string{"Pay and book"}, asks: 1, once: []string{"pay"}, tree: townDesk,
		decisions: map[int][]bool{1: {true}}},
	{name: "a person", messages: []string{"Hello", "A person, please", "My name is Bob", "Thanks"}, asks: 1, tree: deskOfPersons,
		delivers: map[int][]human.Event{
			2: {{ID: "1", Update: human.Update{Status: human.Connected, TargetAgent: "Ann"}}, {ID: "2", Text: "Ann here. Who are you?"}},
			3: {{ID: "3", Text: "Done, Bob.", Update: human.Update{Status: human.Completed}}},
		}},
	{name: "several hops and turns", messages: []string{"Where is it?", "Cancel it", "And hello"}, asks: 1, streaming: true, once: []string{"cancel"}, tree: orderDesk},
})

// play continues the story to its end, as a program would that knows only what
// is stored.
func (s *crashStory) play(dir string, o *odometer) error {
	on := &stage{path: filepath.Join(dir, "calls"), odometer: o}
	root, err := s.tree(on)
	if err != nil {
		return err
	}
	if on.close != nil {
		defer on.close()
	}
	store, err := sqlite.Open(filepath.Join(dir, "s.db"))
	if err != nil {
		return err
	}
	defer store.Close()
	opts := []runner.Option{runner.WithWait(20 * time.Second), runner.WithInterceptors(s.interceptors...), runner.WithSnapshots(1)}
	if s.streaming {
		opts = append(opts, runner.WithStreaming())
	}
	if s.delivers != nil {
		opts = append(opts, runner.WithDesk(paperDesk{&stage{path: filepath.Join(dir, "calls"), odometer: o}}))
	}
	r, err := runner.New(root, watchedStore{store, o}, opts...)
	if err != nil {
		return err
	}
	for range 50 {
		turn, err := s.next(r)
		if turn == nil || err != nil {
			return err
		}
		for _, err := range turn {
			if err != nil {
				return err
			}
			o.pass(onEvent)
		}
	}
	return fmt.Errorf("the story does not end")
}

// next returns what is to be done now, nil at the story's end.
func (s *crashStory) next(r *runner.Runner) (iter.Seq2[*event.Event, error], error) {
	ctx := context.Background()
	var fold session.Fold
	turns := 0
	var asked []*event.Event // the questions of this turn
	decided, heard, handoff := make(map[string]bool), make(map[string]bool), ""
	for e, err := range r.History(ctx, s1) {
		if err != nil {
			return nil, err
		}
		fold.Apply(e)
		switch d := e.Data.(type) {
		case *event.User:
			turns++
			asked = nil
		case *event.Relay:
			asked = append(asked, e)
		case *event.RelayResolved:
			decided[d.RelayID] = true
		case *event.HandoffStatus:
			handoff, heard[d.DeskEventID] = d.HandoffID, true
		}
	}
	for _, word := range s.delivers[turns] {
		if word.HandoffID = handoff; !heard[word.ID] && !fold.Unfinished() {
			return func(yield func(*event.Event, error) bool) {
				if err := errors.Join(r.Deliver(ctx, s1, word), r.Deliver(ctx, s1, word)); err != nil {
					yield(nil, err)
				}
			}, nil
		}
	}
	var again []runner.Decision
	if s.denies != "" { // side by side, others may ask first
		slices.SortFunc(asked, func(a, b *event.Event) int {
			return strings.Compare(a.Data.(*event.Relay).Tool, b.Data.(*event.Relay).Tool)
		})
	}
	for i, e := range asked {
		q := e.Data.(*event.Relay)
		approved := q.Tool != s.denies
		if s.denies == "" {
			if i >= len(s.decisions[turns]) {
				return nil, fmt.Errorf("a question that nobody expects: %s", event.EncodeJSON(e.Data))
			}
			approved = s.decisions[turns][i]
		}
		d := decision(q, approved)
		if !decided[e.ID] {
			if fold.Paused() { // one question at a time, as if each had its own to answer it
				return r.Resume(ctx, s1, d), nil
			}
			continue
		}
		again = append(again, d)
	}
	switch {
	case fold.Unfinished(): // who decided does not know whether it was recorded, and decides again
		return r.Resume(ctx, s1, again...), nil
	case turns < len(s.messages):
		return r.Run(ctx, s1, llm.UserText(s.messages[turns]), runner.WithState(map[string]any{"turn:message": turns + 1})), nil
	}
	return nil, nil
}

func decision(asked *event.Relay, approve bool) runner.Decision {
	switch {
	case approve && asked.Kind == event.RelayInput:
		return runner.Answer(asked.ToolCallID, map[string]any{"seat": 7})
	case approve:
		return runner.Approve(asked.ToolCallID)
	}
	return runner.Deny(asked.ToolCallID, "not today")
}

// watchedStore tells the odometer of every write.
type watchedStore struct {
	session.Store
	odometer *odometer
}

func (s watchedStore) Acquire(ctx context.Context, key session.Key, owner session.Owner) (session.Lease, error) {
	s.odometer.pass(onWrite)
	lease, err := s.Store.Acquire(ctx, key, owner)
	s.odometer.pass(onWritten)
	return lease, err
}

func (s watchedStore) Append(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	s.odometer.pass(onWrite)
	err := s.Store.Append(ctx, key, seq, lease, events...)
	s.odometer.pass(onWritten)
	return err
}

func (s watchedStore) AppendRelease(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	s.odometer.pass(onWrite)
	err := s.Store.(session.Releaser).AppendRelease(ctx, key, seq, lease, events...)
	s.odometer.pass(onWritten)
	return err
}

func (s watchedStore) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (string, error) {
	s.odometer.pass(onWrite)
	digest, err := s.Store.PutBlob(ctx, key, lease, data)
	s.odometer.pass(onWritten)
	return digest, err
}

func (s watchedStore) PutSnapshots(ctx context.Context, key session.Key, lease session.Lease, parts ...session.Snapshot) error {
	s.odometer.pass(onWrite)
	err := session.SnapshotsOf(s.Store).PutSnapshots(ctx, key, lease, parts...)
	s.odometer.pass(onWritten)
	return err
}

func (s watchedStore) Snapshots(ctx context.Context, key session.Key, name string) ([]session.Snapshot, error) {
	return session.SnapshotsOf(s.Store).Snapshots(ctx, key, name)
}

func (s watchedStore) Release(ctx context.Context, key session.Key, lease session.Lease) error {
	s.odometer.pass(onWrite)
	err := s.Store.Release(ctx, key, lease)
	s.odometer.pass(onWritten)
	return err
}

// stage makes the models and tools of a story. Each call of one leaves a line in
// the file at path before it does anything.
type stage struct {
	path     string
	odometer *odometer
	err      error        // the first that making an agent or a tool failed with
	close    func() error // ends what the story has started; may be nil
}

func (d *stage) note(format string, args ...any) {
	f, err := os.OpenFile(d.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, format+"\n", args...)
	}
	if err != nil {
		panic(err)
	}
	_ = f.Close()
	d.odometer.pass(onCall)
}

func (d *stage) tool(name string, opts ...tools.Option) tools.Tool {
	t, err := tools.Func(name, "Does "+name+".", func(c tools.Context, _ struct{}) (string, error) {
		d.note("tool %s %s", name, c.CallID())
		c.Set(name, true)
		c.Set("user:"+name, c.CallID())
		if _, err := c.SaveFile(name+".txt", "text/plain", []byte(name)); err != nil {
			return "", err
		}
		return name + " done", nil
	}, opts...)
	d.failed(err)
	return t
}

func (d *stage) agentTool(a agent.Agent, opts ...agenttool.Option) tools.Tool {
	if d.err != nil {
		return nil
	}
	t, err := agenttool.New(a, opts...)
	d.failed(err)
	return t
}

// agent makes an agent whose model answers according to the last message it is
// shown and to what the user has said so far.
func (d *stage) agent(name string, answer func(said string, last llm.Message) []scripted.Item, opts ...llmagent.Option) agent.Agent {
	if d.err != nil {
		return nil
	}
	a, err := llmagent.New(name, "", scripted.Func(name, func(req *llm.Request) scripted.Answer {
		d.note("model %s", name)
		var said strings.Builder
		for _, m := range req.Messages {
			if m.Role == llm.RoleUser {
				said.WriteString(m.PlainText() + "\n")
			}
		}
		return scripted.Reply(answer(said.String(), req.Messages[len(req.Messages)-1])...)
	}), append(opts, llmagent.WithDescription("Is "+name+"."))...)
	d.failed(err)
	return a
}

func (d *stage) failed(err error) {
	if d.err == nil {
		d.err = err
	}
}

func to(name string) scripted.Item {
	return scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name":%q}`, name))
}

type items = []scripted.Item

// cashDesk looks twice at once, hands over, and pays.
func cashDesk(d *stage) (agent.Agent, error) {
	billing := d.agent("billing", func(_ string, last llm.Message) items {
		if last.Role == llm.RoleTool {
			return items{scripted.Text("Paid.")}
		}
		return items{scripted.Text("I pay. "), scripted.Call("pay", "{}")}
	}, llmagent.WithTools(d.tool("pay")))
	return d.agent("support", func(_ string, last llm.Message) items {
		if last.Role == llm.RoleTool {
			return items{to("billing")}
		}
		return items{scripted.Text("Let me see."), scripted.Call("lookup", "{}"), scripted.Call("lookup", "{}")}
	}, llmagent.WithTools(d.tool("lookup", tools.Idempotent())), llmagent.WithSubAgents(billing)), d.err
}

// refundDesk wants to run one tool that needs no approval and two calls of one
// that does, then hands over to an agent that asks for one more.
func refundDesk(d *stage) (agent.Agent, error) {
	refund := d.tool("refund", tools.NeedsApproval())
	billing := d.agent("billing", func(said string, last llm.Message) items {
		switch {
		case strings.Contains(said, "Thanks"):
			return items{scripted.Text("You are welcome.")}
		case last.Role == llm.RoleTool:
			return items{scripted.Text("That is all.")}
		}
		return items{scripted.Text("One more."), scripted.Call("refund", `{}`)}
	}, llmagent.WithTools(refund))
	return d.agent("support", func(string, llm.Message) items {
		return items{scripted.Text("Let me see."), scripted.Call("lookup", "{}"), scripted.Call("refund", "{}"), scripted.Call("refund", "{}"), to("billing")}
	}, llmagent.WithTools(d.tool("lookup", tools.Idempotent()), refund), llmagent.WithSubAgents(billing)), d.err
}

// guardedDesk may hand over only if somebody approves.
func guardedDesk(d *stage) (agent.Agent, error) {
	billing := d.agent("billing", func(string, llm.Message) items { return items{scripted.Text("Hello.")} })
	return d.agent("support", func(_ string, last llm.Message) items {
		if last.Role == llm.RoleTool {
			return items{scripted.Text("Then I answer.")}
		}
		return items{scripted.Text("I hand over."), to("billing")}
	}, llmagent.WithTransferApproval(), llmagent.WithSubAgents(billing)), d.err
}

// researchDesk calls two agents as tools at once: one that may be run again from
// its beginning, which hands over inside, and one that may not.
func researchDesk(d *stage) (agent.Agent, error) {
	archive := d.agent("archive", func(_ string, last llm.Message) items {
		if last.Role == llm.RoleTool {
			return items{scripted.Text("It is in the archive.")}
		}
		return items{scripted.Call("lookup", "{}")}
	}, llmagent.WithTools(d.tool("lookup", tools.Idempotent())))
	research := d.agent("research", func(string, llm.Message) items {
		return items{scripted.Text("The archive knows."), to("archive")}
	}, llmagent.WithSubAgents(archive))
	audit := d.agent("audit", func(_ string, last llm.Message) items {
		if last.Role == llm.RoleTool {
			return items{scripted.Text("Stamped.")}
		}
		return items{scripted.Call("stamp", "{}")}
	}, llmagent.WithTools(d.tool("stamp")))
	return d.agent("support", func(_ string, last llm.Message) items {
		if last.Role == llm.RoleTool {
			return items{scripted.Text("Found and stamped.")}
		}
		return items{scripted.Call("research", `{"input":"Find it"}`), scripted.Call("audit", `{"input":"Stamp it"}`)}
	}, llmagent.WithTools(d.agentTool(research), d.agentTool(audit))), d.err
}

// reportDesk hands over to a sequence of a loop that an agent ends, and two side by side.
func reportDesk(d *stage) (agent.Agent, error) {
	exit, err := workflowagent.ExitTool()
	d.failed(err)
	write := d.agent("write", func(said string, last llm.Message) items {
		return items{scripted.Text(strings.TrimSpace(last.PlainText()) + " é")}
	})
	critic := d.agent("critic", func(said string, last llm.Message) items {
		switch {
		case last.Role == llm.RoleTool:
			return items{scripted.Text("Good.")}
		case strings.Count(said, "é") > 1:
			return items{scripted.Call(workflowagent.ExitToolName, "{}")}
		}
		return items{scripted.Text(strings.TrimSpace(said))}
	}, llmagent.WithTools(exit))
	audit := d.agent("audit", func(_ string, last llm.Message) items {
		if last.Role == llm.RoleTool {
			return items{scripted.Text("Stamped.")}
		}
		return items{scripted.Call("stamp", "{}")}
	}, llmagent.WithTools(d.tool("stamp")))
	title := d.agent("title", func(string, llm.Message) items { return items{scripted.Text("Title")} })
	if d.err != nil {
		return nil, d.err
	}
	polish, err := workflowagent.Loop("polish", "", []agent.Agent{write, critic})
	d.failed(err)
	both, err := workflowagent.Parallel("both", "", []agent.Agent{audit, title})
	d.failed(err)
	report, err := workflowagent.Sequential("report", "Reports", []agent.Agent{polish, both}, workflowagent.WithReturn(agent.StayActive))
	d.failed(err)
	return d.agent("support", func(string, llm.Message) items { return items{scripted.Text("One moment."), to("report")} }, llmagent.WithSubAgents(report)), d.err
}

// buyingDesk calls two agents as tools at once. One asks for an approval and then calls a third
// one, which asks as well and hands over inside; the other one's only call is denied.
func buyingDesk(d *stage) (agent.Agent, error) {
	after := func(call, text string) func(string, llm.Message) items {
		return func(_ string, last llm.Message) items {
			if last.Role == llm.RoleTool {
				return items{scripted.Text(text)}
			}
			return items{scripted.Call(call, "{}")}
		}
	}
	notary := d.agent("notary", after("seal", "Sealed."), llmagent.WithTools(d.tool("seal", tools.NeedsApproval(), tools.Idempotent())))
	clerk := d.agent("clerk", func(string, llm.Message) items { return items{scripted.Text("The notary does it."), to("notary")} }, llmagent.WithSubAgents(notary))
	buyer := d.agent("buyer", func(_ string, last llm.Message) items {
		if last.Role != llm.RoleTool {
			return items{scripted.Call("order", "{}"), scripted.Call("lookup", "{}")}
		}
		if last.Parts[0].(llm.ToolResult).Name == "clerk" {
			return items{scripted.Text("Bought.")}
		}
		return items{scripted.Call("clerk", `{"input":"Have it sealed"}`)}
	}, llmagent.WithTools(d.tool("order", tools.NeedsApproval()), d.tool("lookup", tools.Idempotent()), d.agentTool(clerk)))
	lawyer := d.agent("lawyer", after("sign", "Not signed."), llmagent.WithTools(d.tool("sign", tools.NeedsApproval())))
	return d.agent("support", func(said string, last llm.Message) items {
		switch {
		case strings.Contains(said, "Thanks"):
			return items{scripted.Text("You are welcome.")}
		case last.Role == llm.RoleTool:
			return items{scripted.Text("Bought, and not signed.")}
		}
		return items{scripted.Call("buyer", `{"input":"Buy it"}`), scripted.Call("lawyer", `{"input":"Sign it"}`)}
	}, llmagent.WithTools(d.agentTool(buyer), d.agentTool(lawyer))), d.err
}

// townDesk has the tools of a server: one that must not run twice, and one that asks in
// mid-call.
func townDesk(d *stage) (agent.Agent, error) {
	server, err := transcript.Server(func(tool, call string) { d.note("tool %s %s", tool, call) })
	d.failed(err)
	if err == nil {
		d.close = server.Close
	}
	return d.agent("support", func(_ string, last llm.Message) items {
		if last.Role == llm.RoleTool {
			return items{scripted.Text("Paid and booked.")}
		}
		return items{scripted.Call("pay", "{}"), scripted.Call("book", "{}")}
	}, llmagent.WithToolset(server)), d.err
}

// deskOfPersons hands over to a person who is asked for.
func deskOfPersons(d *stage) (agent.Agent, error) {
	return d.agent("support", func(said string, _ llm.Message) items {
		if strings.Contains(said, "Thanks") {
			return items{scripted.Text("You are welcome.")}
		}
		if strings.Contains(said, "person") {
			return items{scripted.Text("Of course."), to(agent.Human)}
		}
		return items{scripted.Text("Good day.")}
	}), d.err
}

// paperDesk is a desk that notes what it is told before it does anything.
type paperDesk struct{ *stage }

func (d paperDesk) RequestTransfer(_ context.Context, r human.Request) (human.Update, error) {
	d.note("request %s %s %d", r.ID, r.From, len(r.Conversation))
	return human.Update{QueuePosition: new(1)}, nil
}

func (d paperDesk) Send(_ context.Context, l human.Leg, messages []human.Message) error {
	for _, m := range messages {
		d.note("word %s %s %s", l.ID, m.ID, m.Text)
	}
	return nil
}

func (d paperDesk) Cancel(context.Context, human.Leg, string) error {
	return errors.New("nobody cancels")
}

// orderDesk is three levels deep; its last agent hands back to the second one in
// a later turn. Texts come in deltas, and some answers have a text beside a
// transfer.
func orderDesk(d *stage) (agent.Agent, error) {
	invoices := d.agent("invoices", func(said string, _ llm.Message) items {
		if strings.Contains(said, "Cancel it") {
			return items{scripted.Text("Not ", "mine."), to("orders")}
		}
		return items{scripted.Think("Seven?"), scripted.Text("Invoice 7 ", "is open.")}
	}, llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true}))
	orders := d.agent("orders", func(said string, last llm.Message) items {
		switch {
		case strings.Contains(said, "And hello"):
			return items{scripted.Text("Hello.")}
		case strings.Contains(said, "Cancel it") && last.Role == llm.RoleTool:
			return items{scripted.Text("Cancelled.")}
		case strings.Contains(said, "Cancel it"):
			return items{scripted.Text("I cancel. "), scripted.Call("cancel", "{}")}
		case last.Role == llm.RoleTool:
			return items{scripted.Text("This is ", "for invoices."), to("invoices")}
		}
		return items{scripted.Text("I look."), scripted.Call("lookup", "{}")}
	}, llmagent.WithTools(d.tool("lookup", tools.Idempotent()), d.tool("cancel")), llmagent.WithSubAgents(invoices))
	return d.agent("front", func(string, llm.Message) items {
		return items{scripted.Text("One ", "moment."), to("orders")}
	}, llmagent.WithSubAgents(orders)), d.err
}
