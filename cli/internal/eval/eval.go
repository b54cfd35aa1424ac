// Package eval is the command eval, which plays cases against a tree.
package eval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/runner"
)

// options holds the flags of eval.
type options struct {
	models           []string
	with             []string // trees in addition to the one at PATH
	repeat, parallel int
	only             string // a regular expression of names
	tags             []string
	format, out      string
	save, baseline   string // reports as JSON
	threshold        float64
	bound, given     bool // the threshold applies to the lower bound; the flag is given
	judge, sample    string
}

// Command returns the command eval.
func Command(f *factory.Factory) *cobra.Command {
	var o options
	var fs *pflag.FlagSet
	cmd := f.WithPath("eval CASES…", func(cmd *cobra.Command, path string, files []string) error {
		if err := o.check(fs); err != nil {
			return err
		}
		return evaluate(cmd.Context(), f, path, files, o)
	})
	fs = cmd.Flags()
	if !f.OwnModel {
		fs.StringArrayVarP(&o.models, "model", "m", nil, "use the model `NAME` for all agents (repeat to compare models)")
		factory.TapeFlags(f, fs)
	}
	if !f.Embedded() {
		fs.StringArrayVar(&o.with, "with", nil, "also measure the tree in `PATH` (repeatable)")
	}
	fs.IntVar(&o.repeat, "repeat", 1, "play each case `N` times")
	fs.IntVar(&o.parallel, "parallel", 4, "play `N` cases at the same time")
	fs.StringVar(&o.only, "run", "", "run only cases whose names match `REGEXP`")
	fs.StringArrayVar(&o.tags, "tag", nil, "run only cases with this `TAG` (repeat to require several)")
	fs.StringVarP(&o.format, "format", "f", "text", "report in this `FORMAT`: text, json, junit or markdown")
	fs.StringVar(&o.out, "out", "", "write the report to `FILE` instead of standard output")
	fs.StringVar(&o.save, "save", "", "also write the report as JSON to `FILE`, for example as a baseline")
	fs.Float64Var(&o.threshold, "threshold", 1, "require this `SHARE` of the cases to pass, from 0 to 1")
	fs.BoolVar(&o.bound, "lower-bound", false, "compare the lower bound of the interval with --threshold instead of the share")
	fs.StringVar(&o.baseline, "baseline", "", "fail if the report is worse than the earlier JSON report in `FILE`")
	fs.StringVar(&f.Prices, "prices", "", "read the models' prices from `FILE` (YAML or JSON) to report costs")
	fs.StringVar(&o.judge, "judge", "", "let the model `NAME` judge what cases state about answers")
	fs.StringVar(&o.sample, "judge-sample", "", "compare the judge with the people's judgements in `FILE`")
	return cmd
}

// check returns an error if the flags are invalid.
func (o *options) check(fs *pflag.FlagSet) error {
	if !(o.threshold >= 0 && o.threshold <= 1) {
		return factory.Usagef("--threshold %v: give a share from 0 to 1, such as 0.9", o.threshold)
	}
	o.given = fs.Changed("threshold")
	return cmp.Or(
		factory.InRange("--repeat", o.repeat, 1, 0),
		factory.InRange("--parallel", o.parallel, 1, 0),
		factory.Needs(fs, "lower-bound", "threshold"),
		factory.Needs(fs, "judge-sample", "judge"),
		factory.OneOf("--format", o.format, "text", "json", "junit", "markdown"),
	)
}

// forms are the values of --format.
func forms(f *factory.Factory) map[string]func(*eval.Report, io.Writer) error {
	return map[string]func(*eval.Report, io.Writer) error{
		"text": func(r *eval.Report, w io.Writer) error {
			look := f.TerminalOf(w)
			return r.Text(w, func(style, text string) string { return look.Paint(render.Style(style), text) })
		},
		"json":     func(r *eval.Report, w io.Writer) error { return render.IndentedJSON(w, r) },
		"junit":    (*eval.Report).JUnit,
		"markdown": (*eval.Report).Markdown,
	}
}

func evaluate(ctx context.Context, f *factory.Factory, path string, files []string, o options) error {
	cases, err := evalCases(files, o)
	if err != nil {
		return err
	}
	var baseline *eval.Report
	if o.baseline != "" {
		if baseline, err = readReport(f, o.baseline); err != nil {
			return err
		}
	}
	// Check them before the cases run, which may take hours.
	if err := cmp.Or(factory.CheckOutput("--out", o.out), factory.CheckOutput("--save", o.save)); err != nil {
		return err
	}
	subjects, opts, err := subjects(f, path, o)
	if err != nil {
		return err
	}
	var problems []eval.Problem
	for _, s := range subjects {
		var bad *eval.Error
		if err := eval.Check(cases, s.Root); errors.As(err, &bad) {
			problems = append(problems, bad.Problems...)
		} else if err != nil {
			return factory.Usage(err)
		}
	}
	if err := yamldoc.AsError(problems); err != nil {
		return err
	}

	turn, done := f.Interrupts.Turn(ctx)
	defer done()
	spinner := render.NewSpinner(f.Stderr, f.TerminalOf(f.Stderr))
	var played, failed atomic.Int64
	total := len(cases) * o.repeat * len(subjects)
	opts = append(opts, eval.Repeat(o.repeat), eval.Parallel(o.parallel), eval.Progress(func(_ string, outcome *eval.Outcome) {
		if !outcome.OK() {
			failed.Add(1)
		}
		spinner.Show(fmt.Sprintf("%d of %d, %d failed", played.Add(1), total, failed.Load()))
	}))
	spinner.Show("0 of " + render.Count(total, "case"))
	report, err := eval.Run(turn, cases, subjects, opts...)
	spinner.Hide()
	if report == nil || played.Load() == 0 {
		return err
	}
	if err := write(f, report, o.out, o.format); err != nil {
		return err
	}
	if err != nil {
		if turn.Err() != nil {
			f.Say("interrupted: %d of %s were played", played.Load(), render.Count(total, "case"))
			return factory.Exit(factory.StatusInterrupted)
		}
		return err
	}
	if o.save != "" {
		if err := write(f, report, o.save, "json"); err != nil {
			return err
		}
	}
	return verdict(f, report, baseline, o)
}

// write writes the report to the file, or to standard output if there is no file or it cannot be written, so that the
// report is not lost.
func write(f *factory.Factory, r *eval.Report, file, format string) error {
	form := forms(f)[format]
	if file == "" {
		return form(r, f.Stdout)
	}
	var b bytes.Buffer
	if err := form(r, &b); err != nil {
		return err
	}
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		_, _ = f.Stdout.Write(b.Bytes())
		return factory.Usage(err)
	}
	return nil
}

// evalCases reads all files, and selects the cases to play.
func evalCases(files []string, o options) ([]eval.Case, error) {
	wanted, err := regexp.Compile(o.only)
	if err != nil {
		return nil, factory.Usagef("--run: %w", err)
	}
	all, err := factory.Cases(files, eval.LoadFile)
	if err != nil {
		return nil, err
	}
	var chosen []eval.Case
	for _, c := range all {
		missing := slices.ContainsFunc(o.tags, func(tag string) bool { return !slices.Contains(c.Tags, tag) })
		if !missing && wanted.MatchString(c.Name) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, factory.Usagef("--run and --tag match none of %s", render.Count(len(all), "case"))
	}
	return chosen, nil
}

func readReport(f *factory.Factory, file string) (*eval.Report, error) {
	data, err := f.Read("--baseline", file, factory.MaxFile)
	if err != nil {
		return nil, err
	}
	r := &eval.Report{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, factory.Usagef("--baseline %s: it is not a report that --save has written: %w", file, err)
	}
	if len(r.Subjects) == 0 {
		return nil, factory.Usagef("--baseline %s: it is not a report that --save has written", file)
	}
	return r, nil
}

// verdict prints why the report fails, and returns the status.
func verdict(f *factory.Factory, r, baseline *eval.Report, o options) error {
	var lines []string
	var dead bool
	for i := range r.Subjects {
		s := &r.Subjects[i]
		sum := s.Summary()
		if asked := o.threshold; o.given || baseline == nil {
			share, what := sum.Passed.Share, "of the cases passed"
			if o.bound {
				share, what = sum.Passed.Low, "is the lower bound of the share that passed"
			}
			if share < asked {
				lines = append(lines, fmt.Sprintf("%s: %.1f %% %s, and %.1f %% is asked for", s.Subject, 100*share, what, 100*asked))
			}
		}
		if s.Dead() {
			dead = true
			lines = append(lines, s.Subject+": every turn ended with an error")
		}
	}
	if baseline != nil {
		for i := range r.Subjects {
			if baseline.Like(r, r.Subjects[i].Subject) == nil {
				lines = append(lines, fmt.Sprintf("%s: the baseline has nothing to compare it with", r.Subjects[i].Subject))
			}
		}
		for _, worse := range r.Against(baseline) {
			lines = append(lines, worse.String())
		}
	}
	for _, line := range lines {
		f.Say("%s", line)
	}
	switch {
	case dead:
		return factory.Exit(factory.StatusFailed)
	case len(lines) > 0:
		return factory.Exit(factory.StatusFindings)
	}
	return nil
}

// subjects loads each tree with each model, and returns the options to run them with.
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
			f.Model = model
			tree, err := f.Load(path)
			if err != nil {
				return nil, nil, err
			}
			f.AtEnd(tree.End)
			root := tree.Agents.Root().Agent
			s := eval.Subject{Name: cmp.Or(tree.Answers(), root.Name()), Root: root}
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
			if seats := f.Seats(tree.Agents); len(subjects) > 1 && (seats == nil) != (run == nil) {
				return nil, nil, factory.Usagef("--with: agents of one tree transfer to people, and those of another do not: measure them one by one")
			} else {
				run = seats
			}
		}
	}
	f.Notice(offline)
	opts := []eval.Option{eval.WithRunner(append(slices.Clone(f.RunnerOptions), run...)...)}
	if f.Prices != "" {
		table, err := f.ReadPrices()
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
	var sample []eval.Labelled
	if o.sample != "" {
		data, err := f.Read("--judge-sample", o.sample, factory.MaxFile)
		if err != nil {
			return nil, err
		}
		sample, err = eval.LoadSample(data, o.sample)
		if err != nil {
			return nil, factory.Usage(err)
		}
	}
	return eval.NewJudge(model, sample)
}
