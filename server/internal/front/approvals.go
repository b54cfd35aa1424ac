package front

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
)

// ApprovalTool is the name of the function by which a client approves calls. The server calls it for each request for an
// approval in the turns of a client that brings it among its tools. No model is offered it.
const ApprovalTool = "arbor_approve"

// ApprovalsKey is the key of the metadata of a user's message whose client brought [ApprovalTool]. Clients cannot set it.
const ApprovalsKey = "arbor.approvals"

// AsCall returns a request for an approval as a call of [ApprovalTool], if the client brought this with the user's message.
// It returns every other question as it is. The id of the call names the call to be approved and the digest of what it
// does, so that a result is for that and for nothing else.
func AsCall(user *event.User, asked *event.Relay) *event.Relay {
	if user == nil || user.Metadata[ApprovalsKey] != true || asked.Client || asked.Kind != event.RelayPermission {
		return asked
	}
	sum := sha256.Sum256([]byte(asked.ToolCallID + "\x00" + asked.Digest))
	return &event.Relay{Kind: event.RelayInput, ToolCallID: "appr_" + hex.EncodeToString(sum[:12]), Tool: ApprovalTool, Client: true,
		Params: event.EncodeJSON(map[string]string{"tool": asked.Tool, "params": string(asked.Params)})}
}

// Asked returns the open questions of a turn as [AsCall] does.
func Asked(rep *live.Report) (all []*event.Relay) {
	for _, asked := range rep.Pending {
		all = append(all, AsCall(rep.User, asked))
	}
	return all
}

// DecisionOf reads the result of a call of [ApprovalTool] as the decision about a request for an approval. The result is an
// object {"approved": true}, with a "reason" if it has one, or the word true or yes. Everything else denies the call.
func DecisionOf(asked *event.Relay, result json.RawMessage) runner.Decision {
	d := runner.Decision{CallID: asked.ToolCallID, Digest: asked.Digest}
	var object struct {
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	}
	_ = json.Unmarshal(result, &d.Reason) // it is a text
	switch text := strings.TrimSpace(d.Reason); {
	case json.Unmarshal([]byte(text), &object) == nil && object.Approved != nil:
		d.Approved, d.Reason = *object.Approved, object.Reason
	case strings.EqualFold(text, "true"), strings.EqualFold(text, "yes"):
		d.Approved, d.Reason = true, ""
	}
	return d
}
