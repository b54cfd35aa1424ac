// Command report runs the benchmarks of this module and writes docs/benchmarks.md
// from what they measured. Run it in the folder benchmarks:
//
//	go run ./cmd/report
//
// It takes some minutes. What go test printed is kept in results.txt;
// with -render, the page is written from there and nothing is measured.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
)

// rounds is how often everything is measured.
const rounds = 5

func main() {
	var (
		out     = flag.String("o", filepath.Join("..", "docs", "benchmarks.md"), "the page to write")
		results = flag.String("results", "results.txt", "the file for what go test prints")
		render  = flag.Bool("render", false, "only write the page, from the results of the last time")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, *results, *render); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, results string, render bool) error {
	if !render {
		text, err := measure(ctx)
		if err != nil {
			return err
		}
		if err := os.WriteFile(results, text, 0o644); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(results)
	if err != nil {
		return err
	}
	m, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", results, err)
	}
	versions, err := modules(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(out, []byte(page(m, versions)), 0o644)
}

// measure compiles the benchmarks once and runs them. The short ones take turns,
// so that what disturbs the machine for a while disturbs all frameworks; those
// on long sessions run one after the other, because most of their time goes into
// making the sessions.
func measure(ctx context.Context) ([]byte, error) {
	dir, err := os.MkdirTemp("", "benchmarks")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "benchmarks.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, ".").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	var all bytes.Buffer
	fmt.Fprintf(&all, "machine: %d cores, %s, %s/%s\n", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	bench := func(args ...string) error {
		cmd := exec.CommandContext(ctx, binary, append([]string{"-test.run=^$", "-test.benchmem", "-test.timeout=30m"}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "Benchmark") {
				fmt.Print(line)
				all.WriteString(line)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	for range rounds {
		if err := bench("-test.bench=TransferTurn|Stream|PingPong", "-test.benchtime=100ms"); err != nil {
			return nil, err
		}
	}
	if err := bench("-test.bench=NextTurn", "-test.benchtime=100x", fmt.Sprintf("-test.count=%d", rounds)); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}
