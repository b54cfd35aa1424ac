package event

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The envelope is written as package json writes one.
func TestEnvelopeIsPlainJSON(t *testing.T) {
	for _, s := range []string{"", "a", "<&>", "\"\\\n\x00\x7f", "ä\u2028", "\xff\xc3", "😀"} {
		for _, at := range []time.Time{{}, time.Unix(1, 20).In(time.FixedZone("x", 3600)), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} {
			e := Event{Seq: int64(len(s)), ID: s, TurnID: s, RunID: s, Scope: s, ParentID: s, Agent: s, Path: s, Time: at, Partial: len(s) > 1, Attempt: len(s), Data: &Text{Content: s}}
			got, err := e.MarshalJSON()
			require.NoError(t, err)
			var buf bytes.Buffer
			enc := json.NewEncoder(&buf)
			enc.SetEscapeHTML(false)
			env := envelope{Seq: e.Seq, ID: s, TurnID: s, RunID: s, Scope: s, ParentID: s, Type: TypeText, Agent: s, Path: s, Partial: e.Partial, Attempt: e.Attempt}
			if utc := at.UTC(); !at.IsZero() {
				env.Time = &utc
			}
			require.NoError(t, enc.Encode(struct {
				envelope
				Text
			}{env, Text{Content: s}}))
			require.Equal(t, strings.TrimSpace(buf.String()), string(got))
		}
	}
	_, err := (&Event{ID: "e", Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), Data: &Text{}}).MarshalJSON()
	require.ErrorContains(t, err, "years")
}
