// Command router is the smallest tree with a router at the root: rules choose between two specialists, and no model
// decides. It uses the endpoint of the OPENAI_* variables, or the offline model if none is set. The folder desk
// contains the same tree in files.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

func main() {
	model := must(openai.FromEnvOr(os.Getenv, offline.New()))
	if err := converse(context.Background(), os.Stdout, model, "I want a refund", "Thank you", "My screen is black"); err != nil {
		log.Fatal(err)
	}
}

// converse sends a message to a new session and writes which agent was chosen and why, and the answer.
func converse(ctx context.Context, w io.Writer, model llm.Model, messages ...string) error {
	billing := router.Specialist(must(llmagent.New("billing", "You handle money.", model)))
	support := router.Specialist(must(llmagent.New("support", "You help.", model)))
	front, err := router.New("front", router.Sticky(), router.Default(support), router.Rules(
		router.When(router.Keyword("refund", "invoice", "charged")).To(billing),
		router.When(router.Regexp(`(?i)\b(screen|keyboard)\b`)).To(support).Because("a device")))
	if err != nil {
		return err
	}
	r := must(runner.New(front, session.NewMemory()))
	for _, text := range messages {
		for ev, err := range r.Run(ctx, session.ID("s1"), llm.UserText(text)) {
			if err != nil {
				return err
			}
			switch d := ev.Data.(type) {
			case *event.Route:
				fmt.Fprintf(w, "%s: %s → %s (%s)\n", text, d.From, d.To, d.Reason)
			case *event.Text:
				fmt.Fprintf(w, "%s: %s\n", ev.Agent, d.Content)
			}
		}
	}
	return nil
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
