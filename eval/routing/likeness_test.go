package routing

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
)

// said is an agent's name and what it says of itself.
type said struct{ Name, Description string }

// set is a group of siblings with a title.
type set struct {
	title  string
	agents []said
}

// setsOf reads a file of sets: a line with a title, then "name: description" lines, and an empty line.
func setsOf(t testing.TB, file string) (sets []set) {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for part := range strings.SplitSeq(string(data), "\n\n") {
		var s set
		for line := range strings.Lines(part) {
			line = strings.TrimSpace(line)
			name, description, ok := strings.Cut(line, ": ")
			switch {
			case line == "" || line[0] == '#':
			case s.title == "":
				s.title = line
			default:
				require.True(t, ok, line)
				s.agents = append(s.agents, said{name, description})
			}
		}
		if s.title != "" {
			sets = append(sets, s)
		}
	}
	return sets
}

// shares returns the likeness of each pair.
func (s set) shares(t testing.TB) (all [][]float64) {
	texts := make([]text, len(s.agents))
	for i, a := range s.agents {
		texts[i] = read(a.Description)
	}
	counts := countsOf(texts)
	for a := range texts {
		all = append(all, make([]float64, len(texts)))
		for b := range a {
			all[a][b] = likeness(texts, counts, a, b)
			require.InDelta(t, all[a][b], likeness(texts, counts, b, a), 1e-12)
		}
	}
	return all
}

// benchAgents are the agents of benchmarks/routing, the coordinator first.
func benchAgents(t testing.TB) (all []said) {
	data, err := os.ReadFile("../../benchmarks/routing/data/star/agents.jsonl")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		var a said
		require.NoError(t, json.Unmarshal([]byte(line), &a))
		all = append(all, a)
	}
	return all
}

func offlineModel(string) (llm.Model, error) { return offline.New(), nil }

// TestThreshold holds the threshold against all sets: it lies between the likest of those that do
// different things and the least alike of those that do the same.
func TestThreshold(t *testing.T) {
	most, pairs, titles := 0.0, 0, ""
	sets := setsOf(t, "testdata/distinct.txt")
	bench := set{"benchmarks/routing", benchAgents(t)}
	for _, s := range append(sets, bench) {
		for a, row := range s.shares(t) {
			for b := range a {
				pairs++
				if row[b] > most {
					most, titles = row[b], s.title
				}
				require.Less(t, row[b], alikeFrom, "%s: %v and %v", s.title, s.agents[a], s.agents[b])
			}
		}
	}
	least, leastTitle := 1.0, ""
	alike := setsOf(t, "testdata/alike.txt")
	for _, s := range alike {
		for a, row := range s.shares(t) {
			for b := range a {
				if a == 1 && b == 0 {
					require.GreaterOrEqual(t, row[b], alikeFrom, s.title)
					if row[b] < least {
						least, leastTitle = row[b], s.title
					}
					continue
				}
				require.Less(t, row[b], alikeFrom, "%s: %v and %v", s.title, s.agents[a], s.agents[b])
			}
		}
	}
	t.Logf("%d pairs of %d sets do different things, at most %.3f (%s); %d pairs do the same, at least %.3f (%s)", pairs, len(sets)+1, most, titles, len(alike), least, leastTitle)
}
