package tree

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/router"
)

// RouterCommand returns the command router.
func RouterCommand(f *factory.Factory) *cobra.Command {
	return factory.Group("router", routerValidateCommand(f), routerExplainCommand(f))
}

func routerValidateCommand(f *factory.Factory) *cobra.Command {
	return f.WithJSON(f.WithPath("validate", func(_ *cobra.Command, path string, _ []string) error {
		tree, err := f.LookAt(path)
		if err != nil {
			return badFiles(f, err)
		}
		all, err := routersOf(tree)
		if err != nil {
			return err
		}
		if f.JSON {
			fmt.Fprintln(f.Stdout, "[]")
		}
		rules := 0
		for _, r := range all {
			rules += len(r.Rules())
			idleRules(f, r)
		}
		if !f.JSON {
			fmt.Fprintf(f.Stdout, "ok: %s with %s, %s\n", render.Count(len(all), "router"), render.Count(rules, "rule"), render.Count(tree.Len(), "agent"))
		}
		return nil
	}), "print the problems as a JSON array of {file, line, message}")
}

// explainOptions are the flags of explain.
type explainOptions struct {
	router, language string
	metadata, state  []string
}

func routerExplainCommand(f *factory.Factory) *cobra.Command {
	var e explainOptions
	cmd := f.WithPath("explain MESSAGE", func(cmd *cobra.Command, path string, args []string) error {
		return explain(cmd.Context(), f, path, args[0], e)
	})
	cmd.Flags().StringVar(&e.router, "router", "", "use the router `NAME`, if there are several and none is the root")
	cmd.Flags().StringVar(&e.language, "language", "", "set the message's language to `TAG`, such as de-AT")
	cmd.Flags().StringArrayVar(&e.metadata, "metadata", nil, "set `KEY=VALUE` in the message's metadata (repeatable)")
	cmd.Flags().StringArrayVar(&e.state, "state", nil, "set `KEY=VALUE` in the session's state (repeatable)")
	f.JSONFlag(cmd.Flags(), "print one JSON object per decision and line")
	return cmd
}

func explain(ctx context.Context, f *factory.Factory, path, message string, e explainOptions) error {
	metadata, err := pairs("--metadata", e.metadata)
	if err != nil {
		return err
	}
	state, err := pairs("--state", e.state)
	if err != nil {
		return err
	}
	if e.language != "" {
		metadata["language"] = e.language
	}
	m := &factory.Models{}
	if !f.OwnModel {
		if m, err = f.Models(""); err != nil {
			return err
		}
	}
	tree, _, err := f.LoadTree(path, func(name string) (llm.Model, error) {
		if m.Base == nil {
			return told{factory.NoModel{Called: name}, f, "is not asked, because there is no endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL"}, nil
		}
		model, err := m.Named(name, func() {})
		if err != nil {
			return nil, err
		}
		return told{model, f, "is asked"}, nil
	}, agentfile.WithoutCredentials())
	if err != nil {
		return err
	}
	r, err := chosenRouter(tree, e.router)
	for err == nil && r != nil {
		var d router.Decision
		if d, err = r.Explain(ctx, message, metadata, state); err != nil {
			break
		}
		if f.JSON {
			render.JSON(f.Stdout, d)
		} else {
			render.Decision(f.Stdout, d, f.TerminalOf(f.Stdout))
		}
		r = render.RouterOf(tree.Node(d.To).Agent)
	}
	return err
}

// told is a model that prints the results of its requests to standard error.
type told struct {
	llm.Model
	f    *factory.Factory
	what string
}

func (m told) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	m.f.Say("the model %s %s", m.Name(), m.what)
	return m.Model.Generate(ctx, req)
}

// pairs parses the values of a flag, which have the form KEY=VALUE.
func pairs(flag string, values []string) (map[string]any, error) {
	all := make(map[string]any)
	for _, text := range values {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, factory.Usagef("%s %s: it must be KEY=VALUE", flag, text)
		}
		var v any
		if json.Unmarshal([]byte(value), &v) != nil {
			v = value
		}
		all[key] = v
	}
	return all, nil
}

// routersOf returns the routers of a tree, in its order.
func routersOf(tree *agent.Tree) (all []*router.Router, err error) {
	for n := range tree.Walk() {
		if r := render.RouterOf(n.Agent); r != nil {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil, factory.Usagef("there is no router: it is a file with kind: Router, or an agent in Markdown with rules")
	}
	return all, nil
}

// chosenRouter returns the router with a name; for "" it returns the root, or the only router.
func chosenRouter(tree *agent.Tree, name string) (*router.Router, error) {
	all, err := routersOf(tree)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(all))
	for i, r := range all {
		if names[i] = r.Name(); r.Name() == name || name == "" && (len(all) == 1 || r == tree.Root().Agent) {
			return r, nil
		}
	}
	if name == "" {
		return nil, factory.Usagef("there are several routers: give --router one of %s", strings.Join(names, ", "))
	}
	return nil, factory.Usagef("--router %s: there is no such router%s", name, nearest.Hint(name, names))
}

// idleRules prints rules that never match because an earlier one always matches in the same cases.
func idleRules(f *factory.Factory, r *router.Router) {
	first := make(map[string]int)
	always := -1
	for _, rule := range r.Rules() {
		before, again := first[rule.When]
		switch {
		case always >= 0:
			f.Say("router %s: rule %d never matches, because rule %d always does", r.Name(), rule.Index, always)
		case again:
			f.Say("router %s: rule %d never matches, because rule %d is for the same: %s", r.Name(), rule.Index, before, visible.Line(visible.Cut(rule.When, 100)))
		default:
			first[rule.When] = rule.Index
		}
		switch rule.When {
		case `expr("true")`, `regexp(".*")`, `regexp("")`:
			if always < 0 {
				always = rule.Index
			}
		}
	}
}
