package graphtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// TestCases runs all cases of this repository.
func TestCases(t *testing.T) {
	for _, file := range []string{"exec.yaml", "exec-more.yaml", "exec-arbor.yaml"} {
		cases := must.Get(LoadCaseFile("../testdata/" + file))
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				out := must.Get(c.Run(t.Context()))
				for _, d := range out.Differences {
					t.Error(d)
				}
				require.NotEmpty(t, out.Events)
			})
		}
	}
}
