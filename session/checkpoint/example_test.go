package checkpoint_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
)

// A user's message is said anew in a session of its own.
func ExampleSessions_Edit() {
	ctx := context.Background()
	clerk, err := llmagent.New("clerk", "You take orders.", offline.New())
	if err != nil {
		log.Fatal(err)
	}
	store := session.NewMemory()
	r, err := runner.New(clerk, store)
	if err != nil {
		log.Fatal(err)
	}
	key, edited := session.ID("order"), session.ID("order, said anew")
	for _, err := range r.Run(ctx, key, llm.UserText("Two coffees, please")) {
		if err != nil {
			log.Fatal(err)
		}
	}

	past, err := checkpoint.New(store)
	if err != nil {
		log.Fatal(err)
	}
	if err := past.Edit(ctx, key, 1, llm.Content{Text: "Two teas, please"}, edited); err != nil {
		log.Fatal(err)
	}
	for _, err := range r.Resume(ctx, edited) { // answers it
		if err != nil {
			log.Fatal(err)
		}
	}
	diff, err := past.Diff(ctx, key, edited)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(diff.Common, "events in common;", len(diff.A.Events), "and", len(diff.B.Events), "of their own")
	// Output: 0 events in common; 5 and 5 of their own
}
