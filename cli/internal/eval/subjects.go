package eval

import (
	"errors"
	"os"
	"slices"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/runner"
)

// subjects loads each tree with each model, and returns what eval is told of how to run them.
func subjects(f *factory.Factory, path string, o options) ([]eval.Subject, []eval.Option, error) {
	models := o.models
	if len(models) == 0 {
		models = []string{""}
	}
	var subjects []eval.Subject
	var offline *factory.LoadedTree
	var run []runner.Option
	for _, path := range append([]string{path}, o.with...) {
		for _, model := range models {
			tree, err := f.Load(path, model)
			if err != nil {
				return nil, nil, err
			}
			f.AtEnd(tree.End)
			s := eval.Subject{Name: tree.Answers(), Root: tree.Agents.Root().Agent}
			if s.Name == "" {
				s.Name = tree.Agents.Root().Agent.Name()
			}
			if len(o.with) > 0 {
				s.Name = path + ", " + s.Name
			}
			if slices.ContainsFunc(subjects, func(other eval.Subject) bool { return other.Name == s.Name }) {
				return nil, nil, factory.Usagef("%s is given twice", s.Name)
			}
			subjects = append(subjects, s)
			if tree.IsOffline() {
				offline = tree
			}
			if seats := f.Seats(tree.Agents, false); len(subjects) > 1 && (seats == nil) != (run == nil) {
				return nil, nil, factory.Usagef("--with: agents of one tree hand over to people, and those of another do not: measure them one by one")
			} else {
				run = seats
			}
		}
	}
	f.Notice(offline)
	opts := []eval.Option{eval.WithRunner(append(slices.Clone(f.RunnerOptions), run...)...)}
	if o.prices != "" {
		table, err := factory.ReadPrices(o.prices)
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, eval.WithPrices(table))
	}
	if o.judge != "" {
		judge, err := judgeOf(f, o)
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, eval.WithJudge(judge))
	}
	return subjects, opts, nil
}

func judgeOf(f *factory.Factory, o options) (*eval.Judge, error) {
	if f.Getenv("OPENAI_BASE_URL") == "" && f.Getenv("OPENAI_API_KEY") == "" && f.Tape.Replay == "" {
		return nil, factory.Usagef("--judge is given, but there is no endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL")
	}
	models, err := f.Models(o.judge)
	if err != nil {
		return nil, err
	}
	model, err := models.Named("", func() {})
	if err != nil {
		return nil, err
	}
	var opts []eval.JudgeOption
	if o.sample != "" {
		data, err := os.ReadFile(o.sample)
		if err != nil {
			return nil, factory.Usagef("--judge-sample: %w", err)
		}
		sample, err := eval.LoadSample(data, o.sample)
		var bad *eval.Error
		if errors.As(err, &bad) {
			return nil, refuseCases(f, bad.Problems)
		} else if err != nil {
			return nil, factory.Usage(err)
		}
		opts = append(opts, eval.WithSample(sample))
	}
	return eval.NewJudge(model, opts...)
}
