package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/schema"
)

// Mistake is a problem of a rule because of which it may not apply to the calls that it was written for.
type Mistake struct {
	Rule    int    // the index of the rule in the arguments of NewPolicy
	Tool    string // the rule's Tool
	Arg     string // the argument that is wrong, "" if the tool is wrong
	Problem string
	Hint    string   // a proposal to append to Problem, or ""
	About   []string // the names of the tools that the rule applies to
	Open    bool     // a tool that is not known yet could make the rule valid
}

// String returns the problem with the hint.
func (m Mistake) String() string { return m.Problem + m.Hint }

// Mistakes checks the rules against all known tools. It reports a rule that applies to no tool, unless it is "*"; a
// rule with a name that means two tools, because one has it as its Name and another as its Own; and a rule with an
// argument that no schema of its tools has.
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
		slices.Sort(known) // so that the hint is always the same
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
