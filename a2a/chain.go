package a2a

import (
	"context"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	turnorigin "github.com/agentarbor/arbor/a2a/internal/origin"
)

// Extension is the URI of our own extension of the protocol (A2A 1.0, section 4.6).
// Agents that speak it put what they say into metadata, below this URI as the key:
// servers say in artifacts, statuses and tasks which agent of their tree spoke and what
// its models have used; clients say in messages through which agents the words came.
// Nobody has to understand it.
const Extension = "https://github.com/agentarbor/arbor/a2a/extension/v1"

// withExtension asks for the extension in the calls made with ctx.
func withExtension(ctx context.Context) context.Context {
	return a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{sdk.SvcParamExtensions: {Extension}})
}

// chained says in a message through which agents the words of this turn came, so that
// agents that call each other in a circle notice it.
func chained(msg *sdk.Message, metadata map[string]any) {
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
