package agui

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// interrupted is a store that calls a function once, after a number of reads of logs. It waits for the function, unless
// that waits for the reader.
type interrupted struct {
	session.Store
	left int
	call func()
	done chan struct{}
}

func (s *interrupted) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	if call := s.call; call != nil {
		if s.left--; s.left < 0 {
			s.call = nil
			go func() {
				call()
				close(s.done)
			}()
			select {
			case <-s.done:
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return s.Store.Load(ctx, key, after)
}

// TestAnswersOfTwoPages: the answer of a page to a question that another page has answered meanwhile answers no other
// question of the same call, at whatever moment the other answer came.
func TestAnswersOfTwoPages(t *testing.T) {
	late := 0
	for left := range 12 {
		var got []string
		pay := must.Get(tools.Func("pay", "Pays.", func(ctx tools.Context, _ struct{}) (string, error) {
			to, err := ctx.Ask("To whom?", json.RawMessage(`{"type":"string"}`))
			if err != nil {
				return "", err
			}
			note, err := ctx.Ask("With which note?", json.RawMessage(`{"type":"string"}`))
			if err == nil {
				got = append(got, string(to), string(note))
			}
			return "paid", err
		}, tools.Resumable()))
		root := must.Get(llmagent.New("payer", "", scripted.Always("payer", scripted.Reply(scripted.Call("pay", `{}`))), llmagent.WithTools(pay)))
		store := &interrupted{Store: sessiontest.Memory(t), left: left, done: make(chan struct{})}
		turns := newTurns(t, root, store)
		w := newWorld(t, turns)
		x := must.Get(turns.Begin(t.Context(), w.key("t1"), llm.UserText("pay")))
		require.NoError(t, x.Wait(t.Context()))
		var asked *event.Event
		for _, e := range w.log("t1") {
			if e.Type() == event.TypeRelay {
				asked = e
			}
		}
		first := false
		store.call = func() { // the other page
			answer := runner.Answer(asked.Data.(*event.Relay).ToolCallID, "ann")
			answer.Digest = asked.Data.(*event.Relay).Digest
			x, err := turns.Resume(context.Background(), w.key("t1"), answer)
			if first = err == nil; first {
				_ = x.Wait(context.Background())
			}
		}
		req := must.Get(http.NewRequest(http.MethodPost, w.url, strings.NewReader(fmt.Sprintf(`{"threadId":"t1","runId":"r1","messages":[],"tools":[],"context":[],
			"state":{},"forwardedProps":{},"resume":[{"interruptId":%q,"status":"resolved","payload":"bob"}]}`, asked.ID))))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer secret")
		resp := must.Get(http.DefaultClient.Do(req))
		must.Get(io.ReadAll(resp.Body))
		require.NoError(t, resp.Body.Close())
		if store.call == nil {
			<-store.done
		}
		store.call = nil
		if first {
			late++
		}
		for _, e := range w.log("t1") {
			if d, ok := e.Data.(*event.RelayResolved); ok && d.RelayID != asked.ID {
				require.NotContains(t, string(d.Content), "bob", "after %d reads", left)
			}
		}
		require.Empty(t, got)
	}
	require.Positive(t, late)
}

// newPlanner is an agent whose tool visit counts the visits of the city in the session's state.
func newPlanner(t testing.TB) *llmagent.Agent {
	t.Helper()
	visit := must.Get(tools.Func("visit", "Visits the city.", func(c tools.Context, _ struct{}) (string, error) {
		city, _ := c.Get("city")
		c.Set("visits", []any{city})
		c.Set("user:vip", true)
		c.Set("turn:done", true)
		return fmt.Sprint("visited ", city), nil
	}))
	return must.Get(llmagent.New("planner", "", scripted.Func("planner", func(req *llm.Request) scripted.Answer {
		last := req.Messages[len(req.Messages)-1]
		switch {
		case last.Role == llm.RoleTool:
			return scripted.Reply(scripted.Text(last.Parts[0].(llm.ToolResult).Output))
		case strings.Contains(last.PlainText(), "visit"):
			return scripted.Reply(scripted.Call("visit", `{}`))
		case strings.Contains(last.PlainText(), "map"):
			return scripted.Reply(scripted.Call("show_map", `{"city":"Oslo"}`))
		}
		return scripted.Reply(scripted.Text("Hello."))
	}), llmagent.WithTools(visit)))
}

// changes are the keys and values that a thread's log has changed, one map a state event.
func (w *world) changes(thread string) (all []map[string]any) {
	for _, e := range w.log(thread) {
		if d, ok := e.Data.(*event.State); ok {
			all = append(all, d.Delta)
		}
	}
	return all
}

// ofPage is the state that a page has, without the stateKey of the conversation.
func ofPage(r *peerReply) map[string]any {
	delete(r.State, stateKey)
	return r.State
}

// TestSharedState: the official client and the session have one state. What the page changes is there when the turn
// begins, and what the turn changes arrives while it runs.
func TestSharedState(t *testing.T) {
	peer := startPeer(t)
	w := newWorld(t, newTurns(t, newPlanner(t), sessiontest.Memory(t), runner.WithStreaming()), WithPageState("city", "trip"))
	first := peer.do(t, w.to(peerCommand{Say: says("m1", "visit"), State: map[string]any{"city": "Oslo", "trip": map[string]any{"days": 3}}}))
	require.Empty(t, first.Error)
	require.Equal(t, []string{"RUN_STARTED", "STATE_SNAPSHOT"}, types(first.Events)[:2])
	require.Equal(t, "visited Oslo", last(first.Messages)["content"])
	require.Equal(t, map[string]any{"city": "Oslo", "trip": map[string]any{"days": 3.0}, "visits": []any{"Oslo"}, "turn:done": true}, ofPage(first))
	require.Contains(t, types(first.Events), "STATE_DELTA")
	stored := len(w.changes("t1"))

	// The client sends all that it has. Nothing of it is new.
	second := peer.do(t, w.to(peerCommand{Say: says("m2", "hello")}))
	require.Empty(t, second.Error)
	require.NotContains(t, types(second.Events), "CUSTOM")
	require.Len(t, w.changes("t1"), stored)

	// A null deletes a key, and a key that the page does not have stays.
	third := peer.do(t, w.to(peerCommand{Say: says("m3", "visit"), State: map[string]any{"city": "Bergen", "trip": nil}}))
	require.Empty(t, third.Error)
	require.Equal(t, map[string]any{"city": "Bergen", "visits": []any{"Bergen"}, "turn:done": true}, ofPage(third))
	other := peer.do(t, w.to(peerCommand{Page: "other", Say: says("m4", "hello")}))
	require.Equal(t, map[string]any{"city": "Bergen", "visits": []any{"Bergen"}}, ofPage(other))

	// A tool of the page changes the state, too.
	asked := peer.do(t, w.to(peerCommand{Say: says("m5", "a map"), Tools: showMap}))
	open := openCalls(asked.Messages)
	require.Len(t, open, 1)
	given := w.to(peerCommand{Say: toolMessage("r1", open[0], "shown"), Tools: showMap, State: map[string]any{"city": "Oslo"}})
	shown := peer.do(t, given)
	require.Empty(t, shown.Error)
	require.Equal(t, "Oslo", ofPage(shown)["city"])
	stored = len(w.changes("t1"))
	given.Say = nil
	require.Empty(t, peer.do(t, given).Error, "a run that is posted again")
	require.Len(t, w.changes("t1"), stored)
}

// TestStateThatPagesCannotWrite: only the keys that were named are written, and the page reads which were not.
func TestStateThatPagesCannotWrite(t *testing.T) {
	post := func(w *world, run, words, state string) (int, []map[string]any, string) {
		return w.post("", `{"threadId":"t1","runId":"`+run+`","messages":[{"id":"`+run+`","role":"user","content":"`+words+`"}],"state":`+state+`}`)
	}
	tries := `{"city":"Oslo","visits":["Rome"],"user:vip":true,"app:handoff:x":1,"turn:planner.x":1,"arbor":{"activeAgent":"root"},"arbor.request":{"id":"x"},"":1}`
	for _, keys := range [][]string{nil, {"city"}} {
		w := newWorld(t, newTurns(t, newPlanner(t), sessiontest.Memory(t), runner.WithStreaming()), WithPageState(keys...))
		status, events, _ := post(w, "r1", "hello", tries)
		require.Equal(t, http.StatusOK, status)
		ignored := []any{"", "app:handoff:x", "arbor.request", "city", "user:vip", "visits"}
		var changes []map[string]any
		if keys != nil {
			ignored = []any{"", "app:handoff:x", "arbor.request", "user:vip", "visits"}
			changes = []map[string]any{{"city": "Oslo"}}
		}
		require.Equal(t, map[string]any{"state": ignored}, events[1]["value"])
		require.Equal(t, changes, w.changes("t1"))
		snapshot := events[2]["snapshot"].(map[string]any)
		require.Equal(t, "planner", snapshot[stateKey].(map[string]any)["activeAgent"])
		require.Equal(t, len(keys), len(snapshot)-1)

		status, _, _ = post(w, "r1", "hello", tries)
		require.Equal(t, http.StatusOK, status, "the same run")
		status, _, answer := post(w, "r1", "hello", `{"city":"Bergen"}`)
		if keys != nil {
			require.Equal(t, http.StatusUnprocessableEntity, status)
			require.Contains(t, answer, "another state")
		}
		before := len(w.log("t1"))
		status, _, answer = post(w, "r2", "hello", `["city"]`)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, answer, `{"path":"state","message":"must be an object"}`)
		if keys != nil {
			status, _, answer = post(w, "r3", "hello", `{"city":"`+strings.Repeat("x", maxState)+`"}`)
			require.Equal(t, http.StatusRequestEntityTooLarge, status)
			require.Contains(t, answer, fmt.Sprint("the limit is ", maxState))
		}
		require.Len(t, w.log("t1"), before)
	}
	turns := newTurns(t, newPlanner(t), sessiontest.Memory(t))
	for _, key := range []string{"", "arbor", "arbor.x", "user:name", "app:x", "turn:x"} {
		_, err := New(turns, WithPageState("city", key))
		require.ErrorContains(t, err, fmt.Sprintf("the state key %q", key))
	}
}

// TestEarlierClient: the client from before version 1.0 of the protocol, as CopilotKit has it, shares the state, has its
// tool called, and sends files in its form.
func TestEarlierClient(t *testing.T) {
	peer := startPeer(t)
	w := newWorld(t, newTurns(t, newPlanner(t), sessiontest.Memory(t), runner.WithStreaming()), WithPageState("city"))
	words := []map[string]any{{"id": "m1", "role": "user", "content": []any{map[string]any{"type": "text", "text": "visit"},
		map[string]any{"type": "binary", "mimeType": "image/png", "data": "aGk="}}}}
	first := peer.do(t, w.to(peerCommand{Earlier: true, Say: words, State: map[string]any{"city": "Oslo"}}))
	require.Empty(t, first.Error)
	require.Equal(t, "visited Oslo", last(first.Messages)["content"])
	require.Equal(t, map[string]any{"city": "Oslo", "visits": []any{"Oslo"}, "turn:done": true}, ofPage(first))
	require.IsType(t, llm.Media{}, w.log("t1")[0].Data.(*event.User).Content.Parts[1])

	asked := peer.do(t, w.to(peerCommand{Earlier: true, Say: says("m2", "a map"), Tools: showMap}))
	require.Empty(t, asked.Error)
	open := openCalls(asked.Messages)
	require.Len(t, open, 1)
	shown := peer.do(t, w.to(peerCommand{Earlier: true, Say: toolMessage("r1", open[0], "shown"), Tools: showMap}))
	require.Empty(t, shown.Error)
	require.Equal(t, "shown", last(shown.Messages)["content"])
}

// slowPage is a page that reads nothing until it may.
type slowPage struct {
	*httptest.ResponseRecorder
	reads chan struct{}
}

func (p slowPage) Write(data []byte) (int, error) {
	<-p.reads
	return p.ResponseRecorder.Write(data)
}

// TestCanceledAtAnotherServer: a page sees a turn that another server cancels as one run, also if it has not read the
// notice of the stop when its server learns of the stop.
func TestCanceledAtAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{})
		model := scripted.Func("desk", func(req *llm.Request) scripted.Answer {
			if req.Messages[len(req.Messages)-1].PlainText() == "Hi" {
				return scripted.Reply(scripted.Text("Hello."))
			}
			return scripted.Reply(scripted.Text(strings.Repeat("x", 64<<10)), scripted.Text("y"), scripted.WaitFor(begun))
		})
		desk := must.Get(llmagent.New("desk", "You obey.", model))
		store := sessiontest.Memory(t, session.WithClock(time.Now))
		guard := must.Get(access.New(access.Options{Users: must.Get(access.Bearer(must.Get(access.Secrets(map[string]string{"secret": "ann"}))))}))
		runs, cancels := newTurns(t, desk, store, runner.WithStreaming()), newTurns(t, desk, store)
		key := session.Key{App: session.DefaultApp, User: "ann", ID: "t1"}
		ctx, leave := context.WithCancel(t.Context())
		page := slowPage{httptest.NewRecorder(), make(chan struct{})}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/agui/connect", strings.NewReader(`{"threadId":"t1","runId":"r1","messages":[]}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer secret")
		go must.Get(New(runs, WithGuard(guard))).ServeHTTP(page, r)
		synctest.Wait()
		x := must.Get(runs.Begin(t.Context(), key, llm.UserText("think")))
		synctest.Wait()
		must.Get(cancels.Cancel(t.Context(), key))
		require.ErrorIs(t, x.Wait(t.Context()), session.ErrStopped)
		synctest.Wait()
		close(page.reads)
		time.Sleep(2 * moveEvery)
		require.NoError(t, must.Get(runs.Begin(t.Context(), key, llm.UserText("Hi"))).Wait(t.Context()))
		time.Sleep(2 * moveEvery)
		leave()
		for _, turns := range []*live.Turns{runs, cancels} {
			require.NoError(t, turns.Close(t.Context()))
		}
		synctest.Wait()
		require.Equal(t, 3, strings.Count(page.Body.String(), "RUN_STARTED"), "of the empty thread, and of each turn")
		require.Equal(t, 1, strings.Count(page.Body.String(), `"cancelled"`))
	})
}
