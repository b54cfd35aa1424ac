package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/workflowagent"
)

// storyTree creates the models and tools of a story. Each call writes a line to the file at path before it does
// anything.
type storyTree struct {
	path     string
	odometer *Odometer
	err      error        // the first error of creating an agent or a tool
	close    func() error // closes what the story has opened; may be nil
}

func (d *storyTree) note(format string, args ...any) {
	f, err := os.OpenFile(d.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, format+"\n", args...)
	}
	if err != nil {
		panic(err)
	}
	_ = f.Close()
	d.odometer.Pass(onCall)
}

func (d *storyTree) tool(name string, opts ...tools.Option) tools.Tool {
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

func (d *storyTree) agentTool(a agent.Agent, opts ...agenttool.Option) tools.Tool {
	if d.err != nil {
		return nil
	}
	t, err := agenttool.New(a, opts...)
	d.failed(err)
	return t
}

// agent returns an agent whose model answers according to its last message and the user's messages so far.
func (d *storyTree) agent(name string, answer func(said string, last llm.Message) []scripted.Item, opts ...llmagent.Option) agent.Agent {
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

func (d *storyTree) failed(err error) {
	if d.err == nil {
		d.err = err
	}
}

func transferTo(name string) scripted.Item {
	return scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name":%q}`, name))
}

type items = []scripted.Item

// then returns a model that makes a step, and answers the results of its calls with a text.
func then(text string, step ...scripted.Item) func(string, llm.Message) items {
	return func(_ string, last llm.Message) items {
		if last.Role == llm.RoleTool {
			return items{scripted.Text(text)}
		}
		return step
	}
}

// cashDesk calls two lookups at once, transfers, and pays.
func cashDesk(d *storyTree) (agent.Agent, error) {
	billing := d.agent("billing", then("Paid.", scripted.Text("I pay. "), scripted.Call("pay", "{}")),
		llmagent.WithTools(d.tool("pay")))
	return d.agent("support", func(_ string, last llm.Message) items {
		if last.Role == llm.RoleTool {
			return items{transferTo("billing")}
		}
		return items{scripted.Text("Let me see."), scripted.Call("lookup", "{}"), scripted.Call("lookup", "{}")}
	}, llmagent.WithTools(d.tool("lookup", tools.Idempotent())), llmagent.WithSubAgents(billing)), d.err
}

// refundDesk calls a tool that needs no approval, and one that does twice, then transfers to an agent that asks for
// another approval.
func refundDesk(d *storyTree) (agent.Agent, error) {
	refund := d.tool("refund", tools.NeedsApproval(tools.ByUser()))
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
		return items{scripted.Text("Let me see."), scripted.Call("lookup", "{}"), scripted.Call("refund", "{}"), scripted.Call("refund", "{}"), transferTo("billing")}
	}, llmagent.WithTools(d.tool("lookup", tools.Idempotent()), refund), llmagent.WithSubAgents(billing)), d.err
}

// guardedDesk may transfer only with an approval.
func guardedDesk(d *storyTree) (agent.Agent, error) {
	billing := d.agent("billing", func(string, llm.Message) items { return items{scripted.Text("Hello.")} })
	return d.agent("support", then("Then I answer.", scripted.Text("I hand over."), transferTo("billing")),
		llmagent.WithTransferApproval(tools.ByUser()), llmagent.WithSubAgents(billing)), d.err
}

// researchDesk calls two agents as tools at once: one that may run again from its beginning, which transfers inside,
// and one that may not.
func researchDesk(d *storyTree) (agent.Agent, error) {
	archive := d.agent("archive", then("It is in the archive.", scripted.Call("lookup", "{}")),
		llmagent.WithTools(d.tool("lookup", tools.Idempotent())))
	research := d.agent("research", func(string, llm.Message) items {
		return items{scripted.Text("The archive knows."), transferTo("archive")}
	}, llmagent.WithSubAgents(archive))
	audit := d.agent("audit", then("Stamped.", scripted.Call("stamp", "{}")), llmagent.WithTools(d.tool("stamp")))
	both := items{scripted.Call("research", `{"input":"Find it"}`), scripted.Call("audit", `{"input":"Stamp it"}`)}
	return d.agent("support", then("Found and stamped.", both...), llmagent.WithTools(d.agentTool(research), d.agentTool(audit))), d.err
}

// reportDesk transfers to a sequence of a loop that an agent ends, and two concurrent agents.
func reportDesk(d *storyTree) (agent.Agent, error) {
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
	audit := d.agent("audit", then("Stamped.", scripted.Call("stamp", "{}")), llmagent.WithTools(d.tool("stamp")))
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
	return d.agent("support", func(string, llm.Message) items { return items{scripted.Text("One moment."), transferTo("report")} }, llmagent.WithSubAgents(report)), d.err
}

// buyingDesk calls two agents as tools at once. One asks for an approval and then calls a third one, which asks as well
// and transfers inside; the only call of the other one is denied.
func buyingDesk(d *storyTree) (agent.Agent, error) {
	notary := d.agent("notary", then("Sealed.", scripted.Call("seal", "{}")), llmagent.WithTools(d.tool("seal", tools.NeedsApproval(tools.ByUser()), tools.Idempotent())))
	clerk := d.agent("clerk", func(string, llm.Message) items {
		return items{scripted.Text("The notary does it."), transferTo("notary")}
	}, llmagent.WithSubAgents(notary))
	buyer := d.agent("buyer", func(_ string, last llm.Message) items {
		if last.Role != llm.RoleTool {
			return items{scripted.Call("order", "{}"), scripted.Call("lookup", "{}")}
		}
		if last.Parts[0].(llm.ToolResult).Name == "clerk" {
			return items{scripted.Text("Bought.")}
		}
		return items{scripted.Call("clerk", `{"input":"Have it sealed"}`)}
	}, llmagent.WithTools(d.tool("order", tools.NeedsApproval(tools.ByUser())), d.tool("lookup", tools.Idempotent()), d.agentTool(clerk)))
	lawyer := d.agent("lawyer", then("Not signed.", scripted.Call("sign", "{}")), llmagent.WithTools(d.tool("sign", tools.NeedsApproval(tools.ByUser()))))
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

// townDesk has the tools of a server: one that must not run twice, and one that asks a question during its call.
func townDesk(d *storyTree) (agent.Agent, error) {
	server, err := transcript.Server(func(tool, call string) { d.note("tool %s %s", tool, call) })
	d.failed(err)
	if err == nil {
		d.close = server.Close
	}
	return d.agent("support", then("Paid and booked.", scripted.Call("pay", "{}"), scripted.Call("book", "{}")), llmagent.WithToolset(server)), d.err
}

// deskOfPersons transfers to a person.
func deskOfPersons(d *storyTree) (agent.Agent, error) {
	return d.agent("support", func(said string, _ llm.Message) items {
		if strings.Contains(said, "Thanks") {
			return items{scripted.Text("You are welcome.")}
		}
		if strings.Contains(said, "person") {
			return items{scripted.Text("Of course."), transferTo(agent.Human)}
		}
		return items{scripted.Text("Good day.")}
	}), d.err
}

// fileDesk is a desk that records each request before it does anything.
type fileDesk struct{ *storyTree }

func (d fileDesk) RequestTransfer(_ context.Context, r human.Request) (human.Update, error) {
	d.note("request %s %s %d", r.ID, r.From, len(r.Conversation))
	return human.Update{QueuePosition: new(1)}, nil
}

func (d fileDesk) Send(_ context.Context, l human.Leg, messages []human.Message) error {
	for _, m := range messages {
		d.note("word %s %s %s", l.ID, m.ID, m.Text)
	}
	return nil
}

func (d fileDesk) Cancel(context.Context, human.Leg, string) error {
	return errors.New("nobody cancels")
}

// orderDesk has three levels; its last agent transfers back to the second one in a later turn. Texts come in deltas,
// and some answers have a text next to a transfer.
func orderDesk(d *storyTree) (agent.Agent, error) {
	invoices := d.agent("invoices", func(said string, _ llm.Message) items {
		if strings.Contains(said, "Cancel it") {
			return items{scripted.Text("Not ", "mine."), transferTo("orders")}
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
			return items{scripted.Text("This is ", "for invoices."), transferTo("invoices")}
		}
		return items{scripted.Text("I look."), scripted.Call("lookup", "{}")}
	}, llmagent.WithTools(d.tool("lookup", tools.Idempotent()), d.tool("cancel")), llmagent.WithSubAgents(invoices))
	return d.agent("front", func(string, llm.Message) items {
		return items{scripted.Text("One ", "moment."), transferTo("orders")}
	}, llmagent.WithSubAgents(orders)), d.err
}
