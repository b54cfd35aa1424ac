package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// lookAt is loadTree for commands that run nothing: they need no model, and none of
// the variables that remote agents need.
func (p *program) lookAt(path string) (*agent.Tree, error) {
	tree, _, err := p.loadTree(path, unused, agentfile.WithoutCredentials())
	return tree, err
}

// loadTree builds and checks the tree: the program's own, or the one at path.
// resolve gives the model of a name, and for "" the default one. Who runs the tree calls end when
// no turn of it runs any more.
func (p *program) loadTree(path string, resolve func(name string) (llm.Model, error), opts ...agentfile.Option) (tree *agent.Tree, end func(), err error) {
	if p.build != nil {
		tree, err = p.builtTree(resolve)
		return tree, func() {}, err
	}
	opts = append(opts, agentfile.WithModel(resolve), agentfile.WithTools(p.tools...), agentfile.WithGuards(p.guards...), agentfile.WithGetenv(p.Getenv), p.bindings())
	opts = append(opts, p.mcpServers()...)
	load := func() (*agentfile.Tree, error) { return agentfile.LoadFS(p.files, p.dir, opts...) }
	if p.files == nil {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, usagef("%s: there is no such file or folder", path)
		}
		load = func() (*agentfile.Tree, error) { return agentfile.Load(path, opts...) }
	}
	files, err := load()
	if err != nil {
		return nil, nil, usageError{err}
	}
	p.sources, p.connectServers = files.Source, files.Connect
	return files.Index(), func() {
		if err := files.Close(); err != nil {
			p.say("not everything of the agents ended well: %s", err)
		}
	}, nil
}

// planted is a tree to run.
type planted struct {
	*runner.Runner // nil before start
	tree           *agent.Tree
	models         *models // that answer for the tree; nil if it has its own
	end            func()  // ends what was begun for the tree, which no turn may run any more
}

// plant loads the tree at path with the models that answer for it. model is what --model says.
func (p *program) plant(path, model string) (made *planted, err error) {
	made = &planted{}
	resolve, missing := unused, false
	if !p.ownModel {
		if made.models, err = p.models(model); err != nil {
			return nil, err
		}
		resolve = func(name string) (llm.Model, error) { return made.models.named(name, func() { missing = true }) }
	}
	if made.tree, made.end, err = p.loadTree(path, resolve); err != nil {
		return nil, err
	}
	made.end = sync.OnceFunc(made.end)
	if missing {
		made.end()
		return nil, made.models.missing
	}
	return made, nil
}

// start makes the tree's runner, with the program's options, and the prices of a file unless it
// is "", and the servers that agents require.
func (p *program) start(ctx context.Context, t *planted, store session.Store, desk bool, prices string, opts ...runner.Option) error {
	own, err := p.runnerOpts(prices)
	if err != nil {
		return err
	}
	if t.Runner, err = runner.New(t.tree.Root().Agent, store, slices.Concat(own, []runner.Option{runner.WithLogger(p.warnings())},
		opts, p.seats(t.tree, desk))...); err != nil {
		return unstarted(err)
	}
	if err = t.Start(ctx); err != nil {
		return usageError{err}
	}
	return nil
}

// unstarted names the flag, not the option of Go, that sets what a runner lacks.
func unstarted(err error) error {
	if errors.Is(err, agent.ErrUnknownPrice) {
		return usagef("%s", strings.ReplaceAll(err.Error(), "runner.WithPrices", "--prices FILE"))
	}
	return usageError{err}
}

// prepare has the tree's remote agents fetch their cards before a message needs them, until the tree's end.
func (t *planted) prepare(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var prepared sync.WaitGroup
	prepared.Go(func() { t.Prepare(ctx) })
	end := t.end
	t.end = sync.OnceFunc(func() { cancel(); prepared.Wait(); end() })
}

// runnerOpts returns the program's options of runners, with the prices of a file.
func (p *program) runnerOpts(prices string) ([]runner.Option, error) {
	opts := slices.Clone(p.runnerOptions)
	if prices == "" {
		return opts, nil
	}
	table, err := readPrices(prices)
	return append(opts, runner.WithPrices(table)), err
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
	fs.BoolVar(desk, "desk", false, "let agents hand the conversation to a person, who answers with the command desk")
}

// fileProblems returns the lines file:line: message.
func fileProblems(err *agentfile.Error) []string {
	lines := make([]string, len(err.Problems))
	for i, problem := range err.Problems {
		lines[i] = problem.String()
	}
	return lines
}
