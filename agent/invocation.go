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

// SessionKey names a session. Every store is keyed by all three parts.
type SessionKey struct {
	App  string `json:"app"`
	User string `json:"user"`
	ID   string `json:"id"`
}

// String returns app/user/id. A user with a slash has %2F in its place, so that the session c of the user a/b is
// not taken for the session b/c of the user a.
func (k SessionKey) String() string {
	user := strings.ReplaceAll(strings.ReplaceAll(k.User, "%", "%25"), "/", "%2F")
	return k.App + "/" + user + "/" + k.ID
}

// Session is the read-only view of the running session that agents get. It is
// for use by the agent's step only, on the goroutine that runs it.
type Session interface {
	Key() SessionKey
	// Seq is the position of the last stored event.
	Seq() int64
	// Turns says where in the log the user's turns began.
	Turns() Turns
	// Events yields the stored events after a position, oldest first, those of
	// all scopes.
	Events(ctx context.Context, after int64) iter.Seq2[*event.Event, error]
	// State returns the value of a state key, and whether there is one. See the
	// [event.State] event for the prefixes of scopes.
	State(key string) (any, bool)
	// File returns the file that is meant by a name, or by the digest of a file event: of
	// several of one name the last that an agent has made or the user has sent, in whatever scope.
	// The error is ErrNoFile if there is none. The bytes are shared and must not be changed.
	File(ctx context.Context, name string) (*event.File, []byte, error)
	// Memo keeps a value beside the cached session, such as an incremental
	// reducer over its log: the first call for a key stores what create returns.
	// A memo may be dropped at any time and is never shared between sessions.
	Memo(key any, create func() any) any
}

// Runtime is what the runner does for an agent that it runs.
type Runtime interface {
	// Run runs another agent in a scope of the same session: same log, own
	// history, own active agent. The caller yields these events itself. cause is the
	// parent id of the scope's first run, such as the id of the tool call.
	//
	// A call that is run again, after a pause or a crash, gets for the same agent and
	// input the scope that it has opened before: its events from the beginning, and
	// what comes now, unless it is over. The error is ErrWaits if the agent waits for
	// somebody outside.
	Run(ctx context.Context, a Agent, cause string, input llm.Content) iter.Seq2[*event.Event, error]
	// CheckTransfer reports whether from may hand its conversation to the agent
	// named to at this moment: nil, or an error that wraps ErrUnknownTarget,
	// ErrTransferRejected, ErrTransferLimit or ErrTargetNotReady. It changes nothing.
	CheckTransfer(ctx context.Context, inv *Invocation, to string) error
	// Ask asks a model on behalf of a running agent: within the turn's limits and
	// budgets, through the interceptors. What it yields is what Model.Generate
	// does; beside that, an error that is ErrLimit, ErrUnknownPrice or ErrUnknownUsage says that
	// the model was not asked. A run asks one model at a time: limits and budgets
	// do not see calls of one run that are made side by side.
	Ask(ctx context.Context, inv *Invocation, model llm.Model, req *llm.Request) iter.Seq2[llm.Chunk, error]
	// SaveFile keeps the bytes of a file and returns the payload of the event that names
	// it, for the agent to yield: only then is it a file of the session. An empty media
	// type is found out from the bytes. The error wraps ErrBadInput if the name or
	// the media type is none, ErrFileTooLarge, or what the store says.
	SaveFile(ctx context.Context, name, mediaType string, data []byte) (*event.File, error)
	// Call runs one call of a tool through the interceptors.
	Call(ctx context.Context, c ToolCallInfo, run ToolFunc) (*event.ToolResult, error)
	// Suspended reports whether the turn was cut off with ErrSuspended. An agent's own
	// context may say so later, or may have ended for what follows from it.
	Suspended() bool
}

// StaysBehind is what models read in a fork about a call that only the other session may run.
const StaysBehind = "the call belongs to the conversation that this one was forked from, and may run there"

// Invocation is what an agent's step knows of its turn. It is valid during the
// step only.
type Invocation struct{ p InvocationParams }

// InvocationParams are the parts of an Invocation; a runner, or a test of an
// agent, fills them in.
type InvocationParams struct {
	Node    *Node
	Tree    *Tree
	Session Session
	Runtime Runtime
	TurnID  string
	RunID   string
	Scope   string
	// Input is what a run in an inner scope was started with.
	Input json.RawMessage
	// Message is what the user said in this turn, for runs of the conversation.
	Message llm.Content
	// Metadata is what came with the user's message of this turn, for runs of all
	// scopes.
	Metadata map[string]any
	// Payload is what the transfer that started the run carried.
	Payload json.RawMessage
	// Since is a position in the log: all that the run has stored comes after it, and so
	// do the runs whose work it continues.
	Since int64
	// Attempt counts how often the run's current step was begun, from 1; it is
	// greater after a crash.
	Attempt int
	// Around is where an inner scope was opened, if its tree's root has an edge with Around.
	Around *Around
	// TakenUp is the last position of the log when this process took the turn up.
	TakenUp int64
	// Shared is the last position of the log that a fork shares with the session that it was
	// forked from; 0 in any other session.
	Shared int64
	// AtOnce says that a transfer which the only call of an answer asks for may be decided in
	// the write of that answer, because nothing comes between the two that takes long, such as
	// to ask the target whether it can start, or that has to find the call in the log.
	AtOnce bool
	// Streaming asks for partial events.
	Streaming bool
	// NewID returns an id that is unique in the session.
	NewID  func() string
	Logger *slog.Logger
}

// Around is the conversation in which an inner scope was opened.
type Around struct {
	Session Session
	// Scope names it, "" for the user's own; Tree has the agents that talk there.
	Scope string
	Tree  *Tree
	// UpTo is its last position before the scope was opened.
	UpTo int64
	// Around is the conversation in which that scope was opened itself, nil for the user's own.
	Around *Around
}

// NewInvocation makes an Invocation.
func NewInvocation(p InvocationParams) *Invocation {
	if p.Attempt == 0 {
		p.Attempt = 1
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	return &Invocation{p}
}

// Node is the running agent in its tree.
func (i *Invocation) Node() *Node { return i.p.Node }

// Agent is the running agent.
func (i *Invocation) Agent() Agent { return i.p.Node.Agent }

// Tree is the whole tree.
func (i *Invocation) Tree() *Tree { return i.p.Tree }

// Session is the session, read-only.
func (i *Invocation) Session() Session { return i.p.Session }

// Runtime runs other agents and checks transfers.
func (i *Invocation) Runtime() Runtime { return i.p.Runtime }

// TurnID names the user's turn.
func (i *Invocation) TurnID() string { return i.p.TurnID }

// RunID names this activation of the agent.
func (i *Invocation) RunID() string { return i.p.RunID }

// Scope names the inner conversation, "" for the user's own.
func (i *Invocation) Scope() string { return i.p.Scope }

// Input is what a run in an inner scope was started with, nil elsewhere.
func (i *Invocation) Input() json.RawMessage { return i.p.Input }

// Message is what the user said in this turn; empty in an inner scope, where
// there is Input instead.
func (i *Invocation) Message() llm.Content { return i.p.Message }

// Around is the conversation in which the inner scope was opened, if the agent is to
// see it; else nil.
func (i *Invocation) Around() *Around { return i.p.Around }

// Metadata is what the user event of this turn keeps beside the words, also in an inner
// scope; nil if there is nothing. It is shared and must not be changed.
func (i *Invocation) Metadata() map[string]any { return i.p.Metadata }

// Since is a position in the log: all that this run has stored comes after it, and so do
// the runs whose work it continues after a pause or in a fork.
func (i *Invocation) Since() int64 { return i.p.Since }

// Attempt counts the starts of this step, from 1.
func (i *Invocation) Attempt() int { return i.p.Attempt }

// TakenUp is the last position of the log when this process took the turn up. What
// another process did is recorded at this position or before it, or not at all. What
// was only allowed after this position nobody has done yet.
func (i *Invocation) TakenUp() int64 { return i.p.TakenUp }

// Shared is the last position of the log that a fork shares with the session that it was forked
// from, which may still do what the log leaves open there; 0 in any other session.
func (i *Invocation) Shared() int64 { return i.p.Shared }

// AtOnce reports whether a transfer that the only call of an answer asks for may be decided
// in the write of that answer.
func (i *Invocation) AtOnce() bool { return i.p.AtOnce }

// Streaming reports whether partial events are wanted.
func (i *Invocation) Streaming() bool { return i.p.Streaming }

// NewID returns an id that is unique in the session.
func (i *Invocation) NewID() string { return i.p.NewID() }

// Logger is the runner's logger; it is never nil.
func (i *Invocation) Logger() *slog.Logger { return i.p.Logger }
