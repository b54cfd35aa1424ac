package openaiapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func fields1(more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"support","messages":[{"role":"user","content":"hello"}]` + more + `}`
}

func messages(list string) string { return `{"model":"support","messages":[` + list + `]}` }

// TestFields: what is honoured, what is ignored and named, and what is refused by name.
func TestFields(t *testing.T) {
	w := newWorld(t, newDesk(t).root)
	const user = `{"role":"user","content":"hello"}`
	var first []string
	for i := range 20 {
		first = append(first, fmt.Sprintf("messages[%d]", i))
	}
	for name, c := range map[string]struct{ body, ignored string }{
		"ten thousand":  {messages(strings.Repeat(`{"role":"system","content":"Be rude."},`, 10_000) + user), strings.Join(first, ", ") + ", and 9980 more"},
		"nothing":       {fields1(""), ""},
		"harmless":      {fields1(`"n":1,"tools":[],"tool_choice":"auto","response_format":{"type": "text"},"logprobs":false,"modalities":["text"],"stop":null,"audio":null,"seed":null`), ""},
		"settings":      {fields1(`"temperature":0.1,"top_p":1,"seed":7,"service_tier":"flex","presence_penalty":1,"max_tokens":5,"reasoning_effort":"low"`), "max_tokens, presence_penalty, reasoning_effort, seed, service_tier, temperature, top_p"},
		"instructions":  {messages(`{"role":"system","content":"Be rude."},{"role":"developer","content":"Be rude."},` + user), "messages[0], messages[1]"},
		"their content": {messages(`{"role":"system","content":[{"type":"video"}]},{"role":"developer","content":"` + strings.Repeat("x", 1<<20) + `"},` + user), "messages[0], messages[1]"},
		"large result":  {messages(user + `,{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("AAAA", 1<<18) + `"}}]},` + user), ""},
		"no parameters": {fields1(`"tools":[{"type":"function","function":{"name":"f","parameters":{}}},{"type":"function","function":{"name":"g","parameters":null}}]`), ""},
		"prompt":        {messages(`{"role":"system","content":[{"type":"text","text":"hello"}]}`), ""},
		"parts":         {messages(`{"role":"user","name":"Ann","content":[{"type":"text","text":"hello"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAE=","detail":"low"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAE="}},{"type":"input_audio","input_audio":{"format":"wav","data":"AAE="}}]}`), ""},
		"as it was":     {messages(user + `,{"role":"assistant","content":"Hi","refusal":null,"annotations":[],"audio":null,"tool_calls":null,"arbor":{"turn":"t"}},` + user), ""},
		"parts again":   {messages(user + `,{"role":"assistant","content":[{"type":"text","text":"Hi"}]},` + user), ""},
		"unknown":       {fields1(`"temprature":1,"stream_options":{"include":true}`), "temprature, stream_options.include"},
		"odd names":     {fields1(`"a\r\nb: c":1,"\u00e4":1`), `a\r\nb: c, \u00e4`},
		"other program": {messages(user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"1"},{"role":"assistant","content":"Hi"},` + user), ""},
		"its results":   {messages(user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"1"}`), ""},
		"two at once":   {messages(user + "," + user), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := readReply(t, w.post(context.Background(), "/chat/completions", c.body)).is(t, http.StatusOK)
			require.Equal(t, c.ignored, got.Header.Get("Arbor-Ignored"))
			require.True(t, strings.HasPrefix(got.Content, "Words "), got.Content)
		})
	}
	for name, c := range map[string]struct {
		body, param, says string
		status            int
	}{
		"no JSON":        {`{`, "", "is not JSON", 400},
		"no object":      {`[]`, "", "does not fit", 400},
		"no model":       {messages(user)[19:], "", "is not JSON", 400},
		"model":          {strings.Replace(fields1(""), "support", "gpt", 1), "model", "the model does not exist", 404},
		"model's type":   {strings.Replace(fields1(""), `"support"`, "1", 1), "model", "must be a string", 400},
		"n":              {fields1(`"n":2`), "n", "not supported", 400},
		"tools":          {fields1(`"tools":[{"type":"custom","name":"f"}]`), "tools[0].type", "only functions", 400},
		"schema":         {fields1(`"response_format":{"type":"json_schema","json_schema":{}}`), "response_format.json_schema.schema", "is missing", 400},
		"logprobs":       {fields1(`"logprobs":true`), "logprobs", "not supported", 400},
		"audio":          {fields1(`"audio":{"voice":"x"},"modalities":["text","audio"]`), "audio", "audio: is not supported; modalities: is not supported", 400},
		"stop":           {fields1(`"stop":1`), "stop", "invalid; stop: must be a text, or a list of at most 16 texts", 400},
		"empty stop":     {fields1(`"stop":["a",""]`), "stop", "has an empty text", 400},
		"metadata":       {fields1(`"metadata":{"a":1}`), "metadata.a", "must be a string", 400},
		"text metadata":  {fields1(`"metadata":"a"`), "metadata", "must be an object", 400},
		"reserved":       {fields1(`"metadata":{"arbor.request":"x"}`), "metadata.arbor.request", "reserved", 400},
		"large metadata": {fields1(`"metadata":{"a":"` + strings.Repeat("x", 17<<10) + `"}`), "metadata", "more than", 400},
		"large message":  {messages(`{"role":"user","content":"` + strings.Repeat("x", 1<<20+1) + `"}`), "messages[0]", "more than", 400},
		"no messages":    {messages(""), "messages", "must end with", 400},
		"no words":       {messages(`{"role":"user","content":" "}`), "messages", "not empty", 400},
		"no user":        {messages(user + `,{"role":"assistant","content":"Hi"}`), "messages", "must end with", 400},
		"role":           {messages(user + `,{"role":"robot","content":"Hi"}`), "messages[1]", `"robot"`, 400},
		"no message":     {messages(`1`), "messages[0]", "not a chat message: it cannot be of type number", 400},
		"content":        {messages(`{"role":"user","content":{}}`), "messages[0]", "neither text nor a list", 400},
		"part":           {messages(`{"role":"user","content":[{"type":"video"}]}`), "messages[0]", `"video"`, 400},
		"bad image":      {messages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}}]}`), "messages[0]", "base64", 400},
		"bare image":     {messages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"iVBORw0KGgo="}}]}`), "messages[0]", "neither a URL nor a data: address", 400},
		"no image":       {messages(`{"role":"user","content":[{"type":"input_image","file_id":"f1"}]}`), "messages[0]", "the image is not in it", 400},
		"no audio":       {messages(`{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"mp3"}}]}`), "messages[0]", "the audio is not in it", 400},
		"bare file":      {messages(`{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"JVBERi0="}}]}`), "messages[0]", "neither a URL nor a data: address", 400},
		"call":           {messages(`{"role":"user","content":"never said"},{"role":"tool","tool_call_id":"c","content":"1"},` + user), "", "no call", 400},
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			before := len(w.list())
			got := readReply(t, w.post(context.Background(), "/chat/completions", c.body)).is(t, c.status)
			require.Contains(t, got.Error.Message, c.says)
			require.Equal(t, "invalid_request_error", got.Error.Type)
			require.Equal(t, "false", got.Header.Get("X-Should-Retry"))
			if c.param == "" {
				require.Nil(t, got.Error.Param)
			} else {
				require.Equal(t, c.param, *got.Error.Param)
			}
			require.Len(t, w.list(), before, "nothing was stored")
		})
	}
	for name, c := range map[string]struct{ header, value string }{
		"on disconnect": {"Arbor-On-Disconnect", "go on"}, "retries": {"X-Stainless-Retry-Count", "many"}, "key": {"Idempotency-Key", strings.Repeat("k", 256)},
	} {
		t.Run("header: "+name, func(t *testing.T) {
			got := readReply(t, w.post(context.Background(), "/chat/completions", fields1(""), with(c.header, c.value)))
			require.Equal(t, http.StatusBadRequest, got.Status)
			require.Contains(t, got.Error.Message, c.header)
		})
	}
	t.Run("header: session", func(t *testing.T) {
		got := readReply(t, w.post(context.Background(), "/chat/completions", fields1(""), with("Arbor-Session", strings.Repeat("s", 256)))).is(t, http.StatusBadRequest)
		require.Contains(t, got.Error.Message, "Arbor-Session")
	})
	t.Run("empty messages", func(t *testing.T) {
		got := readReply(t, w.post(context.Background(), "/chat/completions", messages(`{"role":"user","content":""},`+user+`,{"role":"user","content":[{"type":"text","text":" "}]}`))).is(t, http.StatusOK)
		require.Equal(t, "messages[0], messages[2]", got.Header.Get("Arbor-Ignored"))
		require.Len(t, w.words(got.Arbor.Session), 1)
	})
	t.Run("metadata and user", func(t *testing.T) {
		got := readReply(t, w.post(context.Background(), "/chat/completions", fields1(`"metadata":{"lang":"en"},"user":"u1"`)))
		u := w.log(ann(got.Arbor.Session))[0].Data.(*event.User)
		require.Equal(t, "en", u.Metadata["lang"])
		require.Equal(t, "u1", u.Metadata["user"])
	})
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("usage and events, streamed %t", stream), func(t *testing.T) {
			got := readReply(t, w.post(context.Background(), "/chat/completions", fields1(fmt.Sprintf(`"stream":%t,"stream_options":{"include_usage":true},"arbor":{"events":true}`, stream))))
			require.Equal(t, 7, got.Usage.TotalTokens)
			require.Equal(t, 5, got.Usage.PromptTokens)
			var stored []string
			for _, e := range got.Events {
				if !e.Partial {
					stored = append(stored, e.Type())
				}
			}
			var want []string
			for _, e := range w.log(ann(got.Arbor.Session)) {
				want = append(want, e.Type())
			}
			require.Equal(t, want, stored)
			if stream {
				require.Equal(t, "[DONE]", got.Chunks[len(got.Chunks)-1])
				require.Greater(t, len(got.Events), len(stored), "deltas as well")
			}
		})
	}
	t.Run("no usage unless it is asked for", func(t *testing.T) {
		require.Nil(t, readReply(t, w.post(context.Background(), "/chat/completions", fields1(`"stream":true`))).Usage)
	})
}

// TestModels: a model is an agent, by its path, and those below it.
func TestModels(t *testing.T) {
	leaf := func(name string) agent.Agent {
		return must.Get(llmagent.New(name, "", scripted.Func(name, func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("I am " + name + ".")) })))
	}
	middle := must.Get(llmagent.New("billing", "", scripted.Func("billing", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"refunds"}`))
	}), llmagent.WithSubAgents(leaf("refunds"))))
	root := must.Get(llmagent.New("support", "", scripted.Func("support", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("I am the root.")) }),
		llmagent.WithSubAgents(middle, leaf("tech"))))
	w := newWorld(t, root)
	get := func(path string) (int, map[string]any) {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v1"+path, nil)
		r.Header.Set("Authorization", "Bearer secret")
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		v := must.JSON[map[string]any](rec.Body.Bytes())
		return rec.Code, v
	}
	status, list := get("/models")
	require.Equal(t, http.StatusOK, status)
	var ids []string
	for _, m := range list["data"].([]any) {
		ids = append(ids, m.(map[string]any)["id"].(string))
	}
	require.Equal(t, []string{"support", "support/billing", "support/billing/refunds", "support/tech"}, ids)
	for _, path := range []string{"/models/support/billing", "/models/support%2Fbilling"} {
		status, one := get(path)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "support/billing", one["id"])
	}
	status, none := get("/models/billing")
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, "model_not_found", none["error"].(map[string]any)["code"])
	require.Contains(t, none["error"].(map[string]any)["message"], "no agent has the path")

	for model, want := range map[string]string{"support": "I am the root.", "support/billing": "I am refunds.", "support/tech": "I am tech."} {
		win := &window{world: w, model: model}
		got := win.say("hello")
		require.Equal(t, want, got.Content, "%s: %+v", model, got.Error)
		require.Equal(t, want, win.say("hello").Content)
	}
}

// TestErrors: failures of others are never passed on as if they were this request's.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer scripted.Answer
		code   string
		status int
		typ    string
	}{
		{"unauthorized", scripted.Reply(scripted.Status(401, 0)), "unauthorized", 502, "server_error"},
		{"rate limited", scripted.Reply(scripted.Status(429, 0)), "rate_limited", 429, "rate_limit_error"},
		{"server", scripted.Reply(scripted.Status(503, 0)), "server_error", 502, "server_error"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streamed %t", c.name, stream), func(t *testing.T) {
				a := must.Get(llmagent.New("support", "", scripted.Func("m", func(*llm.Request) scripted.Answer { return c.answer })))
				w := newWindow(newWorld(t, a))
				w.stream = stream
				got := w.say("hello").refused(t, c.status, c.code)
				require.Equal(t, c.typ, got.Error.Type)
				require.Equal(t, c.status == 429, got.Header.Get("Retry-After") != "")
				require.Equal(t, "false", got.Header.Get("X-Should-Retry"))
				require.NotEmpty(t, got.Header.Get("Arbor-Session"))
			})
		}
	}
	t.Run("after a silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := must.Get(llmagent.New("support", "", scripted.Func("m", func(*llm.Request) scripted.Answer {
				return scripted.Reply(scripted.Wait(func(context.Context) error {
					time.Sleep(time.Minute) // of the bubble
					return nil
				}), scripted.Status(401, 0))
			})))
			w := newWindow(newWorld(t, a))
			w.silence, w.stream = 5*time.Second, true
			w.say("hello").refused(t, http.StatusOK, "unauthorized")
		})
	})
	t.Run("behind events", func(t *testing.T) {
		w := newWorld(t, newDesk(t).root)
		got := readReply(t, w.post(context.Background(), "/chat/completions", strings.Replace(fields1(`"stream":true,"arbor":{"events":true}`), "hello", "fail", 1))).is(t, http.StatusOK)
		require.NotEmpty(t, got.Events)
		require.Equal(t, "unauthorized", got.Error.Code)
	})
	t.Run("in mid-stream", func(t *testing.T) {
		a := must.Get(llmagent.New("support", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
			if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
				return scripted.Reply(scripted.Status(401, 0))
			}
			return scripted.Reply(scripted.Text("One moment."), scripted.Call("nothing", "{}"))
		})))
		w := newWindow(newWorld(t, a))
		w.stream = true
		got := w.say("hello").is(t, http.StatusOK)
		require.Equal(t, "One moment.", got.Content)
		require.Equal(t, "unauthorized", got.Error.Code)
		require.NotContains(t, got.Chunks, "[DONE]")
	})
	t.Run("no credentials", func(t *testing.T) {
		w := newWindow(newWorld(t, newDesk(t).root))
		got := w.say("hello", func(r *http.Request) { r.Header.Del("Authorization") }).is(t, http.StatusUnauthorized)
		require.Equal(t, "authentication_error", got.Error.Type)
		require.Equal(t, "Bearer", got.Header.Get("WWW-Authenticate"))
	})
	t.Run("the store is away", func(t *testing.T) {
		store := &away{Store: sessiontest.Memory(t)}
		w := newWindow(newWorldOn(t, newTurns(t, newDesk(t).root, store)))
		store.away.Store(true)
		got := w.say("hello").refused(t, http.StatusServiceUnavailable, "store_unavailable")
		require.Empty(t, got.Header.Get("X-Should-Retry"), "the clients may try again")
		require.NotEmpty(t, got.Header.Get("Retry-After"))
	})
	t.Run("busy", func(t *testing.T) {
		d := newDesk(t)
		w := newWindow(newWorld(t, d.root))
		done := make(chan *httptest.ResponseRecorder)
		go func() {
			done <- w.post(context.Background(), "/chat/completions", messages(`{"role":"user","content":"think"}`), with("Arbor-Session", "mine"))
		}()
		<-d.thinks
		got := w.say("hello", with("Arbor-Session", "mine")).refused(t, http.StatusConflict, "session_busy")
		require.Empty(t, got.Header.Get("X-Should-Retry"), "the clients may try again")
		require.NotEmpty(t, got.Header.Get("Retry-After"))
		waited := make(chan *reply)
		w.messages = nil
		go func() { waited <- w.say("hello", with("Arbor-Session", "mine"), with("Prefer", "wait=30")) }()
		d.free <- struct{}{}
		require.Equal(t, "Words 2.", (<-waited).Content)
		<-done
	})
	t.Run("too many streams", func(t *testing.T) {
		d := newDesk(t)
		guard := must.Get(access.New(access.Options{Users: newUsers(t), Streams: access.NewLimit(1, 0)}))
		w := newWindow(newWorld(t, d.root, WithGuard(guard)))
		w.stream = true
		other, done := w.clone(), make(chan *reply)
		go func() { done <- other.say("think") }()
		<-d.thinks
		got := w.say("hello").is(t, http.StatusTooManyRequests)
		require.Equal(t, "rate_limit_error", got.Error.Type)
		require.NotEmpty(t, got.Header.Get("Retry-After"))
		require.Len(t, w.list(), 1, "no turn was begun that nobody reads")
		d.free <- struct{}{}
		require.Equal(t, "Let me think.", (<-done).Content)
	})
	t.Run("stopped by somebody else", func(t *testing.T) {
		d := newDesk(t)
		w := newWindow(newWorld(t, d.root))
		done := make(chan *reply)
		go func() { done <- w.say("think", with("Arbor-Session", "mine")) }()
		<-d.thinks
		require.NoError(t, w.turns.Stop(context.Background(), ann("mine")))
		got := <-done
		require.Equal(t, http.StatusConflict, got.Status)
		require.Equal(t, "stopped", got.Error.Code)
	})
	t.Run("the server stops", func(t *testing.T) {
		d := newDesk(t)
		w := newWindow(newWorld(t, d.root))
		w.stream = true
		done := make(chan *reply)
		go func() { done <- w.say("think") }()
		<-d.thinks
		require.NoError(t, w.turns.Close(context.Background()))
		got := <-done
		require.Contains(t, []string{"", "Let me "}, got.Content)
		require.Equal(t, "stopping", got.Error.Code)
		require.Equal(t, http.StatusServiceUnavailable, w.say("more").Status)
	})
	t.Run("canceled", func(t *testing.T) {
		d := newDesk(t)
		w := newWindow(newWorld(t, d.root))
		done := make(chan *reply)
		go func() { done <- w.say("think", with("Arbor-Session", "mine")) }()
		<-d.thinks
		must.Get(w.turns.Cancel(context.Background(), ann("mine")))
		got := <-done
		require.Equal(t, http.StatusConflict, got.Status)
		require.Equal(t, "canceled", got.Error.Code)
	})
}

// away is a store that cannot be written while it is away.
type away struct {
	session.Store
	away atomic.Bool
}

func (s *away) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if s.away.Load() {
		return session.Lease{}, session.Unavailable(errors.New("db.example does not answer"))
	}
	return s.Store.Write(ctx, key, w)
}

// FuzzChat: whatever a body and its headers are, there is one clear error or an answer, and no panic.
func FuzzChat(f *testing.F) {
	for _, body := range []string{`{`, fields1(""), fields1(`"stream":true,"arbor":{"events":true}`), fields1(`"n":2,"tools":[1],"stop":"x"`), messages(`{"role":"user","content":[{"type":"text"}]}`),
		messages(`{"role":"assistant","content":"Hi"},{"role":"user","content":"refund"}`), messages(`null`), `{"model":"support","messages":null}`, `{"messages":[[]],"metadata":[]}`} {
		f.Add([]byte(body), "mine", "k", "1")
	}
	w := newWorld(f, newDesk(f).root)
	f.Fuzz(func(t *testing.T, body []byte, id, key, count string) {
		rec := w.post(t.Context(), "/chat/completions", string(body), with("Arbor-Session", id), with("Idempotency-Key", key), with("X-Stainless-Retry-Count", count))
		require.NotEqual(t, http.StatusInternalServerError, rec.Code, "%s", rec.Body)
		if rec.Code != http.StatusOK {
			var v struct{ Error wireError }
			require.NoError(t, json.NewDecoder(bytes.NewReader(rec.Body.Bytes())).Decode(&v))
			require.NotEmpty(t, v.Error.Message)
		}
	})
}
