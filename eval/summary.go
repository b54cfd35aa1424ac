package eval

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
)

// Summary contains the figures of a subject.
type Summary struct {
	// Passed is the share of cases with the expected results; each repetition counts.
	Passed Interval `json:"passed"`
	// Unsteady is the number of cases that passed in some repetitions, but not in all.
	Unsteady int `json:"unsteady"`
	// Paths is the share of right paths among the turns that expect one, and Answers that of right agents among the
	// turns that expect one to answer.
	Paths   Interval `json:"paths"`
	Answers Interval `json:"answers"`
	// Decisions are those of all agents, and Edges contains them by agent.
	Decisions Interval `json:"decisions"`
	Edges     []Matrix `json:"edges"`

	Turns      int           `json:"turns"`
	Silent     int           `json:"silent"` // the turns in which no agent answered
	Transfers  int           `json:"transfers"`
	ModelCalls int           `json:"modelCalls"`
	Usage      event.Usage   `json:"usage"`
	Cost       *float64      `json:"cost"` // of all turns, nil if the cost of one is unknown
	P50        time.Duration `json:"p50"`  // of the durations of turns
	P95        time.Duration `json:"p95"`
	// Straight are the times to the first text of turns without a transfer, and Moved those of turns with a transfer.
	Straight Wait `json:"straight"`
	Moved    Wait `json:"moved"`

	Differences map[string]int `json:"differences"` // by kind
	Errors      map[string]int `json:"errors"`      // of turns, by code
}

// Wait is how long users waited for the first text.
type Wait struct {
	Turns int           `json:"turns"`
	P50   time.Duration `json:"p50"`
	P95   time.Duration `json:"p95"`
}

func waitOf(times []time.Duration) Wait {
	return Wait{len(times), percentile(times, 50), percentile(times, 95)}
}

// Matrix contains the decisions of an agent. Counts has a row for each expected name and a column for each chosen one;
// the diagonal contains the right decisions. The agent's own name means that it kept the conversation.
type Matrix struct {
	From   string   `json:"from"`
	Names  []string `json:"names"` // the agent's own name first, the others in alphabetical order
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
				paths.count(!kinds[kindPath])
			}
			if len(t.ExpectedAnswers) > 0 {
				answers.count(!kinds[kindAnswers])
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

// share counts right results.
type share struct{ right, of int }

func (s *share) count(right bool) {
	if s.of++; right {
		s.right++
	}
}

// countIn counts in the share of a name.
func countIn[K comparable](all map[K]share, name K, right bool) {
	s := all[name]
	s.count(right)
	all[name] = s
}

func (s share) String() string { return fmt.Sprintf("%d/%d", s.right, s.of) }

func (s *share) interval() Interval { return Wilson(s.right, s.of) }

// count counts differences, and returns their kinds.
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
		countIn(cases, [2]string{o.File, o.Case}, o.OK())
	}
	for _, c := range cases {
		if c.right > 0 && c.right < c.of {
			n++
		}
	}
	return n
}

// matrices groups decisions by agent, in the order of their first decisions.
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

// Interval is a share with the bounds of its 95 % confidence interval.
type Interval struct {
	Right int     `json:"right"`
	Of    int     `json:"of"`
	Share float64 `json:"share"` // from 0 to 1
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Wilson returns the Wilson score interval of a share. For a share of nothing the bounds are 0 and 1, and the share is
// 0.
//
// It assumes that all results are independent. The repetitions of one case are not: a model repeats many of its errors,
// so the bounds of few cases with many repetitions are too narrow.
func Wilson(right, of int) Interval {
	if of <= 0 {
		return Interval{High: 1}
	}
	const z = 1.959963984540054 // the 97.5 % quantile of the normal distribution
	n := float64(of)
	p := float64(right) / n
	whole := 1 + z*z/n
	middle := (p + z*z/(2*n)) / whole
	width := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n)) / whole
	i := Interval{Right: right, Of: of, Share: p, Low: max(0, middle-width), High: min(1, middle+width)}
	if right == 0 { // against rounding errors
		i.Low = 0
	}
	if right == of {
		i.High = 1
	}
	return i
}

// percentile returns the smallest of several times that this percentage of them does not exceed, 0 without times.
func percentile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
