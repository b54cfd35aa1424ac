package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval/routing"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
)

// statusFindings is the status of lint --routing for a sound tree about whose routing there is something to say.
const statusFindings = 1

// routingFlags are those of lint about routing.
type routingFlags struct{ routing bool }

func (f *routingFlags) add(_ *program, fs *pflag.FlagSet) {
	fs.BoolVar(&f.routing, "routing", false, "also report what makes the tree route worse than it could")
}

func (f *routingFlags) check(*cobra.Command) error { return nil }

// lintRouting prints what is found about the routing of a sound tree.
func (p *program) lintRouting(_ context.Context, tree *agent.Tree, f routingFlags, asJSON bool) error {
	found := []routing.Finding{}
	if f.routing {
		found = append(found, routing.Lint(tree, p.placeOf)...)
	}
	if asJSON {
		render.JSON(p.Stdout, found)
	} else {
		for _, finding := range found {
			fmt.Fprintln(p.Stdout, visible.Line(finding.String()))
		}
	}
	if len(found) == 0 {
		return nil
	}
	p.say("%s", render.Count(len(found), "finding"))
	return statusError(statusFindings)
}

// placeOf says where an agent of the tree that was loaded last is made, "" if no file says it.
func (p *program) placeOf(name string) (file string, line int) {
	if p.sources == nil {
		return "", 0
	}
	s, _ := p.sources(name)
	return s.File, s.Line
}
