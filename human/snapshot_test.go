package human

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
)

var (
	someID   = rapid.SampledFrom([]string{"h1", "h1", "h1", "h2", "h3"})
	someStep = rapid.SampledFrom([]string{"requested", "queued", "connecting", "ringing", "connected", "on_hold", "completed", "failed", "another"})
	someText = rapid.SampledFrom([]string{"", "a", "é\x00"})
	somePath = rapid.SampledFrom([][]string{nil, {"a"}, {"a", ""}})
)

// TestLegFromSnapshot: a leg can be stored after each event, and continues as the one that has read all of the log.
func TestLegFromSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &leg{Now: None}
		for seq := range int64(rapid.IntRange(0, 40).Draw(t, "events")) {
			e := &event.Event{Seq: seq + 1, Time: time.Unix(1_700_000_000, seq).UTC()}
			switch rapid.IntRange(0, 4).Draw(t, "type") {
			case 0:
				e.Data = &event.Text{Content: "words"}
			case 1:
				d := &event.Transfer{From: someText.Draw(t, "from"), To: agent.Human, Outcome: event.TransferCommitted,
					Reason: someText.Draw(t, "reason"), GraphPath: somePath.Draw(t, "path")}
				if rapid.Bool().Draw(t, "routed") {
					d.RouteDecision = json.RawMessage(`{}`)
				}
				e.Data = d
			default:
				e.Data = &event.HandoffStatus{HandoffID: someID.Draw(t, "id"), Status: someStep.Draw(t, "status"), Reason: someText.Draw(t, "reason"),
					RouteDecision: someText.Draw(t, "route"), GraphPath: somePath.Draw(t, "path"), UpTo: rapid.Int64Range(0, seq).Draw(t, "up to"),
					DeskEventID: someText.Draw(t, "word")}
			}
			if rapid.IntRange(0, 9).Draw(t, "inner") == 0 {
				e.Scope = "inner"
			}
			l.apply(e)
			data := must.Get(json.Marshal(l))
			again := &leg{Now: None}
			require.NoError(t, json.Unmarshal(data, again))
			require.Equal(t, l, again)
			if rapid.Bool().Draw(t, "go on with it") {
				l = again
			}
		}
	})
}
