package cli

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
)

// lookAt is loadTree for commands that run nothing: they need no model, and none of
// the variables that remote agents need.
func (p *program) lookAt(path string) (*agent.Tree, error) {
	return p.loadTree(path, unused, agentfile.WithoutCredentials())
}

// loadTree builds and checks the tree: the program's own, or the one at path.
// resolve gives the model of a name, and for "" the default one.
func (p *program) loadTree(path string, resolve func(name string) (llm.Model, error), opts ...agentfile.Option) (*agent.Tree, error) {
	if p.build != nil {
		return p.builtTree(resolve)
	}
	opts = append(opts, agentfile.WithModel(resolve), agentfile.WithTools(p.tools...), agentfile.WithGuards(p.guards...), agentfile.WithGetenv(p.Getenv), p.bindings())
	load := func() (*agentfile.Tree, error) { return agentfile.LoadFS(p.files, p.dir, opts...) }
	if p.files == nil {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, usagef("%s: there is no such file or folder", path)
		}
		load = func() (*agentfile.Tree, error) { return agentfile.Load(path, opts...) }
	}
	tree, err := load()
	if err != nil {
		return nil, usageError{err}
	}
	return tree.Index(), nil
}

// loadToRun loads the tree with the models that answer for it, which are nil if the tree
// has its own. model is what --model says.
func (p *program) loadToRun(path, model string) (tree *agent.Tree, models *models, err error) {
	resolve, missing := unused, false
	if !p.ownModel {
		if models, err = p.models(model); err != nil {
			return nil, nil, err
		}
		resolve = func(name string) (llm.Model, error) { return models.named(name, func() { missing = true }) }
	}
	if tree, err = p.loadTree(path, resolve); err != nil {
		return nil, nil, err
	}
	if missing {
		return nil, nil, models.missing
	}
	return tree, models, nil
}

// builtTree makes the tree of [WithTree] or [WithTreeFunc].
func (p *program) builtTree(resolve func(name string) (llm.Model, error)) (*agent.Tree, error) {
	var model llm.Model
	if !p.ownModel {
		var err error
		if model, err = resolve(""); err != nil {
			return nil, usageError{err}
		}
	}
	root, err := p.build(model)
	if err != nil {
		return nil, usageError{err}
	}
	if p.desk == nil {
		return agent.NewTree(root)
	}
	return agent.NewTree(root, agent.WithHuman(human.NewAgent(p.desk, p.deskOptions...)))
}

// seats returns the runner's options for a tree whose conversations may go to a person: if
// --desk is given, or the tree has somebody hand over to one.
func (p *program) seats(tree *agent.Tree, wanted bool) []runner.Option {
	if !wanted && tree.Root().Human() == nil {
		return nil
	}
	var desk human.Desk = human.Log{}
	if p.desk != nil {
		desk = p.desk
	}
	return []runner.Option{runner.WithDesk(desk, p.deskOptions...)}
}

// deskFlag adds --desk.
func deskFlag(fs *pflag.FlagSet, desk *bool) {
	fs.BoolVar(desk, "desk", false, "let agents hand a conversation over to a person, who answers with the command desk")
}

// fileProblems returns the lines file:line: message.
func fileProblems(err *agentfile.Error) []string {
	lines := make([]string, len(err.Problems))
	for i, problem := range err.Problems {
		lines[i] = problem.String()
	}
	return lines
}
