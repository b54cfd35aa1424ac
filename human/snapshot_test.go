package human

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// read reads a leg as the runner does.
func read(data string) (*leg, bool) {
	l, r := &leg{now: None}, pack.NewReader(data)
	return l, l.ReadSnapshot(r) && r.Done() == nil
}

var (
	someID   = rapid.SampledFrom([]string{"h1", "h1", "h1", "h2", "h3"})
	someStep = rapid.SampledFrom([]string{"requested", "queued", "connecting", "ringing", "connected", "on_hold", "completed", "failed", "another"})
	someText = rapid.SampledFrom([]string{"", "a", "é\x00"})
	somePath = rapid.SampledFrom([][]string{nil, {"a"}, {"a", ""}})
)

// TestLegFromSnapshot: a leg can be stored after each event, and goes on as the one that has read all of the log.
func TestLegFromSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &leg{now: None}
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
			data := l.AppendSnapshot(nil)
			again, ok := read(string(data))
			require.True(t, ok)
			require.Equal(t, l, again)
			for i := range data {
				_, ok := read(string(data[:i]))
				require.False(t, ok)
			}
			_, ok = read(string(data) + "\x00")
			require.False(t, ok)
			if rapid.Bool().Draw(t, "go on with it") {
				l = again
			}
		}
	})
}

// FuzzLegSnapshot: a leg that could be read can go on, and is stored as it is.
func FuzzLegSnapshot(f *testing.F) {
	l := &leg{now: None}
	for i, d := range sessiontest.Payloads() {
		l.apply(&event.Event{Seq: int64(i) + 1, Time: time.Unix(1_700_000_000, 1), Data: d})
		f.Add(string(l.AppendSnapshot(nil)))
	}
	f.Fuzz(func(t *testing.T, data string) {
		l, ok := read(data)
		if !ok {
			return
		}
		again, ok := read(string(l.AppendSnapshot(nil)))
		require.True(t, ok)
		require.Equal(t, l, again)
		l.knows("w")
		_ = l.open(agent.SessionKey{ID: "s"})
		_, _ = l.steps(Connected)
		l.next("h").walk(nil, Update{}, "w")
		for i, d := range sessiontest.Payloads() {
			l.apply(&event.Event{Seq: int64(i) + 1, Data: d})
		}
	})
}
