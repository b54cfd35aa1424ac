package agentgraph_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestReferenceCut cuts the logs of random graphs behind each write, and goes on. What
// comes of them is the same. Their agents take no time, because a time that begins anew
// would be another one.
func TestReferenceCut(t *testing.T) {
	few(t, 150)
	cuts := 0
	rapid.Check(t, func(rt *rapid.T) {
		c := drawGraph(rt)
		c.settle = time.Millisecond
		for id, d := range c.does {
			d.takes, d.tool = 0, false // a tool's run has steps, and what begins again has fewer of them
			c.does[id] = d
		}
		var whole played
		var parts []played
		synctest.Test(t, func(*testing.T) {
			whole = c.play(t)
			for k := 2; k < len(whole.events); k++ {
				if !whole.events[k-1].Time.Equal(whole.events[k].Time) {
					parts = append(parts, c.play(t, whole.events[:k]...))
				}
			}
		})
		cuts += len(parts)
		require.NoError(rt, whole.err)
		for _, p := range parts {
			require.NoError(rt, p.err)
			require.Len(rt, p.results, 1)
			if inJSON(whole.results[0]) != inJSON(p.results[0]) {
				rt.Fatalf("want %s\ngot  %s\n%s%+v\nat most %d at once, input %s\nwhole:\n%s\nthe rest:\n%s", inJSON(whole.results[0]), inJSON(p.results[0]),
					c.text, c.does, c.concurrency, c.input, lines(whole.events), lines(p.events))
			}
			require.Equal(rt, fmt.Sprint(whole.failed), fmt.Sprint(p.failed))
			require.Equal(rt, inJSON(whole.events[len(whole.events)-1].Data), inJSON(p.events[len(p.events)-1].Data))
		}
	})
	t.Log(cuts, "cuts")
}
