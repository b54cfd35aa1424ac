package factory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// LookAt is [Factory.LoadTree] for commands that run no turn. It needs neither a model nor the credentials of remote
// agents.
func (f *Factory) LookAt(path string) (*agent.Tree, error) {
	tree, _, err := f.LoadTree(path, Unused, agentfile.WithoutCredentials())
	return tree, err
}

// LoadTree builds and checks the tree: the program's own, or the one at path. resolve returns the model with a name; ""
// means the default model. Callers that run the tree call end after its last turn.
func (f *Factory) LoadTree(path string, resolve func(name string) (llm.Model, error), opts ...agentfile.Option) (tree *agent.Tree, end func(), err error) {
	if f.Build != nil {
		tree, err = builtTree(f, resolve)
		return tree, func() {}, err
	}
	opts = append(opts, agentfile.WithModel(resolve), agentfile.WithTools(f.Tools...), agentfile.WithGuards(f.Guards...), agentfile.WithGetenv(f.Getenv), Bindings(f))
	opts = append(opts, mcpServers(f)...)
	load := func() (*agentfile.Tree, error) { return agentfile.LoadFS(f.Files, f.Dir, opts...) }
	if f.Files == nil {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, Usage(err)
		}
		load = func() (*agentfile.Tree, error) { return agentfile.Load(path, opts...) }
	}
	files, err := load()
	if err != nil {
		return nil, nil, Usage(err)
	}
	f.Sources, f.ConnectServers = files.Source, files.Connect
	if tree = files.Index(); f.Files != nil && f.Desk != nil {
		tree, err = withDesk(f, files.Root())
	}
	return tree, func() {
		if err := files.Close(); err != nil {
			f.Say("not everything of the agents ended well: %s", err)
		}
	}, err
}

// LoadedTree is a tree to run.
type LoadedTree struct {
	*runner.Runner // nil before Start
	Agents         *agent.Tree
	Models         *Models // the models that answer for the tree; nil if it has its own
	End            func()  // releases the resources of the tree, after its last turn
}

// Load loads the tree at path with the models that answer for it.
func (f *Factory) Load(path string, opts ...agentfile.Option) (made *LoadedTree, err error) {
	made = &LoadedTree{}
	resolve, missing := Unused, false
	if !f.OwnModel {
		if made.Models, err = f.Models(f.Model); err != nil {
			return nil, err
		}
		resolve = func(name string) (llm.Model, error) { return made.Models.Named(name, func() { missing = true }) }
	}
	if made.Agents, made.End, err = f.LoadTree(path, resolve, opts...); err != nil {
		return nil, err
	}
	made.End = sync.OnceFunc(made.End)
	if missing {
		made.End()
		return nil, made.Models.Missing
	}
	return made, nil
}

// Start creates the tree's runner with the program's options and the prices of --prices, and starts the servers that
// agents require.
func (f *Factory) Start(ctx context.Context, t *LoadedTree, store session.Store, opts ...runner.Option) error {
	own, err := f.RunnerOpts()
	if err != nil {
		return err
	}
	if t.Runner, err = runner.New(t.Agents.Root().Agent, store, slices.Concat(own, []runner.Option{runner.WithLogger(f.Warnings())},
		opts, f.Seats(t.Agents))...); err != nil {
		return Unstarted(err)
	}
	if err = t.Start(ctx); err != nil {
		return Usage(err)
	}
	return nil
}

// Unstarted replaces the name of a Go option in a runner's error by the flag that sets the same value.
func Unstarted(err error) error {
	if errors.Is(err, agent.ErrUnknownPrice) {
		return Usagef("%s", strings.ReplaceAll(err.Error(), "runner.WithPrices", "--prices FILE"))
	}
	return Usage(err)
}

// PrepareRemotes makes the tree's remote agents fetch their cards before a message needs them. It stops when the tree
// ends.
func (t *LoadedTree) PrepareRemotes(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var prepared sync.WaitGroup
	prepared.Go(func() { t.Prepare(ctx) })
	end := t.End
	t.End = sync.OnceFunc(func() { cancel(); prepared.Wait(); end() })
}

// RunnerOpts returns the program's runner options with the prices of --prices.
func (f *Factory) RunnerOpts() ([]runner.Option, error) {
	opts := slices.Clone(f.RunnerOptions)
	if f.Prices == "" {
		return opts, nil
	}
	table, err := f.ReadPrices()
	return append(opts, runner.WithPrices(table)), err
}

// builtTree returns the tree of cli.WithTree or cli.WithTreeFunc.
func builtTree(f *Factory, resolve func(name string) (llm.Model, error)) (*agent.Tree, error) {
	var model llm.Model
	if !f.OwnModel {
		var err error
		if model, err = resolve(""); err != nil {
			return nil, Usage(err)
		}
	}
	root, err := f.Build(model)
	if err != nil {
		return nil, Usage(err)
	}
	return withDesk(f, root)
}

// withDesk indexes the program's own tree, with an additional agent for a person if the program has a desk.
func withDesk(f *Factory, root agent.Agent) (*agent.Tree, error) {
	if f.Desk == nil {
		return agent.NewTree(root)
	}
	return agent.NewTree(root, agent.WithHuman(human.NewAgent(f.Desk, f.DeskOptions...)))
}

// Seats returns the runner options for conversations that may go to a person, because --desk is given or an agent of
// the tree may transfer to a person.
func (f *Factory) Seats(tree *agent.Tree) []runner.Option {
	if !f.ToDesk && tree.Root().Human() == nil {
		return nil
	}
	var desk human.Desk = human.Log{}
	if f.Desk != nil {
		desk = f.Desk
	}
	return []runner.Option{runner.WithDesk(desk, f.DeskOptions...)}
}

// DeskFlag adds --desk.
func (f *Factory) DeskFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&f.ToDesk, "desk", false, "let agents hand the conversation to a person, who answers with the command desk")
}

// Costs returns the cost of input tokens as the end of a sentence; "" if the model has no price.
func Costs(prices llm.Prices, model string, tokens int) string {
	if cost, ok := prices.Cost(model, llm.Usage{InputTokens: tokens}); ok {
		return fmt.Sprintf(", which cost %.4f besides the answers", cost)
	}
	return ""
}

// Paid returns the cost of usage as the end of a sentence; "" if the model has no price.
func Paid(prices llm.Prices, model string, used llm.Usage) string {
	if cost, ok := prices.Cost(model, used); ok {
		return fmt.Sprintf(", which cost %.4f", cost)
	}
	return ""
}

// ReadPrices reads the table of --prices from a YAML or JSON file. Without the flag it returns nil.
func (f *Factory) ReadPrices() (llm.Prices, error) {
	path := f.Prices
	if path == "" {
		return nil, nil
	}
	data, err := f.Read("--prices", path, MaxFile)
	if err != nil {
		return nil, err
	}
	prices := llm.Prices{}
	if err := yaml.UnmarshalWithOptions(data, &prices, yaml.Strict()); err != nil {
		return nil, Usagef("--prices %s: %s; give each model its prices per million tokens, such as gpt-4o-mini: {input: 0.15, output: 0.6}", path, yaml.FormatError(err, false, false))
	}
	if len(prices) == 0 {
		return nil, Usagef("--prices %s: there are no prices in it", path)
	}
	if err := prices.Check(); err != nil {
		return nil, Usagef("--prices %s: %w", path, err)
	}
	return prices, nil
}

// PricesFlag adds --prices.
func (f *Factory) PricesFlag(fs *pflag.FlagSet) {
	fs.StringVar(&f.Prices, "prices", "", "read the prices for cost budgets from `FILE` (YAML or JSON)")
}
