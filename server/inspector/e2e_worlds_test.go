package inspector_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// pace holds answers in their middle: a word for each step that a script lets go.
type pace chan struct{}

func newPace() pace { return make(chan struct{}, 1_000_000) }

// words answers n words, each of which waits for a step.
func (p pace) words(n int, word func(int) string) (items []scripted.Item) {
	for i := range n {
		items = append(items, scripted.WaitFor(p), scripted.Text(word(i)))
	}
	return items
}

// control is what scripts call: a number of steps at once, or each second.
func (p pace) control(body []byte) (any, error) {
	in := struct{ Steps, PerSecond int }{}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if in.PerSecond == 0 {
		for range in.Steps {
			p <- struct{}{}
		}
		return nil, nil
	}
	beat := time.NewTicker(time.Second / time.Duration(in.PerSecond))
	defer beat.Stop()
	for range in.Steps {
		<-beat.C
		p <- struct{}{}
	}
	return nil, nil
}

// heard returns the last message that a model got, or the last tool result.
func heard(req *llm.Request) (text string, result bool) {
	last := req.Messages[len(req.Messages)-1]
	for _, p := range last.Parts {
		if r, ok := p.(llm.ToolResult); ok {
			return strings.ToLower(r.Output), true
		}
	}
	return strings.ToLower(last.PlainText()), false
}

func handOver(to, reason string) scripted.Item {
	return scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name":%q,"reason":%q}`, to, reason))
}

// supportWorld is a help desk: support hands over to billing, tech and account, billing lists
// charges and refunds one if it may, and has more tools. A user who asks billing to count gets a number at each step.
func supportWorld(t testing.TB, more ...tools.Tool) *world {
	t.Helper()
	type listed struct {
		Product string `json:"product"`
	}
	list := must.Get(tools.Func("list_charges", "Lists charges.", func(_ tools.Context, in listed) (any, error) {
		return []map[string]any{{"id": "ch_1003", "amount": "19.00 EUR", "day": "2026-03-01"}, {"id": "ch_1004", "amount": "19.00 EUR", "day": "2026-03-01"}}, nil
	}))
	type refunded struct {
		ChargeID string `json:"charge_id"`
		Amount   string `json:"amount"`
	}
	refund := must.Get(tools.Func("refund_charge", "Gives money back.", func(c tools.Context, in refunded) (string, error) {
		c.Set("refunds", 1)
		return "refunded " + in.ChargeID, nil
	}, tools.NeedsApproval()))

	steps := newPace()
	var wavers atomic.Bool // support decides otherwise, once
	support := scripted.Func("large", func(req *llm.Request) scripted.Answer {
		switch text, _ := heard(req); {
		case strings.Contains(text, "charged twice"):
			if wavers.Swap(false) {
				return scripted.Reply(handOver("tech", "not sure"), scripted.Usage(412, 18, 256))
			}
			return scripted.Reply(handOver("billing", "charged, twice"), scripted.Usage(412, 18, 256))
		case strings.Contains(text, "router"):
			return scripted.Reply(handOver("tech", "router, slow"), scripted.Usage(405, 17, 256))
		case strings.Contains(text, "address"):
			return scripted.Reply(handOver("account", "address"), scripted.Usage(405, 17, 256))
		case strings.Contains(text, "count"):
			return scripted.Reply(steps.words(40, func(i int) string { return fmt.Sprintf("%d ", i+1) })...)
		}
		return scripted.Reply(scripted.Text("Hello. ", "What can I do for you?"), scripted.Usage(400, 10, 0))
	})
	billing := scripted.Func("small", func(req *llm.Request) scripted.Answer {
		switch text, result := heard(req); {
		case result && strings.Contains(text, "ch_1003"):
			return scripted.Reply(scripted.Text("I see two charges ", "on 1 March. ", "Refund one?"), scripted.Usage(620, 40, 512))
		case result && strings.Contains(text, "refunded"):
			return scripted.Reply(scripted.Text("It is done: ", "**19.00 EUR** come back within three days."), scripted.Usage(700, 30, 512))
		case result:
			return scripted.Reply(scripted.Text("I have left it as it is."), scripted.Usage(700, 10, 512))
		case strings.Contains(text, "refund"):
			return scripted.Reply(scripted.Text("A moment. "), scripted.Call("refund_charge", `{"charge_id":"ch_1004","amount":"19.00 EUR"}`), scripted.Usage(650, 25, 512))
		case strings.Contains(text, "count"):
			return scripted.Reply(steps.words(40, func(i int) string { return fmt.Sprintf("%d ", i+1) })...)
		case strings.Contains(text, "fail"):
			return scripted.Reply(scripted.Status(400, 0))
		}
		return scripted.Reply(scripted.Think("They mean the subscription."), scripted.Call("list_charges", `{"product":"subscription"}`), scripted.Usage(500, 20, 256))
	})
	says := func(words string) llm.Model {
		return scripted.Func("small", func(*llm.Request) scripted.Answer {
			return scripted.Reply(scripted.Text(words), scripted.Usage(300, 12, 0))
		})
	}
	child := func(name, description string, m llm.Model, opts ...llmagent.Option) agent.Agent {
		return must.Get(llmagent.New(name, "You are "+name+".", m, append(opts, llmagent.WithDescription(description))...))
	}
	root := must.Get(llmagent.New("support", "You are the first to answer. Hand over to whoever knows.", support, llmagent.WithDescription("Answers first"), llmagent.WithSubAgents(
		child("billing", "Refunds, invoices, charges", billing, llmagent.WithTools(append(more, list, refund)...)),
		child("tech", "Network, router, devices", says("Restart the router.")),
		child("account", "Sign-in, addresses", says("Which address?")))))
	return &world{root: root, prices: llm.Prices{"large": {Input: 2, CachedInput: 0.5, Output: 8}, "small": {Input: 0.2, CachedInput: 0.1, Output: 0.8}},
		controls: map[string]func([]byte) (any, error){"step": steps.control, "waver": func([]byte) (any, error) {
			wavers.Store(true)
			return nil, nil
		}}}
}

// support serves the help desk with session s1 of two turns, of which the second waits for an
// approval; edited, in which the first words are others; forked, which went another way after the
// first turn; and failed, whose model has failed.
func support(t testing.TB) *host {
	t.Helper()
	h := serve(t, supportWorld(t))
	h.story("s1")
	past := must.Get(checkpoint.New(h.store))
	require.NoError(t, past.Edit(t.Context(), key("s1"), 1, llm.Content{Text: "My router is slow"}, key("edited")))
	h.resume("edited")
	events := must.Get(h.log("s1"))
	second := int64(0)
	for _, e := range events {
		if e.Type() == "user" {
			second = e.Seq
		}
	}
	require.NoError(t, past.Fork(t.Context(), key("s1"), second-1, key("forked")))
	h.say("forked", "Which charges were there?")
	h.say("failed", "I was charged twice")
	turn := must.Get(h.turns.Begin(t.Context(), key("failed"), llm.UserText("Fail, please")))
	require.Error(t, turn.Wait(t.Context()))
	return h
}

// workshop serves the help desk to an owner who may change agents in forks and run tools by hand. A changed tree is one agent
// that says how it was changed. With restart, turns use saved instructions only after a restart.
func workshop(t testing.TB, restart bool) *host {
	t.Helper()
	bank := must.Get(tools.Func("transfer_to_bank", "Transfers money.", func(tools.Context, struct{}) (string, error) { return "transferred", nil }))
	w := supportWorld(t, bank)
	var written atomic.Value
	written.Store(server.Body{Text: "You are billing.\nBe kind.\nBe brief.", Version: "1"})
	w.workshop = func(h *host) server.Workshop {
		return server.Workshop{Restart: restart, Change: func(_ context.Context, c server.Change) (*runner.Runner, func(), error) {
			if c.Instructions == nil {
				return nil, nil, errors.New("only instructions can be changed")
			}
			root, err := llmagent.New("support", *c.Instructions, scripted.Func("large", func(*llm.Request) scripted.Answer {
				return scripted.Reply(scripted.Text(c.Agent+" was told: "+*c.Instructions), scripted.Usage(100, 10, 0))
			}))
			if err != nil {
				return nil, nil, err
			}
			run, err := runner.New(root, h.store, runner.WithStreaming())
			return run, func() {}, err
		}, Body: func(context.Context, string) (server.Body, error) { return written.Load().(server.Body), nil },
			Write: func(_ context.Context, _ string, b server.Body) (server.Body, error) {
				now := written.Load().(server.Body)
				switch {
				case strings.Contains(b.Text, "{"):
					return server.Body{}, errors.New("billing.md:4: there is no {")
				case b.Version != now.Version:
					return server.Body{}, server.ErrFileChanged
				case strings.Contains(b.Text, "moved"):
					written.Store(server.Body{Text: "Somebody else wrote this.\nBe brief.", Version: now.Version + "+"})
					return server.Body{}, server.ErrFileChanged
				}
				written.Store(server.Body{Text: b.Text, Version: now.Version + "+"})
				h.reloads.Loaded()
				return written.Load().(server.Body), nil
			}}
	}
	h := serve(t, w)
	h.story("s1")
	return h
}

// story is what happens in s1.
func (h *host) story(id string) {
	h.t.Helper()
	h.say(id, "I was charged twice")
	h.say(id, "Please refund one")
}

// offlineWorld is a help desk that no real model answers for.
func offlineWorld(t testing.TB) *world {
	t.Helper()
	child := func(name, description string) agent.Agent {
		return must.Get(llmagent.New(name, "You are "+name+".", offline.New(), llmagent.WithDescription(description)))
	}
	root := must.Get(llmagent.New("support", "You are the first to answer.", offline.New(), llmagent.WithDescription("Answers first"),
		llmagent.WithSubAgents(child("billing", "Refunds, invoices, charges"), child("tech", "Network, router, devices"))))
	return &world{root: root}
}

// echoWorld has an agent that says what it hears, and a tool that does.
func echoWorld(t testing.TB) *world {
	t.Helper()
	repeat := must.Get(tools.Func("repeat", "Repeats.", func(_ tools.Context, in struct {
		Words string `json:"words"`
	}) (string, error) {
		return in.Words, nil
	}))
	root := must.Get(llmagent.New("echo", "You repeat.", scripted.Func("small", func(req *llm.Request) scripted.Answer {
		last := req.Messages[len(req.Messages)-1]
		if words, found := strings.CutPrefix(last.PlainText(), "tool: "); found {
			return scripted.Reply(scripted.Call("repeat", fmt.Sprintf(`{"words":%q}`, words)))
		}
		if last.Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("The tool has answered."))
		}
		return scripted.Reply(scripted.Text(last.PlainText()))
	}), llmagent.WithDescription("Repeats"), llmagent.WithTools(repeat)))
	return &world{root: root}
}

// bigWorld is a tree of 500 agents in three levels, with short answers.
func bigWorld(t testing.TB) *world {
	t.Helper()
	steps := newPace()
	answer := func(name string) llm.Model {
		return scripted.Func("big", func(req *llm.Request) scripted.Answer {
			text, result := heard(req)
			switch {
			case result:
				return scripted.Reply(scripted.Text("The tool has answered ", name, "."), scripted.Usage(100, 10, 50))
			case strings.Contains(text, "pour"):
				return scripted.Reply(steps.words(1500, func(i int) string { return fmt.Sprintf("word%d ", i) })...)
			case strings.HasSuffix(text, "go to "+name):
			case strings.Contains(text, "go to "):
				to := text[strings.Index(text, "go to ")+6:]
				return scripted.Reply(handOver(to, "asked for "+to), scripted.Usage(100, 10, 50))
			case strings.Contains(text, "look"):
				return scripted.Reply(scripted.Call("look", `{"at":"everything"}`), scripted.Usage(100, 10, 50))
			}
			return scripted.Reply(scripted.Text("This is ", name, ". ", "It has heard *", text, "*."), scripted.Usage(100, 10, 50))
		})
	}
	look := must.Get(tools.Func("look", "Looks.", func(_ tools.Context, in struct {
		At string `json:"at"`
	}) (string, error) {
		return "There is " + in.At + ".", nil
	}))
	n := 1
	var grow func(name string, depth int) agent.Agent
	grow = func(name string, depth int) agent.Agent {
		opts := []llmagent.Option{llmagent.WithDescription("Knows about " + name), llmagent.WithTools(look),
			llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true})}
		var kids []agent.Agent
		for i := 0; depth < 3 && i < 8 && n < 500; i++ {
			n++
			kids = append(kids, grow(fmt.Sprintf("%s%d", strings.Replace(name, "root", "a", 1), i), depth+1))
		}
		return must.Get(llmagent.New(name, "You are "+name+".", answer(name), append(opts, llmagent.WithSubAgents(kids...))...))
	}
	root := grow("root", 0)
	require.Equal(t, 500, n)
	return &world{root: root, controls: map[string]func([]byte) (any, error){"step": steps.control}}
}

// big serves 500 agents with a session "long" of this many events, or a few more, and a short one.
func big(t testing.TB, events int) *host {
	t.Helper()
	h := serve(t, bigWorld(t))
	h.repeat("long", events, "hello", "go to a0", "look around", "go to a03", "look", "go to a0", "tell me", "go to root")
	h.say("short", "go to a1")
	return h
}

// repeat stores a session that is the same conversation again and again. It runs once, and the
// rest are copies with ids and times of their own.
func (h *host) repeat(id string, events int, words ...string) {
	h.t.Helper()
	ids := 0
	memory := session.NewMemory()
	run := must.Get(runner.New(h.root, memory, runner.WithIDs(func() string { ids++; return fmt.Sprintf("zz%06d", ids) })))
	for _, w := range words {
		for _, err := range run.Run(h.t.Context(), key(id), llm.UserText(w)) {
			require.NoError(h.t, err)
		}
	}
	var told [][]byte
	var first, last time.Time
	for e, err := range memory.Load(h.t.Context(), key(id), 0) {
		require.NoError(h.t, err)
		if first.IsZero() {
			first = e.Time
		}
		last = e.Time
		data := must.Get(json.Marshal(e))
		told = append(told, data)
	}
	active := must.Get(run.Active(h.t.Context(), key(id)))
	require.Equal(h.t, h.root.Name(), active, "a copy begins where this one has ended")
	named := regexp.MustCompile(`"(zz|call_)\w+`)
	rounds := (events + len(told) - 1) / len(told)
	round := last.Sub(first) + time.Minute
	var all []*event.Event
	for r := range rounds {
		for _, data := range told {
			e := &event.Event{}
			require.NoError(h.t, json.Unmarshal(named.ReplaceAll(data, fmt.Appendf(nil, "${0}_%d", r)), e))
			e.Seq = int64(len(all) + 1)
			e.Time = e.Time.Add(time.Duration(r-rounds) * round)
			all = append(all, e)
		}
	}
	lease := must.Get(sessiontest.Acquire(h.t.Context(), h.store, key(id), session.Self()))
	require.NoError(h.t, sessiontest.Append(h.t.Context(), h.store, key(id), 0, lease, all...))
	require.NoError(h.t, sessiontest.Release(h.t.Context(), h.store, key(id), lease))
}

// pipeline is a graph of agents in which one fails and the fallback answers.
func pipeline(t testing.TB) agent.Agent {
	t.Helper()
	node := func(name string, err error) agent.Agent {
		return must.Get(agent.New(name, "Does "+name, func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				if err != nil {
					yield(nil, err)
					return
				}
				yield(&event.Event{Data: &event.Text{Content: name + " is done"}}, nil)
			}
		}))
	}
	return must.Get(agentgraph.NewBuilder("pipeline").Node("splitter", node("splitter", nil)).Node("sentiment", node("sentiment", errors.New("sentiment: the model is gone"))).
		Node("entities", node("entities", nil)).Node("merger", node("merger", nil)).Node("error-handler", node("error-handler", nil)).
		Node("translator", node("translator", nil)).Edge("splitter", "translator", agentgraph.When(func(agentgraph.Values) (bool, error) { return false, nil })).
		Edge("splitter", "sentiment").Edge("splitter", "entities", agentgraph.When(func(agentgraph.Values) (bool, error) { return true, nil })).
		Edge("sentiment", "merger").Edge("entities", "merger").
		OnError(agentgraph.ErrorHandling{Strategy: agentgraph.FailFast, Fallback: "error-handler"}).Build())
}

// pipelineWorld has the graph at the root.
func pipelineWorld(t testing.TB) *world { return &world{root: pipeline(t)} }

// officeWorld has a router in front, a graph of agents in which one fails and the fallback answers,
// and persons at a desk.
func officeWorld(t testing.TB) *world {
	t.Helper()
	billing := must.Get(llmagent.New("billing", "You bill.", scripted.Func("small", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text("It is paid."), scripted.Usage(100, 10, 0))
	}), llmagent.WithDescription("Bills")))
	help := must.Get(llmagent.New("help", "You help.", scripted.Func("large", func(req *llm.Request) scripted.Answer {
		switch text, _ := heard(req); {
		case strings.Contains(text, "analyse"):
			return scripted.Reply(scripted.Call("transfer_to_pipeline", `{"reason":"a text to look at"}`), scripted.Usage(50, 5, 0))
		case strings.Contains(text, "person"):
			return scripted.Reply(scripted.Call("transfer_to_human", `{"reason":"wants a person"}`), scripted.Usage(50, 5, 0))
		}
		return scripted.Reply(scripted.Text("I am here."), scripted.Usage(50, 5, 0))
	}), llmagent.WithDescription("Helps"), llmagent.WithSubAgents(pipeline(t))))
	toBilling, toHelp := router.Specialist(billing), router.Specialist(help)
	front := must.Get(router.New("front", router.Description("Finds who answers"), router.Default(toHelp), router.Rules(
		router.When(router.Keyword("refund", "invoice", "charged")).To(toBilling),
		router.When(router.Regexp(`(?i)\b(screen|keyboard)\b`)).To(toHelp).Because("a device"))))
	return &world{root: front, runner: []runner.Option{runner.WithDesk(human.Log{})}, prices: llm.Prices{"large": {Input: 2, Output: 8}}}
}

// office serves it with a session for the rules (routed), one for the graph (analysed) and one
// that waits for a person (person).
func office(t testing.TB) *host {
	t.Helper()
	h := serve(t, officeWorld(t))
	h.say("routed", "I was charged twice")
	h.say("routed", "My screen is black")
	h.say("routed", "Thank you")
	h.say("analysed", "Please analyse this")
	h.say("person", "I want a person")
	return h
}

// clerkWorld has a clerk whose tool makes files and writes state of all scopes.
func clerkWorld(t testing.TB) *world {
	t.Helper()
	draw := must.Get(tools.Func("draw", "Draws the orders of a month.", func(c tools.Context, in struct {
		Month string `json:"month"`
	}) (string, error) {
		plot := image.NewGray(image.Rect(0, 0, 120, 40))
		for x := range 120 {
			plot.SetGray(x, 39-x%40, color.Gray{Y: 255})
		}
		var data bytes.Buffer
		if err := png.Encode(&data, plot); err != nil {
			return "", err
		}
		if _, err := c.SaveFile("plot.png", "image/png", data.Bytes()); err != nil {
			return "", err
		}
		if _, err := c.SaveFile(in.Month+".csv", "text/csv", []byte("day,orders\n1,17\n")); err != nil {
			return "", err
		}
		c.Set("month", in.Month)
		c.Set("orders", json.Number("9007199254740993"))
		c.Set("turn:draft", true)
		c.Set("user:name", "Ann")
		return "drawn", nil
	}))
	root := must.Get(llmagent.New("clerk", "You draw.", scripted.Func("small", func(req *llm.Request) scripted.Answer {
		text, result := heard(req)
		if result || text == "thanks" {
			return scripted.Reply(scripted.Text("Here it is."), scripted.Usage(50, 5, 0))
		}
		return scripted.Reply(scripted.Call("draw", fmt.Sprintf(`{"month":%q}`, text)), scripted.Usage(50, 5, 0))
	}), llmagent.WithDescription("Draws"), llmagent.WithTools(draw)))
	return &world{root: root}
}

// clerk serves it with the session "drawn", which has two files of one name, and the session "plain" without any.
func clerk(t testing.TB) *host {
	t.Helper()
	h := serve(t, clerkWorld(t))
	for _, words := range []string{"march", "april", "thanks"} {
		h.say("drawn", words)
	}
	h.say("plain", "thanks")
	return h
}

// bankWorld has users with and without rights, tools that ask one or another of them, and an agent whose view hides
// the calls of the others, so that a user without rights sees none of them.
func bankWorld(t testing.TB) *world {
	t.Helper()
	tool := func(name string, by tools.By) tools.Tool {
		return must.Get(tools.Func(name, "Does "+name+".", func(tools.Context, struct {
			Account float64 `json:"account"`
			Amount  float64 `json:"amount"`
			Note    string  `json:"note"`
		}) (string, error) {
			return name + " is done", nil
		}, tools.NeedsApproval(by)))
	}
	args := fmt.Sprintf(`{"account":9007199254740993,"amount":5.00,"note":"%sthe end"}`, strings.Repeat("long ", 8000))
	clerk := scripted.Func("small", func(req *llm.Request) scripted.Answer {
		text, result := heard(req)
		switch name, _, asks := strings.Cut(text, ", please"); {
		case result:
			return scripted.Reply(scripted.Text("The tool says: "+text), scripted.Usage(50, 5, 0))
		case asks:
			return scripted.Reply(scripted.Think("They mean it."), scripted.Call(name, args), scripted.Usage(50, 5, 0))
		}
		return scripted.Reply(scripted.Think("A greeting."), scripted.Text("Hello."), scripted.Usage(50, 5, 0))
	})
	other := must.Get(llmagent.New("other", "You wait.", clerk, llmagent.WithDescription("Waits"), llmagent.WithHistory(view.TextOnly())))
	root := must.Get(llmagent.New("clerk", "You pay.", clerk, llmagent.WithDescription("Pays"), llmagent.WithSubAgents(other),
		llmagent.WithTools(tool("pay", tools.ByStaff()), tool("book", tools.ByUser()), tool("wire", tools.ByStaff("wires")))))
	user := func(name string, rights access.Rights, grants ...string) access.Account {
		return access.Account{Name: name, Token: access.HashToken(name), Rights: rights, Grants: grants}
	}
	return &world{root: root, users: []access.Account{user("ann", 0), user("sue", access.Approve), user("rita", 0, "wires"), user("ian", access.Inspect)}}
}

// hostile is content that tries to be more than text in a page.
var hostile = []string{
	`<script>window.hit = 1</script>`,
	`<img src=x onerror="window.hit = 2">`,
	`"><svg onload=window.hit=3>`,
	`<iframe srcdoc="<script>top.hit = 4</script>"></iframe>`,
	`<style>* { display: none !important }</style><link rel=stylesheet href=https://evil.example/x.css>`,
	`[click](javascript:window.hit=5) ![x](https://evil.example/x.png) <https://evil.example/> [ok](data:text/html,<script>1</script>)`,
	"```html\n<script>window.hit = 6</script>\n```\n\n| a | b |\n|---|---|\n| <b onclick=window.hit=7>x</b> | `<u>` |",
	"\u202egnp.exe\u202c \u2066mine\u2069 \u200b\u200d\ufeff",
	"\x1b[2J\x1b]0;owned\x07\x1b[31mred \x00 \x1e\x1f",
	"{{constructor.constructor('window.hit=8')()}} ${window.hit=9} <%= 1 %> %s%n",
	"&lt;script&gt;window.hit=10&lt;/script&gt; &#60;img src=x onerror=window.hit=11&#62;",
	`__proto__ constructor {"__proto__":{"hit":12}}`,
	strings.Repeat("<b>", 5000) + strings.Repeat("> ", 2000) + strings.Repeat("[", 5000) + strings.Repeat("*a ", 5000),
	strings.Repeat("1", 1<<20),
}

// hostileWorld is a tree in which everything that people may write says such texts: descriptions,
// answers, reasons, outputs of tools and their errors. One of its agents has 10,000 tools.
func hostileWorld(t testing.TB) *world {
	t.Helper()
	type in struct {
		Page string `json:"page"`
	}
	short := hostile[1] + " " + hostile[7]
	fetch := must.Get(tools.Func("fetch", short, func(c tools.Context, in in) (any, error) {
		c.Progress(short)
		c.Set("note", short)
		i, err := strconv.Atoi(in.Page)
		if err != nil {
			return nil, err
		}
		return hostile[i], nil
	}, tools.MaxOutput(2<<20)))
	breaks := must.Get(tools.Func("breaks", short, func(tools.Context, in) (any, error) { return nil, errors.New(short) }))
	said := regexp.MustCompile(`^say (\d+)`)
	root := must.Get(llmagent.New("root", short, scripted.Func("evil<b>", func(req *llm.Request) scripted.Answer {
		number, result := "", false
		for _, m := range req.Messages {
			result = m.Role == llm.RoleTool
			if found := said.FindStringSubmatch(m.PlainText()); m.Role == llm.RoleUser && found != nil {
				number = found[1]
			}
		}
		i, err := strconv.Atoi(number)
		switch {
		case err != nil || i == len(hostile):
			return scripted.Reply(scripted.Text(short), handOver("kid", short))
		case result:
			return scripted.Reply(scripted.Think(short), scripted.Text(hostile[i]))
		}
		return scripted.Reply(scripted.Text(short), scripted.Call("fetch", fmt.Sprintf(`{"page":%q}`, number)), scripted.Call("breaks", `{"page":"<script>window.hit = 20</script>"}`))
	}), llmagent.WithDescription(short), llmagent.WithTools(fetch, breaks), llmagent.WithSubAgents(hostileKid(t, short))))
	return &world{root: root}
}

func hostileKid(t testing.TB, short string) agent.Agent {
	t.Helper()
	var many []tools.Tool
	for i := range 10_000 {
		tool := must.Get(tools.Func(fmt.Sprintf("tool_%d", i), short, func(tools.Context, struct{}) (string, error) { return "", nil }))
		many = append(many, tool)
	}
	return must.Get(llmagent.New("kid", short, scripted.Func("last", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text(short)) }),
		llmagent.WithTools(many...), llmagent.WithMaxTools(len(many)), llmagent.WithDescription(hostile[0]+strings.Repeat("x", 5000))))
}

// hostiles serves a session in which each of the texts was said by everybody.
func hostiles(t testing.TB) *host {
	t.Helper()
	h := serve(t, hostileWorld(t))
	for i, text := range hostile {
		h.say("hostile", fmt.Sprintf("say %d: %s", i, text))
	}
	h.say("hostile", fmt.Sprintf("say %d", len(hostile)))
	return h
}
