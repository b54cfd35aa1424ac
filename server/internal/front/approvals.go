package front

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
)

// ApprovalTool is the name of the function by which a client approves calls. If a client sends it among its tools, the
// server calls it for each request for an approval in the client's turns. The server never offers it to a model.
const ApprovalTool = "arbor_approve"

// ApprovalsKey is the key of the metadata of a user's message whose client sent [ApprovalTool]. Clients cannot set it.
const ApprovalsKey = "arbor.approvals"

// AsCall returns a request for an approval as a call of [ApprovalTool], if the client sent this tool with the user's
// message. It returns every other question unchanged. The id of the call is a hash of the question's id and of the id and
// the digest of the call to approve, so that a result applies only to that question: the call may ask the same again.
func AsCall(user *event.User, id string, asked *event.Relay) *event.Relay {
	if user == nil || user.Metadata[ApprovalsKey] != true || asked.Client || asked.Kind != event.RelayPermission {
		return asked
	}
	sum := sha256.Sum256([]byte(id + "\x00" + asked.ToolCallID + "\x00" + asked.Digest))
	return &event.Relay{Kind: event.RelayInput, ToolCallID: "appr_" + hex.EncodeToString(sum[:12]), Tool: ApprovalTool, Client: true,
		Params: event.EncodeJSON(map[string]string{"tool": asked.Tool, "params": string(asked.Params)})}
}

// OpenQuestions returns the open questions of a turn, converted by [AsCall].
func OpenQuestions(rep *live.Report) (all []*event.Relay) {
	for _, e := range rep.Questions() {
		all = append(all, AsCall(rep.User, e.ID, e.Data.(*event.Relay)))
	}
	return all
}

// Question returns the text that asks a person in a chat about a call, and says how to answer.
func Question(asked *event.Relay) string {
	if asked.Kind == event.RelayInput {
		return live.Question(asked) + "Answer with your next message."
	}
	return live.Question(asked) + "Answer yes to let it run, or no."
}

// DecisionOf returns the decision in the result of a call of [ApprovalTool]. An object {"approved": true}, which may
// have a "reason", and the texts "true" and "yes" approve the call. Every other result denies it.
func DecisionOf(asked *event.Relay, result json.RawMessage) runner.Decision {
	d := runner.Decision{CallID: asked.ToolCallID, Digest: asked.Digest}
	var object struct {
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	}
	_ = json.Unmarshal(result, &d.Reason) // the result is a string
	switch text := strings.TrimSpace(d.Reason); {
	case json.Unmarshal([]byte(text), &object) == nil && object.Approved != nil:
		d.Approved, d.Reason = *object.Approved, object.Reason
	case strings.EqualFold(text, "true"), strings.EqualFold(text, "yes"):
		d.Approved, d.Reason = true, ""
	}
	return d
}
