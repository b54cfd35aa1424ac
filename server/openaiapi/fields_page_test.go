package openaiapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// TestFieldsPage sends each member of a request that docs/server-openai.md lists: the server does with it what the page
// says. The page lists all that the code knows.
func TestFieldsPage(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/server-openai.md"))
	tool := `[{"type":"function","function":{"name":"f"}}]`
	for _, api := range []struct {
		heading, path, body string
		fields              *fields
		samples             map[string]string
	}{
		{"## Fields of chat completions", "/chat/completions", fields1(""), &chatFields, map[string]string{
			"model": `"support"`, "messages": `[{"role":"user","content":"hello"}]`, "stream": "true", "stream_options": `{"include_usage":true,"include_obfuscation":true}`,
			"tools": tool, "tool_choice": `"auto"`, "response_format": `{"type":"text"}`, "metadata": `{"a":"b"}`, "user": `"ann"`, "arbor": `{"events":true}`,
			"stop": `["a"]`, "logprobs": "true", "functions": `[{"name":"f"}]`, "function_call": `{"name":"f"}`, "modalities": `["text","audio"]`, "audio": `{"voice":"x"}`,
			"logit_bias": `{"1":2}`, "prediction": `{"type":"content"}`,
		}},
		{"## Fields of responses", "/responses", `{"model":"support","input":"hello"}`, &responseFields, map[string]string{
			"model": `"support"`, "input": `[{"role":"user","content":"hello"}]`, "conversation": `"CONVERSATION"`, "previous_response_id": `"RESPONSE"`, "store": "false", "background": "true",
			"stream": "true", "stream_options": `{"include_obfuscation":true}`, "tools": `[{"type":"function","name":"f"}]`, "tool_choice": `"auto"`, "text": `{"format":{"type":"text"}}`,
			"metadata": `{"a":"b"}`, "user": `"ann"`, "arbor": `{"events":true}`, "prompt": `{"id":"p"}`, "reasoning": `{"effort":"low"}`,
		}},
	} {
		_, section, ok := strings.Cut(string(page), api.heading+"\n")
		require.True(t, ok, api.heading)
		section, _, _ = strings.Cut(section, "\n## ")
		listed := map[string]string{}
		for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\| (\\w+) \\|").FindAllStringSubmatch(section, -1) {
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
				require.NotContains(t, listed, name[1])
				listed[name[1]] = row[2]
			}
		}
		for name := range api.samples {
			require.Contains(t, listed, name)
		}
		for _, name := range append(slices.Clone(api.fields.supported), slices.Collect(maps.Keys(api.fields.refused))...) {
			require.True(t, name == "include" || listed[name] != "", "%s lists %s", api.heading, name)
		}
		w := newWorld(t, newDesk(t).root)
		first := w.respond(map[string]any{"model": "support", "input": "hello"}).Response
		for name, kind := range listed {
			sample := api.samples[name]
			if sample == "" {
				sample = "2"
			}
			sample = strings.NewReplacer("CONVERSATION", first.Conversation.ID, "RESPONSE", first.ID).Replace(sample)
			body := must.JSON[map[string]json.RawMessage](api.body)
			body[name] = json.RawMessage(sample)
			rec := w.post(t.Context(), api.path, body)
			switch ignored := rec.Header().Get("Arbor-Ignored"); kind {
			case "honoured":
				require.Equal(t, http.StatusOK, rec.Code, "%s: %s", name, rec.Body)
				require.Empty(t, ignored, name)
			case "ignored":
				require.Equal(t, http.StatusOK, rec.Code, "%s: %s", name, rec.Body)
				require.Equal(t, name, ignored)
			case "refused":
				require.Equal(t, http.StatusBadRequest, rec.Code, name)
				failed := must.JSON[struct{ Error wireError }](rec.Body.Bytes())
				require.Equal(t, name, *failed.Error.Param)
			default:
				t.Errorf("%s is %s, which must be honoured, ignored or refused", name, kind)
			}
		}
	}
}
