// Command routing sends fixed lists of messages to a real model, through two trees of seven
// agents, and reports how often the right agent answered. The OPENAI_* variables name
// the model; docs/routing.md explains how to get one and how to read the results.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/runner"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "routing:", err)
		os.Exit(1)
	}
}

// flags contains the values of the flags.
type flags struct {
	trees         []string
	half          string
	n             int
	conversations int
	variants      []variant
	targets       []int // if set, only the tokens of requests are measured
	maxTokens     int
	out           string
	read          string
	check         bool
	predict       bool
}

func parse(args []string, stderr io.Writer) (flags, error) {
	var f flags
	var trees, names, targets string
	set := flag.NewFlagSet("routing", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&trees, "tree", "all", "which tree to ask: star, nested or all")
	set.StringVar(&f.half, "messages", "tune", "which half of its cases to ask: tune, held or all")
	set.IntVar(&f.n, "n", -1, "how many messages of the half, from the first; -1 means all")
	set.IntVar(&f.conversations, "conversations", 0, "how many conversations of the half, from the first; -1 means all")
	set.StringVar(&names, "variant", "today", "what the model is shown, several separated by commas, or all")
	set.IntVar(&f.maxTokens, "max-tokens", 96, "the longest answer; only who gives it is looked at")
	set.StringVar(&f.out, "out", "", "file for the results as JSON, with all answers, written after each case; cases that it already holds are not asked again")
	set.StringVar(&targets, "targets", "", "ask no cases, but print the tokens of a request to a coordinator with each of these numbers of targets, separated by commas")
	set.BoolVar(&f.predict, "predict", false, "ask no model, but print how often the words of a message predict its transfer")
	set.StringVar(&f.read, "read", "", "asks nothing, but prints the table of these files, separated by commas")
	set.BoolVar(&f.check, "check", false, "fail on errors other than a model's own, on turns without words and on calls shown to the user")
	set.Usage = func() {
		fmt.Fprintln(stderr, "Usage: routing [flags]")
		set.PrintDefaults()
		fmt.Fprintln(stderr, "Variants:")
		for _, v := range variants() {
			fmt.Fprintf(stderr, "  %-16s %s\n", v.name, v.about)
		}
	}
	err := set.Parse(args)
	if err != nil {
		return f, err
	}
	switch {
	case set.NArg() > 0:
		err = fmt.Errorf("%q is no flag", set.Arg(0))
	case f.half != "tune" && f.half != "held" && f.half != "all":
		err = fmt.Errorf("-messages can be tune, held or all, not %q", f.half)
	case trees != "all" && !slices.Contains(treeNames(), trees):
		err = fmt.Errorf("-tree can be star, nested or all, not %q", trees)
	case f.maxTokens <= 0:
		err = errors.New("-max-tokens must be above zero")
	default:
		if f.variants, err = choose(names); err == nil && targets != "" {
			f.targets, err = counts(targets)
		}
	}
	if f.trees = treeNames(); trees != "all" {
		f.trees = []string{trees}
	}
	return f, err
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	f, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if f.predict {
		return predict(ctx, f, stdout)
	}
	if f.targets != nil {
		return tokens(ctx, f, getenv, stdout)
	}
	var report *eval.Report
	if f.read != "" {
		report, err = readAll(strings.Split(f.read, ","))
	} else {
		report, err = ask(ctx, f, getenv, stderr)
	}
	if report == nil {
		return err
	}
	// Print the report after an error as well.
	if err := report.Markdown(stdout); err != nil {
		return err
	}
	if err == nil && f.check {
		err = broken(report)
	}
	return err
}

// readAll joins reports.
func readAll(names []string) (*eval.Report, error) {
	all := &eval.Report{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var r eval.Report
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all.Cases, all.Repeat = max(all.Cases, r.Cases), max(all.Repeat, r.Repeat)
		all.Subjects = append(all.Subjects, r.Subjects...)
	}
	return all, nil
}

// maxModelCalls limits a turn, so that a model that calls in circles does not use the time of all others.
const maxModelCalls = 10

// connect returns the model of a variant. It waits for slow machines and does not retry, so that no error is hidden.
func connect(getenv func(string) string, v variant) (*openai.Model, error) {
	slow := llm.Timeouts{First: 10 * time.Minute, Silence: 10 * time.Minute, Answer: 20 * time.Minute}
	return openai.FromEnv(getenv, "", append([]openai.Option{openai.WithTimeouts(slow), openai.WithRetries(0)}, v.model...)...)
}

// round is a tree in one variant with its cases.
type round struct {
	eval.Subject
	cases  []eval.Case
	runner []runner.Option
}

// rounds prepares all rounds before the first request.
func rounds(f flags, getenv func(string) string) (all []round, err error) {
	for _, tree := range f.trees {
		agents, err := roles(tree)
		if err != nil {
			return nil, err
		}
		messages, err := load("data/"+tree+"/messages.yaml", f.half, f.n)
		if err != nil {
			return nil, err
		}
		talks, err := load("data/"+tree+"/conversations.yaml", f.half, f.conversations)
		if err != nil {
			return nil, err
		}
		for _, v := range f.variants {
			model, err := connect(getenv, v)
			if err != nil {
				return nil, err
			}
			root, err := grow(agents, model, f.maxTokens, v)
			if err != nil {
				return nil, fmt.Errorf("variant %s: %w", v.name, err)
			}
			name := strings.Join([]string{model.Name(), v.name, tree, f.half}, ", ")
			all = append(all, round{eval.Subject{Name: name, Root: root}, slices.Concat(messages, talks), v.runner})
		}
	}
	return all, nil
}

// ask plays the cases that are not in the file of results, one at a time, because small machines compute one answer at
// a time. The report also contains the stored results. It is nil if the file or the flags cannot be used.
func ask(ctx context.Context, f flags, getenv func(string) string, stderr io.Writer) (*eval.Report, error) {
	all, err := rounds(f, getenv)
	if err != nil {
		return nil, err
	}
	report := &eval.Report{Repeat: 1}
	if _, err := os.Stat(f.out); err == nil {
		if report, err = readAll([]string{f.out}); err != nil {
			return nil, fmt.Errorf("-out must be a new file, or one that -out has written: %w", err)
		}
	}
	if err := write(f.out, report); err != nil { // before the first request, because all of them may take hours
		return nil, err
	}
	for _, r := range all {
		at := slices.IndexFunc(report.Subjects, func(s eval.Results) bool { return s.Subject == r.Name })
		if at < 0 {
			at, report.Subjects = len(report.Subjects), append(report.Subjects, eval.Results{Subject: r.Name})
		}
		results := &report.Subjects[at]
		left := slices.DeleteFunc(r.cases, func(c eval.Case) bool {
			return slices.ContainsFunc(results.Outcomes, func(o eval.Outcome) bool { return o.File == c.File && o.Case == c.Name })
		})
		var failed error
		_, err := eval.Run(ctx, left, []eval.Subject{r.Subject}, eval.Parallel(1), eval.WithRunner(append(r.runner, runner.WithLimits(runner.Limits{ModelCalls: maxModelCalls}))...),
			eval.Progress(func(subject string, o *eval.Outcome) {
				for i := range o.Turns {
					fmt.Fprintln(stderr, line(subject, o, &o.Turns[i]))
				}
				results.Outcomes = append(results.Outcomes, *o)
				report.Cases = max(report.Cases, len(results.Outcomes))
				failed = cmp.Or(failed, write(f.out, report))
			}))
		if err = errors.Join(err, failed); err != nil {
			report.Subjects = slices.DeleteFunc(report.Subjects, func(s eval.Results) bool { return len(s.Outcomes) == 0 })
			if len(report.Subjects) == 0 {
				return nil, err
			}
			return report, err
		}
	}
	return report, nil
}

// write replaces the file of results, if there is one.
func write(name string, report *eval.Report) error {
	if name == "" {
		return nil
	}
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", append(text, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// line returns a line about a turn for the person who waits.
func line(subject string, o *eval.Outcome, t *eval.TurnOutcome) string {
	mark := " "
	if len(t.Differences) > 0 {
		mark = "✗"
	}
	text := fmt.Sprintf("%s %s %-15s want %s, got %s, answered by %s, %.1f s", mark, subject, o.Case, t.Expected, strings.Join(t.Path, " > "), t.Answered, t.Took.Seconds())
	if t.Leaked {
		text += ", a call was shown"
	}
	for _, d := range t.Differences {
		if d.Kind == "error" {
			text += ", " + d.Message
		}
	}
	return text
}

// ofModels are the codes of errors that a model's answers can cause.
var ofModels = []string{"transfer_rejected", "transfer_limit", "empty_answer", "repeated_call", "limit"}

// broken returns an error for the results that no model can cause by its choice of agents.
func broken(report *eval.Report) error {
	var found []error
	for _, s := range report.Subjects {
		for i := range s.Outcomes {
			o := &s.Outcomes[i]
			for j := range o.Turns {
				t := &o.Turns[j]
				if slices.Contains(ofModels, t.Error) && !t.Leaked {
					continue
				}
				if t.Error != "" || t.Leaked || t.Answered == "" {
					found = append(found, errors.New(strings.TrimSpace(line(s.Subject, o, t))))
				}
			}
		}
	}
	return errors.Join(found...)
}
