package a2a

import (
	"context"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	turnorigin "github.com/agentarbor/arbor/a2a/internal/origin"
)

// Extension is the URI of Arbor's extension of the protocol (A2A 1.0, section 4.6). Agents that support it add metadata
// under this URI as the key. Servers add to artifacts, statuses and tasks which agent of their tree spoke and how much
// its models have used. Clients add to messages the chain of agents that the message came through. No peer has to
// understand it.
const Extension = "https://github.com/agentarbor/arbor/a2a/extension/v1"

// withExtension requests the extension in the calls made with ctx.
func withExtension(ctx context.Context) context.Context {
	return a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{sdk.SvcParamExtensions: {Extension}})
}

// addChain adds to a message the chain of agents that the turn came through, so that agents that call each other in a
// circle detect it.
func addChain(msg *sdk.Message, metadata map[string]any) {
	chain := turnorigin.Of(metadata).Chain
	if len(chain) == 0 {
		return // the turn began here
	}
	list := make([]any, len(chain))
	for i, id := range chain {
		list[i] = id
	}
	msg.SetMeta(Extension, map[string]any{"chain": list})
	msg.Extensions = append(msg.Extensions, Extension)
}
