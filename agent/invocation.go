package agent

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// SessionKey identifies a session. Every store uses all three parts as the key.
type SessionKey struct {
	App  string `json:"app"`
	User string `json:"user"`
	ID   string `json:"id"`
}

// String returns app/user/id. It escapes a slash of the user as %2F, so that the session c of the user a/b differs
// from the session b/c of the user a.
func (k SessionKey) String() string {
	user := strings.ReplaceAll(strings.ReplaceAll(k.User, "%", "%25"), "/", "%2F")
	return k.App + "/" + user + "/" + k.ID
}

// Session is the read-only view of the running session for agents. It is only for the agent's step, on the step's
// goroutine.
type Session interface {
	Key() SessionKey
	// Seq returns the position of the last stored event.
	Seq() int64
	// Turns returns where in the log the turns began.
	Turns() Turns
	// Events yields the stored events of all scopes after a position, oldest first.
	Events(ctx context.Context, after int64) iter.Seq2[*event.Event, error]
	// State returns the value of a state key, and whether the key exists. See the [event.State] event for the prefixes
	// of scopes.
	State(key string) (any, bool)
	// File returns the file with this name, or with this digest of a file event. If several files have the name, it
	// returns the last one that an agent created or the user sent, in any scope. If there is none, the error is
	// ErrNoFile. The bytes are shared and must not be changed.
	File(ctx context.Context, name string) (*event.File, []byte, error)
	// Memo keeps a value with the cached session, such as an incremental reducer over its log: the first call for a
	// key stores the result of create. The session may drop a memo at any time. Sessions never share one.
	Memo(key any, create func() any) any
}

// Runtime is the interface of the runner for an agent that it runs.
type Runtime interface {
	// Run runs another agent in a scope of the same session: the same log, a separate history and active agent. The
	// caller must yield the events itself. cause is the parent id of the scope's first run, such as the id of the tool
	// call.
	//
	// If a call runs again after a pause or a crash, Run returns the same scope for the same agent and input: first
	// its recorded events, then new ones unless the scope is finished. If the agent waits for something outside, the
	// error is ErrWaits.
	Run(ctx context.Context, a Agent, cause string, input llm.Content) iter.Seq2[*event.Event, error]
	// CheckTransfer returns nil if the agent of inv may now transfer its conversation to the agent named to. Otherwise
	// the error wraps ErrUnknownTarget, ErrTransferRejected, ErrTransferLimit or ErrTargetNotReady. It changes
	// nothing.
	CheckTransfer(ctx context.Context, inv *Invocation, to string) error
	// Ask asks a model for a running agent, within the turn's limits and budgets and through the interceptors. It
	// yields what Model.Generate yields. An error that is ErrLimit, ErrUnknownPrice or ErrUnknownUsage reports that
	// the model was not asked. A run must ask one model at a time: limits and budgets do not cover concurrent calls of
	// one run.
	Ask(ctx context.Context, inv *Invocation, model llm.Model, req *llm.Request) iter.Seq2[llm.Chunk, error]
	// SaveFile stores the bytes of a file and returns the payload of its event. The file belongs to the session once
	// the agent has yielded that event. An empty media type is detected from the bytes. The error wraps ErrBadInput if
	// the name or the media type is invalid, ErrFileTooLarge, or the store's error.
	SaveFile(ctx context.Context, name, mediaType string, data []byte) (*event.File, error)
	// Call runs one call of a tool through the interceptors.
	Call(ctx context.Context, c ToolCallInfo, run ToolFunc) (*event.ToolResult, error)
	// Suspended reports whether another process may continue the turn: it was cancelled with ErrSuspended, the store
	// has failed, or this process may have lost the lease. An agent's own context may report that later, or may be
	// cancelled for a consequence of it.
	Suspended() bool
}

// NotInFork is the text that models read in a fork about a call that only the parent session may run.
const NotInFork = "the call belongs to the conversation that this one was forked from, and may run there"

// Invocation is what an agent's step knows about its turn. It is valid only during the step.
type Invocation struct{ p InvocationParams }

// InvocationParams are the parts of an Invocation. A runner, or an agent's test, sets them.
type InvocationParams struct {
	Node    *Node
	Tree    *Tree
	Session Session
	Runtime Runtime
	TurnID  string
	RunID   string
	Scope   string
	// Input is the input of a run in an inner scope.
	Input json.RawMessage
	// Message is the user's message of this turn, for runs of the conversation.
	Message llm.Content
	// Metadata is the metadata of the user's message of this turn, for runs of all scopes.
	Metadata map[string]any
	// Payload is the input of the transfer that started the run.
	Payload json.RawMessage
	// Since is a position in the log before everything that the run has stored, and before the runs whose work it
	// continues.
	Since int64
	// Attempt counts the starts of the run's current step, from 1. It is greater than 1 after a crash. 0 means 1.
	Attempt int
	// Around is the conversation around an inner scope, if its tree's root has an edge with Around.
	Around *Around
	// ResumedAt is the last position of the log when this process started, resumed or adopted the turn.
	ResumedAt int64
	// Shared is the last position of the log that a fork shares with its parent session; 0 if the session is not a
	// fork.
	Shared int64
	// TransferWithAnswer allows an agent to decide about a transfer in the write of the answer, if the transfer is the
	// answer's only call. It is false if something slow must come between the two, such as asking the target whether
	// it can start, or something that must find the call in the log.
	TransferWithAnswer bool
	// Streaming requests partial events.
	Streaming bool
	// NewID returns an id that is unique in the session.
	NewID  func() string
	Logger *slog.Logger
}

// Around is the conversation in which an inner scope was opened.
type Around struct {
	Session Session
	// Scope is the conversation's scope, "" for the user's own. Tree has the agents of that conversation.
	Scope string
	Tree  *Tree
	// UpTo is the conversation's last position before the scope was opened.
	UpTo int64
	// Around is the conversation around that scope, or nil for the user's own.
	Around *Around
}

// NewInvocation returns an Invocation. Attempt defaults to 1, and Logger to a logger that discards everything.
func NewInvocation(p InvocationParams) *Invocation {
	if p.Attempt == 0 {
		p.Attempt = 1
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	return &Invocation{p}
}

// Node returns the running agent in its tree.
func (i *Invocation) Node() *Node { return i.p.Node }

// Agent returns the running agent.
func (i *Invocation) Agent() Agent { return i.p.Node.Agent }

// Tree returns the whole tree.
func (i *Invocation) Tree() *Tree { return i.p.Tree }

// Session returns the session, read-only.
func (i *Invocation) Session() Session { return i.p.Session }

// Runtime returns the interface that runs other agents and checks transfers.
func (i *Invocation) Runtime() Runtime { return i.p.Runtime }

// TurnID returns the id of the user's turn.
func (i *Invocation) TurnID() string { return i.p.TurnID }

// RunID returns the id of this run of the agent.
func (i *Invocation) RunID() string { return i.p.RunID }

// Scope returns the scope of the inner conversation, "" for the user's own.
func (i *Invocation) Scope() string { return i.p.Scope }

// Input returns the input of a run in an inner scope, nil elsewhere.
func (i *Invocation) Input() json.RawMessage { return i.p.Input }

// Message returns the user's message of this turn. It is empty in an inner scope, which has Input instead.
func (i *Invocation) Message() llm.Content { return i.p.Message }

// Around returns the conversation around the inner scope, or nil if the agent does not see it.
func (i *Invocation) Around() *Around { return i.p.Around }

// Metadata returns the metadata of the user's message of this turn, also in an inner scope. It is nil if there is
// none. It is shared and must not be changed.
func (i *Invocation) Metadata() map[string]any { return i.p.Metadata }

// Since returns a position in the log before everything that this run has stored, and before the runs whose work it
// continues after a pause or in a fork.
func (i *Invocation) Since() int64 { return i.p.Since }

// Attempt returns the number of starts of this step, from 1.
func (i *Invocation) Attempt() int { return i.p.Attempt }

// ResumedAt returns the last position of the log when this process started, resumed or adopted the turn. What other
// processes did is recorded at or before this position, or not at all. What was allowed only after this position, no
// other process has done.
func (i *Invocation) ResumedAt() int64 { return i.p.ResumedAt }

// Shared returns the last position of the log that a fork shares with its parent session; 0 if the session is not a
// fork. The parent session may still run the calls that are open at this position.
func (i *Invocation) Shared() int64 { return i.p.Shared }

// TransferWithAnswer reports whether an agent may decide about a transfer in the write of the answer, if the transfer
// is the answer's only call.
func (i *Invocation) TransferWithAnswer() bool { return i.p.TransferWithAnswer }

// Streaming reports whether the consumer wants partial events.
func (i *Invocation) Streaming() bool { return i.p.Streaming }

// NewID returns an id that is unique in the session.
func (i *Invocation) NewID() string { return i.p.NewID() }

// Logger returns the runner's logger. It is never nil.
func (i *Invocation) Logger() *slog.Logger { return i.p.Logger }
