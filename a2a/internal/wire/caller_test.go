package wire

import (
	"context"

	"github.com/agentarbor/arbor/server/access"
)

func withCaller(ctx context.Context, caller string) context.Context {
	return access.WithUser(ctx, access.User{Name: caller})
}
