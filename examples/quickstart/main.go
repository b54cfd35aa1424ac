// Command quickstart is the smallest tree: a coordinator and a specialist, one
// session, one message. It uses the endpoint of the OPENAI_* variables, or the
// offline model if none is set.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

func main() {
	model := must(openai.FromEnvOr(os.Getenv, offline.New()))
	billing := must(llmagent.New("billing", "You handle refunds and invoices.", model,
		llmagent.WithDescription("Refunds, invoices, being charged twice"),
		llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})))
	support := must(llmagent.New("support", "Route to the right specialist.", model,
		llmagent.WithSubAgents(billing)))
	r := must(runner.New(support, session.NewMemory()))

	for ev, err := range r.Run(context.Background(), session.ID("s1"), llm.UserText("I was charged twice.")) {
		if err != nil {
			log.Fatal(err)
		}
		switch d := ev.Data.(type) {
		case *event.Transfer:
			fmt.Printf("%s → %s (%s)\n", d.From, d.To, d.Reason)
		case *event.Text:
			fmt.Printf("%s: %s\n", ev.Agent, d.Content)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
