package cli

import (
	"errors"
	"os"
	"slices"

	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/runner"
)

// subjects loads each tree with each model, and returns what eval is told of how to run them.
func (p *program) subjects(path string, f evaluation) ([]eval.Subject, []eval.Option, error) {
	models := f.models
	if len(models) == 0 {
		models = []string{""}
	}
	var subjects []eval.Subject
	noModel := false
	var run []runner.Option
	for _, path := range append([]string{path}, f.with...) {
		for _, model := range models {
			tree, err := p.plant(path, model)
			if err != nil {
				return nil, nil, err
			}
			p.atEnd(tree.end)
			s := eval.Subject{Name: tree.answers(), Root: tree.tree.Root().Agent}
			if s.Name == "" {
				s.Name = tree.tree.Root().Agent.Name()
			}
			if len(f.with) > 0 {
				s.Name = path + ", " + s.Name
			}
			if slices.ContainsFunc(subjects, func(o eval.Subject) bool { return o.Name == s.Name }) {
				return nil, nil, usagef("%s is given twice", s.Name)
			}
			subjects = append(subjects, s)
			noModel = noModel || tree.models != nil && tree.models.offline != nil && tree.models.used
			if seats := p.seats(tree.tree, false); len(subjects) > 1 && (seats == nil) != (run == nil) {
				return nil, nil, usagef("--with: agents of one tree hand over to people, and those of another do not: measure them one by one")
			} else {
				run = seats
			}
		}
	}
	if noModel {
		p.sayOffline()
	}
	opts := []eval.Option{eval.WithRunner(append(slices.Clone(p.runnerOptions), run...)...)}
	if f.prices != "" {
		table, err := readPrices(f.prices)
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, eval.WithPrices(table))
	}
	if f.judge != "" {
		judge, err := p.judgeOf(f)
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, eval.WithJudge(judge))
	}
	return subjects, opts, nil
}

// answers names the model that answers in a tree, "" if the tree has its own.
func (t *planted) answers() string {
	switch {
	case t.models == nil || !t.models.used:
		return ""
	case t.models.offline != nil:
		return t.models.offline.Name()
	case t.models.override != "":
		return t.models.override
	case t.models.missing != nil:
		return ""
	}
	return t.models.base.Name()
}

func (p *program) judgeOf(f evaluation) (*eval.Judge, error) {
	if p.Getenv("OPENAI_BASE_URL") == "" && p.Getenv("OPENAI_API_KEY") == "" && p.tape.replay == "" {
		return nil, usagef("--judge is given, but there is no endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL")
	}
	models, err := p.models(f.judge)
	if err != nil {
		return nil, err
	}
	model, err := models.named("", func() {})
	if err != nil {
		return nil, err
	}
	var opts []eval.JudgeOption
	if f.sample != "" {
		data, err := os.ReadFile(f.sample)
		if err != nil {
			return nil, usagef("--judge-sample: %w", err)
		}
		sample, err := eval.LoadSample(data, f.sample)
		var bad *eval.Error
		if errors.As(err, &bad) {
			return nil, p.refuseCases(bad.Problems)
		} else if err != nil {
			return nil, usageError{err}
		}
		opts = append(opts, eval.WithSample(sample))
	}
	return eval.NewJudge(model, opts...)
}
