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

	Differences map[string]int `json:"differences"` // by their kinds
	Errors      map[string]int `json:"errors"`      // of turns, by their codes
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
	s := Summary{Cost: new(float64), Differences: map[string]int{}, Errors: map[string]int{}}
	var passed, paths, rightPaths, answers, rightAnswers int
	var took []time.Duration
	var decisions []Decision
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.OK() {
			passed++
		}
		s.count(o.Differences)
		for j := range o.Turns {
			t := &o.Turns[j]
			s.count(t.Differences)
			s.add(t)
			took = append(took, t.Took)
			decisions = append(decisions, t.Decisions...)
			if t.Expected != "" {
				paths++
				rightPaths += right(t, KindPath)
			}
			if len(t.ExpectedAnswers) > 0 {
				answers++
				rightAnswers += right(t, KindAnswers)
			}
		}
	}
	s.Passed, s.Paths, s.Answers = Wilson(passed, len(r.Outcomes)), Wilson(rightPaths, paths), Wilson(rightAnswers, answers)
	s.Unsteady = r.unsteady()
	s.P50, s.P95 = percentile(took, 50), percentile(took, 95)
	rightDecisions := 0
	for _, d := range decisions {
		if d.Expected == d.Chosen {
			rightDecisions++
		}
	}
	s.Decisions, s.Edges = Wilson(rightDecisions, len(decisions)), matrices(decisions)
	if s.Turns == 0 {
		s.Cost = nil
	}
	return s
}

func (s *Summary) count(differences []Difference) {
	for _, d := range differences {
		s.Differences[d.Kind]++
	}
}

func (s *Summary) add(t *TurnOutcome) {
	s.Turns++
	s.Transfers += t.Transfers
	s.ModelCalls += t.ModelCalls
	s.Usage.InputTokens += t.Usage.InputTokens
	s.Usage.OutputTokens += t.Usage.OutputTokens
	s.Usage.CachedTokens += t.Usage.CachedTokens
	if t.Answered == "" {
		s.Silent++
	}
	if t.Error != "" {
		s.Errors[t.Error]++
	}
	switch {
	case t.Cost == nil:
		s.Cost = nil
	case s.Cost != nil:
		*s.Cost += *t.Cost
	}
}

// right is 1 if a turn has no difference of a kind.
func right(t *TurnOutcome, kind string) int {
	if slices.ContainsFunc(t.Differences, func(d Difference) bool { return d.Kind == kind }) {
		return 0
	}
	return 1
}

func (r *Results) unsteady() (n int) {
	type seen struct{ passed, failed bool }
	type name struct{ file, name string }
	cases := map[name]seen{}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		was := cases[name{o.File, o.Case}]
		ok := o.OK()
		cases[name{o.File, o.Case}] = seen{was.passed || ok, was.failed || !ok}
	}
	for _, c := range cases {
		if c.passed && c.failed {
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
