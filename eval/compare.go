package eval

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/visible"
)

// differences collects unexpected results.
type differences []Difference

func (d *differences) add(kind, format string, args ...any) {
	*d = append(*d, Difference{kind, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")})
}

func (e *Expect) empty() bool {
	return len(e.Path)+len(e.Answers)+len(e.Tools)+len(e.NoTools)+len(e.Asks)+len(e.Says)+len(e.SaysNot) == 0 && e.Judge == "" && e.Max == Max{}
}

// compare compares the outcome of a turn with the expected one, and records its decisions. open reports that the last
// agent has not decided.
func (t *Turn) compare(out *TurnOutcome, open bool) (d differences) {
	e := &t.Expect
	if len(e.Path) > 0 {
		out.Decisions = e.Path.decisions(out.Path, open)
		if !e.Path.Matches(out.Path) {
			d.add(kindPath, "got %s, want %s", strings.Join(out.Path, " > "), e.Path)
		}
	}
	if len(e.Answers) > 0 && !slices.Contains(e.Answers, out.Answered) {
		if out.Answered == "" {
			d.add(kindAnswers, "nobody has answered, want %s", strings.Join(e.Answers, "|"))
		} else {
			d.add(kindAnswers, "%s has answered, want %s", out.Answered, strings.Join(e.Answers, "|"))
		}
	}
	for _, name := range e.Tools {
		if !slices.Contains(out.Tools, name) {
			d.add(kindTools, "%s was not called; called: %s", name, listed(out.Tools))
		}
	}
	for _, name := range e.NoTools {
		if slices.Contains(out.Tools, name) {
			d.add(kindTools, "%s was called", name)
		}
	}
	for _, name := range e.Asks {
		if !slices.Contains(out.Asked, name) {
			d.add(kindAsks, "nobody was asked about %s", name)
		}
	}
	for i, text := range slices.Concat(e.Says, e.SaysNot) {
		switch in, err := said(out.Said, text); {
		case err != nil: // of a case that was built in Go
			d.add(kindSays, "%s", err)
		case !in && i < len(e.Says):
			d.add(kindSays, "%q is not in %q", text, visible.Cut(out.Said, 200))
		case in && i >= len(e.Says):
			d.add(kindSays, "%q is in %q", text, visible.Cut(out.Said, 200))
		}
	}
	return append(d, e.Max.compare(out)...)
}

// or returns the limits, with those of other in place of fields that are zero.
func (m Max) or(o Max) Max {
	return Max{cmp.Or(m.Transfers, o.Transfers), cmp.Or(m.ModelCalls, o.ModelCalls), cmp.Or(m.Tokens, o.Tokens), cmp.Or(m.Cost, o.Cost), cmp.Or(m.Time, o.Time)}
}

// compare compares the usage with the limits.
func (m Max) compare(used *TurnOutcome) (d differences) {
	count := func(got, most int, what string) {
		if most > 0 && got > most {
			d.add(kindMax, "%d %s, at most %d", got, what, most)
		}
	}
	count(used.Transfers, m.Transfers, "transfers")
	count(used.ModelCalls, m.ModelCalls, "answers of models")
	count(used.Usage.InputTokens+used.Usage.OutputTokens, m.Tokens, "tokens")
	switch {
	case m.Cost > 0 && used.Cost == nil:
		d.add(kindMax, "the cost is not known: a model has no price, or its endpoint does not say what it has used")
	case m.Cost > 0 && *used.Cost > m.Cost:
		d.add(kindMax, "a cost of %.6g, at most %.6g", *used.Cost, m.Cost)
	}
	if m.Time > 0 && used.Took > m.Time {
		d.add(kindMax, "%s, at most %s", used.Took.Round(time.Millisecond), m.Time)
	}
	return d
}

// patternOf returns the regular expression of a text between slashes, nil for another text.
func patternOf(text string) (*regexp.Regexp, error) {
	if len(text) < 2 || text[0] != '/' || text[len(text)-1] != '/' {
		return nil, nil
	}
	inner := text[1 : len(text)-1]
	if inner == "" {
		return nil, fmt.Errorf("%q is an empty regular expression", text)
	}
	re, err := regexp.Compile("(?i)" + inner)
	if err != nil {
		return nil, fmt.Errorf("%q is not a regular expression of Go: %s", text, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re, nil
}

// said reports whether words contain a text, or match it.
func said(words, text string) (bool, error) {
	if re, err := patternOf(text); err != nil || re != nil {
		return err == nil && re.MatchString(words), err
	}
	return strings.Contains(fold(words), fold(text)), nil
}

// fold ignores differences of case and of line breaks.
func fold(s string) string { return strings.Join(strings.Fields(strings.ToLower(s)), " ") }

func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
