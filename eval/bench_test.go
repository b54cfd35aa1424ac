package eval_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
)

// thousand are cases of one turn, in which the coordinator hands over to a specialist.
func thousand() string {
	var b strings.Builder
	b.WriteString("cases:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  - say: I was charged twice, on invoice %d\n    tags: [bench]\n    path: support > billing\n    says: refunded\n", i)
	}
	return b.String()
}

func steady(name string) llm.Model {
	if name == "support" {
		return scripted.Always(name, scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`), scripted.Usage(100, 5, 0)))
	}
	return scripted.Always(name, scripted.Reply(scripted.Text("I have refunded it."), scripted.Usage(100, 5, 0)))
}

// BenchmarkRun plays a thousand cases, by how many are played at once. held is what the report
// and all behind it keep of a case.
func BenchmarkRun(b *testing.B) {
	cases, err := eval.Load([]byte(thousand()), "c")
	require.NoError(b, err)
	root := desk(b, steady)
	for _, parallel := range []int{1, 4, 16} {
		b.Run(fmt.Sprint("parallel=", parallel), func(b *testing.B) {
			b.ReportAllocs()
			var report *eval.Report
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				report, err = eval.Run(b.Context(), cases, []eval.Subject{{Root: root}}, eval.Parallel(parallel))
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/case")
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/1000, "held-B/case")
			require.Equal(b, eval.Wilson(1000, 1000), report.Subjects[0].Summary().Passed)
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	text := []byte(thousand())
	b.ReportAllocs()
	for b.Loop() {
		_, err := eval.Load(text, "c")
		require.NoError(b, err)
	}
}

func BenchmarkSummary(b *testing.B) {
	cases, err := eval.Load([]byte(thousand()), "c")
	require.NoError(b, err)
	report, err := eval.Run(b.Context(), cases, []eval.Subject{{Root: desk(b, steady)}})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		report.Subjects[0].Summary()
	}
}
