package cold

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/peerfolder"
	"github.com/agentarbor/arbor/internal/testing/servers"
)

var measure = flag.Bool("measure", false, "measure sessions of 10 to 4,000 turns, five times each, and print the table")

// systems are the frameworks with a store, each in the way that its documentation shows.
var systems = []struct {
	name, title string
	postgres    bool
	all         bool // the model is shown the whole conversation
	// fill stores a session of so many turns, the first of which is a transfer.
	fill func(ctx context.Context, where string, turns int) error
	// turn opens the store and has the specialist answer once more. It returns what the user
	// was told, and how many messages the model was shown.
	turn func(ctx context.Context, where string) (said string, seen int, err error)
}{
	{"arbor", "Arbor, SQLite", false, true, fillArbor, turnArbor},
	{"arborlast", "Arbor, SQLite, the last 20 turns shown", false, false, fillArbor, turnArborLast},
	{"arborpostgres", "Arbor, PostgreSQL", true, true, fillArbor, turnArbor},
	{"adk", "ADK-Go, SQLite", false, true, fillADK, turnADK},
	{"trpc", "tRPC-Agent-Go, PostgreSQL", true, true, fillTRPC, turnTRPC},
	{name: "langgraph", title: "LangGraph, SQLite", all: true}, // in Python
}

// figures are what a turn has cost, without the start of its process.
type figures struct {
	Time   time.Duration `json:"time"`   // from the opening of the store to the end of the turn
	Allocs uint64        `json:"allocs"` // 0 where they are not counted
	Bytes  uint64        `json:"bytes"`
	Seen   int           `json:"seen"` // messages that the model was shown
}

// TestMain is a process of its own where the environment says so.
func TestMain(m *testing.M) {
	if name := os.Getenv("COLD_SYSTEM"); name != "" {
		turns, _ := strconv.Atoi(os.Getenv("COLD_FILL"))
		if err := child(context.Background(), name, os.Getenv("COLD_WHERE"), turns); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// child fills a database, or measures one turn on it.
func child(ctx context.Context, name, where string, turns int) error {
	for _, s := range systems {
		switch {
		case s.name != name:
			continue
		case turns > 0:
			return s.fill(ctx, where, turns)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		said, seen, err := s.turn(ctx, where)
		f := figures{Time: time.Since(began), Seen: seen}
		runtime.ReadMemStats(&after)
		f.Allocs, f.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
		if err == nil && said != sentence {
			err = fmt.Errorf("the user was told %q", said)
		}
		return errors.Join(err, json.NewEncoder(os.Stdout).Encode(f))
	}
	return fmt.Errorf("there is no system %q", name)
}

func TestCold(t *testing.T) {
	lengths, rounds := []int{3}, 1
	if *measure {
		lengths, rounds = []int{10, 100, 1000, 4000}, 5
	}
	rows, there := make([]string, len(systems)), make([]bool, len(systems))
	for i, s := range systems {
		t.Run(s.name, func(t *testing.T) { // skipped alone if what it needs is missing
			if s.postgres {
				servers.Database(t)
			} else if s.turn == nil {
				langgraph.Python(t, "")
			}
			there[i] = true
		})
	}
	for _, n := range lengths {
		where, found := make([]string, len(systems)), make([][]figures, len(systems))
		for i, s := range systems {
			if !there[i] {
				continue
			}
			where[i] = filepath.Join(t.TempDir(), "cold.db")
			if s.postgres {
				where[i] = servers.Database(t)
			}
			run(t, i, where[i], n)
		}
		for range rounds {
			for i, s := range systems {
				if where[i] == "" {
					continue
				}
				var f figures
				require.NoError(t, json.Unmarshal(run(t, i, where[i], 0), &f), s.name)
				if s.all {
					require.Greater(t, f.Seen, 2*n, s.name)
				}
				found[i] = append(found[i], f)
			}
		}
		for i := range systems {
			rows[i] += " " + cell(found[i]) + " |"
		}
	}
	if *measure {
		fmt.Println("| | 10 turns | 100 | 1,000 | 4,000 |\n|---|---|---|---|---|")
		for i, s := range systems {
			fmt.Printf("| %s |%s\n", s.title, rows[i])
		}
	}
}

// run runs a process that fills a database with so many turns, or measures one turn if there are none.
func run(t *testing.T, i int, where string, turns int) []byte {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	if systems[i].turn == nil {
		python, script := langgraph.Python(t, "langgraph_turn.py")
		cmd = exec.CommandContext(t.Context(), python, script)
	}
	cmd.Env = append(os.Environ(), "COLD_SYSTEM="+systems[i].name, "COLD_WHERE="+where, fmt.Sprint("COLD_FILL=", turns))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s", systems[i].name, stderr.String())
	return out
}

// cell is the median of the times with the fastest and the slowest, and the allocations.
func cell(of []figures) string {
	if len(of) == 0 {
		return "–"
	}
	slices.SortFunc(of, func(a, b figures) int { return int(a.Time - b.Time) })
	ms := func(d time.Duration) string { return strconv.FormatFloat(float64(d)/1e6, 'f', 1, 64) }
	mid := of[len(of)/2]
	text := fmt.Sprintf("%s ms (%s–%s)", ms(mid.Time), ms(of[0].Time), ms(of[len(of)-1].Time))
	if mid.Allocs > 0 {
		text += fmt.Sprintf("; %d, %d kB", mid.Allocs, mid.Bytes/1000)
	}
	return text
}

// langgraph is where LangGraph is.
var langgraph = peerfolder.Folder{Path: ".", Name: "benchmarks/cold", Of: "this benchmark"}
