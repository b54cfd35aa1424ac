package llm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

func TestContentJSON(t *testing.T) {
	for want, c := range map[string]llm.Content{
		`"a <b> & \"c\""`: {Text: `a <b> & "c"`},
		`""`:              {},
		`[{"type":"text","text":"see <i>"},{"type":"image","mediaType":"image/png","data":"AQI="},{"type":"file","mediaType":"text/plain","url":"https://e.com/?a&b","name":"n"}]`: {Parts: []llm.Part{
			llm.TextPart{Text: "see <i>"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{1, 2}},
			llm.Media{Kind: llm.MediaFile, MediaType: "text/plain", URL: "https://e.com/?a&b", Name: "n"}}},
	} {
		got, err := c.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		var back llm.Content
		require.NoError(t, json.Unmarshal(got, &back))
		require.Equal(t, c, back)
	}
	_, err := llm.Content{Parts: []llm.Part{llm.ToolCall{}}}.MarshalJSON()
	require.Error(t, err)
	var c llm.Content
	require.Error(t, json.Unmarshal([]byte(`[{"type":"video"}]`), &c))
	require.Error(t, json.Unmarshal([]byte(`7`), &c))
	require.NoError(t, json.Unmarshal([]byte(`null`), &c))
	require.Equal(t, llm.Content{}, c)
}

func TestPlainText(t *testing.T) {
	require.Equal(t, "one", llm.UserText("one").PlainText())
	require.Equal(t, "one\ntwo", llm.UserParts(llm.TextPart{Text: "one"}, llm.Media{}, llm.TextPart{Text: "two"}).PlainText())
}

func TestRetryable(t *testing.T) {
	cause := errors.New("cause")
	e := &llm.Error{Code: llm.CodeServer, Status: 503, Message: "busy", Retryable: true, Err: cause}
	require.True(t, llm.Retryable(fmt.Errorf("wrapped: %w", e)))
	require.ErrorIs(t, e, cause)
	require.Contains(t, e.Error(), "HTTP 503")
	require.False(t, llm.Retryable(cause))
	require.False(t, llm.Retryable(&llm.Error{Code: llm.CodeBadRequest}))
}
