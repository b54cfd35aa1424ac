package scripted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/llm"
)

// ErrDrift is wrapped by every error for a call that differs from the script.
var ErrDrift = errors.New("scripted: the calls differ from the script")

// Script holds the answers of agents and counts the calls. It is safe for concurrent use; the order of calls of
// different agents does not matter. The zero value is not usable; see [New].
type Script struct {
	mu     sync.Mutex
	record bool
	agents map[string]*part
	drift  []error
}

// part is the script of one agent.
type part struct {
	answers []answer
	calls   int // the tool calls in answers, for their ids
	asked   int // the calls of the model
	rest    func(*llm.Request) *answer
	reqs    []*llm.Request
}

// Option configures a [Script].
type Option func(*Script)

// WithRecording keeps a copy of every request, for [Script.Requests].
func WithRecording() Option { return func(s *Script) { s.record = true } }

// New returns an empty script.
func New(opts ...Option) *Script {
	s := &Script{agents: map[string]*part{}}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	return s
}

func (s *Script) part(agent string) *part {
	p := s.agents[agent]
	if p == nil {
		p = &part{}
		s.agents[agent] = p
	}
	return p
}

// Add appends answers to those of an agent, and returns s.
func (s *Script) Add(agent string, answers ...Answer) *Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.part(agent)
	for _, a := range answers {
		c := a.compile(agent, p.calls+1)
		p.calls += c.calls
		p.answers = append(p.answers, c)
	}
	return s
}

// Always returns a for every call of the agent beyond its listed answers; the method returns s. Tool calls without an
// explicit id have the same id in each answer.
func (s *Script) Always(agent string, a Answer) *Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.part(agent)
	c := a.compile(agent, p.calls+1)
	p.calls += c.calls
	p.rest = func(*llm.Request) *answer { return &c }
	return s
}

// Func calls f for every call of the agent beyond its listed answers; the method returns s. Several goroutines may call
// f at once.
func (s *Script) Func(agent string, f func(*llm.Request) Answer) *Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.part(agent)
	p.rest = func(req *llm.Request) *answer {
		a := f(req)
		s.mu.Lock()
		defer s.mu.Unlock()
		c := a.compile(agent, p.calls+1)
		p.calls += c.calls
		return &c
	}
	return s
}

// Model returns the model of an agent; it is never nil. If the script does not contain the agent, the model's calls
// fail.
func (s *Script) Model(agent string) llm.Model {
	return &model{agent, func(req *llm.Request) (*answer, error) { return s.next(agent, req) }}
}

// Models returns a function that returns the model of an agent by its name. It accepts every name, so that the calls of
// an unknown one fail with the script's error.
func (s *Script) Models() func(name string) (llm.Model, bool) {
	return func(name string) (llm.Model, bool) { return s.Model(name), true }
}

// Agents returns the names of the agents in the script, sorted.
func (s *Script) Agents() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.agents))
}

// Requests returns the requests to an agent's model, oldest first. It returns none unless the script was made with
// [WithRecording].
func (s *Script) Requests(agent string) []*llm.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.agents[agent]; p != nil {
		return slices.Clone(p.reqs)
	}
	return nil
}

// Done returns nil if every listed answer was used and no call differed from the script. Otherwise it returns an error
// that lists all differences and wraps [ErrDrift].
func (s *Script) Done() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var problems []string
	for _, err := range s.drift {
		problems = append(problems, err.Error())
	}
	for _, agent := range slices.Sorted(maps.Keys(s.agents)) {
		if p := s.agents[agent]; p.asked < len(p.answers) {
			problems = append(problems, fmt.Sprintf("agent %q was asked %s, but its script has %s",
				agent, count(p.asked, "time"), count(len(p.answers), "answer")))
		}
	}
	if problems == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrDrift, strings.Join(problems, "; "))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// next returns the answer to a call, or the error of the call, which Done returns again.
func (s *Script) next(agent string, req *llm.Request) (*answer, error) {
	a, err := s.answer(agent, req)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drift = append(s.drift, err)
	}
	return a, err
}

func (s *Script) answer(agent string, req *llm.Request) (*answer, error) {
	s.mu.Lock()
	p := s.agents[agent]
	if p == nil {
		defer s.mu.Unlock()
		names := cmp.Or(strings.Join(slices.Sorted(maps.Keys(s.agents)), ", "), "no agent")
		return nil, fmt.Errorf("the script has no answers for agent %q, only for %s", agent, names)
	}
	p.asked++
	n, listed, rest := p.asked, len(p.answers), p.rest
	if s.record {
		p.reqs = append(p.reqs, copyRequest(req))
	}
	var a *answer
	if n <= listed {
		a = &p.answers[n-1]
	}
	s.mu.Unlock()
	if a == nil && rest != nil {
		a = rest(req)
	}
	if a == nil {
		return nil, fmt.Errorf("call %d of agent %q is beyond its script, which has %s", n, agent, count(listed, "answer"))
	}
	return a, a.check(req, fmt.Sprintf("call %d of agent", n), agent)
}

// model is a model of a script, or one without a script.
type model struct {
	name string
	next func(*llm.Request) (*answer, error)
}

func (m *model) Name() string { return m.name }

func (m *model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		a, err := m.next(req)
		if err != nil {
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest, Message: err.Error(), Err: fmt.Errorf("%w: %w", ErrDrift, err)})
			return
		}
		a.stream(ctx, req, yield)
	}
}

// Always returns a model that returns the same answer for every call. It is made for benchmarks: it takes no lock, and
// a text chunk causes no allocation.
func Always(name string, a Answer) llm.Model {
	c := a.compile(name, 1)
	return &model{name, func(req *llm.Request) (*answer, error) { return &c, c.check(req, "model", name) }}
}

// Func returns a model whose answer to each call is f's answer to the request. Several goroutines may call f at once.
func Func(name string, f func(*llm.Request) Answer) llm.Model {
	return &model{name, func(req *llm.Request) (*answer, error) {
		c := f(req).compile(name, 1)
		return &c, c.check(req, "model", name)
	}}
}

// copyRequest copies everything that a caller can change. Strings and parts are values; the bytes of media and schemas
// are shared.
func copyRequest(req *llm.Request) *llm.Request {
	c := *req
	c.Messages = slices.Clone(req.Messages)
	for i := range c.Messages {
		c.Messages[i].Parts = slices.Clone(c.Messages[i].Parts)
	}
	c.Tools = slices.Clone(req.Tools)
	c.Stop = slices.Clone(req.Stop)
	c.Temperature = clonePtr(req.Temperature)
	c.TopP = clonePtr(req.TopP)
	c.ParallelToolCalls = clonePtr(req.ParallelToolCalls)
	c.ResponseFormat = clonePtr(req.ResponseFormat)
	return &c
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
