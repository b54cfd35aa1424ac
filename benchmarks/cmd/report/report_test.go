package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func results(lines ...string) []byte {
	text := "machine: 2 cores\n"
	for i := range rounds {
		for _, l := range lines {
			text += fmt.Sprintf(strings.ReplaceAll(l, "N", "%[1]d"), i+1) + "\n"
		}
	}
	return []byte(text)
}

func TestParse(t *testing.T) {
	m, err := parse(results(
		"BenchmarkTransferTurn/framework=arbor/depth=1-2 \t 100\t N000 ns/op\t 12800 B/op\t 150 allocs/op",
		"BenchmarkTransferTurn/framework=adk/depth=1-2 \t 100\t N0000 ns/op\t 6400 B/op\t 1500 allocs/op"))
	require.NoError(t, err)
	require.Equal(t, "2 cores", m.machine)
	both := m.figures["TransferTurn/depth=1"]
	require.Len(t, both["adk"], rounds)
	require.Equal(t, 3000.0, median(each(both["arbor"], ns)))
	require.Equal(t, 10.0, ratio(both["adk"], both["arbor"], allocs))

	text := page(m, nil, nil, map[string]string{"adk": "v2.0.0"})
	require.Contains(t, text, "| transfer turn: root → specialist → text | 3.0 µs (1.0 µs–5.0 µs) | 30 µs (10 µs–50 µs) | – | – |")
	require.Contains(t, text, "| transfer turn: root → specialist → text | 10 × / 10 × / 0.5 × | – | – |")
	require.Contains(t, text, "ADK-Go needs 50 % of the bytes.")
	require.Contains(t, text, "`google.golang.org/adk/v2` v2.0.0")
	require.NotContains(t, text, "{{")
}

func TestCompositionSection(t *testing.T) {
	m, err := parse(results(
		"BenchmarkParallel/framework=arbor/branches=64-2 \t 100\t N000 ns/op\t 2000 cpu-ns/op\t 12800 B/op\t 150 allocs/op",
		"BenchmarkParallel/framework=eino/branches=64-2 \t 100\t N00 ns/op\t 1000 cpu-ns/op\t 25600 B/op\t 450 allocs/op"))
	require.NoError(t, err)
	text := compositionSection(m)
	require.Contains(t, text, "| 64 agents side by side | 3.0 µs (1.0 µs–5.0 µs) | – | 300 ns (100 ns–500 ns) | – |")
	require.Contains(t, text, "| 64 agents side by side | – | 0.1 × / 3.0 × / 2.0 × | – |")
	require.Contains(t, text, "- 64 agents side by side: Eino needs 10 % of the time.")
	require.Contains(t, compositionSection(nil), "no figures")
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":    "machine: 2 cores\n",
		"other":      "FAIL\n",
		"one round":  "BenchmarkStream/framework=arbor/chunks=1000-2 1 1.5 ns/op 1 B/op 1 allocs/op\n",
		"no figures": "BenchmarkStream/framework=arbor/chunks=1000-2\n",
	} {
		_, err := parse([]byte(text))
		require.Error(t, err, name)
	}
}

func TestNumbers(t *testing.T) {
	require.Equal(t, "999 ns", duration(999))
	require.Equal(t, "9.9 µs", duration(9_940))
	require.Equal(t, "10 µs", duration(9_960))
	require.Equal(t, "1.5 s", duration(1.5e9))
	require.Equal(t, "1,234 ×", times(1234.4))
	require.Equal(t, "–", times(math.NaN()))
	require.Equal(t, "12,345,678", thousands(12345678))
	require.Equal(t, "123", thousands(123))
}
