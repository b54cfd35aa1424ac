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
	// Scopes are the inner scopes of the current turn that are not over, by their names.
	Scopes map[string]*Scope
	// Over are the inner scopes that are over and whose calls have no result.
	Over []Opened
	// Values are the turn's and the session's state; see State.
	Values Values
	// Spent is what models have used, by agent and model in the order of their first answers.
	Spent []Spent
	// Times is how long ended runs took.
	Times Times
	// Remote are the tasks at remote agents that are not known to be over, in all scopes and of all turns, in the
	// order in which they began.
	Remote []Remote
	// Turns says where the user's turns began.
	Turns agent.Turns

	inside map[string]int // how many of the scopes were opened by each opener
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

// Scope returns the state of a scope; "" is the user's conversation. An inner scope
// is forgotten once its last run has ended, other than by a transfer or a pause, or what
// has opened it is over:
// its state is then that of a scope in which nothing has run. The result is valid
// until the next Apply.
func (f *Fold) Scope(name string) *Scope {
	if name == "" {
		return &f.Conversation
	}
	if s := f.Scopes[name]; s != nil {
		return s
	}
	return &Scope{}
}

// open returns the state of a scope to be changed.
func (f *Fold) open(name string) *Scope {
	if name == "" {
		return &f.Conversation
	}
	s := f.Scopes[name]
	if s == nil {
		if f.Scopes == nil {
			f.Scopes = make(map[string]*Scope)
		}
		s = &Scope{}
		f.Scopes[name] = s
	}
	return s
}

// forget drops the state of an inner scope.
func (f *Fold) forget(name string) {
	s := f.Scopes[name]
	delete(f.Scopes, name)
	if s == nil {
		return
	}
	if s.Opener != "" {
		if f.inside[s.Opener]--; f.inside[s.Opener] <= 0 {
			delete(f.inside, s.Opener)
		}
	}
}

// Inside returns how many open scopes the run of a workflow opened for its children, or a call opened for the agent
// of a tool.
func (f *Fold) Inside(opener string) int { return f.inside[opener] }

// Runs reports whether a run of an inner scope is open or waits.
func (f *Fold) Runs(scope, run string) bool {
	s := f.Scopes[scope]
	return s != nil && s.Run.ID == run && (s.Run.Open || s.Run.Finish == event.FinishReasonInputRequired)
}

// Opener returns the run of a workflow or the call that opened an inner scope which has not ended, and "" for any
// other scope.
func (f *Fold) Opener(scope string) string {
	if s := f.Scopes[scope]; s != nil {
		return s.Opener
	}
	return ""
}

// Open returns the names of the scopes whose last run is open: the conversation first, then the inner scopes in the
// order in which they were opened.
func (f *Fold) Open() []string {
	var names []string
	for name, s := range f.Scopes {
		if s.Run.Open {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(f.Scopes[a].First, f.Scopes[b].First) })
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
	user, ok := e.Data.(*event.User)
	damaged, _ := e.Data.(*event.Unknown)
	damage, unreadable := damaged.Damage()
	if unreadable && damage.Was == event.TypeUser {
		user, ok = &event.User{}, true // the turn is there, whatever its words were
	}
	if ok && user != nil {
		if e.Scope == "" {
			f.beginTurn(e.Seq)
		}
		f.Turn = Turn{ID: e.TurnID, UserRunID: e.RunID, First: e.Seq, Started: e.Time, User: user}
		f.Conversation.Pairs = f.Conversation.Pairs[:0]
		f.Times.Turn = 0
		for i := range f.Spent {
			f.Spent[i].Turn = Use{}
		}
		clear(f.Scopes)
		clear(f.inside)
		f.Over = f.Over[:0]
		for key := range f.Values {
			if strings.HasPrefix(key, "turn:") {
				delete(f.Values, key)
			}
		}
		return
	}
	s := f.open(e.Scope)
	s.mark(e)
	switch d := e.Data.(type) {
	case *event.HarnessStart:
		last := s.Run
		s.Run = Run{ID: e.RunID, Agent: e.Agent, Path: e.Path, TurnID: e.TurnID, AgentID: d.AgentID, Since: e.Seq - 1, Start: e.Seq, Open: true, Pending: last.Pending[:0]}
		switch same := last.TurnID == e.TurnID; {
		case same && last.Open: // a fork continues it here
			s.Run.Pending, s.Run.Transfer, s.Run.Said = last.Pending, last.Transfer, last.Said
			s.Run.TakesUp = last.TakesUp || last.Answers > 0 || len(last.Pending) > 0 || last.Said != ""
			s.Run.Since, s.Run.Before = last.Since, append(last.Before[:len(last.Before):len(last.Before)], last.ID)
			f.took(e, f.Before)
		case same && last.Finish == event.FinishReasonInputRequired: // it resumes a paused run
			s.Run.Pending, s.Run.Transfer, s.Run.Said, s.Run.TakesUp = last.Pending, last.Transfer, last.Said, true
			s.Run.Since, s.Run.Before = last.Since, append(last.Before[:len(last.Before):len(last.Before)], last.ID)
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
			if s.Opener != "" {
				f.opens(s.Opener)
			}
		}
		s.BeganAt = e.Time.UnixNano()
	case *event.HarnessEnd:
		s.Run.Open, s.Run.Finish, s.Run.Target = false, d.FinishReason, d.Target
		s.LastEnd = e.RunID
		if d.FinishReason == event.FinishReasonCanceled {
			f.took(e, f.Before) // written when somebody found the run cut off
		} else {
			f.took(e, e.Time.UnixNano())
		}
		if d.FinishReason != event.FinishReasonInputRequired {
			f.abandon(&s.Run)
			if e.Scope != "" && d.FinishReason != event.FinishReasonTransfer {
				f.ended(e.Scope, s)
			}
		}
	case *event.Text:
		if strings.TrimSpace(d.Content) != "" {
			s.Pairs, s.Run.Said = s.Pairs[:0], d.Content
		}
	case *event.ToolCall:
		f.Turn.ToolCalls++
		s.Run.Pending = append(s.Run.Pending, Call{ID: e.ID, Name: d.Name, RunID: e.RunID, Made: e.Seq, Number: f.Turn.ToolCalls})
	case *event.Relay:
		if c := s.Run.Call(d.ToolCallID); c != nil {
			c.Relay, c.Resolved, c.Asks, c.At = e.ID, false, d, e.Seq
		}
	case *event.RelayResolved:
		for i := range s.Run.Pending {
			if c := &s.Run.Pending[i]; c.Relay != "" && c.Relay == d.RelayID {
				c.Resolved, c.At = true, e.Seq
			}
		}
	case *event.Unknown:
		if unreadable {
			f.settle(s, e.ID) // it was the result, or else no call is of that id
		}
	case *event.ToolResult:
		f.settle(s, e.ID)
		if d.Name != agent.TransferTool {
			s.Pairs = s.Pairs[:0]
		}
	case *event.Transfer:
		f.transfer(s, d)
	case *event.Usage:
		f.Turn.ModelCalls++
		s.Run.Answers++
		f.spend(e.Agent, d, 1)
	case *event.Discard:
		if d.Code != event.CodeTripwire { // else a usage counts the answer
			f.Turn.ModelCalls++
		}
		if d.Usage != nil {
			f.spend(e.Agent, d.Usage, 0)
		}
	case *event.Notice:
		switch d.Code {
		case event.NoticeForked: // nothing of the past is written to any more
			for i := range s.Run.Pending {
				s.Run.Pending[i].RunID = e.RunID
			}
			if e.Scope == "" {
				f.leaveRemote()
				f.leave(e.Time)
			}
		case event.NoticeResumed:
			f.took(e, f.Before)
			s.BeganAt = e.Time.UnixNano()
		}
	case *event.Compaction:
		if e.Scope == "" {
			f.compacted(e.Agent, d, e.Seq)
		}
	case *event.RemoteTask:
		f.remoteTask(e, d)
	case *event.HandoffStatus:
		if e.Scope == "" {
			f.handoff(s, d)
		}
	case *event.State:
		f.setState(d.Delta)
	}
}

// leave drops the inner scopes of the session that a fork was taken of. It keeps the scopes that the
// conversation's own run has opened, as a workflow or by calls without a result, and the scopes in them: the
// fork continues these. The time until then counts for no agent.
func (f *Fold) leave(now time.Time) {
	names := slices.SortedFunc(maps.Keys(f.Scopes), func(a, b string) int { return cmp.Compare(f.Scopes[a].First, f.Scopes[b].First) })
	within := make(map[string]bool)
	note := func(r *Run) { r.Opens(func(id string) { within[id] = true }) }
	note(&f.Conversation.Run)
	for _, name := range names {
		s := f.Scopes[name]
		if s.Run.Open {
			f.took(&event.Event{Scope: name, Agent: s.Run.Agent}, f.Before)
			s.BeganAt = now.UnixNano()
		}
		if s.Opener != "" && within[s.Opener] {
			note(&s.Run)
			continue
		}
		f.forget(name)
	}
}

func (f *Fold) transfer(s *Scope, t *event.Transfer) {
	if t.Outcome == event.TransferCommitted {
		s.Active, s.Handed, s.Given = t.To, t, s.Run.Transfer
		if !t.Routed() {
			s.Pairs = append(s.Pairs, Hop{t.From, t.To})
			f.Turn.Transfers++
		}
	}
}

// handoff keeps a person active while a handoff is under way.
func (f *Fold) handoff(s *Scope, d *event.HandoffStatus) {
	switch {
	case !event.HandoffOver(d.Status):
		s.Active = agent.Human
	case d.TargetAgent != "" && s.Active == agent.Human:
		s.Active = d.TargetAgent
	}
}

func (f *Fold) setState(delta map[string]any) {
	if f.Values == nil {
		f.Values = make(Values)
	}
	for key, value := range delta {
		switch {
		case strings.HasPrefix(key, "user:"), strings.HasPrefix(key, "app:"):
		case value == nil:
			delete(f.Values, key)
		default:
			f.Values[key] = value
		}
	}
}
