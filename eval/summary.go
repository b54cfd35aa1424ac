package eval

import (
	"maps"
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
)

// Summary are the figures of a subject.
type Summary struct {
	// Passed is how many cases came out as expected, each repetition counted.
	Passed Interval `json:"passed"`
	// Unsteady is how many cases came out as expected in some repetitions but not in all.
	Unsteady int `json:"unsteady"`
	// Paths are turns whose path was expected, and Answers those of which an answering agent was.
	Paths   Interval `json:"paths"`
	Answers Interval `json:"answers"`
	// Decisions are those of all agents, and Edges shows them by who decided.
	Decisions Interval `json:"decisions"`
	Edges     []Matrix `json:"edges"`

	Turns      int           `json:"turns"`
	Silent     int           `json:"silent"` // turns in which nobody answered
	Transfers  int           `json:"transfers"`
	ModelCalls int           `json:"modelCalls"`
	Usage      event.Usage   `json:"usage"`
	Cost       *float64      `json:"cost"` // of all turns, nil if it is not known of one
	P50        time.Duration `json:"p50"`  // of the times that turns took
	P95        time.Duration `json:"p95"`
	// Straight are the times to the first text of turns without a transfer, and Moved those of turns with one.
	Straight Wait `json:"straight"`
	Moved    Wait `json:"moved"`

	Differences map[string]int `json:"differences"` // by their kinds
	Errors      map[string]int `json:"errors"`      // of turns, by their codes
}

// Wait is how long users waited.
type Wait struct {
	Turns int           `json:"turns"`
	P50   time.Duration `json:"p50"`
	P95   time.Duration `json:"p95"`
}

func waitOf(times []time.Duration) Wait {
	return Wait{len(times), percentile(times, 50), percentile(times, 95)}
}

// Matrix shows what an agent decided. Counts has a row for each name that was expected and a
// column for each that was chosen; what is on the diagonal was right. The agent's own name
// stands for that it kept the conversation.
type Matrix struct {
	From   string   `json:"from"`
	Names  []string `json:"names"` // the agent's own first, then by the alphabet
	Counts [][]int  `json:"counts"`
}

// Summary returns the figures of the outcomes.
func (r *Results) Summary() Summary {
	s := Summary{Differences: map[string]int{}, Errors: map[string]int{}}
	var passed, paths, answers, decided share
	var took, straight, moved []time.Duration
	var decisions []Decision
	used := TurnOutcome{Cost: new(float64)}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		passed.count(o.OK())
		s.count(o.Differences)
		for j := range o.Turns {
			t := &o.Turns[j]
			kinds := s.count(t.Differences)
			used.add(t)
			took, decisions, s.Turns = append(took, t.Took), append(decisions, t.Decisions...), s.Turns+1
			switch {
			case t.FirstWord == 0:
			case len(t.Path) > 1:
				moved = append(moved, t.FirstWord)
			default:
				straight = append(straight, t.FirstWord)
			}
			if t.Answered == "" {
				s.Silent++
			}
			if t.Error != "" {
				s.Errors[t.Error]++
			}
			if t.Expected != "" {
				paths.count(!kinds[KindPath])
			}
			if len(t.ExpectedAnswers) > 0 {
				answers.count(!kinds[KindAnswers])
			}
		}
	}
	for _, d := range decisions {
		decided.count(d.Expected == d.Chosen)
	}
	s.Passed, s.Paths, s.Answers, s.Decisions = passed.interval(), paths.interval(), answers.interval(), decided.interval()
	s.Unsteady, s.Edges = r.unsteady(), matrices(decisions)
	s.Transfers, s.ModelCalls, s.Usage = used.Transfers, used.ModelCalls, used.Usage
	s.Straight, s.Moved = waitOf(straight), waitOf(moved)
	s.P50, s.P95 = percentile(took, 50), percentile(took, 95)
	if s.Turns > 0 {
		s.Cost = used.Cost
	}
	return s
}

// share counts what is right.
type share struct{ right, of int }

func (s *share) count(right bool) {
	if s.of++; right {
		s.right++
	}
}

func (s *share) interval() Interval { return Wilson(s.right, s.of) }

// count counts differences, and returns of which kinds there are.
func (s *Summary) count(differences []Difference) map[string]bool {
	kinds := map[string]bool{}
	for _, d := range differences {
		s.Differences[d.Kind]++
		kinds[d.Kind] = true
	}
	return kinds
}

func (r *Results) unsteady() (n int) {
	cases := map[[2]string]share{}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		c := cases[[2]string{o.File, o.Case}]
		c.count(o.OK())
		cases[[2]string{o.File, o.Case}] = c
	}
	for _, c := range cases {
		if c.right > 0 && c.right < c.of {
			n++
		}
	}
	return n
}

// matrices sorts decisions by who made them, in the order in which they first decided.
func matrices(decisions []Decision) (all []Matrix) {
	of := map[string][]Decision{}
	var from []string
	for _, d := range decisions {
		if of[d.From] == nil {
			from = append(from, d.From)
		}
		of[d.From] = append(of[d.From], d)
	}
	for _, name := range from {
		all = append(all, matrix(name, of[name]))
	}
	return all
}

func matrix(from string, decisions []Decision) Matrix {
	others := map[string]bool{}
	for _, d := range decisions {
		others[d.Expected], others[d.Chosen] = true, true
	}
	delete(others, from)
	m := Matrix{From: from, Names: append([]string{from}, slices.Sorted(maps.Keys(others))...)}
	at := make(map[string]int, len(m.Names))
	for i, name := range m.Names {
		at[name] = i
		m.Counts = append(m.Counts, make([]int, len(m.Names)))
	}
	for _, d := range decisions {
		m.Counts[at[d.Expected]][at[d.Chosen]]++
	}
	return m
}
