package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// Question is an open question of a turn, in the structured content of a result.
type Question struct {
	CallID string `json:"callId"`
	Tool   string `json:"tool"`
	// Params are the parameters of the call.
	Params json.RawMessage `json:"params,omitempty"`
	// Message is the question, and Schema the JSON schema of the answer. Without a message, the call needs an approval.
	Message string          `json:"message,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	// Digest identifies the call and its parameters. The server refuses an answer with another digest.
	Digest string `json:"digest,omitempty"`
}

// Result is the structured content of a result of the tool ask.
type Result struct {
	Session   string     `json:"session"`
	Agent     string     `json:"agent,omitempty"`
	Questions []Question `json:"questions,omitempty"`
}

type askInput struct {
	Message string         `json:"message,omitempty" jsonschema:"The message to send"`
	Session string         `json:"session,omitempty" jsonschema:"The session of an earlier result, to continue its conversation"`
	Answers map[string]any `json:"answers,omitempty" jsonschema:"Answers to the questions of an earlier result, by callId. For an approval: true or false, or an object with approved, reason and digest. For another question: the answer, or an object with content and digest"`
}

// connection is one session of a client.
type connection struct {
	server  *Server
	user    string
	caller  func() access.User // the user with current rights, for decisions
	session string             // the id of the conversation of calls that name none
}

// maxRounds is the number of times that one call asks the user.
const maxRounds = 20

func (c *connection) ask(ctx context.Context, req *sdk.CallToolRequest, in askInput) (*sdk.CallToolResult, any, error) {
	t := &turn{connection: c, req: req, runner: c.server.runner.Load(), key: session.Key{App: session.DefaultApp, User: c.user, ID: c.session}}
	if id := req.Params.RequestState; id != "" { // the client has answered
		in.Session = id
	}
	if in.Session != "" {
		t.key.ID = in.Session
		if !strings.HasPrefix(in.Session, sessionPrefix) || session.CheckKey(t.key) != nil {
			return nil, nil, fmt.Errorf("the session %.80q does not exist: use the session of an earlier result", in.Session)
		}
	}
	said := llm.UserText(in.Message)
	err := front.CheckText(said.Content)
	switch answered := req.Params.InputResponses; {
	case answered != nil:
		err = t.decide(ctx, func(q *event.Relay) (runner.Decision, bool) {
			r, _ := answered[questionID(q)].(*sdk.ElicitResult)
			return elicited(q, r)
		})
	case len(in.Answers) > 0 && in.Message != "":
		return nil, nil, errors.New("the call has a message and answers: send the answers alone, and the message when the turn has ended")
	case len(in.Answers) > 0:
		err = t.decide(ctx, func(q *event.Relay) (runner.Decision, bool) {
			a, ok := in.Answers[q.ToolCallID]
			if !ok {
				return runner.Decision{}, false
			}
			return decisionOf(q, a), true
		}, slices.Sorted(maps.Keys(in.Answers))...)
	case strings.TrimSpace(in.Message) == "":
		return nil, nil, errors.New("the message is empty")
	case err != nil:
		return nil, nil, err
	default:
		err = t.run(ctx, t.runner.Run(ctx, t.key, said))
	}
	for range maxRounds {
		if err != nil {
			return nil, nil, publicError(err)
		}
		pending, failed := t.pending(ctx)
		if failed != nil {
			return nil, nil, publicError(failed)
		}
		if len(pending) == 0 {
			return t.result(nil), nil, nil
		}
		own := slices.DeleteFunc(slices.Clone(pending), func(q *event.Relay) bool { return !t.may(q) })
		if len(own) == 0 || !t.canAsk() || req.Params.InputResponses != nil && !t.decided { // the user has canceled the questions
			return t.result(pending), nil, nil
		}
		if t.latest() {
			asks := sdk.InputRequestMap{}
			for _, q := range own {
				asks[questionID(q)] = elicit(q)
			}
			return &sdk.CallToolResult{InputRequests: asks, RequestState: t.key.ID}, nil, nil
		}
		answers := map[string]*sdk.ElicitResult{}
		for _, q := range own {
			if answers[q.ToolCallID], err = req.Session.Elicit(ctx, elicit(q)); err != nil {
				if ctx.Err() != nil {
					return nil, nil, ctx.Err()
				}
				return t.result(pending), nil, nil // the client cannot ask, although it declares elicitation
			}
		}
		t.decided = false
		err = t.decide(ctx, func(q *event.Relay) (runner.Decision, bool) {
			if i := slices.IndexFunc(own, func(shown *event.Relay) bool { return shown.ToolCallID == q.ToolCallID }); i >= 0 {
				return elicited(own[i], answers[q.ToolCallID])
			}
			return runner.Decision{}, false
		})
		if err == nil && !t.decided {
			return t.result(pending), nil, nil
		}
	}
	return nil, nil, fmt.Errorf("the turn has asked %d times: call ask again with the session %s to continue", maxRounds, t.key.ID)
}

// publicError returns an error with a text that clients may read.
func publicError(err error) error {
	if errors.Is(err, session.ErrUnavailable) {
		return errors.New("the store of sessions is not available: retry later")
	}
	return errors.New(agent.ForModel(err))
}

// turn is one call of ask.
type turn struct {
	*connection
	req     *sdk.CallToolRequest
	runner  *runner.Runner
	key     session.Key
	answer  event.Answer
	steps   float64
	decided bool // the last answers decided a question
}

// run runs a turn and reports its progress to the client.
func (t *turn) run(ctx context.Context, events iter.Seq2[*event.Event, error]) error {
	if err := t.server.turns.Await(ctx, t.user); err != nil {
		return fmt.Errorf("the turn was not started: %w", err)
	}
	defer t.server.turns.Leave(t.user)
	private := live.Private(t.runner.Tree())
	for e, err := range events {
		if err != nil {
			return err
		}
		if e.Scope == "" {
			t.answer.Apply(e)
		}
		if !private(e) {
			t.progress(e)
		}
	}
	return nil
}

func (t *turn) progress(e *event.Event) {
	token := t.req.Params.GetProgressToken()
	if token == nil || e.Partial {
		return
	}
	var message string
	switch d := e.Data.(type) {
	case *event.Text:
		message = e.Agent + ": " + d.Content
	case *event.Transfer:
		if d.Outcome == event.TransferCommitted {
			message = d.From + " → " + d.To
		}
	case *event.ToolCall:
		if d.Name != agent.TransferTool {
			message = e.Agent + " calls " + d.Name
		}
	case *event.ToolProgress:
		message = d.Name + ": " + event.OutputText(d.Content)
	}
	if message == "" {
		return
	}
	t.steps++
	err := t.req.Session.NotifyProgress(context.Background(), &sdk.ProgressNotificationParams{ProgressToken: token, Progress: t.steps, Message: message})
	if err != nil {
		t.server.logger.Debug("progress could not be reported", "error", err)
	}
}

// pending returns the open questions of the turn.
func (t *turn) pending(ctx context.Context) ([]*event.Relay, error) {
	if t.answer.FinishReason != event.FinishReasonInputRequired {
		return nil, nil
	}
	return t.runner.Pending(ctx, t.key)
}

// decide resumes the turn with decisions. about returns the decision of an open question, or false without one. The calls
// must have open questions.
func (t *turn) decide(ctx context.Context, about func(*event.Relay) (runner.Decision, bool), calls ...string) error {
	var pending []*event.Relay
	var first int64 // the position of the turn's first event
	err := t.runner.ReadFold(ctx, t.key, func(f *session.Fold) error {
		if first = f.Turn.First; f.Paused() {
			pending = f.Questions()
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range calls {
		if len(pending) > 0 && !slices.ContainsFunc(pending, func(q *event.Relay) bool { return q.ToolCallID == id }) {
			return fmt.Errorf("no question of the call %.64q is open: answer those of the last result: %w", id, runner.ErrNoApproval)
		}
	}
	var all []runner.Decision
	for _, q := range pending {
		if d, ok := about(q); ok {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		if len(pending) == 0 {
			return errors.New("this session has no open question")
		}
		t.answer.FinishReason = event.FinishReasonInputRequired
		return nil
	}
	if err = live.CheckNamedIn(ctx, t.runner.Store(), t.key, first, true, all); err != nil {
		return err
	}
	if all, err = t.server.deciders.Sign(t.caller(), t.key, pending, all); err != nil {
		return err
	}
	t.decided = true
	return t.run(ctx, t.runner.Resume(ctx, t.key, all...))
}

// may reports whether the client's user may decide about a question.
func (t *turn) may(q *event.Relay) bool {
	_, err := t.server.deciders.May(t.caller(), t.key, q)
	return err == nil
}

// canAsk reports whether the client can ask its user.
func (t *turn) canAsk() bool {
	p := t.req.Session.InitializeParams()
	return p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil
}

// latest reports whether the client uses at least version 2026-07-28 of the protocol, in which results contain requests
// for input.
func (t *turn) latest() bool {
	p := t.req.Session.InitializeParams()
	return p != nil && p.ProtocolVersion >= "2026-07-28"
}

// questionID identifies a question. If the call asks another question later, that has another id, so that an answer to the
// first one does not apply to it.
func questionID(q *event.Relay) string { return q.ToolCallID + " " + q.Digest }

// elicit returns the form of a question.
func elicit(q *event.Relay) *sdk.ElicitParams {
	if q.Kind != event.RelayInput {
		return &sdk.ElicitParams{Message: questionText(q), RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"approved":{"type":"boolean","title":"Let it run"},"reason":{"type":"string","title":"Why not"}},"required":["approved"]}`)}
	}
	p := &sdk.ElicitParams{Message: questionText(q), RequestedSchema: q.Schema}
	if !flat(q.Schema) {
		p.RequestedSchema = json.RawMessage(`{"type":"object","properties":{"content":{"type":"string"}},"required":["content"]}`)
		if q.Schema != nil {
			p.Message += "\nThe answer is JSON of this schema: " + string(q.Schema)
		}
	}
	return p
}

// flat reports whether clients can show a schema as a form.
func flat(schema json.RawMessage) bool {
	var s struct {
		Type       string
		Properties map[string]struct{ Type any }
	}
	if json.Unmarshal(schema, &s) != nil || s.Type != "object" || len(s.Properties) == 0 {
		return false
	}
	for p := range maps.Values(s.Properties) {
		if name, _ := p.Type.(string); !slices.Contains([]string{"string", "number", "integer", "boolean"}, name) {
			return false
		}
	}
	return true
}

// elicited returns the decision in the answer of a form, which is about the question of the form only. ok is false if the
// user did not answer.
func elicited(q *event.Relay, r *sdk.ElicitResult) (d runner.Decision, ok bool) {
	switch {
	case r == nil || r.Action == "cancel":
		return d, false
	case r.Action != "accept":
		d = runner.Deny(q.ToolCallID, "")
	case q.Kind != event.RelayInput || flat(q.Schema):
		d = decisionOf(q, r.Content)
	default:
		text, _ := r.Content["content"].(string)
		d = decisionOf(q, text)
	}
	d.Digest = q.Digest
	return d, true
}

// decisionOf returns the decision in a client's answer. Only true approves a call; every other answer denies it.
func decisionOf(q *event.Relay, a any) runner.Decision {
	m, _ := a.(map[string]any)
	digest, _ := m["digest"].(string)
	if q.Kind == event.RelayInput {
		if content, has := m["content"]; has && digest != "" && len(m) == 2 {
			a = content
		} else {
			digest = "" // a part of the requested value
		}
		d := runner.Answer(q.ToolCallID, a)
		if text, ok := a.(string); ok {
			d = runner.Decision{CallID: q.ToolCallID, Approved: true, Content: live.Content(q, text)}
		}
		d.Digest = digest
		return d
	}
	d := runner.Decision{CallID: q.ToolCallID, Approved: a == true || m["approved"] == true, Digest: digest}
	d.Reason, _ = m["reason"].(string)
	return d
}

// questionText returns the text of a question for people, with all parameters of the call.
func questionText(q *event.Relay) string {
	tool := visible.Line(q.Tool)
	if q.Kind == event.RelayInput {
		return visible.Text(q.Message)
	}
	if line, whole := visible.Inline(q.Params); whole {
		return strings.TrimSpace("The tool "+tool+" wants to run. "+line) + " Let it run?"
	}
	return "The tool " + tool + " wants to run. Let it run?\n" + strings.Join(visible.Arguments(q.Params), "\n")
}

// result returns the result of a call whose turn has ended or waits.
func (t *turn) result(pending []*event.Relay) *sdk.CallToolResult {
	out := Result{Session: t.key.ID, Agent: t.answer.Agent}
	text := t.answer.Text
	switch {
	case len(pending) > 0:
		lines := []string{"The turn waits for answers."}
		for _, q := range pending {
			lines = append(lines, fmt.Sprintf("%s: %s", q.ToolCallID, questionText(q)))
			if !t.may(q) {
				lines = append(lines, live.Colleague)
				continue
			}
			out.Questions = append(out.Questions, Question{CallID: q.ToolCallID, Tool: q.Tool, Params: q.Params, Message: q.Message, Schema: q.Schema, Digest: q.Digest})
		}
		if len(out.Questions) > 0 {
			q, example := out.Questions[0], map[string]any{}
			if example["digest"] = out.Questions[0].Digest; q.Message == "" {
				example["approved"] = true
			} else {
				example["content"] = "the answer"
			}
			lines = append(lines, fmt.Sprintf("Ask your user, then call ask with session %q and answers, such as %s.",
				t.key.ID, event.EncodeJSON(map[string]any{q.CallID: example})))
		}
		text = strings.TrimSpace(text + "\n\n" + strings.Join(lines, "\n"))
	case t.answer.FinishReason == event.FinishReasonInputRequired:
		text = strings.TrimSpace(text + "\n\nThe turn waits for something external. Call ask with session " + t.key.ID + " and a message later to continue.")
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: out}
}
