package session

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Fold is the state that a runner needs from a log: the active agent, the open runs, the calls without a result, and
// the usage of the turn. [Fold.Apply] updates it with each event. The state depends only on the log. Its size does
// not grow with the number of events. The zero value is the fold of an empty log.
//
// The fields are exported so that the fold can be stored as JSON. Callers must not change them. Values that were read
// from them are valid until the next Apply. A Fold is not safe for concurrent use.
type Fold struct {
	// Seq is the position of the last event that was applied.
	Seq int64
	// Turn is the user's current turn.
	Turn Turn
	// Latest is the time of the last event.
	Latest time.Time

	// Before is the time of the write that came before the write of the last event, in Unix nanoseconds.
	Before int64

	// Conversation is the scope of the user's conversation, and Scopes are the open inner scopes.
	Conversation Scope
	Scopes       Scopes
	// Over contains the inner scopes that have ended and were opened by a call that has no result yet.
	Over []Opened
	// Values is the state of the turn and of the session; see State.
	Values Values
	// Spent is the usage per agent and model, in the order of their first answers.
	Spent []Spent
	// Arrivals names the agent whose model answered last.
	Arrivals Arrivals
	// Times is the duration of the runs that have ended.
	Times Times
	// Remote are the tasks at remote agents that have not ended as far as the log shows, of all scopes and turns, in the
	// order in which they started.
	Remote []Remote
	// Turns contains the positions at which the user's turns start.
	Turns agent.Turns
}

// Turn is the user's current turn and what it has used, over all scopes. The zero value is the state before the first
// turn.
type Turn struct {
	ID        string
	UserRunID string
	// First is the position of the user's message, and Started its time.
	First   int64
	Started time.Time
	// StopsFrom is the first position at which a request to stop means what the turn does now: the position of the
	// message, or the one after the turn paused, ended or was stopped.
	StopsFrom int64
	// Transfers counts the committed transfers, without those of routers.
	Transfers int
	// ModelCalls counts the models' answers, including discarded ones.
	ModelCalls int
	// ToolCalls counts the tool calls that models requested, including calls without a result.
	ToolCalls int
	// User is the user's message. It is nil before the first turn and in a fold that was read from JSON.
	User *event.User
}

// Clone returns an independent copy. The copy shares only the payloads of events, which do not change.
func (f *Fold) Clone() Fold {
	c := *f
	c.Conversation, c.Scopes = f.Conversation.clone(), f.Scopes.clone()
	c.Over, c.Values, c.Spent, c.Remote = slices.Clone(f.Over), maps.Clone(f.Values), slices.Clone(f.Spent), slices.Clone(f.Remote)
	c.Times.Agents, c.Turns.Begun = slices.Clone(f.Times.Agents), slices.Clip(f.Turns.Begun)
	return c
}

// Scope returns the state of the scope with a name. The name "" is the user's conversation. The fold forgets an inner
// scope when its last run ends, except by a transfer or a pause, and when the run or call that opened it ends. For
// such a scope, and for an unknown one, Scope returns an empty state. The result is valid until the next Apply.
func (f *Fold) Scope(name string) *Scope {
	if name == "" {
		return &f.Conversation
	}
	if s := f.Scopes[name]; s != nil {
		return s
	}
	return &Scope{}
}

// open returns the state of a scope for a change, and adds the scope if it is missing.
func (f *Fold) open(name string) *Scope {
	if name == "" {
		return &f.Conversation
	}
	return f.Scopes.add(name)
}

// Open returns the names of the scopes whose last run is open: first the conversation, then the inner scopes in the
// order in which they were opened.
func (f *Fold) Open() []string {
	names := slices.DeleteFunc(f.Scopes.Names(), func(name string) bool { return !f.Scopes[name].Run.Open })
	if f.Conversation.Run.Open {
		names = slices.Insert(names, 0, "")
	}
	return names
}

// State returns the value of a key in the state of the turn or the session, and whether the key is set. It has no
// keys of the user or the app.
func (f *Fold) State(key string) (any, bool) {
	v, ok := f.Values[key]
	return v, ok
}

// States returns a copy of the state of the turn and the session.
func (f *Fold) States() map[string]any { return maps.Clone(map[string]any(f.Values)) }

// Unfinished reports whether the last turn was interrupted: its user event has no run yet, a run is open, or the
// target of a transfer has not started.
func (f *Fold) Unfinished() bool {
	run := &f.Conversation.Run
	return f.Turn.ID != "" && (run.Open || run.TurnID != f.Turn.ID || run.Finish == event.FinishReasonTransfer)
}

// Stopped reports whether the last event says that the turn was stopped. No process resumes such a turn by itself.
func (f *Fold) Stopped() bool { return f.Unfinished() && f.Turn.StopsFrom > f.Seq }

// StopsAt reports whether a request to stop at a position means what the turn does now.
func (f *Fold) StopsAt(position int64) bool {
	return f.Unfinished() && !f.Stopped() && position >= f.Turn.StopsFrom
}

// Apply updates the fold with the next stored event. It ignores partial events and events at or below Seq, so
// applying an event again has no effect.
func (f *Fold) Apply(e *event.Event) {
	if e.Partial || e.Seq <= f.Seq {
		return
	}
	f.Seq = e.Seq
	if !e.Time.IsZero() && !e.Time.Equal(f.Latest) { // all events of a write have the same time; a damaged event may have none
		f.Before, f.Latest = f.Latest.UnixNano(), e.Time
	}
	if user := userOf(e); user != nil {
		f.begin(e, user)
		return
	}
	s := f.open(e.Scope)
	s.recordNode(e)
	_, anew := f.Arrivals.Apply(e)
	switch d := e.Data.(type) {
	case *event.HarnessStart:
		f.start(s, e, d)
	case *event.HarnessEnd:
		f.end(s, e, d)
	case *event.Text:
		s.recordText(d)
	case *event.ToolCall:
		f.Turn.ToolCalls++
		s.Run.Pending = append(s.Run.Pending, Call{ID: e.ID, Name: d.Name, RunID: e.RunID, Made: e.Seq, Number: f.Turn.ToolCalls})
	case *event.Relay:
		s.Run.ask(e, d)
	case *event.RelayResolved:
		s.Run.resolve(e, d)
	case *event.Unknown:
		if damage, ok := d.Damage(); ok && damage.Was != event.TypeUser {
			f.removeCall(s, e.ID) // if it was not a result, no call has this id
		}
	case *event.ToolResult:
		f.removeCall(s, e.ID)
		if d.Name != agent.TransferTool {
			s.Pairs = s.Pairs[:0]
		}
	case *event.Transfer:
		if s.transfer(d) {
			f.Turn.Transfers++
		}
	case *event.Usage:
		f.Turn.ModelCalls++
		s.Run.Answers++
		f.Spent = addUsage(f.Spent, e.Agent, d, 1, anew)
	case *event.Discard:
		if d.Code != event.CodeTripwire { // the usage event counts an answer that a tripwire discarded
			f.Turn.ModelCalls++
		}
		if d.Usage != nil {
			f.Spent = addUsage(f.Spent, e.Agent, d.Usage, 0, anew)
		}
	case *event.Notice:
		f.notice(s, e, d)
	case *event.Compaction:
		if e.Scope == "" {
			compacted(&f.Turns, e.Agent, d, e.Seq)
		}
	case *event.RemoteTask:
		f.remoteTask(e, d)
	case *event.HandoffStatus:
		if e.Scope == "" {
			s.handoff(d)
		}
	case *event.State:
		f.Values.change(d.Delta)
	}
}

// userOf returns the user's message if the event starts a turn, and nil otherwise. If the message cannot be read, the
// turn exists nevertheless, and userOf returns an empty message.
func userOf(e *event.Event) *event.User {
	switch d := e.Data.(type) {
	case *event.User:
		return d
	case *event.Unknown:
		if damage, ok := d.Damage(); ok && damage.Was == event.TypeUser {
			return &event.User{}
		}
	}
	return nil
}

// begin starts a turn of the user.
func (f *Fold) begin(e *event.Event, user *event.User) {
	if e.Scope == "" {
		beginTurn(&f.Turns, e.Seq)
	}
	f.Turn = Turn{ID: e.TurnID, UserRunID: e.RunID, First: e.Seq, StopsFrom: e.Seq, Started: e.Time, User: user}
	f.Conversation.Pairs = f.Conversation.Pairs[:0]
	f.Times.Turn = 0
	for i := range f.Spent {
		f.Spent[i].Turn = Use{}
	}
	clear(f.Scopes)
	f.Over = f.Over[:0]
	for key := range f.Values {
		if strings.HasPrefix(key, "turn:") {
			delete(f.Values, key)
		}
	}
}

// start records the start of a run. The run resumes the previous run of the scope if that one was interrupted or
// paused.
func (f *Fold) start(s *Scope, e *event.Event, d *event.HarnessStart) {
	last := s.Run
	s.Run = Run{ID: e.RunID, Agent: e.Agent, Path: e.Path, TurnID: e.TurnID, AgentID: d.AgentID, Since: e.Seq - 1, Start: e.Seq, Open: true, Pending: last.Pending[:0]}
	switch same := last.TurnID == e.TurnID; {
	case same && (last.Open || last.Finish == event.FinishReasonInputRequired):
		s.Run.Pending, s.Run.Transfer, s.Run.Said = last.Pending, last.Transfer, last.Said
		s.Run.TakesUp = !last.Open || last.TakesUp || last.Answers > 0 || len(last.Pending) > 0 || last.Said != ""
		s.Run.Since, s.Run.Before = last.Since, append(last.Before[:len(last.Before):len(last.Before)], last.ID)
		if last.Open { // the run of the parent session, which a fork resumes
			f.Times.add(e.Scope, e.Agent, s.BeganAt, f.Before)
		}
	case same && last.Finish == event.FinishReasonTransfer && s.Handed != nil && s.Handed.To == e.Agent:
		s.Run.Transfer = s.Handed
	}
	if len(d.Input) > 0 {
		s.Input = d.Input
	}
	if s.First == 0 {
		s.First, s.Root = e.Seq, e.Agent
		if e.Scope != "" {
			s.Opener = cmp.Or(event.ParentRun(e.Scope), e.ParentID)
		}
	}
	s.BeganAt = e.Time.UnixNano()
}

// end records the end of a run. Unless the run paused, the fold forgets the scopes inside it, and its own scope if
// that is an inner one. The result of a scope that a call opened stays in Over until the call has its result, so that
// it is not computed again after a crash.
func (f *Fold) end(s *Scope, e *event.Event, d *event.HarnessEnd) {
	s.Run.Open, s.Run.Finish, s.Run.Target = false, d.FinishReason, d.Target
	s.LastEnd = e.RunID
	if e.Scope == "" && d.FinishReason != event.FinishReasonTransfer {
		f.Turn.StopsFrom = e.Seq + 1
	}
	until := e.Time.UnixNano()
	if d.FinishReason == event.FinishReasonCanceled {
		until = f.Before // this event was written when another process found the interrupted run
	}
	f.Times.add(e.Scope, e.Agent, s.BeganAt, until)
	if d.FinishReason == event.FinishReasonInputRequired {
		return
	}
	f.Scopes.removeInside(s.Run.ID)
	for _, id := range s.Run.Before {
		f.Scopes.removeInside(id)
	}
	if e.Scope != "" && d.FinishReason != event.FinishReasonTransfer {
		if event.ParentRun(e.Scope) == "" {
			o := s.asOpened(e.Scope)
			o.Over, o.Canceled = true, s.Run.Finish == event.FinishReasonCanceled
			f.Over = append(f.Over, o)
		}
		delete(f.Scopes, e.Scope)
	}
}

// removeCall removes a call that has its result, and the scopes that the call opened.
func (f *Fold) removeCall(s *Scope, call string) {
	if i := slices.IndexFunc(s.Run.Pending, func(c Call) bool { return c.ID == call }); i >= 0 {
		s.Run.Pending = slices.Delete(s.Run.Pending, i, i+1)
	}
	f.Scopes.removeInside(call)
	if len(f.Over) > 0 {
		f.Over = slices.DeleteFunc(f.Over, func(o Opened) bool { return o.Call == call })
	}
}

func (f *Fold) notice(s *Scope, e *event.Event, n *event.Notice) {
	switch n.Code {
	case event.NoticeForked: // the fork's own run answers the calls of the parent's run
		for i := range s.Run.Pending {
			s.Run.Pending[i].RunID = e.RunID
		}
		if e.Scope == "" {
			f.dropParentScopes(e.Time)
		}
	case event.NoticeStopped:
		f.Turn.StopsFrom = e.Seq + 1
	case event.NoticeResumed:
		if s.Run.Open && s.Run.ID == e.RunID { // otherwise the time of the last run was added at its end
			f.Times.add(e.Scope, e.Agent, s.BeganAt, f.Before)
			s.BeganAt = e.Time.UnixNano()
		}
	}
}

// dropParentScopes removes the inner scopes and remote tasks that the parent session of a fork waits for. It keeps
// the scopes that the conversation's own run opened, as a workflow or by calls without a result, and the scopes
// inside these, because the fork continues them. The time until the fork counts for no agent.
func (f *Fold) dropParentScopes(now time.Time) {
	f.Remote = slices.DeleteFunc(f.Remote, func(r Remote) bool { return r.Scope != "" })
	within := make(map[string]bool)
	note := func(r *Run) { r.Opens(func(id string) { within[id] = true }) }
	note(&f.Conversation.Run)
	for _, name := range f.Scopes.Names() {
		s := f.Scopes[name]
		if s.Run.Open {
			f.Times.add(name, s.Run.Agent, s.BeganAt, f.Before)
			s.BeganAt = now.UnixNano()
		}
		if s.Opener != "" && within[s.Opener] {
			note(&s.Run)
			continue
		}
		delete(f.Scopes, name)
	}
}
