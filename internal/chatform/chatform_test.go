package chatform

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	graph "github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/oddbytes"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
	"github.com/agentarbor/arbor/session/sqlite"
)

// Whatever can be read is written so that it is read alike, and what is imported of it
// can be read from the file.
func FuzzReadChat(f *testing.F) {
	for _, seed := range []string{
		``, `[]`, `[{"role":"user","content":"Hi"}]`, `{"role":"user","content":"Hi"} {"role":"assistant","content":"Hello."}`,
		`{"messages":[{"role":"system","content":"x"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAE="}},{"type":"file","file":{"filename":"b","file_data":"data:;base64,AAE="}}]}]}`,
		`[{"role":"assistant","content":null,"tool_calls":[{"id":"k","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"k","content":"1"}]`,
		`[{"role":"assistant","refusal":"no","content":[{"type":"refusal","refusal":"no"}]}]`, `[1]`, `{"role":1}`, `[{"role":"user","content":{}}]`,
		`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}}]}]`, "\x00", `{"messages":null}`,
	} {
		f.Add(seed)
	}
	for _, odd := range oddbytes.JSON() {
		f.Add(`[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"k","function":{"name":"f","arguments":` + string(event.EncodeJSON(`{"a":`+odd+`}`)) +
			`}}]},{"role":"tool","tool_call_id":"k","content":` + string(event.EncodeJSON(odd)) + `}]`)
		f.Add(`[{"role":"user","content":` + odd + `,"n":` + odd + `}]`)
	}
	store, err := sqlite.Open(filepath.Join(f.TempDir(), "sessions.db"))
	require.NoError(f, err)
	f.Cleanup(func() { _ = store.Close() })
	sessions, err := checkpoint.New(store)
	require.NoError(f, err)
	n := 0
	f.Fuzz(func(t *testing.T, text string) {
		messages, _, err := Read([]byte(text))
		if err != nil {
			return
		}
		var out strings.Builder
		Write(&out, Messages(messages))
		again, system, err := Read([]byte(out.String()))
		require.NoError(t, err, out.String())
		require.Zero(t, system)
		require.Equal(t, plain(messages), plain(again))

		n++
		key := session.ID(fmt.Sprintf("s%d", n))
		if err := sessions.Import(t.Context(), key, "root", messages); err != nil {
			require.ErrorIs(t, err, agent.ErrBadInput)
			return
		}
		moment, err := sessions.At(t.Context(), key, lengthOf(t, store, key))
		require.NoError(t, err, "what was imported can be read")
		require.NotEmpty(t, graph.Messages(moment.Graph, graph.Active{}))
		require.NoError(t, store.Delete(t.Context(), key))
	})
}

// lengthOf counts the events of a session, each of which must be readable.
func lengthOf(t *testing.T, store session.Store, key session.Key) (n int64) {
	for e, err := range store.Load(t.Context(), key, 0) {
		require.NoError(t, err)
		require.NotEqual(t, event.TypeUnreadable, e.Type())
		n = e.Seq
	}
	return n
}

// plain writes messages without what has two forms of one meaning.
func plain(messages []llm.Message) []Message {
	out := Messages(messages)
	for i, m := range out {
		if m.Content == nil {
			out[i].Content = ""
		}
	}
	return out
}

// The parts of the Responses protocol say the same in another form.
func TestReadContentOfResponses(t *testing.T) {
	chat, err := ReadContent([]byte(`[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"file","file":{"filename":"b","file_data":"data:text/plain;base64,AAE="}}]`))
	require.NoError(t, err)
	responses, err := ReadContent([]byte(`[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"https://x/y.png"},{"type":"input_file","filename":"b","file_data":"data:text/plain;base64,AAE="}]`))
	require.NoError(t, err)
	require.Equal(t, chat, responses)
	_, err = ReadContent([]byte(`[{"type":"input_file","file_id":"f"}]`))
	require.ErrorContains(t, err, "the file is not in it")
}

// The protocol calls audio of the type audio/mpeg mp3.
func TestAudio(t *testing.T) {
	const content = `[{"type":"input_audio","input_audio":{"data":"AAE=","format":"mp3"}}]`
	c, err := ReadContent([]byte(content))
	require.NoError(t, err)
	require.Equal(t, llm.Media{Kind: llm.MediaAudio, MediaType: "audio/mpeg", Data: []byte{0, 1}}, c.Parts[0])
	written, err := json.Marshal(Messages([]llm.Message{{Role: llm.RoleUser, Content: c}})[0].Content)
	require.NoError(t, err)
	require.JSONEq(t, content, string(written))
}
