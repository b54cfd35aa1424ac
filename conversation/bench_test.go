package conversation

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// stream makes turns of a conversation, without end: a message, an answer with a
// call, its result and words. Every run has nine events.
type stream struct {
	turn, step int
	last       string
}

func (s *stream) next() *event.Event {
	turn := strconv.Itoa(s.turn)
	user, run := "user-"+turn, "run-"+turn
	e := &event.Event{ID: "event-" + turn + "-" + strconv.Itoa(s.step), RunID: run, Agent: "support", Path: "desk/support", Seq: int64(s.turn*10 + s.step + 1)}
	switch s.step {
	case 0:
		e.RunID, e.ParentID, e.Data = user, s.last, &event.User{Content: llm.Content{Text: "How much is it?"}}
	case 1:
		e.ParentID, e.Data = user+":user", &event.HarnessStart{AgentID: "support"}
	case 2:
		e.Data = &event.Reasoning{Content: "The price is in the catalogue."}
	case 3:
		e.Data = &event.Text{Content: "Let me look."}
	case 4:
		e.ID, e.Data = "call-"+turn, &event.ToolCall{Name: "lookup", Input: json.RawMessage(`{"item":1}`)}
	case 5:
		e.Data = &event.Usage{InputTokens: 10, OutputTokens: 5}
	case 6:
		e.ID, e.Data = "call-"+turn, &event.ToolResult{Name: "lookup", Output: json.RawMessage(`5`)}
	case 7:
		e.Data = &event.Text{Content: "It is five."}
	case 8:
		e.Data = &event.Usage{InputTokens: 20, OutputTokens: 5}
	case 9:
		e.Data = &event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonStop}
		s.last = run + ":harness_end"
		s.turn, s.step = s.turn+1, -1
	}
	s.step++
	return e
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMillion reduces 1,000,000 events a round, made before the clock runs,
// and says what one costs over all, in the first and in the last thousand, and
// how many bytes a node takes beyond the events themselves.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	events := make([]*event.Event, n)
	var s stream
	for i := range events {
		events[i] = s.next()
	}
	for b.Loop() {
		before := heap()
		var first, last time.Duration
		g := New()
		start := time.Now()
		for i, e := range events {
			switch i {
			case 1000:
				first = time.Since(start)
			case n - 1000:
				last = time.Since(start)
			}
			g = g.Reduce(e)
		}
		all := time.Since(start)
		last = all - last
		b.ReportMetric(float64(all.Nanoseconds())/n, "ns/event")
		b.ReportMetric(float64(first.Nanoseconds())/1000, "ns/event-first-1000")
		b.ReportMetric(float64(last.Nanoseconds())/1000, "ns/event-last-1000")
		b.ReportMetric(float64(heap()-before)/float64(g.Len()), "B/node")
		runtime.KeepAlive(g)
	}
	runtime.KeepAlive(events)
}

// BenchmarkDeltas appends to one block of 1,000,000 deltas.
func BenchmarkDeltas(b *testing.B) {
	e := &event.Event{ID: "t", RunID: "r", Partial: true, Data: &event.Text{Content: "four"}}
	const n = 1_000_000
	for b.Loop() {
		g := New()
		start := time.Now()
		for range n {
			g = g.Reduce(e)
		}
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/n, "ns/event")
	}
}

// copied is the graph as its first description has it: every event copies three
// maps.
type copied struct {
	nodes map[string]*event.Event
	edges map[string][]string
	last  map[string]string
}

func (g copied) reduce(e *event.Event) copied {
	next := copied{maps.Clone(g.nodes), maps.Clone(g.edges), maps.Clone(g.last)}
	id := e.ID
	parent := g.last[e.RunID]
	if parent == "" {
		parent = e.ParentID
	}
	if parent != "" {
		next.edges[parent] = append(next.edges[parent][:len(next.edges[parent]):len(next.edges[parent])], id)
	}
	next.nodes[id], next.last[e.RunID] = e, id
	return next
}

// BenchmarkAgainstCopies compares the time for a stream with that of a reducer
// that copies its maps for every event.
func BenchmarkAgainstCopies(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) {
			events := make([]*event.Event, n)
			var s stream
			for i := range events {
				events[i] = s.next()
			}
			var copies, shared time.Duration
			for b.Loop() {
				start := time.Now()
				c := copied{map[string]*event.Event{}, map[string][]string{}, map[string]string{}}
				for _, e := range events {
					c = c.reduce(e)
				}
				copies += time.Since(start)
				start = time.Now()
				g := New()
				for _, e := range events {
					g = g.Reduce(e)
				}
				shared += time.Since(start)
			}
			b.ReportMetric(float64(copies)/float64(shared), "times-faster")
		})
	}
}

// BenchmarkProjections projects conversations of different lengths.
func BenchmarkProjections(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		g := New()
		var s stream
		for g.Len() < n {
			g = g.Reduce(s.next())
		}
		for name, project := range map[string]func(){
			"thread":     func() { Thread(g, Active{}, ThreadOptions{}) },
			"messages":   func() { Messages(g, Active{}) },
			"dag":        func() { DAG(g, Active{}) },
			"hypergraph": func() { g.Hypergraph() },
		} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					project()
				}
			})
		}
	}
}
