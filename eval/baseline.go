package eval

import (
	"fmt"
	"slices"
)

// Regression is a result that is worse than in the baseline.
type Regression struct {
	Subject string `json:"subject"`
	// Case is the failed case with its position; "" for a share of several cases.
	Case string `json:"case,omitempty"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// What is the share that fell: "passed", "paths", or "passed, tag de".
	What string `json:"what"`
	// Was and Is are its values; for a case, how often it passed.
	Was Interval `json:"was"`
	Is  Interval `json:"is"`
}

// String returns the regression in one line.
func (r Regression) String() string {
	if r.Case == "" {
		return fmt.Sprintf("%s: %s is %s, and was %s", r.Subject, r.What, r.Is, r.Was)
	}
	return fmt.Sprintf("%s: %s passed %d of %d times, and now %d of %d", r.Subject, r.Case, r.Was.Right, r.Was.Of, r.Is.Right, r.Is.Of)
}

// Against compares the report with an earlier one, and returns the regressions: cases that passed every time and now
// fail at least once, and shares whose interval is below the earlier one. A case that sometimes failed before counts
// only in the shares.
//
// It compares only cases that are in both reports, by name, also in shares, so that a new difficult case is not a
// regression. It compares subjects by name. If each report has only one subject, it compares these, so that a model can
// be compared with its predecessor.
func (r *Report) Against(baseline *Report) []Regression {
	var found []Regression
	for i := range r.Subjects {
		now := &r.Subjects[i]
		if was := baseline.Like(r, now.Subject); was != nil {
			found = append(found, now.against(was)...)
		}
	}
	return found
}

// Like returns the results to compare with those of a subject of another report, or nil.
func (r *Report) Like(of *Report, subject string) *Results {
	if len(r.Subjects) == 1 && len(of.Subjects) == 1 {
		return &r.Subjects[0]
	}
	for i := range r.Subjects {
		if r.Subjects[i].Subject == subject {
			return &r.Subjects[i]
		}
	}
	return nil
}

func (now *Results) against(was *Results) []Regression {
	nowBy, wasBy := now.byCase(), was.byCase()
	var cases []Regression
	var nowIn, wasIn Results // of the cases in both
	tags := map[string]bool{}
	var order []string
	for i := range now.Outcomes {
		o := &now.Outcomes[i]
		before := wasBy[o.Case]
		if len(before) == 0 {
			continue
		}
		nowIn.Outcomes = append(nowIn.Outcomes, *o)
		for _, tag := range o.Tags {
			if !tags[tag] {
				tags[tag] = true
				order = append(order, tag)
			}
		}
		if all := nowBy[o.Case]; all[0] == o {
			for _, b := range before {
				wasIn.Outcomes = append(wasIn.Outcomes, *b)
			}
			w, is := passed(before), passed(all)
			if w.Right == w.Of && is.Right < is.Of {
				cases = append(cases, Regression{Subject: now.Subject, Case: o.Case, File: o.File, Line: o.Line, What: "passed", Was: w, Is: is})
			}
		}
	}
	var shares []Regression
	fell := func(what string, w, is Interval) {
		if w.Of > 0 && is.Of > 0 && is.High < w.Low {
			shares = append(shares, Regression{Subject: now.Subject, What: what, Was: w, Is: is})
		}
	}
	w, is := wasIn.Summary(), nowIn.Summary()
	fell("passed", w.Passed, is.Passed)
	fell("paths", w.Paths, is.Paths)
	for _, tag := range order {
		has := func(o *Outcome) bool { return slices.Contains(o.Tags, tag) }
		fell("passed, tag "+tag, passed(wasIn.only(has)), passed(nowIn.only(has)))
	}
	return append(shares, cases...)
}

func (r *Results) byCase() map[string][]*Outcome {
	by := map[string][]*Outcome{}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		by[o.Case] = append(by[o.Case], o)
	}
	return by
}

func (r *Results) only(is func(*Outcome) bool) (found []*Outcome) {
	for i := range r.Outcomes {
		if is(&r.Outcomes[i]) {
			found = append(found, &r.Outcomes[i])
		}
	}
	return found
}

func passed(of []*Outcome) Interval {
	var s share
	for _, o := range of {
		s.count(o.OK())
	}
	return s.interval()
}
