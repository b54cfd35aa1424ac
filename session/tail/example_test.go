package tail_test

import (
	"context"
	"fmt"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
)

// A client that was cut off goes on after the last entry it has seen.
func ExampleNew() {
	ctx, key := context.Background(), session.ID("s1")
	store, err := tail.New(session.NewMemory())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	// What a runner does when it is given the Tail as its store, with streaming.
	lease, _ := sessiontest.Acquire(ctx, store, key, session.Self())
	_ = sessiontest.Append(ctx, store, key, 0, lease, &event.Event{Seq: 1, ID: "u", Data: &event.User{}})
	for _, word := range []string{"One ", "moment."} {
		_ = store.Publish(ctx, key, &event.Event{ID: "b", Partial: true, Data: &event.Text{Content: word}})
	}
	_ = sessiontest.Append(ctx, store, key, 1, lease, &event.Event{Seq: 2, ID: "b", Data: &event.Text{Content: "One moment."}})

	show := func(after string, n int) (last string) {
		for entry, err := range store.Follow(ctx, key, after) {
			if err != nil {
				fmt.Println(err)
				return last
			}
			fmt.Printf("%s %s %q\n", entry.ID, entry.Event.Type(), entry.Event.Text())
			if last, n = entry.ID, n-1; n == 0 {
				break
			}
		}
		return last
	}
	last := show("", 2)
	fmt.Println("cut off")
	show(last, 2)
	// Output:
	// 1-0 user ""
	// 1-1 text "One "
	// cut off
	// 1-2 text "moment."
	// 2-0 text "One moment."
}
