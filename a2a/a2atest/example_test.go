package a2atest_test

import (
	"context"
	"fmt"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// A remote agent asks back, and is answered on the task that waits.
func Example() {
	peer := a2atest.New().
		Add(a2atest.Reply(a2atest.ExpectText("charged twice"), a2atest.InputRequired("Which charge?"))).
		Add(a2atest.Reply(a2atest.ExpectTask(), a2atest.Text("The second one ", "is refunded.")))
	billing, err := a2a.Remote("billing", "", a2a.WithClient(peer))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := runner.New(billing, session.NewMemory())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"I was charged twice", "The second"} {
		for e, err := range r.Run(context.Background(), session.ID("s1"), llm.UserText(text)) {
			if err != nil {
				fmt.Println(err)
				return
			}
			if e.Type() == event.TypeText {
				fmt.Printf("%s: %s\n", e.Agent, e.Text())
			}
		}
	}
	fmt.Println("script:", peer.Done())
	// Output:
	// billing: Which charge?
	// billing: The second one is refunded.
	// script: <nil>
}

// A message that the script did not foresee fails the turn, and Done says so.
func ExampleMock_Done() {
	peer := a2atest.New().Add(a2atest.Reply(a2atest.ExpectText("invoice"), a2atest.Text("Here it is.")))
	billing, err := a2a.Remote("billing", "", a2a.WithClient(peer))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := runner.New(billing, session.NewMemory())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, err := range r.Run(context.Background(), session.ID("s1"), llm.UserText("I was charged twice")) {
		if err != nil {
			fmt.Println("the turn failed")
		}
	}
	fmt.Println(peer.Done())
	// Output:
	// the turn failed
	// a2atest: the messages and the script drifted apart: message 1: the message is "I was charged twice" and does not contain "invoice"
}
