// Command report runs the benchmarks of this module and writes docs/benchmarks.md from the results. Run it in the
// folder benchmarks:
//
//	go run ./cmd/report
//
// It takes some minutes. It stores the results in results.txt, composition.txt and graphs.txt. With -only turns, -only
// composition or -only graphs it measures only the conversations, the composed agents or the graph engines, and with
// -render nothing. For the rest it uses the stored results.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// rounds is the number of times that each benchmark runs.
const rounds = 5

// options contains the flags.
type options struct {
	page, turns, composition, graphs string // names of files
	only                             string
	render                           bool
}

func main() {
	var o options
	flag.StringVar(&o.page, "o", filepath.Join("..", "docs", "benchmarks.md"), "the page to write; none if empty")
	flag.StringVar(&o.turns, "results", "results.txt", "the file for what the benchmarks of conversations print")
	flag.StringVar(&o.composition, "composition", "composition.txt", "the file for what the benchmarks of composed agents print")
	flag.StringVar(&o.graphs, "graphs", "graphs.txt", "the file for what was measured of the graph engines")
	flag.StringVar(&o.only, "only", "", "measure only this: turns, composition or graphs")
	flag.BoolVar(&o.render, "render", false, "measure nothing, and write the page from the results of the last time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	all := []string{"turns", "composition", "graphs"}
	if o.only != "" && !slices.Contains(all, o.only) {
		return fmt.Errorf("-only %q: want one of %q", o.only, all)
	}
	wanted := func(what string) bool { return !o.render && (o.only == "" || o.only == what) }
	for _, of := range []struct {
		what, file, folder string
		runs               []benchRun
	}{
		{"turns", o.turns, ".", []benchRun{
			{"TransferTurn|Stream|PingPong", "100ms", rounds, 1},
			{"NextTurn", "100x", 1, rounds},
		}},
		{"composition", o.composition, ".", []benchRun{{"AgentTool|Sequence|Parallel|Loop", "100ms", rounds, 1}}},
		{"graphs", o.graphs, "./graphs", []benchRun{{"Build|Run", "100ms", rounds, 1}}},
	} {
		if !wanted(of.what) {
			continue
		}
		text, err := measure(ctx, of.folder, of.runs)
		if err != nil {
			return err
		}
		if err := os.WriteFile(of.file, text, 0o644); err != nil {
			return err
		}
	}
	if o.page == "" {
		return nil
	}
	return writePage(ctx, o)
}

// writePage writes the page from the files of results. Only the file of the conversations is required.
func writePage(ctx context.Context, o options) error {
	m, err := read(o.turns)
	if err != nil {
		return err
	}
	composed, err := read(o.composition)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	g, err := read(o.graphs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	versions, err := modules(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(o.page, []byte(page(m, composed, g, versions)), 0o644)
}

func read(file string) (*measured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return found, nil
}

// machine describes this machine.
func machine() string {
	return fmt.Sprintf("%d cores, %s, %s/%s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// benchRun is a run of some benchmarks. The short ones run several times alternately, so that a temporary disturbance
// of the machine affects all frameworks. Those on long sessions run once, with several counts each, because most of
// their time goes into creating the sessions.
type benchRun struct {
	benchmarks, time string
	times, count     int
}

// measure compiles the benchmarks of a package once and runs these benchmarks.
func measure(ctx context.Context, folder string, runs []benchRun) ([]byte, error) {
	dir, err := os.MkdirTemp("", "benchmarks")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "benchmarks.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, folder).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	var all bytes.Buffer
	fmt.Fprintf(&all, "machine: %s\n", machine())
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
	for _, r := range runs {
		for range r.times {
			if err := bench("-test.bench="+r.benchmarks, "-test.benchtime="+r.time, fmt.Sprintf("-test.count=%d", r.count)); err != nil {
				return nil, err
			}
		}
	}
	return all.Bytes(), nil
}
