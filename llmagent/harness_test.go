package llmagent_test

import (
	"context"
	"iter"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// solo is an agent with a script, run by a real runner on a session in memory.
type solo struct {
	t      testing.TB
	runner *runner.Runner
	script *model
}

// model plays answers in order, then says "ok", and keeps the requests.
type model struct {
	answers []scripted.Answer

	mu       sync.Mutex
	requests []*llm.Request
	bad      error
}

func (m *model) Name() string { return "configured" }

func (m *model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	m.mu.Lock()
	n := len(m.requests)
	m.requests = append(m.requests, req)
	if err := view.Check(req); err != nil {
		m.bad = err
	}
	m.mu.Unlock()
	answer := scripted.Reply(scripted.Text("ok"))
	if n < len(m.answers) {
		answer = m.answers[n]
	}
	return scripted.Always("configured", answer).Generate(ctx, req)
}

func newSolo(t testing.TB, answers []scripted.Answer, opts []llmagent.Option, ropts ...runner.Option) *solo {
	s := &solo{t: t, script: &model{answers: answers}}
	a := must.Get(llmagent.New("solo", "Be kind.", s.script, opts...))
	s.runner = must.Get(runner.New(a, sessiontest.Memory(t), ropts...))
	return s
}

var key = session.ID("s1")

// say runs a turn to its end.
func (s *solo) say(ctx context.Context) (events []*event.Event, failed error) {
	for e, err := range sessiontest.Turn(s.t, s.runner.Run(ctx, key, llm.UserText("Hello"))) {
		if err != nil {
			failed = err
		} else {
			events = append(events, e)
		}
	}
	require.NoError(s.t, s.script.bad)
	return events, failed
}

func (s *solo) log() (events []*event.Event) {
	return must.All(s.runner.History(context.Background(), key))
}

func replies(answers ...scripted.Answer) []scripted.Answer { return answers }

func reply(items ...scripted.Item) scripted.Answer { return scripted.Reply(items...) }

// payloads returns the payloads of one type, in order.
func payloads[T event.Data](events []*event.Event) (found []T) {
	for _, e := range events {
		if d, ok := e.Data.(T); ok && !e.Partial {
			found = append(found, d)
		}
	}
	return found
}

func ids[T event.Data](events []*event.Event) (found []string) {
	for _, e := range events {
		if _, ok := e.Data.(T); ok && !e.Partial {
			found = append(found, e.ID)
		}
	}
	return found
}

func tool(t testing.TB, name string, f func(tools.Context) (any, error), opts ...tools.Option) tools.Tool {
	return must.Get(tools.Func(name, "Does "+name+".", func(c tools.Context, _ struct{}) (any, error) { return f(c) }, opts...))
}
