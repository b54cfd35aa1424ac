package cli_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
)

// A program with a tree of its own calls Main; a test of it calls Run.
func ExampleRun() {
	greet := func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Text{Content: "Hello."}}, nil)
		}
	}
	root, err := agent.New("greeter", "Greets.", greet)
	if err != nil {
		fmt.Println(err)
		return
	}
	streams := cli.Streams{Stdin: strings.NewReader(""), Stdout: os.Stdout, Stderr: os.Stderr}
	status := cli.Run(context.Background(), []string{"run", "Hi!", "--db", ":memory:"}, streams, cli.WithTree(root))
	fmt.Println("status", status)
	// Output:
	// greeter: Hello.
	// status 0
}
