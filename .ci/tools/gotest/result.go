package main

import (
	"fmt"
	"slices"
	"strings"
)

// A verdict is the outcome of a package. It is empty while the package runs.
type verdict string

const (
	passed  verdict = "ok"
	failed  verdict = "FAILED"
	unbuilt verdict = "NOT BUILT"
	hung    verdict = "HUNG"  // it did not finish
	flaky   verdict = "FLAKY" // it failed, and passed when it ran alone
)

// result is the result of a package.
type result struct {
	name     string
	verdict  verdict
	tests    map[string]string // the last action of each test
	printed  []output
	crash    string   // why it ended early, or a fault of the whole package: a panic, a data race
	timedOut bool     // the crash is that of the limit
	running  []string // the tests that were running at the limit
}

// output is a text that a test printed, or the package if test is empty.
type output struct{ test, text string }

// print records a text that a test printed. Output after a crash belongs to no test, although the go command names one,
// which may even have passed.
func (r *result) print(test, text string) {
	if strings.HasPrefix(text, "=== ") {
		return
	}
	for prefix, kind := range map[string]string{"panic: ": "panic", "fatal error: ": "panic", "SIGQUIT: ": "panic", "WARNING: DATA RACE": "data race"} {
		if r.crash == "" && strings.HasPrefix(text, prefix) {
			r.crash = kind
		}
	}
	r.timedOut = r.timedOut || strings.HasPrefix(text, "panic: test timed out after ") || strings.HasPrefix(text, "SIGQUIT: ")
	if r.timedOut && strings.HasPrefix(text, "\t\tTest") {
		r.running = append(r.running, strings.Fields(text)[0])
	}
	if r.crash != "" {
		test = ""
	}
	r.printed = append(r.printed, output{test, text})
}

// show prints the closing line of a package, and its output if it failed.
func (r *result) show(verbose bool) {
	if r.verdict != passed {
		fmt.Print(r.excerpt(400))
		return
	}
	for _, o := range r.printed {
		if verbose || o.test == "" && o.text != "PASS\n" {
			fmt.Print(o.text)
		}
	}
}

// judge sets the verdict of a failed package after its second run.
func (r *result) judge(second *result) {
	switch {
	case second == nil || second.verdict == "": // the run was stopped
	case second.verdict == passed:
		r.verdict = flaky
	default:
		*r = *second
	}
}

// excerpt returns the output of the package and its failed tests, or the beginning and the end of it if it has more
// lines.
func (r *result) excerpt(lines int) string {
	var all strings.Builder
	for _, o := range r.printed {
		if action := r.tests[o.test]; o.test == "" || action != "pass" && action != "skip" {
			all.WriteString(o.text)
		}
	}
	split := strings.SplitAfter(all.String(), "\n")
	if more := len(split) - lines; more > 0 {
		tail := lines / 4
		split = slices.Concat(split[:lines-tail], []string{fmt.Sprintf("... %d more lines\n", more)}, split[len(split)-tail:])
	}
	return strings.Join(split, "")
}

// String returns the line for a failed package: its verdict, its name and the tests that caused it.
func (r *result) String() string {
	tests := r.running
	for _, causes := range [][]string{{"fail"}, {"run", "cont"}} {
		if len(tests) > 0 {
			break
		}
		for test, action := range r.tests {
			if slices.Contains(causes, action) {
				tests = append(tests, test)
			}
		}
	}
	slices.Sort(tests)
	causes := slices.DeleteFunc(slices.Clone(tests), func(test string) bool { // a subtest names the cause more precisely
		return slices.ContainsFunc(tests, func(other string) bool { return strings.HasPrefix(other, test+"/") })
	})
	if more := len(causes) - 5; more > 0 {
		causes = append(causes[:5], fmt.Sprintf("and %d more", more))
	}
	if r.crash != "" && !r.timedOut {
		causes = append(causes, r.crash)
	}
	if len(causes) == 0 {
		return fmt.Sprintf("%s: %s", r.verdict, r.name)
	}
	return fmt.Sprintf("%s: %s (%s)", r.verdict, r.name, strings.Join(causes, ", "))
}
