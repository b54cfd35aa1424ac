package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/benchmarks/graphs"
	"github.com/agentarbor/arbor/benchmarks/internal/cputime"
)

// graphBench says how the graph engines are measured.
type graphBench struct {
	engines []graphs.Engine
	nodes   []int         // the sizes of the graphs
	rounds  int           // how often each is measured
	batch   time.Duration // a round repeats what takes less
	limit   time.Duration // for one run; what is expected to take longer is left out
}

// step is what is measured of a graph: to build and compile it, or to run it.
type step string

const (
	stepBuild step = "build"
	stepRun   step = "run"
)

// measure measures all shapes in all sizes, and writes a line for each figure. The
// engines take turns in one process, so that what disturbs the machine for a while
// disturbs all of them.
func (b graphBench) measure(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "machine: %s\n", machine())
	past := make(map[string]*growth)
	for _, nodes := range b.nodes {
		for _, name := range graphs.Shapes() {
			shape, err := graphs.NewShape(name, nodes)
			if err != nil {
				return err
			}
			var measured []*graphCase
			for _, e := range b.engines {
				c := &graphCase{engine: e, work: &graphs.Work{Shape: shape}}
				grown := past[name+" "+e.Name]
				if grown == nil {
					grown = new(growth)
					past[name+" "+e.Name] = grown
				}
				if took := grown.expect(nodes); took > b.limit {
					fmt.Fprintf(out, "not run: %s would take %s\n", c.name(stepRun), duration(float64(took)))
					continue
				}
				if err := c.prepare(ctx, b.batch); err != nil {
					return fmt.Errorf("%s: %w", c.name(stepRun), err)
				}
				measured = append(measured, c)
			}
			for round := range b.rounds {
				for i := range measured { // each begins once in a while
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := measured[(i+round)%len(measured)].round(ctx, out); err != nil {
						return err
					}
				}
			}
			for _, c := range measured {
				past[name+" "+c.engine.Name].add(nodes, time.Duration(median(each(c.ran, ns))*float64(nodes)))
			}
		}
	}
	return nil
}

// growth is what the runs of an engine took on graphs of one shape, in two sizes. An
// engine need not stop when its context is cancelled, and not all do, so that what
// would take too long must be known before.
type growth struct {
	nodes [2]int
	took  [2]time.Duration
}

func (g *growth) add(nodes int, took time.Duration) {
	g.nodes, g.took = [2]int{g.nodes[1], nodes}, [2]time.Duration{g.took[1], took}
}

// expect says what so many nodes will take: it goes on growing as it did from the
// smaller size to the larger. With fewer than two sizes that is 0.
func (g *growth) expect(nodes int) time.Duration {
	if g.nodes[0] == 0 || g.nodes[0] == g.nodes[1] {
		return 0
	}
	power := math.Log(float64(g.took[1])/float64(g.took[0])) / math.Log(float64(g.nodes[1])/float64(g.nodes[0]))
	return time.Duration(float64(g.took[1]) * math.Pow(float64(nodes)/float64(g.nodes[1]), power))
}

// graphCase is one engine on one graph.
type graphCase struct {
	engine       graphs.Engine
	work         *graphs.Work
	graph        graphs.Graph
	builds, runs int     // how often a round repeats them
	events       float64 // kept of a run, per node
	ran          []figure
}

func (c *graphCase) name(s step) string {
	return fmt.Sprintf("BenchmarkGraph/step=%s/shape=%s/nodes=%d/engine=%s", s, c.work.Shape.Name, len(c.work.Shape.Nodes), c.engine.Name)
}

// prepare builds the graph and runs it twice: the first run fills what an engine
// keeps for later ones, the second says how often a round has to repeat it.
func (c *graphCase) prepare(ctx context.Context, batch time.Duration) error {
	start := time.Now()
	var err error
	if c.graph, err = c.engine.Build(c.work); err != nil {
		return err
	}
	c.builds = repeats(batch, time.Since(start))
	if err := c.graph.Reset(); err != nil {
		return err
	}
	for range 2 {
		start := time.Now()
		if err := c.run(ctx); err != nil {
			return err
		}
		c.runs = repeats(batch, time.Since(start))
	}
	events, err := c.graph.Events(ctx)
	c.events = float64(events) / float64(len(c.work.Shape.Nodes))
	return err
}

// repeats says how often to repeat what takes so long once.
func repeats(batch, once time.Duration) int {
	return int(max(1, min(200, batch/max(once, 1))))
}

// run runs the graph once, and fails if it did not do all its work.
func (c *graphCase) run(ctx context.Context) error {
	output, err := c.graph.Run(ctx, "hello")
	calls := c.work.Calls()
	if err != nil {
		return err
	}
	if want := c.work.Shape.Last().Value; output != want || calls != len(c.work.Shape.Nodes) {
		return fmt.Errorf("%q after %d calls of nodes, want %q after %d", output, calls, want, len(c.work.Shape.Nodes))
	}
	return nil
}

// round measures the engine once more.
func (c *graphCase) round(ctx context.Context, out io.Writer) error {
	built, err := c.timed(c.builds, func() error {
		_, err := c.engine.Build(c.work)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.name(stepBuild), err)
	}
	if err := c.graph.Reset(); err != nil {
		return err
	}
	ran, err := c.timed(c.runs, func() error { return c.run(ctx) })
	if err != nil {
		return fmt.Errorf("%s: %w", c.name(stepRun), err)
	}
	c.print(out, stepBuild, c.builds, built, 0)
	c.print(out, stepRun, c.runs, ran, c.events)
	c.ran = append(c.ran, ran)
	return nil
}

func (c *graphCase) print(out io.Writer, s step, times int, f figure, events float64) {
	fmt.Fprintf(out, "%s\t%d\t%.1f ns/node\t%.1f cpu-ns/node\t%.0f B/node\t%.2f allocs/node\t%.2f events/node\n",
		c.name(s), times, f.ns, f.cpu, f.bytes, f.allocs, events)
}

// timed repeats something that has to do with all nodes, and says what it took for
// each of them.
func (c *graphCase) timed(times int, do func() error) (figure, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start, used := time.Now(), cputime.Used()
	for range times {
		if err := do(); err != nil {
			return figure{}, err
		}
	}
	took := time.Since(start)
	used = cputime.Used() - used
	runtime.ReadMemStats(&after)
	n := float64(times * len(c.work.Shape.Nodes))
	return figure{
		ns:     float64(took) / n,
		cpu:    float64(used) / n,
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / n,
		allocs: float64(after.Mallocs-before.Mallocs) / n,
	}, nil
}

// graphFigures is what graphBench.measure wrote.
type graphFigures struct {
	machine string
	cases   map[graphKey]*graphResult
	nodes   []int // the sizes, smallest first
}

type graphKey struct {
	step   step
	shape  string
	nodes  int
	engine string
}

type graphResult struct {
	figures []figure // in the order of the rounds
	events  float64
	notRun  string // what a run would have taken
}

var (
	graphName = `BenchmarkGraph/step=(build|run)/shape=(\w+)/nodes=(\d+)/engine=([\w-]+)`
	graphLine = regexp.MustCompile(`^` + graphName + `\t\d+\t(\S+) ns/node\t(\S+) cpu-ns/node\t(\S+) B/node\t(\S+) allocs/node\t(\S+) events/node$`)
	leftLine  = regexp.MustCompile(`^not run: ` + graphName + ` would take (.+)$`)
)

// parseGraphs reads what measure wrote. All that was measured must have been so
// equally often.
func parseGraphs(text []byte) (*graphFigures, error) {
	g := &graphFigures{cases: make(map[graphKey]*graphResult)}
	at := func(found []string) (*graphResult, error) {
		nodes, err := strconv.Atoi(found[3])
		key := graphKey{step(found[1]), found[2], nodes, found[4]}
		if g.cases[key] == nil {
			g.cases[key] = &graphResult{}
		}
		if !slices.Contains(g.nodes, nodes) {
			g.nodes = append(g.nodes, nodes)
		}
		return g.cases[key], err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if machine, ok := strings.CutPrefix(lines.Text(), "machine: "); ok {
			g.machine = machine
			continue
		}
		if found := leftLine.FindStringSubmatch(lines.Text()); found != nil {
			result, err := at(found)
			if err != nil {
				return nil, err
			}
			result.notRun = found[5]
			continue
		}
		found := graphLine.FindStringSubmatch(lines.Text())
		if found == nil {
			return nil, fmt.Errorf("not a line of the graph engines: %q", lines.Text())
		}
		result, err := at(found)
		if err != nil {
			return nil, err
		}
		var f figure
		for i, to := range []*float64{&f.ns, &f.cpu, &f.bytes, &f.allocs, &result.events} {
			if *to, err = strconv.ParseFloat(found[5+i], 64); err != nil {
				return nil, err
			}
		}
		result.figures = append(result.figures, f)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	rounds := 0
	for key, result := range g.cases {
		n := len(result.figures)
		if n == 0 && result.notRun != "" {
			continue
		}
		if rounds == 0 {
			rounds = n
		}
		if n != rounds {
			return nil, fmt.Errorf("%v was measured %d times, and another %d times", key, n, rounds)
		}
	}
	if rounds == 0 {
		return nil, errors.New("no figures")
	}
	slices.Sort(g.nodes)
	return g, nil
}
