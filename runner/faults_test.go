package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// place is the request of a turn that meets the fault: the first of an agent,
// or after skip others of it.
type place struct {
	name  string
	agent string
	skip  int
}

var places = []place{{"the coordinator", "coordinator", 0}, {"the specialist", "billing", 0}, {"the specialist after its tool", "billing", 1}}

// faultCase is a fault at a place, once or for a whole turn.
type faultCase struct {
	*fault
	place
	always, streamed bool
}

func (c faultCase) String() string {
	return fmt.Sprintf("%s/%s, always=%v, streamed=%v", c.fault.name, c.place.name, c.always, c.streamed)
}

func faultCases() []faultCase {
	var all []faultCase
	for i := range faults {
		for _, p := range places {
			for _, always := range []bool{true, false} {
				for _, streamed := range []bool{true, false} {
					if f := &faults[i]; f.only == "" || (f.only == "streamed") == streamed {
						all = append(all, faultCase{f, p, always, streamed})
					}
				}
			}
		}
	}
	return all
}

// maxRequests is how often one request is sent in all, whoever repeats it.
const maxRequests = 3

// TestFaults runs a turn against an endpoint that misbehaves, and another when
// it is well again: what the consumer gets, what is sent, stored and executed,
// and that the session is none the worse. docs/faults.md has the outcomes.
func TestFaults(t *testing.T) {
	cases := faultCases()
	if race.Enabled { // which takes seven times as long: some of each fault, and of each place
		n := 0
		cases = slices.DeleteFunc(cases, func(faultCase) bool { n++; return n%5 != 0 })
	}
	// Those that mostly wait run all together, the others beside them a few at a
	// time; only the looking is one by one.
	seen := make([]*faultRun, len(cases))
	errs := make([]error, len(cases))
	var wg sync.WaitGroup
	few := make(chan struct{}, 4)
	for i, c := range cases {
		wg.Go(func() {
			if c.waits == 0 && c.opts == nil {
				few <- struct{}{}
				defer func() { <-few }()
			}
			seen[i], errs[i] = c.run(t)
		})
	}
	wg.Wait()
	for i, c := range cases {
		t.Run(c.String(), func(t *testing.T) {
			require.NoError(t, errs[i])
			c.check(t, seen[i])
		})
	}
}

// faultRun is what was seen of a case.
type faultRun struct {
	runner        *runner.Runner
	first, second played
	resumed       int
	active        string
	problems      []error
	executed      []int
}

// played is what was seen of a turn.
type played struct {
	events   []*event.Event // the stored ones that were delivered
	partial  []*event.Event
	err      error
	attempts []attempt
}

var faultKey = session.ID("s1")

// run plays the case and judges nothing, so that it may run in any goroutine.
func (c faultCase) run(t sessiontest.TB) (*faultRun, error) {
	times := 1
	if c.always {
		times = -1
	}
	s, err := newSick(c.fault, c.place, times)
	defer s.close()
	if err != nil {
		return nil, err
	}
	seen := &faultRun{}
	root, err := faultTree(s, func(order int) { seen.executed = append(seen.executed, order) })
	if err != nil {
		return nil, err
	}
	opts := []runner.Option{runner.WithIDs(transcript.Counter())}
	if c.streamed {
		opts = append(opts, runner.WithStreaming())
	}
	if seen.runner, err = runner.New(root, sessiontest.Memory(t), opts...); err != nil {
		return nil, err
	}
	turn := func(text string) (p played) {
		for e, err := range seen.runner.Run(context.Background(), faultKey, llm.UserText(text)) {
			switch {
			case err != nil:
				p.err = err
			case e.Partial:
				p.partial = append(p.partial, e)
			default:
				p.events = append(p.events, e)
			}
		}
		p.attempts = s.heal()
		return p
	}
	seen.first = turn("I was charged twice.")
	for _, err := range seen.runner.Resume(context.Background(), faultKey) {
		if seen.resumed++; err != nil {
			return nil, err
		}
	}
	if seen.active, err = seen.runner.Active(context.Background(), faultKey); err != nil {
		return nil, err
	}
	seen.second = turn("And now?")
	seen.problems = s.problems
	return seen, nil
}

func faultTree(s *sick, executed func(order int)) (agent.Agent, error) {
	type in struct {
		Order int `json:"order"`
	}
	refund, err := tools.Func("refund", "Refunds an order.", func(_ tools.Context, in in) (string, error) {
		executed(in.Order)
		return "done", nil
	})
	if err != nil {
		return nil, err
	}
	var kids []agent.Agent
	for _, name := range []string{"billing", "shipping"} {
		m, err := s.model(name)
		if err != nil {
			return nil, err
		}
		kid, err := llmagent.New(name, "You are "+name+".", m, llmagent.WithTools(refund))
		if err != nil {
			return nil, err
		}
		kids = append(kids, kid)
	}
	m, err := s.model("coordinator")
	if err != nil {
		return nil, err
	}
	return llmagent.New("coordinator", "You route.", m, llmagent.WithSubAgents(kids...))
}

func (c faultCase) fails() bool { return c.always || c.again == nobody }

// requests is how often the request at the place of the fault is sent.
func (c faultCase) requests() int {
	switch {
	case c.again == nobody:
		return 1
	case c.always:
		return maxRequests
	}
	return 2
}

// discards is how many attempts at an answer the consumer must forget.
func (c faultCase) discards() int {
	switch {
	case c.again == theAgent && c.always:
		return maxRequests
	case c.again == theAgent:
		return 1
	case c.again == nobody && c.shown && c.streamed:
		return 1
	}
	return 0
}

// events are the types of the stored events of the first turn, in order.
func (c faultCase) events() []string {
	out := []string{"user user"}
	for _, step := range []struct {
		place
		before, after []string
	}{
		{places[0], []string{"coordinator harness_start"}, []string{"coordinator tool_call", "coordinator usage", "coordinator tool_result", "coordinator transfer", "coordinator harness_end"}},
		{places[1], []string{"billing harness_start"}, []string{"billing tool_call", "billing usage", "billing tool_result"}},
		{places[2], nil, []string{"billing text", "billing usage", "billing harness_end"}},
	} {
		out = append(out, step.before...)
		if step.place == c.place {
			out = append(out, slices.Repeat([]string{c.place.agent + " discard"}, c.discards())...)
			if c.fails() {
				return append(out, c.place.agent+" error", c.place.agent+" harness_end")
			}
		}
		out = append(out, step.after...)
	}
	return out
}

func (c faultCase) check(t *testing.T, seen *faultRun) {
	first := seen.first
	require.Equal(t, c.events(), eventTypes(first.events))
	c.checkError(t, first)
	c.checkPartial(t, first)
	c.checkRequests(t, first)
	require.Empty(t, seen.problems, "requests that violate the protocol")
	require.Zero(t, seen.resumed, "a turn that has failed is over")

	active := "billing"
	if c.fails() {
		active = c.place.agent
	}
	require.Equal(t, active, seen.active)
	second := seen.second
	require.NoError(t, second.err)
	require.Equal(t, []string{"user user", active + " harness_start"}, eventTypes(second.events)[:2])
	require.Equal(t, []string{"billing text", "billing usage", "billing harness_end"}, eventTypes(second.events)[len(second.events)-3:])
	require.Equal(t, active, second.attempts[0].agent)

	var refunds []int
	if !c.fails() || c.place == places[2] {
		refunds = append(refunds, 1)
	}
	require.Equal(t, append(refunds, 1), seen.executed)

	log := load(t, seen.runner, faultKey)
	checkLog(t, seen.runner, log)
	require.Len(t, log, len(first.events)+len(second.events), "what is stored is what was delivered")
	for _, e := range log {
		data := must.Get(json.Marshal(e))
		noBrokenWords(t, string(data))
	}
	for _, a := range slices.Concat(first.attempts, second.attempts) {
		noBrokenWords(t, string(a.body))
	}
}

// noBrokenWords refuses what only the answers that broke have held.
func noBrokenWords(t *testing.T, s string) {
	require.NotContains(t, s, half)
	require.NotContains(t, s, wrong)
	require.Less(t, len(s), limit/2)
}

func (c faultCase) checkError(t *testing.T, p played) {
	if !c.fails() {
		require.NoError(t, p.err)
		return
	}
	run := must.As[*agent.RunError](p.err)
	require.Equal(t, c.place.agent, run.Agent)
	require.Equal(t, string(c.code), run.Code)
	e := must.As[*llm.Error](p.err)
	require.Equal(t, c.code, e.Code)
	require.Equal(t, c.status, e.Status)
	require.Equal(t, c.retryable, e.Retryable)
	require.Equal(t, c.retryable, llm.Retryable(p.err))
	require.InDelta(t, c.after, e.RetryAfter, float64(2*time.Second))
	require.Contains(t, e.Message, c.want)

	last := p.events[len(p.events)-2:]
	failure, ok := last[0].Data.(*event.Failure)
	require.True(t, ok)
	require.Equal(t, c.place.agent, last[0].Agent)
	require.Equal(t, event.Failure{Code: string(c.code), Message: e.Error(), Retryable: c.retryable}, *failure)
	end, ok := last[1].Data.(*event.HarnessEnd)
	require.True(t, ok)
	require.Equal(t, event.FinishReasonError, end.FinishReason)
}

// checkPartial holds the deltas against the events that complete or discard
// them: none is left over, and those of broken answers are taken back.
func (c faultCase) checkPartial(t *testing.T, p played) {
	complete := make(map[string]string)
	discarded := make(map[string]bool)
	discards := 0
	for _, e := range p.events {
		switch d := e.Data.(type) {
		case *event.Text:
			complete[e.ID] = d.Content
		case *event.Discard:
			discards++
			require.Equal(t, string(c.code), d.Code)
			require.NotEmpty(t, d.Message)
			if c.shown && c.streamed {
				require.Len(t, d.IDs, 1)
			}
			for _, id := range d.IDs {
				discarded[id] = true
			}
		}
	}
	deltas := make(map[string]string)
	for _, e := range p.partial {
		deltas[e.ID] += e.Text()
	}
	taken := 0
	for id, text := range deltas {
		if discarded[id] {
			taken++
			require.NotContains(t, complete, id)
		} else {
			require.Equal(t, complete[id], text)
		}
	}
	require.Len(t, discarded, taken, "only what was shown is discarded")
	if !c.streamed {
		require.Empty(t, p.partial)
	} else if c.shown {
		require.Equal(t, discards, taken)
	}
}

func (c faultCase) checkRequests(t *testing.T, p played) {
	var got []string
	var last time.Time
	for i, a := range p.attempts {
		got = append(got, a.agent)
		if i > 0 && p.attempts[i-1].bad {
			require.GreaterOrEqual(t, a.at.Sub(last), c.waits, "the endpoint asked for a wait")
		}
		last = a.at
	}
	var want []string
	for _, place := range places {
		n := 1
		if place == c.place {
			n = c.requests()
		}
		want = append(want, slices.Repeat([]string{place.agent}, n)...)
		if place == c.place && c.fails() {
			break
		}
	}
	require.Equal(t, want, got)
	bad := slices.DeleteFunc(slices.Clone(p.attempts), func(a attempt) bool { return !a.bad })
	if c.fails() {
		require.Len(t, bad, c.requests())
	} else {
		require.Len(t, bad, c.requests()-1)
	}
	for _, a := range bad {
		require.Equal(t, string(bad[0].body), string(a.body), "a repeated request is the same")
	}
}

func eventTypes(events []*event.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Agent+" "+e.Type())
	}
	return out
}
