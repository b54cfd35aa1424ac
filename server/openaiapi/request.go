package openaiapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
)

// chatFields are the members of a chat completion. Sampling settings are ignored, because agents have their own.
var chatFields = fields{
	supported: []string{"model", "messages", "stream", "stream_options", "metadata", "user", "tools", "tool_choice", "response_format", "stop", "arbor"},
	refused: map[string][]string{"n": {"1"}, "functions": {"[]"}, "function_call": {`"none"`, `"auto"`}, "logprobs": {"false"}, "top_logprobs": {"0"}, "modalities": {`["text"]`},
		"audio": nil, "web_search_options": nil, "moderation": nil},
}

type chatBody struct {
	Model         string            `json:"model"`
	Messages      []json.RawMessage `json:"messages"`
	Stream        bool              `json:"stream"`
	StreamOptions struct {
		IncludeUsage       bool `json:"include_usage"`
		IncludeObfuscation bool `json:"include_obfuscation"`
	} `json:"stream_options"`
	Metadata   map[string]any    `json:"metadata"`
	User       string            `json:"user"`
	Tools      []json.RawMessage `json:"tools"`
	ToolChoice json.RawMessage   `json:"tool_choice"`
	Format     json.RawMessage   `json:"response_format"`
	Stop       json.RawMessage   `json:"stop"`
	Arbor      struct {
		Events bool `json:"events"`
	} `json:"arbor"`
}

// chatRequest is a decoded body.
type chatRequest struct {
	chatBody
	agent *agent.Node
	// now are the new messages of the user at the end, and past is the conversation before them.
	past, now []llm.Message
	// results are the results of calls at the end of the past.
	results []runner.Decision
	// approvals are those at the end of the items of a response.
	approvals []wireApproval
	stops     stops
	// formatAt is the path of the member with the format of the answer.
	formatAt string
}

// readChat reads a request. A header of the answer lists what is ignored.
func (h *Handler) readChat(c *front.Call) (*chatRequest, error) {
	var wrong faults
	q := &chatRequest{formatAt: "response_format"}
	ignored, err := chatFields.read(c, &q.chatBody, &wrong)
	if err != nil {
		return nil, err
	}
	q.stops = readStops(q.Stop, &wrong)
	for i, raw := range prompts(q.Messages) {
		path := fmt.Sprintf("messages[%d]", i)
		if q.message(raw, path, &wrong) {
			ignored = append(ignored, path)
		}
	}
	if len(q.now)+len(q.results) == 0 && len(wrong) == 0 {
		wrong.addf("messages", "must end with a message of the user that is not empty, or with results of calls")
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	if q.agent, err = h.agent(q.Model); err != nil {
		return nil, err
	}
	setIgnored(c, ignored)
	return q, nil
}

// prompts returns the messages of a request. If all of them have the role system or developer, it returns them as
// messages of the user, because some clients send a single prompt in this way.
func prompts(messages []json.RawMessage) []json.RawMessage {
	said := make([]json.RawMessage, len(messages))
	for i, raw := range messages {
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) != nil || !slices.Contains([]string{`"system"`, `"developer"`}, string(m["role"])) {
			return messages
		}
		m["role"] = json.RawMessage(`"user"`)
		said[i], _ = json.Marshal(m) // its members are JSON
	}
	return said
}

// setIgnored lists the ignored members of a request in the header Arbor-Ignored.
func setIgnored(c *front.Call, names []string) {
	listed := front.Shortened(names)
	for i, name := range listed {
		listed[i] = strings.Trim(strconv.QuoteToASCII(name), `"`) // a header takes only printable ASCII
	}
	if len(names) > 0 {
		c.W.Header().Set("Arbor-Ignored", strings.Join(listed, ", "))
	}
}

// message reads a message, and reports whether it is ignored.
func (q *chatRequest) message(raw json.RawMessage, path string, wrong *faults) (ignored bool) {
	m, err := chatform.ReadMessage(raw)
	if err == nil && m.Role == llm.RoleUser {
		if isEmpty(m) {
			return true
		}
		err = llm.CheckUser(m)
	}
	switch {
	case err != nil:
		wrong.addf(path, "cannot be read: %s", err)
	case m.Role == llm.RoleUser && front.CheckText(m.Content) != nil:
		wrong.addf(path, "has more than %d bytes of text", front.MaxText)
	case m.Role != "":
		q.add(m, callPrefix)
	default:
		return true
	}
	return false
}

// isEmpty reports whether a message has neither text nor media. Some clients keep such messages in their history.
func isEmpty(m llm.Message) bool {
	media := func(p llm.Part) bool { _, text := p.(llm.TextPart); return !text }
	return strings.TrimSpace(m.PlainText()) == "" && !slices.ContainsFunc(m.Parts, media)
}

// add appends a message. Results of calls and approvals count only if nothing but new messages follows them: clients send
// them back with the history. The ids of the calls that this server made have the prefix.
func (q *chatRequest) add(m llm.Message, prefix string) {
	if m.Role == llm.RoleUser {
		q.now = append(q.now, m)
		return
	}
	q.moveToPast()
	if m.Role == llm.RoleAssistant {
		q.results, q.approvals = nil, nil
	}
	for _, part := range m.Parts {
		if r, ok := part.(llm.ToolResult); ok {
			q.results = append(q.results, runner.Answer(strings.TrimPrefix(r.CallID, prefix), r.Output))
		}
	}
	q.past = append(q.past, m)
}

// moveToPast appends the new messages to the past, after the results before them.
func (q *chatRequest) moveToPast() {
	if len(q.now) > 0 {
		q.results, q.approvals = nil, nil
	}
	q.past, q.now = append(q.past, q.now...), nil
}

// metadataOf returns the metadata of a request, which is stored with the message.
func metadataOf(metadata map[string]any, user string, wrong *faults) map[string]any {
	all, size := make(map[string]any, len(metadata)+1), len(user)
	if user != "" {
		all["user"] = user
	}
	for k, v := range metadata {
		text, ok := v.(string)
		if !ok && v != nil {
			wrong.addf("metadata."+k, "must be a string")
		}
		if live.Reserved(k) {
			wrong.addf("metadata."+k, "is reserved")
		}
		all[k] = text
		size += len(k) + len(text)
	}
	if size > front.MaxMetadata {
		wrong.addf("metadata", "has more than %d bytes", front.MaxMetadata)
	}
	return all
}

// requestID returns the Idempotency-Key of a request, and whether the request may be a repetition. OpenAI's clients
// count their retries in a header. Without this header, every request with a key may be a repetition.
func requestID(r *http.Request) (id string, repeats bool, err error) {
	id = r.Header.Get("Idempotency-Key")
	if len(id) > 255 || strings.ContainsFunc(id, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "", false, front.BadRequest("the header Idempotency-Key must have 1 to 255 printable characters")
	}
	count := r.Header.Get("X-Stainless-Retry-Count")
	n, err := strconv.Atoi(count)
	if count != "" && (err != nil || n < 0) {
		return "", false, front.BadRequest("the header X-Stainless-Retry-Count is %.40q; it must be a number", count)
	}
	return id, n > 0 || id != "" && count == "", nil
}
