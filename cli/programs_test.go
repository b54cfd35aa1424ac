package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

// programs are commands with a tree of their own, each run by the test binary in
// a process of its own, named by ARBOR_TEST_PROGRAM.
var programs = map[string]func(){
	// rude says what no terminal should obey.
	"rude": func() {
		cli.Main(cli.WithName("rude"), cli.WithTree(node("rude", text("\x1b]0;owned\a\x1b[2Jfine\r\n\u202eright-to-left\u0085 שלום"))))
	},
	// stubborn does not end when its context does.
	"stubborn": func() { cli.Main(cli.WithTree(node("stubborn", text("working"), nil))) },
	// pause waits for an approval.
	"pause": func() {
		relay := &event.Event{Data: &event.Relay{Kind: "permission", ToolCallID: "c1", Tool: "refund", Params: []byte(`{"id":7}`)}}
		cli.Main(cli.WithTree(node("pause", relay, &event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}})))
	},
	// endless never comes to an end.
	"endless": func() { cli.Main(cli.WithTree(node("endless", &event.Event{Data: &event.Continue{}}))) },
	// twice has two agents of one name, and one with a reserved name.
	"twice": func() {
		child, grandchild := node("same"), node("user")
		root, err := agent.New("same", "", never, agent.WithSubAgents(child, grandchild))
		if err != nil {
			os.Exit(99)
		}
		cli.Main(cli.WithTree(root))
	},
	"func": func() {
		cli.Main(cli.WithTreeFunc(func(model llm.Model) (agent.Agent, error) {
			return llmagent.New("solo", "You are alone.", model)
		}))
	},
	// maker makes files.
	"maker": func() {
		maker, err := llmagent.Func("maker", "", func(s *llmagent.Step) error {
			for _, words := range []string{"first\n", "second\x00"} {
				if _, err := s.SaveFile("a.txt", "text/plain", []byte(words)); err != nil {
					return err
				}
			}
			return s.Say("Made.")
		})
		if err != nil {
			os.Exit(99)
		}
		cli.Main(cli.WithName("maker"), cli.WithTree(maker))
	},
	// careful has a tool that needs an approval, and a description that ends with REFUNDS.
	"careful": func() {
		cli.Main(cli.WithName("careful"), cli.WithTreeFunc(func(model llm.Model) (agent.Agent, error) {
			refund, err := tools.Func("refund", "Refunds."+os.Getenv("REFUNDS"), func(tools.Context, struct{}) (string, error) { return "done", nil }, tools.NeedsApproval())
			if err != nil {
				return nil, err
			}
			return llmagent.New("careful", "You refund.", model, llmagent.WithTools(refund))
		}))
	},
	// guarded has a guard that refuses a card number, wherever in the text it is.
	"guarded": func() {
		cli.Main(cli.WithName("guarded"), cli.WithTreeFunc(func(model llm.Model) (agent.Agent, error) {
			return llmagent.New("guarded", "You answer.", model, llmagent.WithGuards(agent.Guard{Name: "no-cards", Out: func(_ context.Context, _ *agent.Invocation, text string) error {
				if strings.Contains(text, "4111 1111") {
					return errors.New("a card number")
				}
				return nil
			}}))
		}))
	},
	// asker has an agent as a tool, whose own tool asks two things.
	"asker": func() {
		cli.Main(cli.WithName("asker"), cli.WithTreeFunc(func(model llm.Model) (agent.Agent, error) {
			book, err := tools.Func("book", "Books.", func(ctx tools.Context, _ struct{}) (string, error) {
				name, err := ctx.Ask("For whom?\nyou> /quit", nil)
				if err != nil {
					return "", err
				}
				seats, err := ctx.Ask("How many?", json.RawMessage(`{"type":"object","properties":{"seats":{"type":"integer"}},"required":["seats"]}`))
				if err != nil {
					return "", err
				}
				return string(name) + string(seats), nil
			})
			if err != nil {
				return nil, err
			}
			clerk, err := llmagent.New("clerk", "You book.", model, llmagent.WithDescription("Books"), llmagent.WithTools(book))
			if err != nil {
				return nil, err
			}
			asClerk, err := agenttool.New(clerk)
			if err != nil {
				return nil, err
			}
			return llmagent.New("asker", "You help.", model, llmagent.WithTools(asClerk))
		}))
	},
	"embedded": func() { cli.Main(cli.WithName("helpdesk"), cli.WithFiles(os.DirFS("testdata"), "desk")) },
}

func text(s string) *event.Event { return &event.Event{Data: &event.Text{Content: s}} }

func never(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(func(*event.Event, error) bool) {}
}

// node makes an agent that yields these events; nil stands for blocking for ever.
func node(name string, events ...*event.Event) agent.Agent {
	run := func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			for _, e := range events {
				if e == nil {
					select {}
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	a, err := agent.New(name, "", run)
	if err != nil { // a reserved name: leave the complaint to the tree
		return reserved{name}
	}
	return a
}

type reserved struct{ name string }

func (r reserved) Name() string                 { return r.name }
func (r reserved) Description() string          { return "" }
func (r reserved) SubAgents() []agent.Agent     { return nil }
func (r reserved) FindAgent(string) agent.Agent { return nil }
func (r reserved) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return never(ctx, inv)
}
