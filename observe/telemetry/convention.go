package telemetry

// The names are those of the OpenTelemetry semantic conventions for generative AI, version 1.41.1, the last version in the
// common repository of the conventions. Their status is "development": they may change. The pages are below
// https://github.com/open-telemetry/semantic-conventions/tree/v1.41.1/docs/gen-ai: gen-ai-agent-spans.md
// (invoke_workflow, invoke_agent), gen-ai-spans.md (chat, execute_tool) and gen-ai-metrics.md.
const schemaURL = "https://opentelemetry.io/schemas/1.41.0"

// scope is the name of the instrumentation.
const scope = "github.com/agentarbor/arbor/observe/telemetry"

// The values of gen_ai.operation.name, with which the names of spans start.
const (
	opWorkflow = "invoke_workflow"
	opAgent    = "invoke_agent"
	opTool     = "execute_tool"
	opChat     = "chat"
)

// Attributes of the conventions.
const (
	keyOperation    = "gen_ai.operation.name"
	keyProvider     = "gen_ai.provider.name"
	keyConversation = "gen_ai.conversation.id"
	keyWorkflow     = "gen_ai.workflow.name"
	keyErrorType    = "error.type"
	keyUser         = "user.id"

	keyAgentName        = "gen_ai.agent.name"
	keyAgentID          = "gen_ai.agent.id"
	keyAgentDescription = "gen_ai.agent.description"

	keyToolName      = "gen_ai.tool.name"
	keyToolType      = "gen_ai.tool.type"
	keyToolCallID    = "gen_ai.tool.call.id"
	keyToolArguments = "gen_ai.tool.call.arguments"
	keyToolResult    = "gen_ai.tool.call.result"

	keyRequestModel = "gen_ai.request.model"
	keyStream       = "gen_ai.request.stream"
	keyTemperature  = "gen_ai.request.temperature"
	keyTopP         = "gen_ai.request.top_p"
	keyMaxTokens    = "gen_ai.request.max_tokens"
	keyOutputType   = "gen_ai.output.type"

	keyResponseModel = "gen_ai.response.model"
	keyFinishReasons = "gen_ai.response.finish_reasons"
	keyFirstChunk    = "gen_ai.response.time_to_first_chunk"
	keyInputTokens   = "gen_ai.usage.input_tokens"
	keyOutputTokens  = "gen_ai.usage.output_tokens"
	keyCachedTokens  = "gen_ai.usage.cache_read.input_tokens"
	keyTokenType     = "gen_ai.token.type"

	keySystem         = "gen_ai.system_instructions"
	keyInputMessages  = "gen_ai.input.messages"
	keyOutputMessages = "gen_ai.output.messages"
)

// Attributes without a name in the conventions.
const (
	// keyTurnID and keyRunID are the ids of the turn and of the run in the log.
	keyTurnID = "arbor.turn.id"
	keyRunID  = "arbor.run.id"
	// keyTurnFinish is the finish reason of the turn's last run.
	keyTurnFinish = "arbor.turn.finish_reason"
	// keyTarget is the target of the transfer with which a run ended.
	keyTarget = "arbor.transfer.target"
	// keyBrokenOff is true if the caller broke out of the loop over the turn's events, or over a model's answer.
	keyBrokenOff = "arbor.broken_off"
	// keyAnticipated is true for a request of the probable target of a transfer, which belongs to no run.
	keyAnticipated = "arbor.anticipated"
	// keyGraph is the name of a node's graph.
	keyGraph = "arbor.graph.name"
)

// Metrics of the conventions, all of them histograms.
const (
	metricTokens     = "gen_ai.client.token.usage"
	metricDuration   = "gen_ai.client.operation.duration"
	metricFirstChunk = "gen_ai.client.operation.time_to_first_chunk"
)

// metricNode is a histogram in seconds for the nodes of graphs, which have no metric in the conventions.
const metricNode = "arbor.graph.node.duration"

// Metrics of servers. The conventions for HTTP, version 1.41 (docs/http/http-metrics.md), define the duration of requests.
// They have no names for the others.
const (
	metricRequest = "http.server.request.duration"
	metricStreams = "arbor.streams"
	metricDelta   = "arbor.delta.duration"
	metricRunning = "arbor.turns.running"
	metricTurns   = "arbor.turns"
)

// Attributes of the metrics of servers.
const (
	keyMethod  = "http.request.method"
	keyRoute   = "http.route"
	keyStatus  = "http.response.status_code"
	keyAPI     = "arbor.api"
	keyOutcome = "arbor.turn.state"
)

// tokenBuckets and secondBuckets return the bucket boundaries that the conventions recommend.
func tokenBuckets() []float64 {
	return []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
}

func secondBuckets() []float64 {
	return []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
}

// otherError is the value of error.type for an error without a class of its own.
const otherError = "_OTHER"
