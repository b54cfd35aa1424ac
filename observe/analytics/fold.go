package analytics

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// fold derives events of analytics from the events of a turn.
type fold struct {
	emit    func(*Event)
	texts   bool
	session string
	tree    *agent.Tree
	resumed bool
	graphs  []*graph // that were entered and not exited, in this order
}

// graph is an entered graph of the turn.
type graph struct {
	id, scope, turn string
	root, last      string // the paths of the outermost router, and of the last active agent
	entered         time.Time
	run             string         // the id of the current run
	route           []string       // the path of the last decision
	human           bool           // a person has the conversation
	errored         *event.Failure // the last error of the current run
	failure         *event.Failure // the error of the specialist
	current         specialist
}

// specialist is the running specialist of a graph; the zero value means none.
type specialist struct {
	id, path, url, task   string
	reported              bool      // its start was reported
	started, first, ended time.Time // first is the time of its first text
	finish                event.FinishReason
	events                int
}

// apply processes the next event of the turn.
func (f *fold) apply(e *event.Event) {
	g := f.follow(e)
	var told *Event
	switch d := e.Data.(type) {
	case *event.User:
		text := d.Content.PlainText()
		told = &Event{Type: TypeMessageReceived, ID: e.ID, Text: text, Size: new(len(text))}
	case *event.Text:
		if d.Content != "" && e.Scope == "" && !e.Partial {
			told = &Event{Type: TypeMessageSent, ID: e.ID, Text: d.Content, Size: new(len(d.Content))}
		}
	case *event.Relay:
		told = &Event{Type: TypeApprovalRequested, ID: e.ID, Tool: d.Tool, ToolCallID: d.ToolCallID}
	case *event.RelayResolved:
		told = &Event{Type: TypeApprovalResolved, ID: d.RelayID, Approved: new(d.Approved), By: d.By, Text: d.Reason}
	case *event.HandoffStatus:
		told = &Event{Type: TypeHandoffStatus, ID: d.HandoffID, Status: d.Status, TargetAgent: d.TargetAgent, Reason: d.Reason, QueuePosition: d.QueuePosition,
			EstimatedWaitTime: d.EstimatedWaitTime, RouteDecision: d.RouteDecision, GraphPath: d.GraphPath}
	}
	if told == nil {
		return
	}
	if !f.texts {
		told.Text = ""
	}
	told.Timestamp, told.Agent = e.Time, e.Agent
	if g == nil {
		g = &graph{scope: e.Scope, turn: e.TurnID}
	}
	told.SpecialistID = g.current.id
	f.send(g, told)
}

// follow applies an event to its graph, and returns the graph, or nil if it has ended.
func (f *fold) follow(e *event.Event) (g *graph) {
	if i := slices.IndexFunc(f.graphs, func(g *graph) bool { return g.scope == e.Scope }); i >= 0 {
		g = f.graphs[i]
	}
	if (g == nil || e.RunID != g.run) && runs(e) {
		g = f.begin(g, e)
	}
	if g == nil || e.RunID != g.run {
		return g
	}
	if !e.Partial {
		g.current.events++
	}
	if typ := e.Type(); g.current.first.IsZero() && (typ == event.TypeText || typ == event.TypeReasoning) {
		g.current.first = e.Time
	}
	switch d := e.Data.(type) {
	case *event.HarnessStart:
		return g
	case *event.Route:
		if g.route = d.GraphPath; d.Failed != nil {
			g.failure = d.Failed
			break
		}
		if !g.current.reported { // it is a router
			g.current = specialist{}
		}
		f.reportEnd(g, e.Time)
		f.send(g, &Event{Type: TypeRouted, Timestamp: e.Time, From: d.From, To: d.To, RuleIndex: d.RuleIndex, Reason: d.Reason, IntentLabel: d.IntentLabel,
			IntentConfidence: d.IntentConfidence, Sentiment: d.Sentiment, LatencyMs: d.LatencyMs, GraphPath: d.GraphPath})
	case *event.RemoteTask:
		g.current.task = cmp.Or(d.TaskID, g.current.task)
	case *event.Failure:
		g.errored = d
	case *event.HarnessEnd:
		g.current.ended, g.current.finish = e.Time, d.FinishReason
		switch d.FinishReason {
		case event.FinishReasonTransfer: // the next run decides the outcome
			return g
		case event.FinishReasonError, event.FinishReasonLimit:
			f.exit(g, e.Time, cmp.Or(g.errored, &event.Failure{Code: string(d.FinishReason)}))
		case event.FinishReasonCanceled:
			f.exit(g, e.Time, &event.Failure{Code: CodeCanceled, Message: "the run was cut off", Retryable: true})
		default:
			f.exit(g, e.Time, nil)
		}
		return nil
	}
	f.reportStart(g)
	return g
}

// runs reports whether an event shows that its run is running. Events that end a run, or repeat its work, may come when
// it is not.
func runs(e *event.Event) bool {
	switch d := e.Data.(type) {
	case *event.HarnessStart, *event.Text, *event.Reasoning, *event.ToolCall, *event.ToolProgress, *event.Usage, *event.Relay, *event.Route, *event.Transfer:
		return true
	case *event.Notice:
		return d.Code == event.NoticeResumed
	}
	return false
}

// begin records the current run, and returns its graph.
func (f *fold) begin(g *graph, e *event.Event) *graph {
	var n *agent.Node // nil if it belongs to another tree
	if f.tree != nil {
		if n = f.tree.Node(e.Agent); n != nil && n.Path != e.Path {
			n = nil
		}
	}
	r, router := e.Data.(*event.Route)
	if router = router && r.Failed == nil; n != nil {
		router = n.Properties.Router
	}
	person := e.Agent == agent.Human
	if g != nil && !person && !below(e.Path, g.root) {
		f.exit(g, e.Time, nil)
		g = nil
	}
	entered := g == nil
	if entered {
		g = &graph{id: e.Agent, root: e.Path, scope: e.Scope, turn: e.TurnID, entered: e.Time}
		if n != nil && n.FirstRouter() != nil {
			g.id, g.root = n.FirstRouter().Agent.Name(), n.FirstRouter().Path
		} else if n != nil || !router {
			return nil
		}
		f.graphs = append(f.graphs, g)
		f.send(g, &Event{Type: TypeGraphEntered, Timestamp: e.Time, Resumed: f.resumed})
	}
	g.run, g.human, g.errored = e.RunID, person, nil
	if !person {
		g.last = e.Path
	}
	if !person && !router && g.current.id != "" && below(e.Path, g.current.path) { // it transferred to an agent below itself
		g.failure, g.current.ended, g.current.finish = nil, time.Time{}, ""
		return g
	}
	if f.reportEnd(g, e.Time); person || router {
		return g
	}
	if g.current = (specialist{id: e.Agent, path: e.Path, started: e.Time}); n == nil {
		return g // the next event shows whether it is a router
	}
	for entered && n.Parent != nil && !n.Parent.Properties.Router { // the router's choice is not known
		n = n.Parent
	}
	g.current.id, g.current.path = n.Agent.Name(), n.Path
	if remote, ok := agent.As[interface{ CardURL() string }](n.Agent); ok {
		g.current.url = remote.CardURL() // the next event may have the task's id
	} else {
		f.reportStart(g)
	}
	return g
}

// reportStart reports the start of the specialist, if there is one and it was not reported.
func (f *fold) reportStart(g *graph) {
	if s := &g.current; s.id != "" && !s.reported {
		s.reported = true
		f.send(g, &Event{Type: TypeSpecialistStarted, Timestamp: s.started, SpecialistID: s.id, AgentCardURL: s.url, TaskID: s.task})
	}
}

// reportEnd reports how the specialist ended, if there is one.
func (f *fold) reportEnd(g *graph, at time.Time) {
	f.reportStart(g)
	s, failure := g.current, g.failure
	if g.current, g.failure = (specialist{}), nil; s.id == "" {
		return
	}
	if !s.ended.IsZero() {
		at = s.ended
	}
	report := &Event{Type: TypeSpecialistCompleted, Timestamp: at, SpecialistID: s.id, AgentCardURL: s.url, TaskID: s.task, DurationMs: since(s.started, at),
		EventCount: s.events, FinishReason: string(s.finish)}
	if !s.first.IsZero() {
		report.FirstEventMs = since(s.started, s.first)
	}
	if failure != nil {
		report.Type, report.FinishReason = TypeSpecialistFailed, ""
		report.Code, report.Message, report.Retryable = failure.Code, failure.Message, new(failure.Retryable)
	}
	f.send(g, report)
}

// exit ends a graph. failure may be nil.
func (f *fold) exit(g *graph, at time.Time, failure *event.Failure) {
	if g.current.finish != event.FinishReasonTransfer { // otherwise it is not the failure of the specialist
		g.failure = failure
	}
	failure = cmp.Or(failure, g.failure)
	f.reportEnd(g, at)
	path := strings.Split(g.last[max(0, len(g.root)-len(g.id)):], "/")
	report := &Event{Type: TypeGraphExited, Timestamp: at, Outcome: OutcomeSpecialist, DurationMs: since(g.entered, at)}
	if g.human {
		report.Outcome, path = OutcomeHuman, append(path, agent.Human)
		if len(g.route) > 0 && g.route[len(g.route)-1] == agent.Human {
			path = g.route
		}
	}
	if report.GraphPath = path; failure != nil {
		report.Outcome, report.Code, report.Message, report.Retryable = OutcomeFailed, failure.Code, failure.Message, new(failure.Retryable)
		if failure.Code == CodeCanceled {
			report.Outcome = OutcomeCancelled
		}
	}
	f.send(g, report)
	f.graphs = slices.DeleteFunc(f.graphs, func(other *graph) bool { return other == g })
}

const panicked = "the turn panicked"

// end exits the remaining graphs after the last event. problem says why the sequence ended, and is "" if it ended
// regularly. cancelled reports whether the context of the turn had ended.
func (f *fold) end(problem string, err error, cancelled bool) {
	var failure *event.Failure
	switch {
	case len(f.graphs) == 0, err == nil && problem == "": // the next part of the turn continues
	case err == nil && problem == panicked:
		failure = &event.Failure{Code: event.CodeInternal, Message: problem}
	case err == nil, cancelled, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		failure = &event.Failure{Code: CodeCanceled, Message: cmp.Or(problem, "the turn was cut off"), Retryable: true}
	default:
		failure = &event.Failure{Code: cmp.Or(agent.ErrorCode(err), "turn_failed"), Message: err.Error(), Retryable: llm.Retryable(err)}
	}
	for at := time.Now().UTC(); len(f.graphs) > 0; {
		f.exit(f.graphs[len(f.graphs)-1], at, failure)
	}
}

// send sends an event of a graph.
func (f *fold) send(g *graph, e *Event) {
	e.SessionID, e.TurnID, e.GraphID, e.Scope = f.session, g.turn, g.id, g.scope
	f.emit(e)
}

// below reports whether a path is equal to another one or continues it.
func below(path, of string) bool {
	return strings.HasPrefix(path, of) && (len(path) == len(of) || path[len(of)] == '/')
}

// since returns a duration in milliseconds.
func since(from, to time.Time) *float64 {
	return new(float64(max(0, to.Sub(from)).Microseconds()) / 1000)
}
