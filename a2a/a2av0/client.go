package a2av0

import (
	"context"
	"iter"
	"net/http"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	compat "github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/agentarbor/arbor/a2a"
)

// version is what peers are told, and what cards of this package name.
const version = string(compat.Version)

// Bindings returns the bindings of A2A 0.3, for a2a.WithBinding: JSON-RPC (section 3.2.1 of its
// specification) and HTTP+JSON (section 3.2.3). Credentials and limits are those of the remote
// agent, as for 1.0.
//
// 0.3 cannot list tasks, and has nothing of tenants. Parts of kinds that 0.3 does not know are
// passed over. Cards without a transport mean JSON-RPC, as that version says.
func Bindings() []a2a.Binding {
	return []a2a.Binding{
		{Protocol: sdk.TransportProtocolJSONRPC, Version: version, ParseCard: ParseCard,
			Dial: func(_ context.Context, i *sdk.AgentInterface, env a2a.Environment) (a2aclient.Transport, error) {
				return compat.NewJSONRPCTransport(compat.JSONRPCTransportConfig{URL: i.URL, Client: repairing(env.HTTP)}), nil
			}},
		{Protocol: sdk.TransportProtocolHTTPJSON, Version: version, ParseCard: ParseCard,
			Dial: func(_ context.Context, i *sdk.AgentInterface, env a2a.Environment) (a2aclient.Transport, error) {
				t, err := compat.NewRESTTransport(compat.RESTTransportConfig{URL: i.URL, Client: env.HTTP})
				if err != nil {
					return nil, err
				}
				return httpJSON{t}, nil
			}},
	}
}

// httpJSON keeps ids of tasks, which are the peer's, from becoming other paths: the library puts
// them into paths as they are.
type httpJSON struct{ a2aclient.Transport }

func (h httpJSON) GetTask(ctx context.Context, params a2aclient.ServiceParams, r *sdk.GetTaskRequest) (*sdk.Task, error) {
	if err := checkID(r.ID); err != nil {
		return nil, err
	}
	return h.Transport.GetTask(ctx, params, r)
}

func (h httpJSON) CancelTask(ctx context.Context, params a2aclient.ServiceParams, r *sdk.CancelTaskRequest) (*sdk.Task, error) {
	if err := checkID(r.ID); err != nil {
		return nil, err
	}
	return h.Transport.CancelTask(ctx, params, r)
}

func (h httpJSON) SubscribeToTask(ctx context.Context, params a2aclient.ServiceParams, r *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	if err := checkID(r.ID); err != nil {
		return func(yield func(sdk.Event, error) bool) { yield(nil, err) }
	}
	return h.Transport.SubscribeToTask(ctx, params, r)
}

// checkID refuses what is no segment of a path as it stands.
func checkID(id sdk.TaskID) error {
	if id == "" || id == "." || id == ".." || strings.ContainsFunc(string(id), func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`/?#%\`, r) }) {
		return sdk.NewError(sdk.ErrInvalidAgentResponse, "the id of the task cannot be part of a path, which HTTP+JSON would need")
	}
	return nil
}

// repairing returns a client like c behind whose transport answers are repaired.
func repairing(c *http.Client) *http.Client {
	client := &http.Client{}
	if c != nil {
		*client = *c
	}
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	client.Transport = &repair{client.Transport}
	return client
}
