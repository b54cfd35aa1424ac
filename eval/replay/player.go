package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// errOver ends a turn when nothing more is replayed; errCut ends one that was interrupted at this position of the log.
var (
	errOver = errors.New("the replay ends here")
	errCut  = errors.New("the log ends the turn here")
)

// player plays a tree over a log. It is the interceptor of its runner and wraps the runner's store, so that it sees
// each event before anything depends on it.
type player struct {
	agent.Passthrough
	log    *Log
	config *config
	files  func(ctx context.Context, digest string) ([]byte, error)
	asks   func(*ask) *Difference // checks each request; nil answers with the recorded answer

	mu           sync.Mutex
	cancel       context.CancelCauseFunc // of the turn
	next         map[string]int          // by recorded scope, the index of the next event
	used         []bool                  // the events of the log that were produced again
	done         int
	until        int64             // the position of the end of the current step
	unfinished   bool              // the current step was interrupted there
	recorded     map[string]string // the recorded ids by ids of the replay
	newIDs       map[string]string // the ids of the replay by recorded ids
	recordedSeqs map[int64]int64   // the positions in the log by positions in the replay
	usedAnswers  map[string]int    // the number of used answers of a recorded run
	clock        time.Time
	turn         int // the current turn, from 1
	path         []string

	requests, tools int

	first           *Difference
	stopped         *Stopped
	failed          error // the error of a turn in which models were asked
	over            bool
	live            bool
	usedResults     map[string]bool // the results that were used for live calls, by the recorded call
	earlierPossible bool            // the difference is in an inner scope, and there may be an earlier one
}

// ask is a request to a model.
type ask struct {
	seq     int64 // of the recorded answer
	n       int   // the number of the request for it
	turn    int
	agent   string
	scope   string
	path    string
	model   string
	run     string // in the replay
	answer  *answer
	request *llm.Request
	p       *player
}

func newPlayer(l *Log, c *config) *player {
	return &player{log: l, config: c, files: c.files, used: make([]bool, len(l.events)), next: make(map[string]int), recorded: make(map[string]string),
		newIDs: make(map[string]string), recordedSeqs: make(map[int64]int64), usedAnswers: make(map[string]int), usedResults: make(map[string]bool)}
}

// replayStore is the store of a replay in memory. It passes writes to the player first.
type replayStore struct {
	session.Store
	p *player
}

func (s *replayStore) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return s.Store.Write(ctx, key, w)
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.over {
		return session.Lease{}, errOver
	}
	if err := s.p.match(w.Events); err != nil {
		return session.Lease{}, err
	}
	return s.Store.Write(ctx, key, w)
}

// Blob also returns the files of the replayed session.
func (s *replayStore) Blob(ctx context.Context, key session.Key, digest string) ([]byte, error) {
	data, err := s.Store.Blob(ctx, key, digest)
	if err != nil {
		return s.p.bytes(ctx, digest)
	}
	return data, nil
}

func (p *player) bytes(ctx context.Context, digest string) ([]byte, error) {
	if p.files == nil {
		return nil, session.NoBlob(p.log.key, digest)
	}
	return p.files(ctx, digest)
}

// end ends the replay. The caller holds mu.
func (p *player) end() error {
	p.over = true
	p.cancel(errOver)
	return errOver
}

// stop ends the replay at a place where it cannot continue. The caller holds mu.
func (p *player) stop(seq int64, format string, args ...any) error {
	if (p.first == nil || p.live) && p.stopped == nil {
		p.stopped = &Stopped{Turn: p.turn, Seq: seq, Reason: fmt.Sprintf(format, args...)}
	}
	return p.end()
}

// differ records a difference, and ends the replay unless the models continue after it. The caller holds mu.
func (p *player) differ(d *Difference, of *divergence) error {
	if d == nil {
		if why := p.notReplayable(of); why != "" {
			return p.stop(of.was.Seq, "%s", why)
		}
		d = p.explain(of)
	}
	d.Turn = p.turn
	if p.first == nil || d.Seq < p.first.Seq {
		p.first = d
	}
	if p.config.live && !p.live {
		p.live = true
		return nil
	}
	return p.end()
}

// notReplayable returns the reason why a place is not a difference of the trees, "" if it is.
func (p *player) notReplayable(of *divergence) string {
	switch {
	case of.was == nil:
		return ""
	case of.was.Agent == agent.Human:
		return "a person has the conversation at this position, and the rest of the handoff is not replayed"
	}
	if of.was.Type() == event.TypeRemoteTask || p.log.remote(of.was) {
		return "the remote agent " + of.was.Agent + " is called at this position, and its answer is not replayed"
	}
	return ""
}

// remote reports whether an event belongs to a run of a remote agent, or leads to it.
func (l *Log) remote(e *event.Event) bool {
	to := ""
	for i := e.Seq - 1; i < int64(len(l.events)) && l.events[i].TurnID == e.TurnID; i++ {
		switch d := l.events[i].Data.(type) {
		case *event.Transfer:
			if to == "" && l.events[i].Time.Equal(e.Time) {
				to = d.To
			}
		case *event.RemoteTask:
			if l.events[i].RunID == e.RunID || l.events[i].Agent == to && to != "" {
				return true
			}
		}
	}
	return false
}

// ModelCall implements agent.Interceptor: it returns the recorded answer.
func (p *player) ModelCall(ctx context.Context, c agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		inv := c.Invocation
		p.mu.Lock()
		a, live, err := p.answer(c)
		p.mu.Unlock()
		switch {
		case err != nil:
			yield(llm.Chunk{}, err)
		case live:
			next(ctx, c.Request)(yield)
		default:
			a.yieldTo(yield, inv.Scope() != "")
		}
	}
}

// answer finds the answer to a request. The caller holds mu.
func (p *player) answer(c agent.ModelCallInfo) (a *answer, live bool, err error) {
	inv := c.Invocation
	if p.over {
		return nil, false, errOver
	}
	p.requests++
	if p.live {
		return nil, true, nil
	}
	if p.earlierPossible && inv.Scope() == "" {
		return nil, false, p.end()
	}
	was := p.recorded[inv.RunID()]
	r := p.log.runs[was]
	if r == nil {
		return nil, false, p.stop(p.until, "the run of %s is not in the log", inv.Agent().Name())
	}
	n := p.usedAnswers[was]
	if n == len(r.answers) || r.answers[n].seq > p.until {
		if p.unfinished || r.finish == "" || r.finish == event.FinishReasonCanceled { // its process died, or its turn was interrupted
			p.requests--
			p.cancel(errCut)
			return nil, false, errCut
		}
		return nil, false, p.differ(p.extra(c), nil)
	}
	a = r.answers[n]
	if (a.kind == answerSummary || a.kind == answerShortened) && c.Request.Agent != "" { // the endpoint had found the request too long before
		if inv.Scope() != "" && len(a.before) > 0 {
			a.before = a.before[1:]
		}
		return &answer{failed: failureOf(string(llm.CodeContextLength), "the request was too long", false), kind: answerBroken, certainty: -1}, false, nil
	}
	if a.missing != "" {
		return nil, false, p.stop(a.seq, "%s", a.missing)
	}
	if len(c.Request.Tools) == 0 {
		a = a.asked()
	}
	p.usedAnswers[was] = n + 1
	if p.asks != nil {
		d := p.asks(&ask{a.seq, n, p.turn, inv.Agent().Name(), inv.Scope(), inv.Node().Path, c.Model.Name(), inv.RunID(), a, c.Request, p})
		switch {
		case p.over:
			return nil, false, errOver
		case d == nil:
		case inv.Scope() != "" && !p.config.live: // scopes run at the same time, and the first difference is needed
			if p.earlierPossible = true; p.first == nil || d.Seq < p.first.Seq {
				d.Turn, p.first = p.turn, d
			}
		default:
			if err := p.differ(d, nil); err != nil {
				return nil, false, err
			}
			return nil, true, nil
		}
	}
	return a, false, nil
}

// ToolCall implements agent.Interceptor: it returns the recorded result, and runs an agent that is called.
func (p *player) ToolCall(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
	if c.Name == agent.TransferTool {
		return next(ctx, c.Input)
	}
	return next(tools.WithStandIn(ctx, func(ctx context.Context, t tools.Tool, info tools.CallInfo, input json.RawMessage) (tools.Result, bool, error) {
		return p.result(ctx, t, info, input)
	}), c.Input)
}

func (p *player) result(ctx context.Context, t tools.Tool, info tools.CallInfo, input json.RawMessage) (tools.Result, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return tools.Result{}, true, errOver
	}
	id := info.CallID
	if was := p.recorded[id]; was != "" {
		id = was
	}
	if runsAgents(t) && (p.live || len(p.log.opened[id]) > 0) {
		return tools.Result{}, false, nil
	}
	was := p.log.calls[id]
	if p.live && (was == nil || p.recorded[info.CallID] == "") {
		if was = p.similarCall(t.Info().Name, input); was == nil {
			return tools.Result{}, true, p.stop(0, "%s(%s) has no recorded result, and no tool is run", t.Info().Name, visible.CutMiddle(string(input), 200))
		}
	}
	switch {
	case was == nil:
		return tools.Result{}, true, p.stop(p.until, "the call of %s is not in the log", t.Info().Name)
	case len(info.Answers) < len(was.asked):
		q := was.asked[len(info.Answers)]
		info.Ask(q.Message, q.Schema)
		return tools.Result{}, true, agent.ErrWaits
	case was.result == nil: // it was running at the end
		p.cancel(errCut)
		return tools.Result{}, true, errCut
	}
	for _, f := range was.files {
		if f.Digest == "" {
			continue
		}
		if _, err := p.bytes(ctx, f.Digest); err != nil {
			return tools.Result{}, true, p.stop(p.until, "the bytes of %s, which the call of %s has given, cannot be read", f.Name, was.name)
		}
	}
	p.tools++
	p.mu.Unlock()
	for _, content := range was.progress {
		info.Progress(content)
	}
	p.mu.Lock()
	return tools.Result{Output: was.result.Output, IsError: was.result.IsError, State: was.state, Files: clones(was.files)}, true, nil
}

func clones(files []*event.File) (all []*event.File) {
	for _, f := range files {
		c := *f
		all = append(all, &c)
	}
	return all
}

// similarCall finds an unused recorded call of this turn with the same name and input.
func (p *player) similarCall(name string, input json.RawMessage) *call {
	for _, e := range p.log.events {
		c := p.log.calls[e.ID]
		if e.Type() == event.TypeToolCall && c.name == name && c.result != nil && p.log.turns[c.turn] == p.turn && !p.usedResults[e.ID] && sameJSON(c.input, input) {
			p.usedResults[e.ID] = true
			return c
		}
	}
	return nil
}

func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(event.EncodeJSON(event.DecodeValue(a)), event.EncodeJSON(event.DecodeValue(b)))
}

// runsAgents reports whether a tool only runs agents, so that a call of it does nothing else.
func runsAgents(t tools.Tool) bool {
	for t != nil && t.Info().Resumable {
		if _, ok := t.(tools.Host); ok {
			return true
		}
		w, ok := t.(interface{ Unwrap() tools.Tool })
		if !ok {
			return false
		}
		t = w.Unwrap()
	}
	return false
}

// play plays a tree over the log, to its end or as far as possible.
func (p *player) play(ctx context.Context, root agent.Agent) error {
	store := &replayStore{session.NewMemory(), p}
	opts := slices.Concat([]runner.Option{runner.WithInterceptors(p)}, p.config.runner, []runner.Option{runner.WithClock(p.now)})
	if p.log.people {
		opts = append(opts, runner.WithDesk(desk{p}))
	}
	r, err := runner.New(root, store, opts...)
	if err != nil {
		return err
	}
	for i, s := range p.log.steps {
		to := len(p.log.events)
		if i+1 < len(p.log.steps) {
			to = p.log.steps[i+1].from
		}
		if at := p.config.at; at > 0 && s.write[0].Seq > at {
			return nil
		}
		if over, err := p.step(ctx, r, s, to); over || err != nil {
			return err
		}
	}
	return nil
}

// now returns the time of the recorded event, for both trees.
func (p *player) now() time.Time { return p.clock }

// step plays an input, and the part of the turn that it causes.
func (p *player) step(ctx context.Context, r *runner.Runner, s step, to int) (over bool, failed error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.cancel, p.until, p.clock = cancel, int64(to), s.write[0].Time
	p.unfinished = p.log.unfinished(s.from, to)
	if s.kind == stepMessage {
		p.turn++
		p.path = nil
	}
	decided, err := p.log.decisions(s, func(was string) string { return p.newIDs[was] })
	if err != nil {
		p.stopped = &Stopped{Turn: p.turn, Seq: s.write[0].Seq, Reason: err.Error()}
		return true, nil
	}
	var events iter.Seq2[*event.Event, error]
	switch s.kind {
	case stepMessage:
		msg, opts := s.message()
		events = r.Run(ctx, p.log.key, msg, opts...)
	case stepDecisions, stepResume:
		events = r.Resume(ctx, p.log.key, decided...)
	case stepDelivery:
		err := r.Deliver(ctx, p.log.key, p.delivery(s))
		events = func(yield func(*event.Event, error) bool) {
			if err != nil {
				yield(nil, err)
			}
		}
	case stepFork:
		p.stopped = &Stopped{Turn: p.turn, Seq: s.write[0].Seq, Reason: "a fork continues in the middle of a turn at this position, and that is not replayed"}
		return true, nil
	}
	for _, err := range events {
		failed = err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	cause := context.Cause(ctx)
	if p.live && failed != nil && cause == nil {
		p.failed = failed
		_ = p.stop(0, "continuing the turn fails: %s", failed)
	}
	switch {
	case p.over || p.live || p.first != nil:
		p.over = true
		return true, nil
	case errors.Is(cause, errCut):
		return false, nil
	case cause != nil:
		return true, cause
	case failed != nil && !errors.As(failed, new(*agent.RunError)):
		_ = p.stop(s.write[0].Seq, "it cannot be played: %s", failed)
		return true, nil
	}
	if at := p.config.at; at > 0 {
		to = min(to, int(at))
	}
	if was := p.firstMissing(to); was != nil {
		_ = p.differ(nil, &divergence{was, nil})
		return true, nil
	}
	return false, nil
}

// message returns the user's message and the options of its turn.
func (s step) message() (msg llm.Message, opts []runner.TurnOption) {
	msg.Role = llm.RoleUser
	user := ""
	for _, e := range s.write {
		switch d := e.Data.(type) {
		case *event.User:
			user, msg.Content = e.RunID, d.Content
			if d.Metadata != nil {
				opts = append(opts, runner.WithMetadata(d.Metadata))
			}
		case *event.State:
			if e.RunID == user && user != "" {
				opts = append(opts, runner.WithState(d.Delta))
			}
		case *event.Transfer:
			if user != "" && d.To == agent.Human && d.ToolCallID == "" {
				opts = append(opts, runner.CallHuman(d.Reason))
			}
		}
	}
	return msg, opts
}
