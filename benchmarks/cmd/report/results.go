package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/benchmarks"
)

// measured contains the output of the benchmarks.
type measured struct {
	machine string
	// figures contains the figures by benchmark and parameter (TransferTurn/depth=1, Run/chain=100), then by the name
	// of the framework or graph engine, in the order of the rounds.
	figures map[string]map[string][]figure
}

// figure is one line of go test: one benchmark in one round, per operation. The processor time is 0 if it was not
// measured.
type figure struct{ ns, cpu, bytes, allocs float64 }

var line = regexp.MustCompile(`^Benchmark(\w+)/framework=([\w-]+)/(\w+=\d+)(?:-\d+)?\s+\d+\s+(\S+) ns/op(?:\s+(\S+) cpu-ns/op)?\s+(\S+) B/op\s+(\S+) allocs/op`)

// parse parses the lines that measure wrote. It returns an error if a benchmark does not have one figure per round.
func parse(text []byte) (*measured, error) {
	m := &measured{figures: make(map[string]map[string][]figure)}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if machine, ok := strings.CutPrefix(lines.Text(), "machine: "); ok {
			m.machine = machine
			continue
		}
		found := line.FindStringSubmatch(lines.Text())
		if found == nil {
			return nil, fmt.Errorf("not a line of a benchmark: %q", lines.Text())
		}
		var f figure
		for i, to := range []*float64{&f.ns, &f.cpu, &f.bytes, &f.allocs} {
			var err error
			if *to, err = strconv.ParseFloat(cmp.Or(found[4+i], "0"), 64); err != nil {
				return nil, err
			}
		}
		name, framework := found[1]+"/"+found[3], found[2]
		if m.figures[name] == nil {
			m.figures[name] = make(map[string][]figure)
		}
		m.figures[name][framework] = append(m.figures[name][framework], f)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(m.figures) == 0 {
		return nil, errors.New("no figures")
	}
	for name, frameworks := range m.figures {
		for framework, figures := range frameworks {
			if len(figures) != rounds {
				return nil, fmt.Errorf("%s of %s was measured %d times, not %d", name, framework, len(figures), rounds)
			}
		}
	}
	return m, nil
}

func ns(f figure) float64     { return f.ns }
func size(f figure) float64   { return f.bytes }
func allocs(f figure) float64 { return f.allocs }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func each(figures []figure, of func(figure) float64) []float64 {
	values := make([]float64, len(figures))
	for i, f := range figures {
		values[i] = of(f)
	}
	return values
}

// ratio returns the median over the rounds of the peer's cost divided by Arbor's cost in the same round.
func ratio(peer, arbor []figure, of func(figure) float64) float64 {
	values := make([]float64, len(peer))
	for i := range peer {
		values[i] = of(peer[i]) / of(arbor[i])
	}
	return median(values)
}

// modules returns the versions of the frameworks' modules in go.mod.
func modules(ctx context.Context) (map[string]string, error) {
	versions := make(map[string]string)
	for _, f := range benchmarks.All() {
		out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", f.Module).Output()
		if err != nil {
			return nil, fmt.Errorf("go list -m %s: %w", f.Module, err)
		}
		versions[f.Name] = strings.TrimSpace(string(out))
	}
	return versions, nil
}
