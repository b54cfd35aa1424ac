package a2aserver

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/origin"
	"github.com/agentarbor/arbor/a2a/internal/parts"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// projection converts the events of a session's log to an A2A task: the current state of the task, and the updates that
// its subscribers receive for each event. It depends only on the events, so a task looks the same while it runs, after
// a restart and in another process.
//
// A task begins with a user event and includes all agents of the turn. It continues with the next turn if that turn
// answers what the task asked. It ends at the latest when the session continues with another task.
type projection struct {
	start    int64 // the position of the user event that starts the task
	turn     string
	extended bool // the subscriber wants the metadata of our extension
	outline  bool // compute only the state, without the content

	task       *sdk.Task
	statusAt   int64            // the position where the task's status was set
	askedAt    map[string]int64 // the positions of the messages that asked for answers, by their ids
	superseded bool             // the session continued with another task

	log      session.Reader
	blocks   int // number of complete texts of the current run
	run      string
	lastText string // the run's last complete text
	remote   string // the status of a remote task of the current run
	handoff  bool   // a person answers the conversation, or it waits for one
	usage    []modelUsage

	blob    func(digest string) ([]byte, error) // reads the bytes of files; nil reads none
	private func(*event.Event) bool             // reports facts that peers do not get; nil reports none
	maxFile int64                               // largest size of a file that is sent, in bytes
}

func newProjection(key agent.SessionKey, first *event.Event) *projection {
	id := taskID(first.Seq, first.TurnID, key.ID)
	return &projection{start: first.Seq, turn: first.TurnID, task: &sdk.Task{ID: id, ContextID: key.ID,
		Status: sdk.TaskStatus{State: sdk.TaskStateSubmitted}}}
}

// settled reports whether the task waits for something or is over.
func (p *projection) settled() bool {
	state := p.task.Status.State
	return state.Terminal() || state == sdk.TaskStateInputRequired || state == sdk.TaskStateAuthRequired
}

// apply applies the next event and returns the updates for the subscribers.
func (p *projection) apply(e *event.Event) []sdk.Event {
	if p.superseded {
		return nil
	}
	rec := p.log.Next(e)
	switch d := e.Data.(type) { // these count in every scope
	case *event.User:
		return p.user(e, d)
	case *event.File: // a file belongs to the session
		return p.file(e, d)
	case *event.Usage:
		p.addUsage(d)
	case *event.RelayResolved:
		return p.onDecision(e, d)
	}
	if e.Scope != "" { // the work of inner agents
		return nil
	}
	switch d := e.Data.(type) {
	case *event.HarnessStart:
		return p.onRunStart(e)
	case *event.Text:
		return p.text(rec, d.Content)
	case *event.Discard:
		if slices.ContainsFunc(rec.Void, p.isShown) {
			return []sdk.Event{p.update(e, "", false)}
		}
	case *event.ToolCall:
		return p.fact(e, map[string]any{"toolCall": map[string]any{"id": e.ID, "name": d.Name, "input": jsonValue(d.Input)}}, d.Name)
	case *event.ToolResult:
		return p.fact(e, map[string]any{"toolResult": map[string]any{"id": e.ID, "name": d.Name, "output": jsonValue(d.Output), "isError": d.IsError}}, d.Name)
	case *event.Transfer:
		if d.Outcome == event.TransferCommitted {
			return p.fact(e, map[string]any{"transfer": map[string]any{"from": d.From, "to": d.To}}, "")
		}
	case *event.RemoteTask:
		p.remote = d.Status
	case *event.HandoffStatus:
		p.handoff = !event.HandoffOver(d.Status)
	case *event.HarnessEnd:
		return p.onRunEnd(rec, d)
	case *event.User, *event.File, *event.Usage, *event.RelayResolved: // handled above for every scope
	case *event.Relay, *event.Failure: // part of the record
	case *event.Reasoning, *event.ToolProgress, *event.State, *event.Compaction, *event.Notice, *event.Route: // not for peers
	}
	return nil
}

func (p *projection) user(e *event.Event, u *event.User) []sdk.Event {
	from := origin.Of(u.Metadata)
	// A task that is over stays so, even if a message names it. In a fork, earlier messages name the task with the
	// context of the parent session.
	head, _, _ := strings.Cut(from.Task, ".")
	mine := e.Seq == p.start || head != "" && strings.HasPrefix(string(p.task.ID), head+".") && !p.task.Status.State.Terminal()
	if !mine {
		p.superseded = true
		if p.task.Status.State.Terminal() {
			return nil
		}
		return p.status(e, sdk.TaskStateCanceled, p.message(e, textPart("The conversation continued without this task.")))
	}
	id := from.Message
	if id == "" {
		id = e.ID
	}
	p.addMessage(&sdk.Message{ID: id, Role: sdk.MessageRoleUser, TaskID: p.task.ID, ContextID: p.task.ContextID, Parts: parts.Of(u.Content)})
	if e.Seq == p.start {
		p.setStatus(e, sdk.TaskStateSubmitted, nil)
		return nil
	}
	return p.status(e, sdk.TaskStateWorking, nil)
}

// addMessage adds a message to the task's history.
func (p *projection) addMessage(m *sdk.Message) {
	if !p.outline {
		p.task.History = append(p.task.History, m)
	}
}

func (p *projection) onRunStart(e *event.Event) []sdk.Event {
	p.run, p.blocks, p.lastText, p.remote = e.RunID, 0, "", ""
	if p.task.Status.State == sdk.TaskStateWorking && !p.extended {
		return nil
	}
	return p.status(e, sdk.TaskStateWorking, nil)
}

// isShown reports whether a block is text of the current run.
func (p *projection) isShown(b *session.Block) bool {
	return b.RunID == p.run && b.Type() == event.TypeText
}

// text converts a delta or a complete text. Each complete text is an artifact. The text of a later attempt replaces the
// shown text of a discarded one.
func (p *projection) text(rec session.Record, content string) []sdk.Event {
	if rec.RunID != p.run {
		return nil
	}
	if !rec.Partial {
		p.lastText = content
	}
	if content == "" {
		return nil
	}
	if rec.Partial {
		return []sdk.Event{p.update(rec.Event, rec.NewText, !rec.Fresh)}
	}
	return p.addBlock(p.block(rec.Event, textPart(content)))
}

// addBlock adds the artifact with the run's current text.
func (p *projection) addBlock(a *sdk.Artifact) []sdk.Event {
	p.blocks++
	return p.addArtifact(a)
}

// addArtifact stores a complete artifact and returns the update for it. The artifact replaces the pieces
// that subscribers received, because some clients, such as those of google-adk, keep only the chunk that is marked as
// the last one.
func (p *projection) addArtifact(a *sdk.Artifact) []sdk.Event {
	if !p.outline {
		p.task.Artifacts = append(p.task.Artifacts, a)
	}
	return []sdk.Event{&sdk.TaskArtifactUpdateEvent{TaskID: p.task.ID, ContextID: p.task.ContextID, Artifact: a, LastChunk: true}}
}

// block returns the artifact with the run's current text. Its id is the id of the run with the number of the text.
func (p *projection) block(e *event.Event, content *sdk.Part) *sdk.Artifact {
	return p.artifact(e, p.run+"-"+strconv.Itoa(p.blocks+1), e.Agent, content)
}

func (p *projection) artifact(e *event.Event, id, name string, content *sdk.Part) *sdk.Artifact {
	a := &sdk.Artifact{ID: sdk.ArtifactID(id), Name: name, Parts: sdk.ContentParts{content}}
	if p.extended {
		a.Extensions, a.Metadata = []string{a2a.Extension}, p.author(e, nil)
	}
	return a
}

func (p *projection) update(e *event.Event, text string, more bool) sdk.Event {
	a := p.block(e, textPart(text))
	if more { // the first piece named the author; repeating it would be most of the bytes of a stream
		a.Extensions, a.Metadata = nil, nil
	}
	return &sdk.TaskArtifactUpdateEvent{TaskID: p.task.ID, ContextID: p.task.ContextID, Artifact: a, Append: more}
}

// author returns the metadata that names the agent, under our extension's key.
func (p *projection) author(e *event.Event, more map[string]any) map[string]any {
	m := map[string]any{"agent": e.Agent, "path": e.Path, "runId": e.RunID}
	for k, v := range more {
		m[k] = v
	}
	return map[string]any{a2a.Extension: m}
}

// fact returns an update about something other than text, for subscribers that want it.
func (p *projection) fact(e *event.Event, value map[string]any, tool string) []sdk.Event {
	if !p.extended || p.private != nil && p.private(e) || tool == agent.TransferTool || p.settled() { // the next state shows withdrawn calls
		return nil
	}
	m := p.message(e, sdk.NewDataPart(value))
	m.Extensions = []string{a2a.Extension}
	return []sdk.Event{&sdk.TaskStatusUpdateEvent{TaskID: p.task.ID, ContextID: p.task.ContextID, Metadata: p.author(e, nil),
		Status: sdk.TaskStatus{State: p.task.Status.State, Timestamp: p.task.Status.Timestamp, Message: m}}}
}

// message returns a message of the agent outside of its artifacts. Its id contains that of the event.
func (p *projection) message(e *event.Event, parts ...*sdk.Part) *sdk.Message {
	return &sdk.Message{ID: e.RunID + "-" + e.ID, Role: sdk.MessageRoleAgent, TaskID: p.task.ID, ContextID: p.task.ContextID, Parts: parts}
}

// setStatus sets the state without an update.
func (p *projection) setStatus(e *event.Event, state sdk.TaskState, m *sdk.Message) {
	at := e.Time
	p.statusAt = e.Seq
	p.task.Status = sdk.TaskStatus{State: state, Message: m, Timestamp: &at}
}

// status sets the state and returns the update. It also adds the agent's message to the history.
func (p *projection) status(e *event.Event, state sdk.TaskState, m *sdk.Message) []sdk.Event {
	p.setStatus(e, state, m)
	if m != nil {
		p.addMessage(m)
	}
	u := &sdk.TaskStatusUpdateEvent{TaskID: p.task.ID, ContextID: p.task.ContextID, Status: p.task.Status}
	if p.extended {
		var more map[string]any
		if state.Terminal() && len(p.usage) > 0 {
			more = map[string]any{"usage": p.usageList()}
			p.task.Metadata = map[string]any{a2a.Extension: more}
		}
		u.Metadata = p.author(e, more)
	}
	return []sdk.Event{u}
}

// onRunEnd converts the end of a run. The task ends with it, unless another agent continues or the task waits for
// something.
func (p *projection) onRunEnd(rec session.Record, end *event.HarnessEnd) []sdk.Event {
	e := rec.Event
	if e.RunID != p.run {
		return nil
	}
	switch end.FinishReason {
	case event.FinishReasonTransfer:
		return nil
	case event.FinishReasonCanceled:
		return p.status(e, sdk.TaskStateCanceled, nil)
	case event.FinishReasonError, event.FinishReasonLimit:
		return p.status(e, sdk.TaskStateFailed, p.message(e, textPart(failed(rec.Failure, end))))
	case event.FinishReasonInputRequired:
		if asked := p.log.Pending(); len(asked) > 0 {
			m := p.message(e, askParts(asked)...)
			if p.askedAt == nil {
				p.askedAt = make(map[string]int64)
			}
			p.askedAt[m.ID] = e.Seq
			return p.status(e, sdk.TaskStateInputRequired, m)
		}
		state := sdk.TaskStateInputRequired
		if p.remote == "auth_required" {
			state = sdk.TaskStateAuthRequired
		}
		return p.status(e, state, p.lastMessage(e))
	}
	if p.remote == "input_required" || p.handoff { // the remote agent asked, or a person may send more
		return p.status(e, sdk.TaskStateInputRequired, p.lastMessage(e))
	}
	return append(p.output(e, end), p.status(e, sdk.TaskStateCompleted, nil)...)
}

// output returns an artifact with the output of a workflow that has shown no text.
func (p *projection) output(e *event.Event, end *event.HarnessEnd) []sdk.Event {
	if p.blocks > 0 || len(end.Output) == 0 || string(end.Output) == "null" {
		return nil
	}
	return p.addBlock(p.block(e, sdk.NewDataPart(jsonValue(end.Output))))
}

func (p *projection) lastMessage(e *event.Event) *sdk.Message {
	if p.lastText == "" {
		return nil
	}
	return p.message(e, textPart(p.lastText))
}

// failed returns a text about the failure that every client may read.
func failed(why *event.Failure, end *event.HarnessEnd) string {
	switch {
	case why != nil && why.Code != "":
		return cmp.Or(why.Public().Message, "The agent failed.") + " (" + why.Code + ")"
	case end.FinishReason == event.FinishReasonLimit:
		return "A limit of the agent was reached."
	}
	return "The agent failed."
}

// addUsage adds the usage of an answer, if the subscriber wants it.
func (p *projection) addUsage(u *event.Usage) {
	counted := u.Counted()
	if !p.extended || counted.InputTokens+counted.OutputTokens == 0 { // the model did not report its usage
		return
	}
	i := slices.IndexFunc(p.usage, func(o modelUsage) bool { return o.model == u.Model })
	if i < 0 {
		p.usage = append(p.usage, modelUsage{model: u.Model})
		i = len(p.usage) - 1
	}
	p.usage[i].Usage = p.usage[i].Usage.Add(counted)
}

// modelUsage is the usage of one model.
type modelUsage struct {
	model string
	llm.Usage
}

func (p *projection) usageList() []any {
	list := make([]any, len(p.usage))
	for i, u := range p.usage {
		list[i] = map[string]any{"model": u.model, "inputTokens": u.InputTokens, "outputTokens": u.OutputTokens, "cachedTokens": u.CachedTokens}
	}
	return list
}
