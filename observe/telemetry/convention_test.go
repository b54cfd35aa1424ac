package telemetry

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
	"go.opentelemetry.io/otel/semconv/v1.41.0/httpconv"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
)

// The names are those of the conventions as their own Go package has them.
func TestNamesAreThoseOfTheConventions(t *testing.T) {
	require.Equal(t, semconv.SchemaURL, schemaURL)
	theirs := map[string]attribute.Key{
		keyOperation: semconv.GenAIOperationNameKey, keyProvider: semconv.GenAIProviderNameKey, keyConversation: semconv.GenAIConversationIDKey,
		keyWorkflow: semconv.GenAIWorkflowNameKey, keyErrorType: semconv.ErrorTypeKey, keyUser: semconv.UserIDKey,
		keyAgentName: semconv.GenAIAgentNameKey, keyAgentID: semconv.GenAIAgentIDKey, keyAgentDescription: semconv.GenAIAgentDescriptionKey,
		keyToolName: semconv.GenAIToolNameKey, keyToolType: semconv.GenAIToolTypeKey, keyToolCallID: semconv.GenAIToolCallIDKey,
		keyToolArguments: semconv.GenAIToolCallArgumentsKey, keyToolResult: semconv.GenAIToolCallResultKey,
		keyRequestModel: semconv.GenAIRequestModelKey, keyStream: semconv.GenAIRequestStreamKey, keyTemperature: semconv.GenAIRequestTemperatureKey,
		keyTopP: semconv.GenAIRequestTopPKey, keyMaxTokens: semconv.GenAIRequestMaxTokensKey, keyOutputType: semconv.GenAIOutputTypeKey,
		keyResponseModel: semconv.GenAIResponseModelKey, keyFinishReasons: semconv.GenAIResponseFinishReasonsKey,
		keyFirstChunk: semconv.GenAIResponseTimeToFirstChunkKey, keyInputTokens: semconv.GenAIUsageInputTokensKey,
		keyOutputTokens: semconv.GenAIUsageOutputTokensKey, keyCachedTokens: semconv.GenAIUsageCacheReadInputTokensKey, keyTokenType: semconv.GenAITokenTypeKey,
		keySystem: semconv.GenAISystemInstructionsKey, keyInputMessages: semconv.GenAIInputMessagesKey, keyOutputMessages: semconv.GenAIOutputMessagesKey,
		keyMethod: semconv.HTTPRequestMethodKey, keyRoute: semconv.HTTPRouteKey, keyStatus: semconv.HTTPResponseStatusCodeKey,
	}
	for ours, their := range theirs {
		require.Equal(t, string(their), ours)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(theirs)), constants(t, "key", func(v string) bool { return !strings.HasPrefix(v, "arbor.") }), "the list here is whole")

	operations := []attribute.KeyValue{semconv.GenAIOperationNameInvokeWorkflow, semconv.GenAIOperationNameInvokeAgent, semconv.GenAIOperationNameExecuteTool, semconv.GenAIOperationNameChat}
	for i, ours := range []string{opWorkflow, opAgent, opTool, opChat} {
		require.Equal(t, operations[i].Value.AsString(), ours)
	}
	require.Equal(t, semconv.ErrorTypeOther.Value.AsString(), otherError)
}

func TestMetricsAreThoseOfTheConventions(t *testing.T) {
	m := noop.Meter{}
	tokens := must.Get(genaiconv.NewClientTokenUsage(m))
	duration := must.Get(genaiconv.NewClientOperationDuration(m))
	first := must.Get(genaiconv.NewClientOperationTimeToFirstChunk(m))
	request := must.Get(httpconv.NewServerRequestDuration(m))
	require.Equal(t, []string{tokens.Name(), duration.Name(), first.Name(), request.Name()}, []string{metricTokens, metricDuration, metricFirstChunk, metricRequest})
	require.Equal(t, []string{"{token}", "s", "s", "s"}, []string{tokens.Unit(), duration.Unit(), first.Unit(), request.Unit()})
}

func TestClassesOfErrors(t *testing.T) {
	live := context.Background()
	left, leave := context.WithCancelCause(live)
	leave(errors.New("the user has left"))
	late, end := context.WithTimeout(live, -1)
	defer end()
	model := &llm.Error{Code: llm.CodeRateLimited}
	for _, c := range []struct {
		ctx   context.Context
		err   error
		class string
	}{
		{live, &agent.RunError{Code: "internal", Err: model}, "internal"},
		{live, &agent.RunError{Err: model}, "rate_limited"},
		{live, fmt.Errorf("asked: %w", model), "rate_limited"},
		{live, agent.ErrSessionBusy, "session_busy"},
		{live, agent.ErrConflict, "conflict"},
		{live, agent.ErrBadInput, "bad_input"},
		{live, &agent.TransferLimitError{}, "transfer_limit"},
		{live, agent.ErrTransferRejected, "transfer_rejected"},
		{live, agent.ErrEmptyAnswer, "empty_answer"},
		{live, agent.ErrRepeatedCall, "repeated_call"},
		{live, &agent.TripwireError{}, "tripwire"},
		{live, &agent.BudgetError{}, "budget"},
		{live, &agent.LimitError{}, "limit"},
		{live, agent.ErrUnknownPrice, "unknown_price"},
		{live, context.DeadlineExceeded, "timeout"},
		{late, errors.New("gone"), "timeout"},
		{live, context.Canceled, "canceled"},
		{left, context.Cause(left), "canceled"},
		{live, errors.New("gone"), "_OTHER"},
	} {
		require.Equal(t, c.class, errorClass(c.ctx, c.err), "%v", c.err)
	}
}

// constants returns the string constants of convention.go whose name begins so.
func constants(t *testing.T, prefix string, keep func(string) bool) (values []string) {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "convention.go", nil, 0))
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		value := must.Get(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))
		if keep(value) {
			values = append(values, value)
		}
		return true
	})
	return values
}
