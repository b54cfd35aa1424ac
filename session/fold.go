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

// Fold is the state of a log that a runner needs, updated event by event: the active agent, the open runs, the calls
// without a result, the usage of the turn. It depends only on the log, and its size does not grow with the log. The
// zero value is the fold of an empty log. The fields are exported so that the fold can be stored as JSON. Callers
// must not change them; values read from them are valid until the next Apply.
type Fold struct {
	Seq  int64
	Turn Turn
	// Latest is the time of the last event.
	Latest time.Time

	// Before is when the last event was stored that is not of the same write, in Unix nanoseconds.
	Before int64

	Conversation Scope
	Scopes       Scopes
	// Over are the inner scopes that are over and whose calls have no result.
	Over []Opened
	// Values are the turn's and the session's state; see State.
	Values Values
	// Spent is what models have used, by agent and model in the order of their first answers.
	Spent []Spent
	// Arrivals says whose model answered last.
	Arrivals Arrivals
	// Times is how long ended runs took.
	Times Times
	// Remote are the tasks at remote agents that are not known to be over, in all scopes and of all turns, in the
	// order in which they began.
	Remote []Remote
	// Turns says where the user's turns began.
	Turns agent.Turns
}

// Turn counts what the current user turn has used, over all scopes.
type Turn struct {
	ID        string
	UserRunID string
	// First is the position of what the user said.
	First   int64
	Started time.Time
	// Transfers leaves out those of routers.
	Transfers  int
	ModelCalls int
	// ToolCalls counts the calls of tools that models have asked for, those without a
	// result included.
	ToolCalls int
	// User is what the user said.
	User *event.User
}

// Clone returns a copy that changes on its own. It shares what events hold.
func (f *Fold) Clone() Fold {
	c := *f
	c.Conversation, c.Scopes = f.Conversation.clone(), f.Scopes.clone()
	c.Over, c.Values, c.Spent, c.Remote = slices.Clone(f.Over), maps.Clone(f.Values), slices.Clone(f.Spent), slices.Clone(f.Remote)
	c.Times.Agents, c.Turns.Begun = slices.Clone(f.Times.Agents), slices.Clip(f.Turns.Begun)
	return c
}

// Scope returns the state of a scope; "" is the user's conversation. An inner scope
// is forgotten once its last run has ended, other than by a transfer or a pause, or what
// has opened it is over:
// its state is then that of a scope in which nothing has run. The result is valid
// until the next Apply.
func (f *Fold) Scope(name string) *Scope {
	if name == "" {
		return &f.Conversation
	}
	if s := f.Scopes.open[name]; s != nil {
		return s
	}
	return &Scope{}
}

// open returns the state of a scope to be changed.
func (f *Fold) open(name string) *Scope {
	if name == "" {
		return &f.Conversation
	}
	return f.Scopes.add(name)
}

// Open returns the names of the scopes whose last run is open: the conversation first, then the inner scopes in the
// order in which they were opened.
func (f *Fold) Open() []string {
	var names []string
	for name, s := range f.Scopes.open {
		if s.Run.Open {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(f.Scopes.open[a].First, f.Scopes.open[b].First) })
	if f.Conversation.Run.Open {
		names = slices.Insert(names, 0, "")
	}
	return names
}

// State returns a value of the turn's or the session's state.
func (f *Fold) State(key string) (any, bool) {
	v, ok := f.Values[key]
	return v, ok
}

// States returns a copy of the turn's and the session's state.
func (f *Fold) States() map[string]any { return maps.Clone(map[string]any(f.Values)) }

// Unfinished reports whether the last turn was interrupted: its user event has no run, a run is open, or the target
// of a transfer has not started.
func (f *Fold) Unfinished() bool {
	run := &f.Conversation.Run
	return f.Turn.ID != "" && (run.Open || run.TurnID != f.Turn.ID || run.Finish == event.FinishReasonTransfer)
}

// Apply updates the fold with the next stored event. It ignores events at or below Seq, so
// that redelivery is harmless.
func (f *Fold) Apply(e *event.Event) {
	if e.Partial || e.Seq <= f.Seq {
		return
	}
	f.Seq = e.Seq
	if !e.Time.IsZero() && !e.Time.Equal(f.Latest) { // events of one write share their time; a damaged one may have none
		f.Before, f.Latest = f.Latest.UnixNano(), e.Time
	}
	if user := userOf(e); user != nil {
		f.begin(e, user)
		return
	}
	s := f.open(e.Scope)
	s.mark(e)
	_, anew := f.Arrivals.Apply(e)
	switch d := e.Data.(type) {
	case *event.HarnessStart:
		f.start(s, e, d)
	case *event.HarnessEnd:
		f.end(s, e, d)
	case *event.Text:
		s.say(d)
	case *event.ToolCall:
		f.Turn.ToolCalls++
		s.Run.Pending = append(s.Run.Pending, Call{ID: e.ID, Name: d.Name, RunID: e.RunID, Made: e.Seq, Number: f.Turn.ToolCalls})
	case *event.Relay:
		s.Run.ask(e, d)
	case *event.RelayResolved:
		s.Run.resolve(e, d)
	case *event.Unknown:
		if damage, ok := d.Damage(); ok && damage.Was != event.TypeUser {
			f.settle(s, e.ID) // it was the result, or else no call is of that id
		}
	case *event.ToolResult:
		f.settle(s, e.ID)
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
		f.Spent = spend(f.Spent, e.Agent, d, 1, anew)
	case *event.Discard:
		if d.Code != event.CodeTripwire { // else a usage counts the answer
			f.Turn.ModelCalls++
		}
		if d.Usage != nil {
			f.Spent = spend(f.Spent, e.Agent, d.Usage, 0, anew)
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

// userOf returns what the user said, empty if it cannot be read: the turn is there, whatever its words were.
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

// begin begins a turn of the user.
func (f *Fold) begin(e *event.Event, user *event.User) {
	if e.Scope == "" {
		beginTurn(&f.Turns, e.Seq)
	}
	f.Turn = Turn{ID: e.TurnID, UserRunID: e.RunID, First: e.Seq, Started: e.Time, User: user}
	f.Conversation.Pairs = f.Conversation.Pairs[:0]
	f.Times.Turn = 0
	for i := range f.Spent {
		f.Spent[i].Turn = Use{}
	}
	f.Scopes.clear()
	f.Over = f.Over[:0]
	for key := range f.Values {
		if strings.HasPrefix(key, "turn:") {
			delete(f.Values, key)
		}
	}
}

// start begins a run, or continues one that was cut off or waited.
func (f *Fold) start(s *Scope, e *event.Event, d *event.HarnessStart) {
	last := s.Run
	s.Run = Run{ID: e.RunID, Agent: e.Agent, Path: e.Path, TurnID: e.TurnID, AgentID: d.AgentID, Since: e.Seq - 1, Start: e.Seq, Open: true, Pending: last.Pending[:0]}
	switch same := last.TurnID == e.TurnID; {
	case same && (last.Open || last.Finish == event.FinishReasonInputRequired):
		s.Run.Pending, s.Run.Transfer, s.Run.Said = last.Pending, last.Transfer, last.Said
		s.Run.TakesUp = !last.Open || last.TakesUp || last.Answers > 0 || len(last.Pending) > 0 || last.Said != ""
		s.Run.Since, s.Run.Before = last.Since, append(last.Before[:len(last.Before):len(last.Before)], last.ID)
		if last.Open { // a fork continues it here
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
			f.Scopes.note(e.Scope)
		}
	}
	s.BeganAt = e.Time.UnixNano()
}

// end ends a run. Unless it waits, what still waits inside of it is forgotten, and so is an inner scope, but for what
// a call has opened: that is known until the call has its result, so that it need not be done again after a crash.
func (f *Fold) end(s *Scope, e *event.Event, d *event.HarnessEnd) {
	s.Run.Open, s.Run.Finish, s.Run.Target = false, d.FinishReason, d.Target
	s.LastEnd = e.RunID
	until := e.Time.UnixNano()
	if d.FinishReason == event.FinishReasonCanceled {
		until = f.Before // written when the run was found cut off
	}
	f.Times.add(e.Scope, e.Agent, s.BeganAt, until)
	if d.FinishReason == event.FinishReasonInputRequired {
		return
	}
	f.Scopes.drop(s.Run.ID)
	for _, id := range s.Run.Before {
		f.Scopes.drop(id)
	}
	if e.Scope != "" && d.FinishReason != event.FinishReasonTransfer {
		if event.ParentRun(e.Scope) == "" {
			o := s.opened(e.Scope)
			o.Over, o.Canceled = true, s.Run.Finish == event.FinishReasonCanceled
			f.Over = append(f.Over, o)
		}
		f.Scopes.remove(e.Scope)
	}
}

// settle notes that a call has its result: what it has opened is over.
func (f *Fold) settle(s *Scope, call string) {
	if i := slices.IndexFunc(s.Run.Pending, func(c Call) bool { return c.ID == call }); i >= 0 {
		s.Run.Pending = slices.Delete(s.Run.Pending, i, i+1)
	}
	f.Scopes.drop(call)
	if len(f.Over) > 0 {
		f.Over = slices.DeleteFunc(f.Over, func(o Opened) bool { return o.Call == call })
	}
}

func (f *Fold) notice(s *Scope, e *event.Event, n *event.Notice) {
	switch n.Code {
	case event.NoticeForked: // nothing of the past is written to any more
		for i := range s.Run.Pending {
			s.Run.Pending[i].RunID = e.RunID
		}
		if e.Scope == "" {
			f.leave(e.Time)
		}
	case event.NoticeResumed:
		f.Times.add(e.Scope, e.Agent, s.BeganAt, f.Before)
		s.BeganAt = e.Time.UnixNano()
	}
}

// leave drops the inner scopes of the session that a fork was taken of, and their tasks at remote agents: that
// session waits for them. It keeps the scopes that the conversation's own run has opened, as a workflow or by calls
// without a result, and the scopes in them: the fork continues these. The time until then counts for no agent.
func (f *Fold) leave(now time.Time) {
	f.Remote = slices.DeleteFunc(f.Remote, func(r Remote) bool { return r.Scope != "" })
	within := make(map[string]bool)
	note := func(r *Run) { r.Opens(func(id string) { within[id] = true }) }
	note(&f.Conversation.Run)
	for _, name := range f.Scopes.Names() {
		s := f.Scopes.open[name]
		if s.Run.Open {
			f.Times.add(name, s.Run.Agent, s.BeganAt, f.Before)
			s.BeganAt = now.UnixNano()
		}
		if s.Opener != "" && within[s.Opener] {
			note(&s.Run)
			continue
		}
		f.Scopes.remove(name)
	}
}
