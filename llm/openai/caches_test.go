package openai

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// A request names its prompt cache if an option says so, and the rest of the request
// stays as it is.
func TestPromptCaches(t *testing.T) {
	var body map[string]any
	record := func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		body = nil
		require.NoError(t, json.Unmarshal(data, &body))
		jsonOf(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
	}
	told := func(m *Model, agent string) (key, slot any) {
		_, err := ask(t, m, &llm.Request{Messages: []llm.Message{llm.UserText("hi")}, Agent: agent})
		require.NoError(t, err)
		key, slot = body["prompt_cache_key"], body["id_slot"]
		delete(body, "prompt_cache_key")
		delete(body, "id_slot")
		require.Len(t, body, 3, "model, messages and stream")
		return key, slot
	}

	plain := serve(t, record)
	key, slot := told(plain, "support/billing")
	require.Nil(t, key)
	require.Nil(t, slot)

	keys := serve(t, record, WithPromptCacheKey("shop"))
	key, slot = told(keys, "support/billing")
	require.Equal(t, "shop/support/billing", key)
	require.Nil(t, slot)
	key, _ = told(keys, "")
	require.Nil(t, key)
	key, _ = told(serve(t, record, WithPromptCacheKey("")), "support")
	require.Equal(t, "support", key)

	slots := serve(t, record, WithSlots(2))
	for _, c := range []struct {
		agent string
		slot  any
	}{{"support", 0.0}, {"support/billing", 1.0}, {"support", 0.0}, {"support/tech", 0.0}, {"", nil}, {"support/billing", 1.0}} {
		_, slot = told(slots, c.agent)
		require.Equal(t, c.slot, slot, c.agent)
	}

	_, err := New("m", WithSlots(-1))
	require.ErrorContains(t, err, "the number of slots is negative")
}
