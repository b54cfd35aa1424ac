package openai_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
)

// A model answers over HTTP. The endpoint here is a local one that follows a
// script, so that the example runs anywhere; a real one differs in its address
// and key only.
func Example() {
	script := scripted.New().Add("billing", scripted.Reply(
		scripted.Text("I see ", "two charges."),
		scripted.CallID("c1", "refund", `{"charge": 2}`),
		scripted.Usage(21, 9, 0),
	))
	server, err := endpoint.Start(script.Models())
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	model, err := openai.New("billing", openai.WithBaseURL(server.URL()))
	if err != nil {
		log.Fatal(err)
	}
	request := &llm.Request{
		System:   "You handle refunds.",
		Messages: []llm.Message{llm.UserText("I was charged twice")},
		Tools:    []llm.ToolSpec{{Name: "refund", Description: "Refund one charge."}},
		Stream:   true,
	}
	for chunk, err := range model.Generate(context.Background(), request) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(chunk.Text)
		if chunk.Call != nil {
			fmt.Println("\ncall:", chunk.Call.Name, chunk.Call.Arguments)
		}
		if chunk.Finish != "" {
			fmt.Println("finish:", chunk.Finish, "- input tokens:", chunk.Usage.InputTokens)
		}
	}
	// Output:
	// I see two charges.
	// call: refund {"charge": 2}
	// finish: tool_calls - input tokens: 21
}
