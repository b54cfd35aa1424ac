package a2a

import (
	"context"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	turnorigin "github.com/agentarbor/arbor/a2a/internal/origin"
)

// Extension is the URI of Arbor's extension of the protocol (A2A 1.0, section 4.6). Agents that support it add metadata
// under this URI as the key. Servers add to artifacts, statuses and tasks which agent of their tree spoke and how much
// its models have used. Clients add to messages the chain of agents that the message came through, and the id of the
// message with the question that they answer. No peer has to understand it.
const Extension = "https://github.com/agentarbor/arbor/a2a/extension/v1"

// withExtension requests the extension in the calls made with ctx.
func withExtension(ctx context.Context) context.Context {
	return a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{sdk.SvcParamExtensions: {Extension}})
}

// message returns the run's message. It contains the chain of agents that the turn came through, so that agents that call
// each other in a circle detect it.
func (x *exchange) message(m *memory, parts ...*sdk.Part) *sdk.Message {
	msg := &sdk.Message{ID: x.messageID(m), Role: sdk.MessageRoleUser, Parts: parts, ContextID: m.Task.ContextID}
	if chain := turnorigin.Of(x.inv.Metadata()).Chain; len(chain) > 0 { // otherwise the turn began here
		list := make([]any, len(chain))
		for i, id := range chain {
			list[i] = id
		}
		extend(msg, "chain", list)
	}
	return msg
}

// answers addresses a message to a task that asks something. It names the question, so that the peer refuses the message
// if the task asks something else when the message arrives.
func (m *memory) answers(msg *sdk.Message, t *sdk.Task) {
	msg.TaskID = t.ID
	if asks := t.Status.Message; asks != nil && asks.ID != "" && asks.ID == m.Task.Question {
		extend(msg, turnorigin.Answers, asks.ID)
	}
}

// extend adds a value of our extension to a message.
func extend(msg *sdk.Message, name string, value any) {
	if len(msg.Extensions) == 0 {
		msg.Extensions = []string{Extension}
		msg.SetMeta(Extension, map[string]any{})
	}
	msg.Metadata[Extension].(map[string]any)[name] = value
}
