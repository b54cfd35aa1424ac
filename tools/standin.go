package tools

import (
	"context"
	"encoding/json"
)

// StandIn does what a call would do: it gives the call's result, or an error that is
// agent.ErrWaits after it has asked by CallInfo.Ask. It reports false if the tool itself shall run.
type StandIn func(ctx context.Context, t Tool, info CallInfo, input json.RawMessage) (res Result, instead bool, err error)

type standInKey struct{}

// WithStandIn returns a context in which [Execute] asks f before it runs a tool, as an interceptor
// does that plays calls again from a log: f gives state, files and progress as a tool would. Inputs
// are held against the tool's schema before.
func WithStandIn(ctx context.Context, f StandIn) context.Context {
	return context.WithValue(ctx, standInKey{}, f)
}

func standIn(ctx context.Context, t Tool, info CallInfo, input json.RawMessage) (Result, bool, error) {
	if f, ok := ctx.Value(standInKey{}).(StandIn); ok && f != nil {
		return f(ctx, t, info, input)
	}
	return Result{}, false, nil
}
