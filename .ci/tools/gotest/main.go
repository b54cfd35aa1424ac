// Command gotest runs "go test" for CI. It takes the arguments of the go command, in which every pattern of packages
// begins with "./":
//
//	gotest [-C DIR] test [FLAGS] ./PACKAGE... [FLAGS]
//
// It prints the closing line of each package, as go test does. In addition:
//
//   - A failed package runs once more, alone. If it passes then, gotest succeeds and prints "FLAKY: PACKAGE (TESTS)". A
//     package that cannot be built does not run again, and none does if more than 5 have failed.
//   - Each package has a limit (limit.go). If it hangs, its running tests are printed first, before its goroutines.
//   - The tests run as on somebody's machine: ports are taken and variables are set (machine.go).
//   - Failures are printed last: what each failed package printed, then a line for each of them.
//
// If CI_WITHIN is set to a duration, gotest stops after this time. It then names the packages that have not finished, and
// does not fail because of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// maxAgain is the largest number of failed packages that run once more.
const maxAgain = 5

func main() {
	if len(os.Args) > 2 && os.Args[1] == "limit" {
		fmt.Fprintln(os.Stderr, "gotest:", startLimited(os.Args[2:]))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Println("gotest:", err)
		os.Exit(1)
	}
}

// run returns an error unless each package passed in its first or second run, or was left out.
func run(ctx context.Context, args []string) error {
	if text := os.Getenv("CI_WITHIN"); text != "" {
		within, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	c, err := parse(args)
	if err != nil {
		return err
	}
	m, err := newMachine()
	if err != nil {
		return err
	}
	defer m.close()
	c.env = m.env
	first, err := c.test(ctx, c.patterns...)
	failures := first.failures()
	again := len(failures) <= maxAgain
	for _, r := range failures {
		if !again || r.verdict == unbuilt || ctx.Err() != nil {
			continue
		}
		fmt.Printf("gotest: %s\ngotest: it runs once more, alone\n", r)
		second, _ := c.test(ctx, r.name)
		r.judge(second.packages[r.name])
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		first.sayLeftOut()
	}
	if len(failures) > 0 {
		fmt.Println("== failed packages")
	}
	for _, r := range failures {
		fmt.Printf("-- %s\n%s", r, r.excerpt(80))
	}
	for _, r := range failures {
		fmt.Println(r)
		if r.verdict != flaky && err == nil {
			err = errors.New("tests failed; .ci/tools/gotest/machine.go says how their machine differs from yours")
		}
	}
	return errors.Join(err, m.untouched())
}
