package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// desk is a coordinator with one specialist, whose models follow a script.
func desk(script string) agent.Agent {
	s, err := scripted.Parse([]byte(script))
	if err != nil {
		log.Fatal(err)
	}
	billing, err := llmagent.New("billing", "You handle refunds.", s.Model("billing"), llmagent.WithDescription("Refunds, invoices"))
	if err != nil {
		log.Fatal(err)
	}
	support, err := llmagent.New("support", "You route.", s.Model("support"), llmagent.WithSubAgents(billing))
	if err != nil {
		log.Fatal(err)
	}
	return support
}

// A turn: the coordinator hands over, the specialist answers and stays in
// charge.
func Example() {
	r, err := runner.New(desk(`
support: call transfer_to_agent {"agent_name": "billing", "reason": "a refund"}
billing: "I see two charges."
billing: "One is paid back."
`), session.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	ctx, key := context.Background(), session.ID("s1")
	for _, message := range []string{"I was charged twice", "Please refund one"} {
		for ev, err := range r.Run(ctx, key, llm.UserText(message)) {
			if err != nil {
				log.Fatal(err)
			}
			switch d := ev.Data.(type) {
			case *event.User:
				fmt.Println("user:", d.Content.Text)
			case *event.Transfer:
				fmt.Printf("%s → %s (%s)\n", d.From, d.To, d.Reason)
			case *event.Text:
				fmt.Printf("%s: %s\n", ev.Agent, d.Content)
			}
		}
	}
	// Output:
	// user: I was charged twice
	// support → billing (a refund)
	// billing: I see two charges.
	// user: Please refund one
	// billing: One is paid back.
}

// A turn that was left in the middle goes on from the log, here with another
// runner, as it would be in another process. The coordinator's model is not
// asked again.
func ExampleRunner_Resume() {
	root, store := desk(`
support: call transfer_to_agent {"agent_name": "billing"}
billing: "I see two charges."
`), session.NewMemory()
	first, err := runner.New(root, store)
	if err != nil {
		log.Fatal(err)
	}
	ctx, key := context.Background(), session.ID("s1")
	for ev, err := range first.Run(ctx, key, llm.UserText("I was charged twice")) {
		if err != nil {
			log.Fatal(err)
		}
		if ev.Type() == event.TypeTransfer {
			break // the transfer and the start of the target are stored
		}
	}
	second, err := runner.New(root, store)
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range second.Resume(ctx, key) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s %q\n", ev.Agent, ev.Type(), ev.Text())
	}
	// Output:
	// billing text "I see two charges."
	// billing usage ""
	// billing harness_end ""
}

// An error comes last. It says whose run failed, and the session can be used
// again.
func ExampleRunner_Run_errors() {
	r, err := runner.New(desk(`
support: fault=rate_limited
support: "Here I am again."
`), session.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	ctx, key := context.Background(), session.ID("s1")
	for range 2 {
		for ev, err := range r.Run(ctx, key, llm.UserText("Hello")) {
			var failed *agent.RunError
			switch {
			case errors.As(err, &failed):
				fmt.Println(failed.Agent, "failed:", failed.Code, "- worth another try:", llm.Retryable(err))
			case err != nil:
				log.Fatal(err)
			case ev.Text() != "":
				fmt.Println(ev.Text())
			}
		}
	}
	// Output:
	// support failed: rate_limited - worth another try: true
	// Here I am again.
}
