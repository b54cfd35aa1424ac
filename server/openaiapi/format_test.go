package openaiapi

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server/internal/peers"
)

// newForms is a coordinator that says something and transfers to an agent whose model gives the answers, one after
// the other.
func newForms(t testing.TB, answers ...string) (root agent.Agent, formats *[]*llm.ResponseFormat) {
	t.Helper()
	formats = new([]*llm.ResponseFormat)
	var asked atomic.Int32
	reader := must.Get(llmagent.New("reader", "", scripted.Func("reader", func(req *llm.Request) scripted.Answer {
		*formats = append(*formats, req.ResponseFormat)
		n := int(asked.Add(1)) - 1
		return scripted.Reply(scripted.Text(strings.SplitAfter(answers[n%len(answers)], " ")...))
	}), llmagent.WithDescription("Reads")))
	root = must.Get(llmagent.New("front", "", scripted.Func("front", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text("One moment."), scripted.Call("transfer_to_agent", `{"agent_name":"reader"}`))
	}), llmagent.WithSubAgents(reader)))
	return root, formats
}

const citySchema = `{"type":"object","properties":{"city":{"type":"string"},"people":{"type":"integer"}},"required":["city","people"],"additionalProperties":false}`

var cityFormat = json.RawMessage(`{"type":"json_schema","json_schema":{"name":"city","strict":true,"schema":` + citySchema + `}}`)

// TestWantedForm: the answer is the JSON that was asked for and nothing else, after a transfer too, streamed or not. An
// answer that does not fit is asked for again.
func TestWantedForm(t *testing.T) {
	const oslo, spaced = `{"city":"Oslo","people":700000}`, `{"city": "Oslo", "people": 700000}`
	for name, answers := range map[string][]string{"plain": {spaced}, "fenced": {"```json\n" + spaced + "\n```"}, "wrong once": {"It is Oslo.", oslo}} {
		for _, stream := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				root, formats := newForms(t, answers...)
				w := newWorld(t, root)
				got := w.chat(context.Background(), map[string]any{"model": "front", "messages": []any{user("Which city?")}, "response_format": cityFormat, "stream": stream}).is(t, http.StatusOK)
				require.Nil(t, got.Error)
				require.Equal(t, oslo, got.Content)
				require.Equal(t, "stop", got.Finish)
				require.JSONEq(t, citySchema, string((*formats)[0].Schema))
				require.True(t, (*formats)[0].Strict)

				root, _ = newForms(t, answers...)
				w = newWorld(t, root)
				flat := json.RawMessage(`{"format":{"type":"json_schema","name":"city","schema":` + citySchema + `}}`)
				resp := w.respond(map[string]any{"model": "front", "input": "Which city?", "text": flat, "stream": stream}).is(t, http.StatusOK)
				require.Equal(t, "completed", resp.Response.Status)
				require.Equal(t, oslo, resp.text())
				require.Len(t, resp.Response.Output, 1)
				require.Equal(t, oslo, w.get(resp.Response.ID, -1).text(), "it is the same when it is read again")
			})
		}
	}
}

// TestWantedObject: any object will do, and the form counts for its turn alone.
func TestWantedObject(t *testing.T) {
	root, formats := newForms(t, `{"a":1}`, "Bye.")
	w := newWorld(t, root)
	first := w.chat(context.Background(), map[string]any{"model": "front", "messages": []any{user("hi")}, "response_format": map[string]any{"type": "json_object"}})
	require.Equal(t, `{"a":1}`, first.Content)
	require.JSONEq(t, `{"type":"object"}`, string((*formats)[0].Schema))
	second := w.chat(context.Background(), map[string]any{"model": "front", "messages": []any{user("hi"), map[string]any{"role": "assistant", "content": first.Content}, user("bye")},
		"response_format": map[string]any{"type": "text"}})
	require.Equal(t, "Bye.", second.Content)
	require.Nil(t, (*formats)[1])
	require.Len(t, w.list(), 1, "the client's history is known")
}

// TestWantedFormThatIsMissed: the client gets an error and no words that it cannot read.
func TestWantedFormThatIsMissed(t *testing.T) {
	words := must.Get(agent.New("words", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			if yield(&event.Event{Data: &event.Text{Content: "Oslo"}}, nil) {
				yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonStop}}, nil)
			}
		}
	}))
	forms, _ := newForms(t, "Oslo")
	for root, code := range map[agent.Agent]string{words: "no_output", forms: "bad_output"} {
		for _, stream := range []bool{false, true} {
			w := newWorld(t, root)
			got := w.chat(context.Background(), map[string]any{"model": root.Name(), "messages": []any{user("hi")}, "response_format": cityFormat, "stream": stream}).refused(t, http.StatusBadGateway, code)
			require.Empty(t, got.Content)
			resp := w.respond(map[string]any{"model": root.Name(), "input": "hi", "text": map[string]any{"format": map[string]any{"type": "json_object"}}, "stream": stream})
			require.Equal(t, "failed", resp.Response.Status)
			require.Empty(t, resp.text())
		}
	}
}

func TestWantedFormThatCannotBe(t *testing.T) {
	root, _ := newForms(t, "{}")
	w := newWorld(t, root)
	for format, want := range map[string]string{
		`{"type":"xml"}`:         `response_format.type: is "xml"`,
		`{"type":"json_schema"}`: "response_format.schema: is missing",
		`{"type":"json_schema","json_schema":{"schema":{"type":"nothing"}}}`: "response_format.json_schema.schema: cannot be used",
		`7`: "response_format: must be an object with a type",
		`{"type":"json_schema","json_schema":{"schema":{"description":"` + strings.Repeat("x", 256<<10) + `"}}}`: "at most 262144 are allowed",
	} {
		got := w.chat(context.Background(), map[string]any{"model": "front", "messages": []any{user("hi")}, "response_format": json.RawMessage(format)}).is(t, http.StatusBadRequest)
		require.Contains(t, got.Error.Message, want)
	}
	require.Empty(t, w.list())
}

// TestWantedFormOfOfficialClients: clients that nobody here wrote parse the answers into types of theirs.
func TestWantedFormOfOfficialClients(t *testing.T) {
	t.Parallel()
	root, _ := newForms(t, `{"city": "Oslo", "people": 700000}`)
	url := loopback(t, newWorld(t, root))
	program, script := peers.OpenAI().Python(t, "structured.py")
	var got []map[string]any
	peers.Run(t, map[string]any{"base": url + "/v1", "model": "front"}, &got, program, script)
	require.Len(t, got, 4)
	for _, g := range got {
		require.Equal(t, map[string]any{"city": "Oslo", "people": 700000.0}, g)
	}
}
