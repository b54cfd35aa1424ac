package a2aserver

import (
	"context"

	"github.com/agentarbor/arbor/server/access"
)

func withCaller(ctx context.Context, caller string) context.Context {
	return access.WithUser(ctx, access.User{Name: caller})
}

// rpcBody is a JSON-RPC request.
func rpcBody(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
}
