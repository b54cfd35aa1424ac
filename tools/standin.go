package tools

import (
	"context"
	"encoding/json"
)

// StandIn takes the place of a tool for one call. It returns the result of the call, or agent.ErrWaits after it has
// asked a question by CallInfo.Ask. If instead is false, the tool itself runs.
type StandIn func(ctx context.Context, t Tool, info CallInfo, input json.RawMessage) (res Result, instead bool, err error)

type standInKey struct{}

// WithStandIn returns a context in which [Execute] calls f before it runs a tool, for interceptors that replay calls
// from a log. f returns state and files and reports progress as a tool does. Execute checks the input before it calls
// f.
func WithStandIn(ctx context.Context, f StandIn) context.Context {
	return context.WithValue(ctx, standInKey{}, f)
}

func standIn(ctx context.Context, t Tool, info CallInfo, input json.RawMessage) (Result, bool, error) {
	if f, ok := ctx.Value(standInKey{}).(StandIn); ok && f != nil {
		return f(ctx, t, info, input)
	}
	return Result{}, false, nil
}
