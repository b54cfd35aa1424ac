package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/schema"
)

// Mistake is what keeps an entry of a policy from holding up what it was meant to.
type Mistake struct {
	Rule    int    // its place among the rules given to NewPolicy
	Tool    string // of the rule
	Arg     string // "" if it is about the tool
	Problem string
	Hint    string   // the end of a message, which may be empty
	About   []string // the tools that the rule is about
	Open    bool     // a tool that is not known yet could make it right
}

// String returns what is wrong, with the hint.
func (m Mistake) String() string { return m.Problem + m.Hint }

// Mistakes holds the rules against the tools that there are. A rule is wrong that is about
// none of them, other than "*"; that names two, because one has the name and another is
// called so by its server; and that is about an argument which the schemas of its tools do not
// have.
func (p *Policy) Mistakes(all []Info) (mistakes []Mistake) {
	for i := 0; p != nil && i < len(p.rules); i++ {
		r, known := &p.rules[i], make([]string, 0, len(all))
		var about []Info
		var names []string
		for _, info := range all {
			if known = append(known, info.Name); info.Own != "" {
				known = append(known, info.Own)
			}
			if r.about(info) {
				about, names = append(about, info), append(names, info.Name)
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
		slices.Sort(known) // for the same hint every time
		add := func(arg, problem, hint string) {
			open := len(names) == 0 || arg != "" && !r.names()
			mistakes = append(mistakes, Mistake{i, r.Tool, arg, problem, hint, names, open})
		}
		switch {
		case len(names) > 1 && r.names():
			add("", fmt.Sprintf("%+q means %d tools, %s: a server has a tool of that name", r.Tool, len(names), strings.Join(names, " and ")),
				"; give the server another prefix, or name the tools as the model sees them")
		case len(names) == 0 && r.Tool != "*":
			add("", fmt.Sprintf("there is no tool %+q", r.Tool), nearest.Hint(r.Tool, known))
		}
		for j := 0; j < len(r.args) && len(about) > 0; j++ {
			best, declared := schema.Absent, []string(nil)
			for _, info := range about {
				found, names := schema.Find(info.Parameters, r.args[j].name)
				best, declared = max(best, found), append(declared, names...)
			}
			if best == schema.Absent {
				slices.Sort(declared)
				of := "the tool " + names[0] + " has no"
				if len(names) > 1 {
					of = "none of the tools " + strings.Join(names, ", ") + " has an"
				}
				add(r.args[j].name, fmt.Sprintf("%s argument %+q", of, r.args[j].name),
					nearest.Listed(r.args[j].name[strings.LastIndexByte(r.args[j].name, '.')+1:], slices.Compact(declared)))
			}
		}
	}
	return mistakes
}
