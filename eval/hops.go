package eval

import "slices"

// Hops are the results of turns for a tree that transfers conversations. A turn that showed a call to the user is never
// right: its agent did not answer, but failed to call.
type Hops struct {
	// First is the share of turns whose first decision was right. A turn that ended with an error before has no
	// decision, and is not right.
	First Interval `json:"first"`
	// Chosen counts the agents that were chosen first.
	Chosen map[string]int `json:"chosen"`
	// Messages are the cases with one turn that ended with the answer of a right agent. Talks are the turns of longer
	// cases, and Changed those of them in which other agents were right than in the turn before.
	Messages Interval `json:"messages"`
	Talks    Interval `json:"talks"`
	Changed  Interval `json:"changed"`
	// ByRight counts the Messages by the right agent: those that were right, and all.
	ByRight map[string][2]int `json:"byRight"`
	// Leaked is the share of turns that showed a call to the user.
	Leaked Interval `json:"leaked"`
}

// Hops returns the results of the turns.
func (r *Results) Hops() Hops {
	h := Hops{ByRight: map[string][2]int{}, Chosen: map[string]int{}}
	var first, messages, talks, changed, leaked share
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		var before []string
		for j := range o.Turns {
			t := &o.Turns[j]
			leaked.count(t.Leaked)
			if d, known := t.firstHop(); known {
				first.count(d.Expected == d.Chosen && !t.Leaked)
				if d.Chosen != "" {
					h.Chosen[d.Chosen]++
				}
			}
			right := t.rightOnes()
			if right == nil {
				before = nil
				continue
			}
			ok := slices.Contains(right, t.Answered) && !t.Leaked
			if len(o.Turns) == 1 {
				messages.count(ok)
				by := h.ByRight[label(right)]
				if by[1]++; ok {
					by[0]++
				}
				h.ByRight[label(right)] = by
			} else {
				talks.count(ok)
			}
			if before != nil && !slices.ContainsFunc(right, func(name string) bool { return slices.Contains(before, name) }) {
				changed.count(ok)
			}
			before = right
		}
	}
	h.First, h.Messages, h.Talks, h.Changed = first.interval(), messages.interval(), talks.interval(), changed.interval()
	h.Leaked = leaked.interval()
	return h
}

// firstHop returns the first decision of a turn, false if the right one is not known. No agent is chosen in a turn that
// ended with an error before.
func (t *TurnOutcome) firstHop() (d Decision, known bool) {
	if len(t.Decisions) > 0 {
		return t.Decisions[0], true
	}
	p, err := ParsePath(t.Expected)
	switch {
	case t.Error == "" || err != nil || !slices.Contains(p[0], t.Path[0]):
		return d, false
	case len(p) == 1:
		return Decision{From: t.Path[0], Expected: t.Path[0]}, true
	}
	return Decision{From: t.Path[0], Expected: label(p[1])}, len(p[1]) > 0
}

// rightOnes returns the agents one of which had to answer, by the case or the end of its path; nil if neither says it.
func (t *TurnOutcome) rightOnes() []string {
	if len(t.ExpectedAnswers) > 0 {
		return t.ExpectedAnswers
	}
	if p, err := ParsePath(t.Expected); err == nil && len(p[len(p)-1]) > 0 {
		return p[len(p)-1]
	}
	return nil
}
