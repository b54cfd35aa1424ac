package graphtest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// FuzzLoadCases: whatever a file holds, it is cases with graphs, or an error whose
// lines are those of the file.
func FuzzLoadCases(f *testing.F) {
	for _, name := range []string{"exec.yaml", "exec-more.yaml", "exec-arbor.yaml"} {
		data := must.Get(os.ReadFile("../testdata/" + name))
		for _, c := range strings.SplitAfter(string(data), "\n---\n") {
			f.Add([]byte(c))
		}
	}
	f.Add([]byte("name: x\n--- # y\nname: |\n ---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "graphFile") || len(data) > 64<<10 {
			return // which would read files, or take its time
		}
		cases, err := LoadCases(data, "f")
		if err == nil {
			require.NotEmpty(t, cases)
			for _, c := range cases {
				require.NotEmpty(t, c.Name)
				require.NotNil(t, c.Graph)
				_, err := c.Mocks.Agents(c.Graph)
				require.NoError(t, err)
			}
			return
		}
		lines(t, data, err)
	})
}

func FuzzLoadMocks(f *testing.F) {
	f.Add([]byte("a: {output: {x: [1, 9007199254740993, 1.5, -2, null, true]}}\nb: {error: down, times: 2, output: ok, delay: 50ms}\n"))
	f.Add([]byte("a:\n  outputs: [1, null]\n  delayMs: 20\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		mocks, err := LoadMocks(data, "f")
		if err == nil {
			for _, m := range mocks {
				_, err := m.Agent("m")
				require.NoError(t, err)
			}
			return
		}
		lines(t, data, err)
	})
}

func lines(t *testing.T, data []byte, err error) {
	var bad *Error
	require.True(t, errors.As(err, &bad), "%v", err)
	for _, p := range bad.Problems {
		require.Equal(t, "f", p.File)
		require.NotEmpty(t, p.Message)
		require.GreaterOrEqual(t, p.Line, 1)
		require.LessOrEqual(t, p.Line, strings.Count(string(data), "\n")+strings.Count(string(data), "\r")+1, p.Message) // either ends a line in YAML
	}
}
