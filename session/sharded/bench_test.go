package sharded_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/session"
)

// BenchmarkTurn makes the calls of a turn to a store in memory, bare and behind shards: the difference is
// what routing costs.
func BenchmarkTurn(b *testing.B) {
	for _, n := range []int{0, 1, 5, 50} { // 0 is the bare store
		b.Run(fmt.Sprint("shards=", n), func(b *testing.B) {
			var s session.Store = session.NewMemory()
			if n > 0 {
				s = spread(b, n, func(int) session.Store { return session.NewMemory() })
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := session.Key{App: "app", User: fmt.Sprint(i % 100), ID: "s"}
				lease, err := s.Acquire(b.Context(), key, session.Owner{})
				require.NoError(b, err)
				for n := range int64(4) {
					require.NoError(b, s.Append(b.Context(), key, lease.Seq+n, lease, batch(lease.Seq+n, say("I see two charges."))...))
				}
				require.NoError(b, s.Release(b.Context(), key, lease))
			}
		})
	}
}
