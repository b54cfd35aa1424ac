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

// Fold is what a runner must know of a log, updated event by event: who is
// active, which run is open, which calls wait for a result, what the turn has
// used. It is a function of the log alone, and its size does not grow with it.
// The zero value is the fold of an empty log.
type Fold struct {
	Seq  int64
	Turn Turn
	// Latest is the time of the last event.
	Latest time.Time

	before int64 // when the last event was stored that is not of the same write, in Unix nanoseconds

	conversation Scope
	inner        map[string]*Scope // of the current turn
	inside       map[string]int    // of them, how many are not over, by what opened them
	over         []Opened          // inner scopes that are over, whose calls have no result
	free         []*Scope          // of scopes that are over
	state        map[string]any
	spent        []Spent
	time         Times
	timedAt      map[string]int // places in time.Agents, if there are many
	remote       []Remote
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
		return &f.conversation
	}
	if s := f.inner[name]; s != nil {
		return s
	}
	return &Scope{}
}

// open returns the state of a scope to be changed.
func (f *Fold) open(name string) *Scope {
	if name == "" {
		return &f.conversation
	}
	s := f.inner[name]
	if s == nil {
		if f.inner == nil {
			f.inner = make(map[string]*Scope)
		}
		if n := len(f.free); n > 0 {
			s, f.free = f.free[n-1], f.free[:n-1]
		} else {
			s = &Scope{}
		}
		f.inner[name] = s
	}
	return s
}

// maxFree bounds the states that are kept to be used again.
const maxFree = 16

// forget drops the state of an inner scope.
func (f *Fold) forget(name string) {
	s := f.inner[name]
	delete(f.inner, name)
	if s == nil {
		return
	}
	if s.opener != "" {
		if f.inside[s.opener]--; f.inside[s.opener] <= 0 {
			delete(f.inside, s.opener)
		}
	}
	if len(f.free) < maxFree {
		*s = Scope{}
		f.free = append(f.free, s)
	}
}

// Inside returns how many scopes are not over that were opened by the run of a workflow,
// for a child, or by a call, for the agent of a tool: a run of them is open, or waits.
func (f *Fold) Inside(opener string) int { return f.inside[opener] }

// Runs reports whether a run of an inner scope is open, or waits there for something.
func (f *Fold) Runs(scope, run string) bool {
	s := f.inner[scope]
	return s != nil && s.Run.ID == run && (s.Run.Open || s.Run.Finish == event.FinishReasonInputRequired)
}

// Opener returns what has opened an inner scope that is not over: the run of a workflow,
// or a call. It is "" for any other.
func (f *Fold) Opener(scope string) string {
	if s := f.inner[scope]; s != nil {
		return s.opener
	}
	return ""
}

// Open returns the names of the scopes whose last run is open, the conversation
// first, then the inner ones as they were opened: a scope comes before those
// inside it.
func (f *Fold) Open() []string {
	var names []string
	for name, s := range f.inner {
		if s.Run.Open {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(f.inner[a].first, f.inner[b].first) })
	if f.conversation.Run.Open {
		names = slices.Insert(names, 0, "")
	}
	return names
}

// State returns a value of the turn's or the session's state.
func (f *Fold) State(key string) (any, bool) {
	v, ok := f.state[key]
	return v, ok
}

// States returns a copy of the turn's and the session's state.
func (f *Fold) States() map[string]any { return maps.Clone(f.state) }

// Unfinished reports whether the last turn was cut off: its user event has no
// run, a run is open, or a transfer's target has not started.
func (f *Fold) Unfinished() bool {
	run := &f.conversation.Run
	return f.Turn.ID != "" && (run.Open || run.TurnID != f.Turn.ID || run.Finish == event.FinishReasonTransfer)
}

// Apply takes in the next stored event. Events at or below Seq are ignored, so
// that redelivery is harmless.
func (f *Fold) Apply(e *event.Event) {
	if e.Partial || e.Seq <= f.Seq {
		return
	}
	f.Seq = e.Seq
	if !e.Time.IsZero() && !e.Time.Equal(f.Latest) { // events of one write share their time; a damaged one may have none
		f.before, f.Latest = f.Latest.UnixNano(), e.Time
	}
	user, ok := e.Data.(*event.User)
	damaged, _ := e.Data.(*event.Unknown)
	damage, unreadable := damaged.Damage()
	if unreadable && damage.Was == event.TypeUser {
		user, ok = &event.User{}, true // the turn is there, whatever its words were
	}
	if ok && user != nil {
		f.Turn = Turn{ID: e.TurnID, UserRunID: e.RunID, First: e.Seq, Started: e.Time, User: user}
		f.conversation.pairs = f.conversation.pairs[:0]
		f.time.Turn = 0
		for i := range f.spent {
			f.spent[i].Turn = Use{}
		}
		clear(f.inner)
		clear(f.inside)
		f.over = f.over[:0]
		for key := range f.state {
			if strings.HasPrefix(key, "turn:") {
				delete(f.state, key)
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
			f.took(e, f.before)
		case same && last.Finish == event.FinishReasonInputRequired: // it resumes a paused run
			s.Run.Pending, s.Run.Transfer, s.Run.Said, s.Run.TakesUp = last.Pending, last.Transfer, last.Said, true
			s.Run.Since, s.Run.Before = last.Since, append(last.Before[:len(last.Before):len(last.Before)], last.ID)
		case same && last.Finish == event.FinishReasonTransfer && s.handed != nil && s.handed.To == e.Agent:
			s.Run.Transfer = s.handed
		}
		if len(d.Input) > 0 {
			s.Input = d.Input
		}
		if s.first == 0 {
			s.first, s.root = e.Seq, e.Agent
			if e.Scope != "" {
				s.opener = cmp.Or(event.ParentRun(e.Scope), e.ParentID)
			}
			if s.opener != "" {
				if f.inside == nil {
					f.inside = make(map[string]int)
				}
				f.inside[s.opener]++
			}
		}
		s.began = e.Time.UnixNano()
	case *event.HarnessEnd:
		s.Run.Open, s.Run.Finish, s.Run.Target = false, d.FinishReason, d.Target
		s.LastEnd = e.RunID
		if d.FinishReason == event.FinishReasonCanceled {
			f.took(e, f.before) // written when somebody found the run cut off
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
			s.pairs, s.Run.Said = s.pairs[:0], d.Content
		}
	case *event.ToolCall:
		f.Turn.ToolCalls++
		s.Run.Pending = append(s.Run.Pending, Call{ID: e.ID, Name: d.Name, RunID: e.RunID, Made: e.Seq, Number: f.Turn.ToolCalls})
	case *event.Relay:
		if c := s.Run.Call(d.ToolCallID); c != nil {
			c.Relay, c.Resolved, c.Asks, c.at = e.ID, false, d, e.Seq
		}
	case *event.RelayResolved:
		for i := range s.Run.Pending {
			if c := &s.Run.Pending[i]; c.Relay != "" && c.Relay == d.RelayID {
				c.Resolved, c.at = true, e.Seq
			}
		}
	case *event.Unknown:
		if unreadable {
			f.settle(s, e.ID) // it was the result, or else no call is of that id
		}
	case *event.ToolResult:
		f.settle(s, e.ID)
		if d.Name != agent.TransferTool {
			s.pairs = s.pairs[:0]
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
			f.took(e, f.before)
			s.began = e.Time.UnixNano()
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

// leave drops the inner scopes of the session that a fork was taken of, but those that the
// conversation's own run has opened, as a workflow or by calls that have no result, and those
// in them. They are taken up as well. The time until then is nobody's.
func (f *Fold) leave(now time.Time) {
	names := slices.SortedFunc(maps.Keys(f.inner), func(a, b string) int { return cmp.Compare(f.inner[a].first, f.inner[b].first) })
	within := make(map[string]bool)
	note := func(r *Run) { r.Opens(func(id string) { within[id] = true }) }
	note(&f.conversation.Run)
	for _, name := range names {
		s := f.inner[name]
		if s.Run.Open {
			f.took(&event.Event{Scope: name, Agent: s.Run.Agent}, f.before)
			s.began = now.UnixNano()
		}
		if s.opener != "" && within[s.opener] {
			note(&s.Run)
			continue
		}
		f.forget(name)
	}
}

func (f *Fold) transfer(s *Scope, t *event.Transfer) {
	if t.Outcome == event.TransferCommitted {
		s.Active, s.handed, s.given = t.To, t, s.Run.Transfer
		if !t.Routed() {
			s.pairs = append(s.pairs, hop{t.From, t.To})
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
	if f.state == nil {
		f.state = make(map[string]any)
	}
	for key, value := range delta {
		switch {
		case strings.HasPrefix(key, "user:"), strings.HasPrefix(key, "app:"):
		case value == nil:
			delete(f.state, key)
		default:
			f.state[key] = value
		}
	}
}
