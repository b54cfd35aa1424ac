package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
)

// evaluation is what the flags of eval say.
type evaluation struct {
	models           []string
	with             []string // trees beside the one at PATH
	repeat, parallel int
	only             string // a regular expression of names
	tags             []string
	format, out      string
	save, baseline   string // reports as JSON
	threshold        float64
	bound, given     bool // the threshold is for the lower bound; it is given
	prices           string
	judge, sample    string
}

func (p *program) evalCommand() *cobra.Command {
	var f evaluation
	cmd := p.withPath(&cobra.Command{
		Short: "Play cases and measure how a tree routes and answers",
		Long: `Plays the cases in files of cases, each in a session that is not stored. It compares
the agent in charge, the tool calls and the answers with the expected ones, and reports
shares with their intervals, costs and times.

The status is 1 if fewer cases pass than --threshold requires (all of them, if neither
--threshold nor --baseline is given), or if something is worse than in the baseline. If
a file has a problem, nothing is played and the status is 2. It is 3 if a tree has not
answered once.`,
	}, "eval CASES…", math.MaxInt, func(cmd *cobra.Command, path string, files []string) error {
		if len(files) == 0 {
			return usagef("CASES is missing: name a file of cases; see %s --help", cmd.CommandPath())
		}
		f.given = cmd.Flags().Changed("threshold")
		return p.evaluate(cmd.Context(), path, files, f)
	})
	fs := cmd.Flags()
	if !p.ownModel {
		fs.StringArrayVar(&f.models, "model", nil, "use the model `NAME` for all agents (repeat to compare models)")
		p.tapeFlags(fs)
	}
	if !p.embedded() {
		fs.StringArrayVar(&f.with, "with", nil, "also measure the tree in `PATH` (repeatable)")
	}
	fs.IntVar(&f.repeat, "repeat", 1, "play each case `N` times")
	fs.IntVar(&f.parallel, "parallel", 4, "play `N` cases at the same time")
	fs.StringVar(&f.only, "run", "", "run only cases whose names match `REGEXP`")
	fs.StringArrayVar(&f.tags, "tag", nil, "run only cases with this `TAG` (repeat to require several)")
	fs.StringVar(&f.format, "format", "text", "report in this `FORMAT`: text, json, junit or markdown")
	fs.StringVar(&f.out, "out", "", "write the report to `FILE` instead of standard output")
	fs.StringVar(&f.save, "save", "", "also write the report as JSON to `FILE`, for example as a baseline")
	fs.Float64Var(&f.threshold, "threshold", 1, "require this `SHARE` of the cases to pass, from 0 to 1")
	fs.BoolVar(&f.bound, "lower-bound", false, "compare the lower bound of the interval with --threshold instead of the share")
	fs.StringVar(&f.baseline, "baseline", "", "fail if the report is worse than the earlier JSON report in `FILE`")
	fs.StringVar(&f.prices, "prices", "", "read the models' prices from `FILE` (YAML or JSON) to report costs")
	fs.StringVar(&f.judge, "judge", "", "let the model `NAME` judge what cases state about answers")
	fs.StringVar(&f.sample, "judge-sample", "", "compare the judge with the people's judgements in `FILE`")
	return cmd
}

// check reports what is wrong with the flags.
func (f *evaluation) check(p *program) error {
	switch {
	case f.repeat < 1:
		return usagef("--repeat %d: it is a whole number from 1", f.repeat)
	case f.parallel < 1:
		return usagef("--parallel %d: it is a whole number from 1", f.parallel)
	case !(f.threshold >= 0 && f.threshold <= 1):
		return usagef("--threshold %v: it is a share from 0 to 1, such as 0.9", f.threshold)
	case f.bound && !f.given:
		return usagef("--lower-bound goes with --threshold")
	case f.sample != "" && f.judge == "":
		return usagef("--judge-sample goes with --judge, the model that is held against it")
	case p.forms()[f.format] == nil:
		return usagef("--format %s: text, json, junit and markdown are possible", visible.Line(f.format))
	}
	return nil
}

// forms are what --format knows.
func (p *program) forms() map[string]func(*eval.Report, io.Writer) error {
	return map[string]func(*eval.Report, io.Writer) error{
		"text": func(r *eval.Report, w io.Writer) error {
			look := p.lookOf(w)
			return r.Text(w, eval.Look{Paint: func(style, text string) string { return look.Paint(render.Style(style), text) }})
		},
		"json":     func(r *eval.Report, w io.Writer) error { return render.IndentedJSON(w, r) },
		"junit":    (*eval.Report).JUnit,
		"markdown": (*eval.Report).Markdown,
	}
}

func (p *program) evaluate(ctx context.Context, path string, files []string, f evaluation) error {
	err := f.check(p)
	if err != nil {
		return err
	}
	cases, err := p.evalCases(files, f)
	if err != nil {
		return err
	}
	var baseline *eval.Report
	if f.baseline != "" {
		if baseline, err = readReport(f.baseline); err != nil {
			return err
		}
	}
	for _, name := range []string{f.out, f.save} { // before anything is asked, which may take hours
		if _, err := os.Stat(filepath.Dir(name)); name != "" && err != nil {
			return usageError{err}
		}
	}
	subjects, opts, err := p.subjects(path, f)
	if err != nil {
		return err
	}
	var problems []eval.Problem
	for _, s := range subjects {
		var bad *eval.Error
		if err := eval.Check(cases, s.Root); errors.As(err, &bad) {
			problems = append(problems, bad.Problems...)
		} else if err != nil {
			return usageError{err}
		}
	}
	if err := p.refuseCases(problems); err != nil {
		return err
	}

	turn, done := p.interrupts.turn(ctx)
	defer done()
	spinner := render.NewSpinner(p.Stderr, p.lookOf(p.Stderr))
	var played, failed atomic.Int64
	total := len(cases) * f.repeat * len(subjects)
	opts = append(opts, eval.Repeat(f.repeat), eval.Parallel(f.parallel), eval.Progress(func(_ string, o *eval.Outcome) {
		if !o.OK() {
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
	if err := p.write(report, f.out, f.format); err != nil {
		return err
	}
	if err != nil {
		if turn.Err() != nil {
			p.say("interrupted: %d of %s were played", played.Load(), render.Count(total, "case"))
			return statusError(StatusInterrupted)
		}
		return err
	}
	if f.save != "" {
		if err := p.write(report, f.save, "json"); err != nil {
			return err
		}
	}
	return p.verdict(report, baseline, f)
}

// write gives out the report: to standard output if there is no file, or if the file cannot be
// written, so that it is not lost.
func (p *program) write(r *eval.Report, file, format string) error {
	form := p.forms()[format]
	if file == "" {
		return form(r, p.Stdout)
	}
	var b bytes.Buffer
	if err := form(r, &b); err != nil {
		return err
	}
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		_, _ = p.Stdout.Write(b.Bytes())
		return usageError{err}
	}
	return nil
}

// evalCases reads all files, and chooses the cases that are to be played.
func (p *program) evalCases(files []string, f evaluation) ([]eval.Case, error) {
	wanted, err := regexp.Compile(f.only)
	if err != nil {
		return nil, usagef("--run: %w", err)
	}
	var all, chosen []eval.Case
	var problems []eval.Problem
	for _, file := range files {
		found, err := eval.LoadFile(file)
		var bad *eval.Error
		switch {
		case errors.As(err, &bad):
			problems = append(problems, bad.Problems...)
		case errors.Is(err, fs.ErrNotExist):
			return nil, usagef("%s: there is no such file", file)
		case err != nil:
			return nil, usageError{err}
		}
		all = append(all, found...)
	}
	if err := p.refuseCases(problems); err != nil {
		return nil, err
	}
	for _, c := range all {
		missing := slices.ContainsFunc(f.tags, func(tag string) bool { return !slices.Contains(c.Tags, tag) })
		if !missing && wanted.MatchString(c.Name) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, usagef("none of %s has such a name and such tags: see --run and --tag", render.Count(len(all), "case"))
	}
	return chosen, nil
}

// refuseCases prints what is wrong with files of cases, each problem once, and returns the
// command's error, nil if nothing is.
func (p *program) refuseCases(problems []eval.Problem) error {
	var lines []string
	for _, problem := range problems {
		if line := visible.Line(problem.String()); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	p.sayTo(p.Stderr, append([]string{render.Count(len(lines), "problem") + " in the files of cases"}, lines...)...)
	return statusError(StatusUsage)
}

func readReport(file string) (*eval.Report, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("--baseline: %w", err)
	}
	r := &eval.Report{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, usagef("--baseline %s: it is no report that --save has written: %w", file, err)
	}
	if len(r.Subjects) == 0 {
		return nil, usagef("--baseline %s: it is no report that --save has written", file)
	}
	return r, nil
}

// verdict says in which way the report is not good enough, and returns the status.
func (p *program) verdict(r, baseline *eval.Report, f evaluation) error {
	var lines []string
	var dead bool
	for i := range r.Subjects {
		s := &r.Subjects[i]
		sum := s.Summary()
		if asked := f.threshold; f.given || baseline == nil {
			share, what := sum.Passed.Share, "of the cases passed"
			if f.bound {
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
		p.say("%s", line)
	}
	switch {
	case dead:
		return statusError(StatusFailed)
	case len(lines) > 0:
		return statusError(StatusFindings)
	}
	return nil
}
