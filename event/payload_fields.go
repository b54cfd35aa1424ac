package event

// walk goes over the fields of a payload. It reports whether the payload's type has a
// method for that; package json reads and writes the others. It is no method of Data, so
// that what it is called with need not be on the heap.
func walk(f *fields, data Data) bool {
	switch d := data.(type) {
	case *User:
		d.fields(f)
	case *HarnessStart:
		d.fields(f)
	case *Text:
		d.fields(f)
	case *Reasoning:
		d.fields(f)
	case *ToolCall:
		d.fields(f)
	case *ToolProgress:
		d.fields(f)
	case *ToolResult:
		d.fields(f)
	case *Relay:
		d.fields(f)
	case *RelayResolved:
		d.fields(f)
	case *Transfer:
		d.fields(f)
	case *Route:
		d.fields(f)
	case *HandoffStatus:
		d.fields(f)
	case *State:
		d.fields(f)
	case *File:
		d.fields(f)
	case *Usage:
		d.fields(f)
	case *RemoteTask:
		d.fields(f)
	case *Compaction:
		d.fields(f)
	case *Notice:
		d.fields(f)
	case *Discard:
		d.fields(f)
	case *Failure:
		d.fields(f)
	case *HarnessEnd:
		d.fields(f)
	default:
		return false
	}
	return true
}

func (d *User) fields(f *fields) {
	f.content("content", &d.Content)
	f.valuesIf("metadata", &d.Metadata)
}

func (d *HarnessStart) fields(f *fields) {
	f.name("agentId", &d.AgentID)
	f.rawIf("input", &d.Input)
}

func (d *Text) fields(f *fields) { f.text("content", &d.Content) }

func (d *Reasoning) fields(f *fields) {
	f.text("content", &d.Content)
	f.textIf("sealed", &d.Sealed)
}

func (d *ToolCall) fields(f *fields) {
	f.name("name", &d.Name)
	f.raw("input", &d.Input)
}

func (d *ToolProgress) fields(f *fields) {
	f.name("toolCallId", &d.ToolCallID)
	f.name("name", &d.Name)
	f.raw("content", &d.Content)
}

func (d *ToolResult) fields(f *fields) {
	f.name("name", &d.Name)
	f.raw("output", &d.Output)
	f.truthIf("isError", &d.IsError)
}

func (d *Relay) fields(f *fields) {
	f.name("kind", &d.Kind)
	f.text("toolCallId", &d.ToolCallID)
	f.name("tool", &d.Tool)
	f.raw("params", &d.Params)
	f.textIf("message", &d.Message)
	f.rawIf("schema", &d.Schema)
	f.textsIf("within", &d.Within)
	f.textsIf("by", &d.By)
	f.textIf("digest", &d.Digest)
}

func (d *RelayResolved) fields(f *fields) {
	f.text("relayId", &d.RelayID)
	f.truth("approved", &d.Approved)
	f.textIf("reason", &d.Reason)
	f.nameIf("by", &d.By)
	f.rawIf("content", &d.Content)
	f.textsIf("rights", &d.Rights)
	f.textIf("digest", &d.Digest)
}

func (d *Transfer) fields(f *fields) {
	f.name("from", &d.From)
	f.name("to", &d.To)
	f.textIf("reason", &d.Reason)
	f.textIf("toolCallId", &d.ToolCallID)
	f.name("outcome", (*string)(&d.Outcome))
	f.rawIf("payload", &d.Payload)
	f.nameIf("transferType", &d.TransferType)
	f.rawIf("routeDecision", &d.RouteDecision)
	f.textsIf("graphPath", &d.GraphPath)
}

func (d *Route) fields(f *fields) {
	f.name("from", &d.From)
	f.name("to", &d.To)
	f.numberOrNull("ruleIndex", &d.RuleIndex)
	f.textIf("reason", &d.Reason)
	f.nameIf("intentLabel", &d.IntentLabel)
	f.floatIf("intentConfidence", &d.IntentConfidence)
	f.otherIf("sentiment", &d.Sentiment, len(d.Sentiment) == 0)
	f.float("latencyMs", &d.LatencyMs)
	f.texts("graphPath", &d.GraphPath)
	f.otherIf("failed", &d.Failed, d.Failed == nil)
}

func (d *HandoffStatus) fields(f *fields) {
	f.name("handoffId", &d.HandoffID)
	f.name("status", &d.Status)
	f.nameIf("targetAgent", &d.TargetAgent)
	f.textIf("reason", &d.Reason)
	f.otherIf("queuePosition", &d.QueuePosition, d.QueuePosition == nil)
	f.otherIf("estimatedWaitTime", &d.EstimatedWaitTime, d.EstimatedWaitTime == nil)
	f.nameIf("routeDecision", &d.RouteDecision)
	f.textsIf("graphPath", &d.GraphPath)
	f.longIf("upTo", &d.UpTo)
	f.textIf("deskEventId", &d.DeskEventID)
}

func (d *State) fields(f *fields) { f.values("delta", &d.Delta) }

func (d *File) fields(f *fields) {
	f.text("name", &d.Name)
	f.name("mediaType", &d.MediaType)
	f.long("size", &d.Size)
	f.textIf("digest", &d.Digest)
	f.textIf("url", &d.URL)
	f.textIf("toolCallId", &d.ToolCallID)
}

func (d *Usage) fields(f *fields) {
	f.number("inputTokens", &d.InputTokens)
	f.number("outputTokens", &d.OutputTokens)
	f.numberIf("cachedTokens", &d.CachedTokens)
	f.nameIf("model", &d.Model)
}

func (d *RemoteTask) fields(f *fields) {
	f.name("taskId", &d.TaskID)
	f.nameIf("contextId", &d.ContextID)
	f.nameIf("status", &d.Status)
	f.nameIf("url", &d.URL)
	f.otherIf("usage", &d.Usage, len(d.Usage) == 0)
}

func (d *Compaction) fields(f *fields) {
	f.long("upTo", &d.UpTo)
	f.text("summary", &d.Summary)
}

func (d *Notice) fields(f *fields) {
	f.name("code", &d.Code)
	f.text("message", &d.Message)
}

func (d *Discard) fields(f *fields) {
	f.name("code", &d.Code)
	f.text("message", &d.Message)
	f.textsIf("ids", &d.IDs)
	f.otherIf("usage", &d.Usage, d.Usage == nil)
}

func (d *Failure) fields(f *fields) {
	f.name("code", &d.Code)
	f.text("message", &d.Message)
	f.truth("retryable", &d.Retryable)
}

func (d *HarnessEnd) fields(f *fields) {
	f.name("agentId", &d.AgentID)
	f.name("finishReason", (*string)(&d.FinishReason))
	f.nameIf("target", &d.Target)
	f.rawIf("output", &d.Output)
}
