// Command report runs the benchmarks of this module and writes docs/benchmarks.md
// from what they measured. Run it in the folder benchmarks:
//
//	go run ./cmd/report
//
// It takes some minutes. What was measured is kept in results.txt and graphs.txt.
// With -only turns or -only graphs, only the conversations or only the graph engines
// are measured, and with -render nothing is; what is not measured is as it was the
// last time. Graphs of 10,000 nodes take some engines long, and are left out unless
// they are asked for:
//
//	go run ./cmd/report -only graphs -nodes 100,1000,10000
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/benchmarks/graphs"
)

// rounds is how often everything is measured.
const rounds = 5

// options are the flags.
type options struct {
	page, turns, graphs string // files
	only                string
	render              bool
	nodes               []int
	limit               time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.page, "o", filepath.Join("..", "docs", "benchmarks.md"), "the page to write; none if empty")
	flag.StringVar(&o.turns, "results", "results.txt", "the file for what the benchmarks of conversations print")
	flag.StringVar(&o.graphs, "graphs", "graphs.txt", "the file for what was measured of the graph engines")
	flag.StringVar(&o.only, "only", "", "measure only this: turns or graphs")
	flag.BoolVar(&o.render, "render", false, "measure nothing, and write the page from the results of the last time")
	flag.DurationVar(&o.limit, "limit", 30*time.Second, "the time for one run of a graph; what would take longer is not run")
	nodes := flag.String("nodes", "100,1000", "the sizes of the graphs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if o.nodes, err = sizes(*nodes); err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func sizes(list string) ([]int, error) {
	var nodes []int
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, fmt.Errorf("-nodes %q: want numbers with commas between them", list)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func run(ctx context.Context, o options) error {
	if o.only != "" && o.only != "turns" && o.only != "graphs" {
		return fmt.Errorf("-only %q: want turns or graphs", o.only)
	}
	if !o.render && o.only != "graphs" {
		text, err := measure(ctx)
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.turns, text, 0o644); err != nil {
			return err
		}
	}
	if !o.render && o.only != "turns" {
		var text bytes.Buffer
		bench := graphBench{engines: graphs.Engines(), nodes: o.nodes, rounds: rounds, batch: 100 * time.Millisecond, limit: o.limit}
		if err := bench.measure(ctx, io.MultiWriter(&text, os.Stdout)); err != nil {
			return err
		}
		if err := os.WriteFile(o.graphs, text.Bytes(), 0o644); err != nil {
			return err
		}
		g, err := parseGraphs(text.Bytes())
		if err != nil {
			return fmt.Errorf("%s: %w", o.graphs, err)
		}
		fmt.Println(graphSection(g, graphs.Engines()))
	}
	if o.page == "" {
		return nil
	}
	return writePage(ctx, o)
}

// writePage writes the page from the files of results. That of the graph engines
// may be missing.
func writePage(ctx context.Context, o options) error {
	text, err := os.ReadFile(o.turns)
	if err != nil {
		return err
	}
	m, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.turns, err)
	}
	var g *graphFigures
	switch text, err := os.ReadFile(o.graphs); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if g, err = parseGraphs(text); err != nil {
			return fmt.Errorf("%s: %w", o.graphs, err)
		}
	}
	versions, err := modules(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(o.page, []byte(page(m, g, versions)), 0o644)
}

// machine says where this runs.
func machine() string {
	return fmt.Sprintf("%d cores, %s, %s/%s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
