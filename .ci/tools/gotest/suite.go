package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// command is a "go test" command without its packages.
type command struct {
	before, after []string // arguments before and after the packages
	patterns      []string
	verbose       bool // print the output of passed tests as well
	env           []string
}

func parse(args []string) (*command, error) {
	c := &command{verbose: slices.Contains(args, "-v") || slices.Contains(args, "-bench")}
	for _, arg := range args {
		switch {
		case strings.HasPrefix(arg, "./"):
			c.patterns = append(c.patterns, arg)
		case len(c.patterns) == 0:
			c.before = append(c.before, arg)
		default:
			c.after = append(c.after, arg)
		}
	}
	at := slices.Index(c.before, "test")
	if at < 0 || len(c.patterns) == 0 {
		return nil, errors.New(`the arguments must be those of "go test", with packages that begin with "./"`)
	}
	if !slices.Contains(args, "-timeout") {
		limits, err := limitFlags()
		if err != nil {
			return nil, err
		}
		c.before = slices.Insert(c.before, at+1, limits...)
	}
	c.before = slices.Insert(c.before, at+1, "-json")
	return c, nil
}

// suite is one run of "go test", whose output it reads.
type suite struct {
	*command
	packages map[string]*result
	order    []*result
	builds   map[string][]string // the output of building a package
	rest     []byte              // the beginning of an incomplete line
}

// test runs the tests of packages and prints their closing lines. It returns an error if the go command failed although
// no package did, or if ctx ended.
func (c *command) test(ctx context.Context, packages ...string) (*suite, error) {
	s := &suite{command: c, packages: map[string]*result{}, builds: map[string][]string{}}
	cmd := exec.CommandContext(ctx, "go", slices.Concat(c.before, packages, c.after)...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = s, os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT) // tests print their goroutines
	}
	cmd.WaitDelay = 10 * time.Second // for processes that tests did not stop
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // kills those that still run
	}
	s.end(ctx.Err(), err)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = nil
	case ctx.Err() != nil:
		err = errors.New("stopped from outside, at the limit of the step")
	case len(s.failures()) > 0:
		err = nil
	case err != nil:
		err = fmt.Errorf("go test: %w", err)
	}
	return s, err
}

// event is a line of the output of "go test -json".
type event struct {
	Action, Package, Test, Output, FailedBuild, ImportPath string
}

// Write parses the output of "go test -json".
func (s *suite) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		s.rest = rest
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Printf("%s\n", line)
			continue
		}
		s.take(e)
	}
}

func (s *suite) take(e event) {
	if e.Package == "" { // output of a build
		s.builds[e.ImportPath] = append(s.builds[e.ImportPath], e.Output)
		return
	}
	r := s.packages[e.Package]
	if r == nil {
		r = &result{name: e.Package, tests: map[string]string{}}
		s.packages[e.Package] = r
		s.order = append(s.order, r)
	}
	switch {
	case e.Action == "output":
		r.print(e.Test, e.Output)
	case e.Test != "":
		r.tests[e.Test] = e.Action
	case e.Action == "pass" || e.Action == "skip":
		r.verdict = passed
	case e.Action == "fail" && e.FailedBuild != "":
		r.verdict = unbuilt
		for _, line := range s.builds[e.FailedBuild] {
			r.print("", line)
		}
	case e.Action == "fail":
		r.verdict = failed
		if r.timedOut {
			r.verdict = hung
		}
	}
	if r.verdict != "" {
		r.show(s.verbose)
	}
}

// end sets the verdicts of the packages that have not finished. If the time is over they are left out, unless a test
// has failed. If gotest did not stop the go command, another process ended it, and they have failed.
func (s *suite) end(stopped, ended error) {
	for _, r := range s.order {
		switch {
		case r.verdict != "":
		case stopped == nil:
			r.verdict, r.crash = failed, fmt.Sprint("go test: ", ended)
		case !errors.Is(stopped, context.DeadlineExceeded):
			r.verdict = hung
		case slices.Contains(slices.Collect(maps.Values(r.tests)), "fail"):
			r.verdict = failed
		}
	}
}

// failures returns the packages that failed, in the order in which they ended.
func (s *suite) failures() []*result {
	return slices.DeleteFunc(slices.Clone(s.order), func(r *result) bool { return r.verdict == "" || r.verdict == passed })
}

// sayLeftOut prints the packages that have not finished.
func (s *suite) sayLeftOut() {
	at := slices.Index(s.before, "test")
	list := exec.Command("go", slices.Concat(s.before[:at], []string{"list", "-f", "{{.ImportPath}} {{.Module.Path}}"}, s.patterns)...)
	list.Stderr = os.Stdout
	lines, err := list.Output()
	if err != nil {
		fmt.Println("gotest: the packages cannot be listed:", err)
	}
	var names []string
	for line := range strings.Lines(string(lines)) {
		name, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		if r := s.packages[name]; r == nil || r.verdict == "" {
			names = append(names, "."+strings.TrimPrefix(name, module))
		}
	}
	if len(names) > 0 {
		fmt.Printf("LEFT OUT: go test %s (there was no time)\n", strings.Join(names, " "))
	}
}
