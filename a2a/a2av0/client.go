package a2av0

import (
	"context"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	compat "github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/agentarbor/arbor/a2a"
)

// version is the version that is sent to peers, and the default of cards.
const version = string(compat.Version)

// Bindings returns the bindings of A2A 0.3 for a2a.WithBinding: JSON-RPC (section 3.2.1 of its specification) and
// HTTP+JSON (section 3.2.3). Credentials and limits are those of the remote agent, as for 1.0.
//
// Version 0.3 cannot list tasks and has no tenants. Parts of kinds that 0.3 does not define are skipped. A card that
// names no transport means JSON-RPC, as 0.3 specifies.
func Bindings() []a2a.Binding {
	return []a2a.Binding{
		{Protocol: sdk.TransportProtocolJSONRPC, Version: version, ParseCard: parseCard, Mend: repair,
			Dial: func(_ context.Context, i *sdk.AgentInterface, env a2a.Environment) (a2aclient.Transport, error) {
				return compat.NewJSONRPCTransport(compat.JSONRPCTransportConfig{URL: i.URL, Client: env.HTTP}), nil
			}},
		{Protocol: sdk.TransportProtocolHTTPJSON, Version: version, ParseCard: parseCard, Mend: repairREST,
			Dial: func(_ context.Context, i *sdk.AgentInterface, env a2a.Environment) (a2aclient.Transport, error) {
				return compat.NewRESTTransport(compat.RESTTransportConfig{URL: i.URL, Client: env.HTTP})
			}},
	}
}
