package runner_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/oddbytes"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
)

// FuzzBytes has an endpoint answer with any bytes, which may be a call with any
// arguments, and a tool give any bytes as its output, its progress and its state.
// Whatever happens, another program that opens the file reads every event of the
// conversation, as the turn's consumer did, and can continue it.
func FuzzBytes(f *testing.F) {
	for i, odd := range oddbytes.JSON() {
		f.Add([]byte(oddAnswers(odd)[i%4]), []byte(odd), byte(i))
	}
	readAgain := newReader(f)
	f.Fuzz(func(t *testing.T, answer, output []byte, way byte) { readAgain(t, answer, output, way) })
}

// TestBytes is FuzzBytes with what is too large for it, in every place.
func TestBytes(t *testing.T) {
	readAgain := newReader(t)
	for i, odd := range append(oddbytes.JSON(), oddbytes.Large()...) {
		answers := oddAnswers(odd)
		readAgain(t, []byte(answers[1]), []byte(odd), byte(i))
		readAgain(t, []byte(answers[2+i%2]), []byte(odd), byte(i+4))
	}
}

const words = `{"choices":[{"message":{"content":"Done."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`

// oddAnswers returns answers of an endpoint that hold what may be JSON.
func oddAnswers(odd string) []string {
	call := func(arguments string) string {
		return `{"choices":[{"message":{"tool_calls":[{"id":"c1","function":{"name":"echo","arguments":` + string(event.EncodeJSON(arguments)) + `}}]},"finish_reason":"tool_calls"}]}`
	}
	return []string{
		call(odd), call(`{"a":` + odd + `}`),
		`{"choices":[{"message":{"content":` + odd + `,"reasoning":` + odd + `},"finish_reason":` + odd + `}],"usage":{"prompt_tokens":` + odd + `},"model":` + odd + `}`,
		"data: {\"choices\":[{\"delta\":{\"content\":" + odd + ",\"tool_calls\":[{\"id\":" + odd + ",\"function\":{\"name\":" + odd + ",\"arguments\":" + odd +
			"}}]}}],\"usage\":{\"completion_tokens\":" + odd + "}}\n\ndata: [DONE]\n\n",
	}
}

// newReader returns the function that runs a turn and reads it again.
func newReader(f testing.TB) func(t *testing.T, answer, output []byte, way byte) {
	var body atomic.Pointer[[]byte]
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer := []byte(words)
		if asked.Add(1) == 1 {
			answer = *body.Load()
		}
		if strings.HasPrefix(string(answer), "data:") {
			w.Header().Set("Content-Type", "text/event-stream")
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = w.Write(answer)
	}))
	f.Cleanup(server.Close)
	model := must.Get(openai.New("m", openai.WithBaseURL(server.URL), openai.WithRetries(0)))
	var output []byte
	var how byte
	echo := must.Get(tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: "echo", Parameters: json.RawMessage(`{"type":"object"}`)}},
		func(c tools.Context, in json.RawMessage) (any, error) {
			c.Progress(json.RawMessage(output))
			c.Set("k", json.RawMessage(output))
			c.Set("user:k", string(output))
			switch how % 4 {
			case 0:
				return json.RawMessage(output), nil
			case 1:
				return output, nil
			case 2:
				return nil, fmt.Errorf("%s", output)
			}
			var v any
			_ = json.Unmarshal(output, &v)
			return map[string]any{"in": in, "out": v}, nil
		}))
	root := must.Get(llmagent.New("root", "", checked{model}, llmagent.WithTools(echo)))
	path := filepath.Join(f.TempDir(), "sessions.db")
	open := func() session.Store {
		store := must.Get(sqlite.Open(path))
		f.Cleanup(func() { _ = store.Close() })
		return store
	}
	writer, reader := open(), open()
	n := 0
	return func(t *testing.T, answer, out []byte, way byte) {
		body.Store(&answer)
		asked.Store(0)
		output, how = out, way
		n++
		key := session.ID(fmt.Sprintf("s%d", n))
		var opts []runner.Option
		if way&4 != 0 {
			opts = append(opts, runner.WithStreaming())
		}
		r := newRunner(t, root, writer, opts...)
		live, _ := collect(r.Run(t.Context(), key, llm.UserText("go")))

		other := newRunner(t, root, reader)
		log := load(t, other, key)
		checkLog(t, other, log)
		require.Len(t, live, len(log))
		for i, e := range log {
			require.NotEqual(t, event.TypeUnreadable, e.Type())
			require.Equal(t, live[i].Data, e.Data, "what was seen is what is stored")
			must.Get(e.MarshalJSON())
		}
		must.All(other.Run(t.Context(), key, llm.UserText("again")))
		require.NoError(t, writer.Delete(t.Context(), key))
	}
}
