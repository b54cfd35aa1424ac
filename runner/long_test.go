package runner_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

var longTurns = flag.Int("long.turns", 200, "turns of TestLongSession")

// TestLongSession is a bot that one conversation never leaves: each turn looks something up and answers. Its last
// turns must cost what its first ones did: the same allocations, and no memory that grows.
func TestLongSession(t *testing.T) {
	for name, opts := range map[string][]llmagent.Option{
		"last turns": {llmagent.WithHistory(view.LastTurns(20))},
		"compaction": {llmagent.WithCompaction(llmagent.Compaction{Window: 4000, Summarizer: scripted.Always("short", scripted.Reply(scripted.Text("They ask about orders.")))})},
	} {
		t.Run(name, func(t *testing.T) {
			if race.Enabled {
				t.Skip("the race detector allocates on its own")
			}
			lookup := must.Get(tools.Func("lookup", "Looks an order up.", func(_ tools.Context, in struct {
				Order int `json:"order"`
			}) (string, error) {
				return fmt.Sprintf("order %d is on its way", in.Order), nil
			}))
			n := 0
			model := scripted.Func("bot", func(req *llm.Request) scripted.Answer {
				if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
					return scripted.Reply(scripted.Text("It is on its way."))
				}
				n++
				return scripted.Reply(scripted.CallID(fmt.Sprint("call_", n), "lookup", fmt.Sprintf(`{"order":%d}`, n)))
			})
			bot := must.Get(llmagent.New("bot", "You look orders up.", model, append(opts, llmagent.WithTools(lookup))...))
			path := filepath.Join(t.TempDir(), "long.db")
			store := must.Get(sqlite.Open(path))
			defer func() { require.NoError(t, store.Close()) }()
			r := newRunner(t, bot, store)

			// A tenth of the turns at a time: what it allocates, and what stays.
			var mallocs, bytes, stays []float64
			part := *longTurns / 10
			for range 10 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range part {
					turn(t, r, session.ID("s1"))
				}
				runtime.ReadMemStats(&after)
				mallocs = append(mallocs, float64(after.Mallocs-before.Mallocs)/float64(part))
				bytes = append(bytes, float64(after.TotalAlloc-before.TotalAlloc)/float64(part))
				stays = append(stays, float64(heap()))
			}
			t.Logf("allocations a turn %.0f, then %.0f; bytes %.0f, then %.0f; the heap %.0f kB, then %.0f kB",
				mallocs[1], mallocs[9], bytes[1], bytes[9], stays[1]/1000, stays[9]/1000)
			require.InEpsilon(t, mallocs[1], mallocs[9], 0.1)
			require.InEpsilon(t, bytes[1], bytes[9], 0.2)
			require.Less(t, stays[9]-stays[1], 64*8*float64(part)+2e6, "at most 64 bytes a turn stay in memory")
			info := must.Get(os.Stat(path))
			t.Logf("%d bytes of the file a turn", info.Size()/int64(*longTurns))
		})
	}
}
