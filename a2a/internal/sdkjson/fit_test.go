package sdkjson

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// What is free keeps its names, and its numbers keep their digits.
func TestFreeFormIsNotTouched(t *testing.T) {
	const free = `{"a":[1e400,-0,"é\n",{"":{},"task_id":null}],"b":[],"c":[[],[{}]],"d":true,"page_size":1.50}`
	got, err := rewrite([]byte(` { "metadata" : `+free+` , "message":{"parts":[{"data":`+free+`}] } } `), Of[sdk.SendMessageRequest]())
	require.NoError(t, err)
	require.Equal(t, `{"message":{"parts":[{"data":`+free+`}]},"metadata":`+free+`}`, string(got))
}

func TestShapesCoverWhatTheSDKReads(t *testing.T) {
	// Every field that the SDK would encode is known to the shape, so that none is dropped.
	n, now := 1, time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	for _, test := range []struct {
		value any
		shape *Shape
	}{
		{&sdk.SendMessageRequest{Tenant: "x", Metadata: map[string]any{"a": 1}, Message: &sdk.Message{ID: "x", ContextID: "x", TaskID: "x",
			Extensions: []string{"x"}, ReferenceTasks: []sdk.TaskID{"x"}, Role: sdk.MessageRoleUser, Metadata: map[string]any{"a": 1},
			Parts: sdk.ContentParts{{Content: sdk.Text("x"), Filename: "x", MediaType: "x", Metadata: map[string]any{"a": 1}}, {Content: sdk.Raw("x")}, {Content: sdk.URL("x")}, {Content: sdk.Data{Value: 1}}}},
			Config: &sdk.SendMessageConfig{AcceptedOutputModes: []string{"x"}, ReturnImmediately: true, HistoryLength: &n,
				PushConfig: &sdk.PushConfig{Tenant: "x", TaskID: "x", ID: "x", Token: "x", URL: "x", Auth: &sdk.PushAuthInfo{Credentials: "x", Scheme: "x"}}}}, Of[sdk.SendMessageRequest]()},
		{&sdk.GetTaskRequest{Tenant: "x", ID: "x", HistoryLength: &n}, Of[sdk.GetTaskRequest]()},
		{&sdk.ListTasksRequest{Tenant: "x", ContextID: "x", Status: sdk.TaskStateWorking, PageSize: 1, PageToken: "x", HistoryLength: &n, StatusTimestampAfter: &now, IncludeArtifacts: true}, Of[sdk.ListTasksRequest]()},
		{&sdk.CancelTaskRequest{Tenant: "x", ID: "x", Metadata: map[string]any{"a": 1}}, Of[sdk.CancelTaskRequest]()},
		{&sdk.SubscribeToTaskRequest{Tenant: "x", ID: "x"}, Of[sdk.SubscribeToTaskRequest]()},
		{&sdk.GetTaskPushConfigRequest{Tenant: "x", TaskID: "x", ID: "x"}, Of[sdk.GetTaskPushConfigRequest]()},
		{&sdk.ListTaskPushConfigRequest{Tenant: "x", TaskID: "x", PageSize: 1, PageToken: "x"}, Of[sdk.ListTaskPushConfigRequest]()},
		{&sdk.GetExtendedAgentCardRequest{Tenant: "x"}, Of[sdk.GetExtendedAgentCardRequest]()},
	} {
		doc := must.Get(json.Marshal(test.value))
		got, err := rewrite(doc, test.shape)
		require.NoError(t, err)
		require.JSONEq(t, string(doc), string(got))
	}
}

func rewrite(doc []byte, s *Shape) ([]byte, error) { return s.Fit(must.Get(Parse(doc))) }

func FuzzRewrite(f *testing.F) {
	f.Add([]byte(`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}`))
	f.Add([]byte(` { "message" : {"message_id":"\u0000","parts":[{"data":{"a":[1,2,{"b":null}]}},{"raw":"_-="}]},"x":[],"y":{} } `))
	f.Add([]byte(`{"a":{"b":[{},[],"\"",-1.5e-7,true,null]}}`))
	f.Add([]byte("8E800")) // no float64
	f.Fuzz(func(t *testing.T, doc []byte) {
		if _, err := Parse(doc); err != nil {
			return
		}
		for _, s := range []*Shape{aValue, Of[sdk.SendMessageRequest](), Of[sdk.ListTasksRequest](), Of[sdk.PushConfig]()} {
			got, err := rewrite(doc, s)
			if err != nil {
				require.NotEmpty(t, err.Error())
				continue
			}
			require.True(t, json.Valid(got), "%s became %s", doc, got)
			again, err := rewrite(got, s)
			require.NoError(t, err)
			require.Equal(t, string(got), string(again))
			if s == aValue {
				require.Equal(t, decoded(t, doc), decoded(t, got))
			}
		}
	})
}

// decoded reads JSON whose numbers may be larger than any of Go's.
func decoded(t *testing.T, doc []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return v
}
