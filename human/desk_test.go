package human_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
)

func TestEventJSON(t *testing.T) {
	for text, want := range map[string]human.Event{
		`{"id":"1","handoffId":"h","text":"hello"}`:       {ID: "1", HandoffID: "h", Text: "hello"},
		`{"id":"2","handoffId":"h","status":"connected"}`: {ID: "2", HandoffID: "h", Update: human.Update{Status: human.Connected}},
		`{"id":"3","handoffId":"h","status":"queued","targetAgent":"level-2","reason":"late","queuePosition":0,"estimatedWaitTime":1.5}`: {
			ID: "3", HandoffID: "h", Update: human.Update{Status: human.Queued, TargetAgent: "level-2", Reason: "late",
				QueuePosition: new(0), EstimatedWait: new(1500 * time.Millisecond)}},
	} {
		var e human.Event
		require.NoError(t, json.Unmarshal([]byte(text), &e))
		require.Equal(t, want, e)
		b := must.Get(json.Marshal(e))
		require.JSONEq(t, text, string(b))
	}
	var e human.Event
	require.NoError(t, json.Unmarshal([]byte(`{"id":"1","handoffId":"h","text":"x","later":{"a":[1]}}`), &e), "what is added later is ignored")

	var u human.Update
	require.NoError(t, json.Unmarshal([]byte(`{"status":"queued","queuePosition":4,"estimatedWaitTime":60}`), &u))
	require.Equal(t, human.Update{Status: human.Queued, QueuePosition: new(4), EstimatedWait: new(time.Minute)}, u)
	b := must.Get(json.Marshal(u))
	require.JSONEq(t, `{"status":"queued","queuePosition":4,"estimatedWaitTime":60}`, string(b))
	require.NoError(t, json.Unmarshal([]byte(`{}`), &u))
	require.Zero(t, u)
}

func TestEventRefused(t *testing.T) {
	for text, says := range map[string]string{
		`{}`:                            "id must be",
		`null`:                          "id must be",
		`{"handoffId":"h","text":"x"}`:  "id must be",
		`{"id":"1","text":"x"}`:         "handoffId must be",
		`{"id":"a\nb","handoffId":"h"}`: "id must be",
		`{"id":"1","handoffId":"h"}`:    "needs a status",
		`{"id":"1","handoffId":"h","status":"none"}`:                                   `"none"`,
		`{"id":"1","handoffId":"h","status":"Connected"}`:                              `"Connected"`,
		`{"id":"1","handoffId":"h","queuePosition":-1}`:                                "queuePosition",
		`{"id":"1","handoffId":"h","queuePosition":1e30}`:                              "cannot read the JSON",
		`{"id":"1","handoffId":"h","estimatedWaitTime":-0.5}`:                          "estimatedWaitTime",
		`{"id":"1","handoffId":"h","estimatedWaitTime":1e300}`:                         "estimatedWaitTime",
		`{"id":"1","handoffId":"h","text":7}`:                                          "cannot read the JSON",
		`[]`:                                                                           "cannot read the JSON",
		`{"id":"` + strings.Repeat("x", 257) + `","handoffId":"h","text":"x"}`:         "id must be",
		`{"id":"1","handoffId":"h","reason":"` + strings.Repeat("x", 4097) + `"}`:      "reason",
		`{"id":"1","handoffId":"h","targetAgent":"` + strings.Repeat("x", 4097) + `"}`: "targetAgent",
	} {
		before := human.Event{ID: "before"}
		e := before
		err := json.Unmarshal([]byte(text), &e)
		require.ErrorContains(t, err, says, text)
		require.Less(t, len(err.Error()), 300)
		require.Equal(t, before, e, "an event that is refused changes nothing")
	}
}

func TestLog(t *testing.T) {
	var d human.Desk = human.Log{}
	u, err := d.RequestTransfer(t.Context(), human.Request{})
	require.NoError(t, err)
	require.Equal(t, human.Update{Status: human.Queued}, u)
	require.NoError(t, d.Send(t.Context(), human.Leg{}, nil))
	require.NoError(t, d.Cancel(t.Context(), human.Leg{}, ""))
}
