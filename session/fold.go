package session

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Fold is what a runner must know of a log, kept up event by event: who is
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
	inside       map[string]int    // of them, how many are open, by what opened them
	free         []*Scope          // of scopes that are over
	state        map[string]any
	spent        []Spent
	time         Times
	timedAt      map[string]int // places in time.Agents, if there are many
	remote       []Remote
}

// Spent is what one agent has used of one model.
type Spent struct {
	Agent, Model  string
	Session, Turn Use // since the session began, and in the current turn
}

// Use counts recorded answers, and the tokens of all that were paid for,
// discarded ones included.
type Use struct {
	Answers int
	// Reported are those of the answers with a usage; an endpoint may report none.
	Reported int
	llm.Usage
}

// Times is how long the conversation's runs took. What lies between a crash and
// the resumption is not counted if the log has a notice about it.
type Times struct {
	Session, Turn time.Duration
	Agents        []AgentTime
}

// AgentTime is how long the runs of one agent took in the session, those in
// inner scopes included.
type AgentTime struct {
	Agent   string
	Session time.Duration
}

// Spent returns what models have used, by agent and model in the order of their
// first answers. The slice is shared: it is valid until the next Apply.
func (f *Fold) Spent() []Spent { return f.spent }

// Times returns how long ended runs took; the slice in it is shared.
func (f *Fold) Times() Times { return f.time }

// Turn counts what the current user turn has used, over all scopes.
type Turn struct {
	ID         string
	UserRunID  string
	Started    time.Time
	Transfers  int
	ModelCalls int
	// ToolCalls counts the calls of tools that models have asked for, those without a
	// result included.
	ToolCalls int
	// User is what the user said.
	User *event.User
}

// Scope is the state of one conversation: the user's, or an inner one.
type Scope struct {
	// Active is the target of the last committed transfer, "" before the first.
	Active string
	// LastEnd is the run whose harness_end is the last one.
	LastEnd string
	// Run is the last run that was started, in the conversation of whichever turn:
	// Run.TurnID says. Its ID is "" before the first.
	Run Run
	// Input is what an inner scope was started with.
	Input json.RawMessage

	root   string          // the agent that it was opened for
	first  int64           // the seq at which the scope was opened
	opener string          // the workflow's run, or the call, that opened it
	node   node            // the last one
	handed *event.Transfer // the last committed one
	given  *event.Transfer // what had started the run that made it
	pairs  []hop           // committed since text or another tool's result came

	began int64 // since when the run runs, in Unix nanoseconds
}

// Handed returns the last committed transfer, nil before the first.
func (s *Scope) Handed() *event.Transfer { return s.handed }

// Given returns the transfer that had started the run which made the last committed
// one; nil if none did.
func (s *Scope) Given() *event.Transfer { return s.given }

// First is the position of the scope's first event.
func (s *Scope) First() int64 { return s.first }

// Began is since when an open run has been running: its start, or when it was
// taken up again.
func (s *Scope) Began() time.Time { return time.Unix(0, s.began) }

type hop struct{ from, to string }

// node is an event that the conversation graph has a node of.
type node struct {
	id, run, typ string
	n            int // of its type in its run, where that counts
}

// LastNode returns the id of the last node that the scope has in the conversation
// graph, what a run that follows there names as its parent. A result is named with
// its run in front, because the same call can have others in other forks.
func (s *Scope) LastNode() string {
	switch s.node.typ {
	case "":
		return ""
	case event.TypeToolResult:
		return s.node.run + ":" + s.node.id + ":result"
	case event.TypeUsage:
		return s.node.run + ":usage:" + strconv.Itoa(s.node.n)
	case event.TypeHarnessStart, event.TypeHarnessEnd, event.TypeError:
		return s.node.run + ":" + s.node.typ
	}
	return s.node.id
}

// Run is the state of one activation of an agent.
type Run struct {
	ID, Agent, Path, TurnID string
	// AgentID is what the run's events call the agent; in a graph it is not the name.
	AgentID string
	// Since is the position before the run's start, or before that of the first run
	// whose work it takes up.
	Since int64
	// Start is the position of the run's start, and Before are the runs whose work it
	// takes up, the oldest first.
	Start  int64
	Before []string
	Open   bool
	Finish event.FinishReason
	Target string
	// Answers counts the model's recorded answers.
	Answers int
	// Pending are the calls without a result, in request order.
	Pending []Call
	// TakesUp says that the run goes on where one that waited for approvals ended.
	TakesUp bool
	// Said is what the agent said last in the run, or in the one that it takes up.
	Said string
	// Transfer is the transfer that started the run, nil if none did.
	Transfer *event.Transfer
}

// Call is a tool call without a result. RunID is the run whose model made it,
// which a paused run's successor may settle. Number is its place among the calls of the
// turn, from 1. Relay is the id of the question about it, if one was asked, and Resolved
// says that it was answered.
type Call struct {
	ID, Name, RunID string
	Number          int
	Relay           string
	Resolved        bool
}

// Scope returns the state of a scope; "" is the user's conversation. An inner scope
// whose last run has ended for good is forgotten: its state is that of a scope in
// which nothing has run. The result is valid until the next Apply.
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
	if s != nil && s.Run.Open {
		f.closed(s)
	}
	if s != nil && len(f.free) < maxFree {
		*s = Scope{}
		f.free = append(f.free, s)
	}
}

// closed counts an open scope no more.
func (f *Fold) closed(s *Scope) {
	if s.opener == "" {
		return
	}
	if f.inside[s.opener]--; f.inside[s.opener] <= 0 {
		delete(f.inside, s.opener)
	}
}

// Inside returns how many scopes are open that were opened by the run of a workflow,
// for a child, or by a call, for the agent of a tool.
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

// Call returns the pending call of an id, or nil.
func (r *Run) Call(id string) *Call {
	for i := range r.Pending {
		if r.Pending[i].ID == id {
			return &r.Pending[i]
		}
	}
	return nil
}

// Paused reports whether the conversation waits for approvals.
func (f *Fold) Paused() bool {
	run := &f.conversation.Run
	return !run.Open && run.TurnID == f.Turn.ID && run.Finish == event.FinishReasonInputRequired && len(run.Pending) > 0
}

// Waits reports whether the conversation's last run ended, in this turn, to wait for
// something that is done elsewhere, such as an authorization that a remote agent asks
// for: with the reason input_required and without a call that waits for an approval.
func (f *Fold) Waits() bool {
	run := &f.conversation.Run
	return !run.Open && run.TurnID == f.Turn.ID && run.Finish == event.FinishReasonInputRequired && len(run.Pending) == 0
}

// Open returns the names of the scopes whose last run is open, the
// conversation first, then the inner ones as they were opened: a scope stands
// before those inside it.
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

// Repeats reports whether a transfer from one agent to another was committed
// before in this turn with neither text nor another tool's result since.
func (s *Scope) Repeats(from, to string) bool {
	return slices.Contains(s.pairs, hop{from, to})
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
		f.Turn = Turn{ID: e.TurnID, UserRunID: e.RunID, Started: e.Time, User: user}
		f.conversation.pairs = f.conversation.pairs[:0]
		f.time.Turn = 0
		for i := range f.spent {
			f.spent[i].Turn = Use{}
		}
		clear(f.inner)
		clear(f.inside)
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
		case same && last.Open: // a fork goes on with it here
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
		}
		if !last.Open && s.opener != "" {
			if f.inside == nil {
				f.inside = make(map[string]int)
			}
			f.inside[s.opener]++
		}
		s.began = e.Time.UnixNano()
	case *event.HarnessEnd:
		if s.Run.Open {
			f.closed(s)
		}
		s.Run.Open, s.Run.Finish, s.Run.Target = false, d.FinishReason, d.Target
		s.LastEnd = e.RunID
		if d.FinishReason == event.FinishReasonCanceled {
			f.took(e, f.before) // written when somebody found the run cut off
		} else {
			f.took(e, e.Time.UnixNano())
		}
		if e.Scope != "" && d.FinishReason != event.FinishReasonTransfer && d.FinishReason != event.FinishReasonInputRequired {
			f.forget(e.Scope)
		}
	case *event.Text:
		if strings.TrimSpace(d.Content) != "" {
			s.pairs, s.Run.Said = s.pairs[:0], d.Content
		}
	case *event.ToolCall:
		f.Turn.ToolCalls++
		s.Run.Pending = append(s.Run.Pending, Call{ID: e.ID, Name: d.Name, RunID: e.RunID, Number: f.Turn.ToolCalls})
	case *event.Relay:
		if c := s.Run.Call(d.ToolCallID); c != nil {
			c.Relay = e.ID
		}
	case *event.RelayResolved:
		for i := range s.Run.Pending {
			if c := &s.Run.Pending[i]; c.Relay != "" && c.Relay == d.RelayID {
				c.Resolved = true
			}
		}
	case *event.Unknown:
		if unreadable {
			s.settle(e.ID) // it was the result, or else no call is of that id
		}
	case *event.ToolResult:
		s.settle(e.ID)
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
	case *event.State:
		f.setState(d.Delta)
	}
}

// leave drops the inner scopes of the session that a fork was taken of, but those that
// the conversation's own run, a workflow's, has opened, and those that workflows in them
// have. They are taken up as well. The time until then is nobody's.
func (f *Fold) leave(now time.Time) {
	names := slices.SortedFunc(maps.Keys(f.inner), func(a, b string) int { return cmp.Compare(f.inner[a].first, f.inner[b].first) })
	runs := make(map[string]bool)
	note := func(r *Run) {
		runs[r.ID] = true
		for _, id := range r.Before {
			runs[id] = true
		}
	}
	note(&f.conversation.Run)
	for _, name := range names {
		s := f.inner[name]
		if s.Run.Open {
			f.took(&event.Event{Scope: name, Agent: s.Run.Agent}, f.before)
			s.began = now.UnixNano()
		}
		if parent := event.ParentRun(name); parent != "" && runs[parent] {
			note(&s.Run)
			continue
		}
		f.forget(name)
	}
}

// mark notes the event if the conversation graph has a node of it.
func (s *Scope) mark(e *event.Event) {
	n := node{id: e.ID, run: e.RunID, typ: e.Type()}
	switch e.Data.(type) {
	case *event.Usage:
		n.n = 1
		if s.node.run == e.RunID {
			n.n += s.Run.Answers
		}
	case *event.HarnessStart, *event.HarnessEnd, *event.Failure, *event.Text, *event.Reasoning, *event.ToolCall, *event.ToolResult,
		*event.ToolProgress, *event.Relay:
	default:
		return
	}
	s.node = n
}

func (f *Fold) transfer(s *Scope, t *event.Transfer) {
	if t.Outcome == event.TransferCommitted {
		s.Active, s.handed, s.given = t.To, t, s.Run.Transfer
		s.pairs = append(s.pairs, hop{t.From, t.To})
		f.Turn.Transfers++
	}
}

// settle notes that a call has its result.
func (s *Scope) settle(call string) {
	if i := slices.IndexFunc(s.Run.Pending, func(c Call) bool { return c.ID == call }); i >= 0 {
		s.Run.Pending = slices.Delete(s.Run.Pending, i, i+1)
	}
}

// spend adds what an answer used.
func (f *Fold) spend(agentName string, u *event.Usage, answers int) {
	i := slices.IndexFunc(f.spent, func(s Spent) bool { return s.Agent == agentName && s.Model == u.Model })
	if i < 0 {
		i = len(f.spent)
		if i == 0 {
			f.spent = make([]Spent, 0, 2)
		}
		f.spent = append(f.spent, Spent{Agent: agentName, Model: u.Model})
	}
	s, counted, reported := &f.spent[i], u.Counted(), 0
	if counted != (llm.Usage{}) {
		reported = answers
	}
	for _, sum := range []*Use{&s.Session, &s.Turn} {
		sum.Answers += answers
		sum.Reported += reported
		sum.Usage = sum.Usage.Add(counted)
	}
}

// took adds the time for which the run of an event has run until now.
func (f *Fold) took(e *event.Event, until int64) {
	d := time.Duration(0)
	if began := f.Scope(e.Scope).began; began > 0 { // else its start is not in the log
		d = time.Duration(max(0, until-began))
	}
	if e.Scope == "" {
		f.time.Session += d
		f.time.Turn += d
	}
	f.time.Agents[f.timed(e.Agent)].Session += d
}

// manyAgents is from how many agents on they are looked up in a map. Only graphs
// have so many.
const manyAgents = 16

// timed returns the place of an agent among those whose time is known.
func (f *Fold) timed(name string) int {
	n := len(f.time.Agents)
	if n < manyAgents {
		if i := slices.IndexFunc(f.time.Agents, func(t AgentTime) bool { return t.Agent == name }); i >= 0 {
			return i
		}
	} else if i, ok := f.timedAt[name]; ok {
		return i
	}
	if n == 0 {
		f.time.Agents = make([]AgentTime, 0, 2)
	}
	f.time.Agents = append(f.time.Agents, AgentTime{Agent: name})
	switch n++; {
	case n == manyAgents:
		f.timedAt = make(map[string]int, 2*manyAgents)
		for i, t := range f.time.Agents {
			f.timedAt[t.Agent] = i
		}
	case n > manyAgents:
		f.timedAt[name] = n - 1
	}
	return n - 1
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
