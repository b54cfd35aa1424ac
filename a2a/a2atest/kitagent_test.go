package a2atest_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a/internal/origin"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// kitName is the name of the agent that [kitAgent] makes.
const kitName = "kit"

// kitAgent makes the agent that the protocol's conformance kit, a2aproject/a2a-tck for protocol 1.0,
// expects behind a server: what it does is said by how the message's id begins. A server
// needs the option a2aserver.WithDirectAnswers(kitDirect) as well. Other messages are
// answered with the words of tck-complete-task.
func kitAgent() (agent.Agent, error) {
	return agent.New(kitName, "Answers the conformance kit", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			say := func(text string) bool { return yield(&event.Event{Data: &event.Text{Content: text}}, nil) }
			switch kitCase(origin.Of(inv.Metadata()).Message) {
			case "tck-artifact-text":
				say("Generated text content")
			case "tck-artifact-file", "tck-stream-artifact-file":
				f, err := inv.Runtime().SaveFile(ctx, "output.txt", "text/plain", []byte("tck"))
				if err != nil {
					yield(nil, err)
					return
				}
				yield(&event.Event{Data: f}, nil)
			case "tck-artifact-file-url":
				yield(&event.Event{Data: &event.File{Name: "output.txt", MediaType: "text/plain", URL: "https://example.com/output.txt"}}, nil)
			case "tck-artifact-data":
				yield(&event.Event{Data: &event.Finish{Output: json.RawMessage(`{"key":"value","count":42}`)}}, nil)
			case "tck-message-response":
				say("Direct message response")
			case "tck-input-required":
				if say("What else?") {
					yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}}, nil)
				}
			case "tck-reject-task":
				yield(nil, &agent.RunError{Agent: kitName, Code: "rejected", Err: errors.New("rejected")})
			case "tck-stream-001":
				say("Stream hello from TCK")
			case "tck-stream-002":
			case "tck-stream-003":
				say("Stream task lifecycle")
			case "tck-stream-ordering-001":
				say("Ordered output")
			case "tck-stream-artifact-text":
				say("Streamed text content")
			case "tck-stream-artifact-chunked":
				id := inv.NewID()
				for _, delta := range []string{"chunk-1 ", "chunk-2"} {
					if inv.Streaming() && !yield(&event.Event{ID: id, Partial: true, Attempt: 1, Data: &event.Text{Content: delta}}, nil) {
						return
					}
				}
				yield(&event.Event{ID: id, Data: &event.Text{Content: "chunk-1 chunk-2"}}, nil)
			case "test-resubscribe-message-id":
				select {
				case <-time.After(4 * time.Second): // twice the time that the kit listens to a stream
				case <-ctx.Done():
					yield(nil, context.Cause(ctx))
				}
			default:
				say("Hello from TCK")
			}
		}
	})
}

// kitDirect says which messages the kit wants answered with a message instead of a task.
func kitDirect(m *sdk.Message) bool { return kitCase(m.ID) == "tck-message-response" }

// kitCases are what ids of messages begin with.
var kitCases = []string{"tck-artifact-file-url", "tck-artifact-file", "tck-artifact-text", "tck-artifact-data", "tck-message-response", "tck-input-required", "tck-reject-task",
	"tck-stream-001", "tck-stream-002", "tck-stream-003", "tck-stream-ordering-001", "tck-stream-artifact-text", "tck-stream-artifact-file", "tck-stream-artifact-chunked",
	"test-resubscribe-message-id"}

func kitCase(messageID string) string {
	i := slices.IndexFunc(kitCases, func(c string) bool { return strings.HasPrefix(messageID, c) })
	if i < 0 {
		return ""
	}
	return kitCases[i]
}
