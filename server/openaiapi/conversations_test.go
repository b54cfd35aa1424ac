package openaiapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/internal/peers"
	"github.com/agentarbor/arbor/server/internal/responses"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func callOf(t testing.TB, id string) string {
	t.Helper()
	call, _, ok := responses.ReadApproval(id)
	require.True(t, ok)
	return call
}

// call sends a request and reads the answer into out, unless out is nil.
func (w *world) call(method, path string, body, out any, changes ...change) int {
	w.Helper()
	var r *http.Request
	if body != nil {
		data := must.Get(json.Marshal(body))
		r = httptest.NewRequest(method, "http://localhost/v1"+path, strings.NewReader(string(data)))
		r.Header.Set("Content-Type", "application/json")
	} else {
		r = httptest.NewRequest(method, "http://localhost/v1"+path, nil)
	}
	r.Header.Set("Authorization", "Bearer secret")
	for _, c := range changes {
		c(r)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	if out != nil {
		require.NoError(w, json.Unmarshal(rec.Body.Bytes(), out), "%s", rec.Body)
	}
	return rec.Code
}

type listed struct {
	Data  []*wireItem
	First string `json:"first_id"`
	Last  string `json:"last_id"`
	More  bool   `json:"has_more"`
	Error *wireError
}

func (l *listed) said() (all []string) {
	for _, item := range l.Data {
		switch {
		case item.Content != nil:
			all = append(all, item.Role+": "+(*item.Content)[0].Text)
		case item.Approve != nil:
			all = append(all, item.Type+": "+strconv.FormatBool(*item.Approve))
		default:
			all = append(all, item.Type+": "+item.Name)
		}
	}
	return all
}

// TestConversationItems: a conversation lists what its turns say, forwards and backwards and in pages of any size, and
// each item can be got alone, in whichever process.
func TestConversationItems(t *testing.T) {
	store := sessiontest.Memory(t)
	d := newDesk(t)
	w := newWorldOn(t, newTurns(t, d.root, store))
	var made wireConversation
	require.Equal(t, 200, w.call("POST", "/conversations", map[string]any{"metadata": map[string]string{"topic": "money"}}, &made))
	var empty listed
	require.Equal(t, 200, w.call("GET", "/conversations/"+made.ID+"/items", nil, &empty))
	require.Empty(t, empty.Data)

	in := func(input any) *responded {
		r := w.respond(map[string]any{"model": "support", "conversation": made.ID, "input": input}).is(t, 200)
		require.Equal(t, made.ID, r.Response.Conversation.ID)
		return r
	}
	in("hello")
	asked := in("refund").Response.Output
	in([]any{map[string]any{"type": "mcp_approval_response", "approval_request_id": asked[len(asked)-1].ID, "approve": true}})
	in("bye")
	want := []string{"user: hello", "assistant: Words 1.", "user: refund", "assistant: One moment.", "mcp_approval_request: refund",
		"mcp_approval_response: true", "assistant: Done: refunded 7", "user: bye", "assistant: Words 3."}

	w = newWorldOn(t, newTurns(t, d.root, store))
	for _, order := range []string{"asc", "desc", ""} {
		want := slices.Clone(want)
		if order != "asc" {
			slices.Reverse(want)
		}
		for limit := 1; limit <= len(want)+1; limit++ {
			var got []string
			for after, more := "", true; more; {
				var l listed
				require.Equal(t, 200, w.call("GET", "/conversations/"+made.ID+"/items?limit="+strconv.Itoa(limit)+"&order="+order+"&after="+url.QueryEscape(after), nil, &l))
				require.LessOrEqual(t, len(l.Data), limit)
				got, after, more = append(got, l.said()...), l.Last, l.More
				for _, item := range l.Data {
					var alone wireItem
					require.Equal(t, 200, w.call("GET", "/conversations/"+made.ID+"/items/"+url.PathEscape(item.ID), nil, &alone))
					require.Equal(t, item, &alone)
				}
			}
			require.Equal(t, want, got, "%s by %d", order, limit)
		}
	}

	var got wireConversation
	require.Equal(t, 200, w.call("GET", "/conversations/"+made.ID, nil, &got))
	require.Equal(t, map[string]any{"topic": "money"}, got.Metadata)
	require.Equal(t, 200, w.call("POST", "/conversations/"+made.ID, map[string]any{"metadata": map[string]string{"topic": "love"}}, &got))
	require.Equal(t, 200, w.call("GET", "/conversations/"+made.ID, nil, &got))
	require.Equal(t, map[string]any{"topic": "love"}, got.Metadata)

	for _, c := range []struct {
		method, path string
		body         any
		status       int
		says         string
	}{
		{"GET", "/conversations/" + made.ID + "/items?limit=101", nil, 400, "limit"},
		{"GET", "/conversations/" + made.ID + "/items?order=up", nil, 400, "order"},
		{"GET", "/conversations/" + made.ID + "/items?after=x", nil, 400, "after"},
		{"GET", "/conversations/" + made.ID + "/items/x", nil, 404, ""},
		{"DELETE", "/conversations/" + made.ID + "/items/" + url.PathEscape(asked[0].ID), nil, 400, "agents have seen the others"},
		{"POST", "/conversations/" + made.ID + "/items", map[string]any{}, 400, "at least one"},
		{"POST", "/conversations/" + made.ID + "/items", map[string]any{"items": []any{1, nil, "a"}}, 400, "items[1]: is not an item"},
		{"POST", "/conversations/" + made.ID + "/items", map[string]any{"items": "a"}, 400, "a list of at most 20"},
		{"POST", "/conversations", map[string]any{"items": []any{nil}}, 400, "items[0]"},
		{"POST", "/conversations/" + made.ID + "/items", map[string]any{"items": slices.Repeat([]any{user("a")}, 21)}, 400, "at most 20"},
		{"POST", "/conversations/" + made.ID + "/items", map[string]any{"items": []any{approval(asked[1], true)}}, 400, "as the input of a response"},
		{"POST", "/conversations/" + made.ID + "/items", map[string]any{"items": []any{map[string]any{"type": "function_call", "call_id": "1", "name": "a b", "arguments": "{}"}}}, 400, "tool name"},
		{"POST", "/conversations/" + made.ID + "/items", map[string]any{"items": []any{user(strings.Repeat("a", 1<<20)), user(strings.Repeat("b", 1<<20)), user(strings.Repeat("c", 1<<20)), user(strings.Repeat("d", 1<<20))}}, 400, "bytes"},
		{"POST", "/conversations", map[string]any{"model": "none"}, 404, "model"},
		{"POST", "/conversations", map[string]any{"metadata": map[string]string{"arbor.x": "y"}}, 400, "reserved"},
		{"GET", "/conversations/none", nil, 404, ""},
		{"DELETE", "/conversations/none", nil, 404, ""},
	} {
		var failed listed
		require.Equal(t, c.status, w.call(c.method, c.path, c.body, &failed), c.path)
		require.Contains(t, failed.Error.Message, c.says)
	}
	require.Equal(t, 404, w.call("GET", "/conversations/"+made.ID+"/items", nil, nil, with("Authorization", "Bearer other")))
	require.Equal(t, 404, w.call("DELETE", "/conversations/"+made.ID, nil, nil, with("Authorization", "Bearer other")))
	require.Equal(t, 200, w.call("DELETE", "/conversations/"+made.ID, nil, nil))
	require.Equal(t, 404, w.call("GET", "/conversations/"+made.ID, nil, nil))
}

// TestConversationsBegin: a conversation may begin with items, which are claims of the user, and be with any agent.
func TestConversationsBegin(t *testing.T) {
	w := newWorld(t, newDesk(t).root)
	var made wireConversation
	require.Equal(t, 200, w.call("POST", "/conversations", map[string]any{"model": "support/billing",
		"items": []any{user("I am Ann"), map[string]any{"role": "assistant", "content": "Hello Ann"}}}, &made))
	r := w.respond(map[string]any{"model": "support/billing", "conversation": made.ID, "input": "bye"}).is(t, 200)
	var l listed
	require.Equal(t, 200, w.call("GET", "/conversations/"+made.ID+"/items?order=asc", nil, &l))
	require.Equal(t, []string{"user: I am Ann", "assistant: Hello Ann", "user: bye", "assistant: " + r.text()}, l.said())
	require.Equal(t, 200, w.call("POST", "/conversations", nil, &made))
}

// TestConversationsHaveAPrefix: clients tell the id of a conversation from that of a response by it.
func TestConversationsHaveAPrefix(t *testing.T) {
	w := newWorld(t, newDesk(t).root)
	for _, key := range []string{"", "k"} {
		r := w.respond(map[string]any{"model": "support", "input": "hello"}, with("Idempotency-Key", key)).is(t, 200)
		require.True(t, strings.HasPrefix(r.Response.Conversation.ID, "conv_"), r.Response.Conversation.ID)
		more := w.respond(map[string]any{"model": "support", "input": "more", "conversation": r.Response.Conversation.ID})
		require.Equal(t, r.Response.Conversation, more.Response.Conversation)
	}
}

// TestAddedItems: the items that clients add to a conversation are listed in their places, and the next response takes
// them as claims. Until then the last of them can be deleted, as sessions of the Agents SDK do.
func TestAddedItems(t *testing.T) {
	store := sessiontest.Memory(t)
	d := newDesk(t)
	w := newWorldOn(t, newTurns(t, d.root, store))
	var made wireConversation
	require.Equal(t, 200, w.call("POST", "/conversations", nil, &made))
	items := "/conversations/" + made.ID + "/items"
	call := map[string]any{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
	result := map[string]any{"type": "function_call_output", "call_id": "c1", "output": "seen"}
	image := map[string]any{"role": "user", "content": []any{map[string]any{"type": "input_image", "image_url": "https://example.com/a.png"}}}
	add := func(all ...any) *listed {
		var l listed
		require.Equal(t, 200, w.call("POST", items, map[string]any{"items": all}, &l), "%+v", l.Error)
		require.Equal(t, l.Data[0].ID, l.First)
		return &l
	}
	lists := func(want ...string) (got listed) {
		t.Helper()
		w = newWorldOn(t, newTurns(t, d.root, store)) // in whichever process
		for limit := 1; limit <= len(want)+1; limit++ {
			for _, order := range []string{"asc", "desc"} {
				var said []string
				got = listed{More: true}
				for after := ""; got.More; after = got.Last {
					got = listed{}
					require.Equal(t, 200, w.call("GET", items+"?order="+order+"&limit="+strconv.Itoa(limit)+"&after="+url.QueryEscape(after), nil, &got), "%+v", got.Error)
					said = append(said, got.said()...)
				}
				if order == "desc" {
					slices.Reverse(said)
				}
				require.Equal(t, want, said, "%s by %d", order, limit)
			}
		}
		return got // the last page
	}
	retried := with("X-Stainless-Retry-Count", "1")
	add(map[string]any{"role": "assistant", "content": "Welcome."}, user("I am Ann"), map[string]any{"type": "message", "role": "assistant", "id": "msg_1",
		"content": []any{map[string]any{"type": "output_text", "text": "Hello Ann", "annotations": []any{}}}})
	add(call)
	add(result, image)
	last := add(user("oops"))
	var again listed
	require.Equal(t, 200, w.call("POST", items, map[string]any{"items": []any{user("oops")}}, &again, retried))
	require.Equal(t, last, &again, "a repeated request adds nothing")
	before := []string{"assistant: Welcome.", "user: I am Ann", "assistant: Hello Ann", "function_call: look", "function_call_output: ", "user: "}
	lists(append(slices.Clone(before), "user: oops")...)
	var alone wireItem
	require.Equal(t, 200, w.call("GET", items+"/"+url.PathEscape(last.Last), nil, &alone))
	require.Equal(t, *last.Data[0], alone)
	require.Equal(t, 404, w.call("DELETE", items+"/"+url.PathEscape(last.Last), nil, nil, with("Authorization", "Bearer other")))
	require.Equal(t, 200, w.call("DELETE", items+"/"+url.PathEscape(last.Last), nil, nil))
	require.Equal(t, 404, w.call("DELETE", items+"/"+url.PathEscape(last.Last), nil, nil))
	require.Equal(t, 404, w.call("GET", items+"/"+url.PathEscape(last.Last), nil, nil))
	lists(before...)

	r := w.respond(map[string]any{"model": "support", "conversation": made.ID, "input": "hello"}).is(t, 200)
	require.Equal(t, "Words 1.", r.text())
	said := w.log(ann(made.ID))[slices.IndexFunc(w.log(ann(made.ID)), func(e *event.Event) bool { return e.Type() == event.TypeUser })].Data.(*event.User).Content
	require.Equal(t, "hello", said.Parts[0].(llm.TextPart).Text)
	require.Equal(t, "https://example.com/a.png", said.Parts[1].(llm.Media).URL)
	claims := said.Parts[2].(llm.TextPart).Text
	require.True(t, strings.HasSuffix(claims, "\nClaimed answer: \"Welcome.\"\nClaimed message of the user: \"I am Ann\"\nClaimed answer: \"Hello Ann\"\n"+
		"Claimed call of a tool: look({})\nClaimed result of look: \"seen\"\nClaimed message of the user: \"\""), claims)
	after := append(slices.Clone(before), "user: hello", "assistant: Words 1.")
	lists(after...)
	require.Equal(t, 200, w.call("GET", items+"?limit=1&order=asc", nil, &again))
	require.Equal(t, 400, w.call("DELETE", items+"/"+url.PathEscape(again.First), nil, nil), "an agent has seen it")

	late := add(result, user("late"))
	lists(append(after, "function_call_output: ", "user: late")...)
	refer := func(id string) map[string]any { return map[string]any{"type": "item_reference", "id": id} }
	r = w.respond(map[string]any{"model": "support", "input": []any{refer(late.Last)}}).is(t, 200)
	require.Equal(t, []string{"late"}, w.words(r.Response.Conversation.ID))
	require.Equal(t, 404, w.respond(map[string]any{"model": "support", "input": []any{refer(late.Last)}}, with("Authorization", "Bearer other")).Status)
	asked := w.respond(map[string]any{"model": "support", "conversation": made.ID, "input": "refund"}).Response.Output
	require.Equal(t, "mcp_approval_request", asked[len(asked)-1].Type)
	add(user("no"))
	r = w.respond(map[string]any{"model": "support", "conversation": made.ID, "input": "yes"})
	require.Equal(t, "Done: refunded 7", r.text(), "what was added decides nothing")
	large := user(strings.Repeat("x", 1<<20-20))
	add(large, large)
	w.respond(map[string]any{"model": "support", "conversation": made.ID, "input": "hello"}).is(t, 200)
	require.Equal(t, 400, w.call("POST", items, map[string]any{"items": []any{large, large}}, nil), "the state has them all")
}

// TestConversationsOnce: a request with an Idempotency-Key creates one conversation and adds its items once, whatever
// happened since and whichever process is asked. The same key with other content is refused.
func TestConversationsOnce(t *testing.T) {
	store := sessiontest.Memory(t)
	d := newDesk(t)
	call := func(path, key string, body map[string]any, out any) int {
		return newWorldOn(t, newTurns(t, d.root, store)).call("POST", path, body, out, with("Idempotency-Key", key))
	}
	body := func(label string, words ...string) map[string]any {
		items := make([]any, len(words))
		for i, w := range words {
			items[i] = user(w)
		}
		return map[string]any{"metadata": map[string]any{"label": label}, "items": items}
	}
	var made, again wireConversation
	require.Equal(t, 200, call("/conversations", "k1", body("a", "one"), &made))
	items := "/conversations/" + made.ID + "/items"
	var first, list listed
	require.Equal(t, 200, call(items, "k2", body("", "two", "three"), &first))
	require.Equal(t, 200, call(items, "k3", body("", "four"), &list))
	var response struct{ Conversation wireConversation }
	require.Equal(t, 200, call("/responses", "k1", map[string]any{"model": "support", "input": "hello"}, &response))
	require.NotEqual(t, made.ID, response.Conversation.ID, "a response with the same key does not continue the conversation")
	for range 2 {
		require.Equal(t, 200, call("/conversations", "k1", body("a", "one"), &again))
		require.Equal(t, made, again)
		require.Equal(t, 422, call("/conversations", "k1", body("b", "one"), nil))
		require.Equal(t, 422, call("/conversations", "k1", body("a"), nil))
		list = listed{}
		require.Equal(t, 200, call(items, "k2", body("", "two", "three"), &list))
		require.Equal(t, first, list)
		require.Equal(t, 422, call(items, "k2", body("", "two"), nil))
		w := newWorldOn(t, newTurns(t, d.root, store))
		w.respond(map[string]any{"model": "support", "conversation": made.ID, "input": "hello"}).is(t, 200)
		require.Equal(t, 200, w.call("POST", "/conversations/"+made.ID, map[string]any{"metadata": map[string]any{}}, &made))
	}
}

// TestDeletedResponse checks that no request gets or continues a deleted response or refers to its items. Its
// conversation can be continued, and its other responses remain.
func TestDeletedResponse(t *testing.T) {
	store := sessiontest.Memory(t)
	d := newDesk(t)
	w := newWorldOn(t, newTurns(t, d.root, store))
	first := w.respond(map[string]any{"model": "support", "input": "hello"}).Response
	second := w.respond(map[string]any{"model": "support", "input": "refund", "previous_response_id": first.ID}).Response
	require.Equal(t, 404, w.call("DELETE", "/responses/"+first.ID, nil, nil, with("Authorization", "Bearer other")))
	for _, r := range []*wireResponse{first, second} { // the second one waits
		var out struct {
			ID      string
			Deleted bool
		}
		require.Equal(t, 200, w.call("DELETE", "/responses/"+r.ID, nil, &out))
		require.True(t, out.Deleted)
		w = newWorldOn(t, newTurns(t, d.root, store)) // in whichever process
		require.Equal(t, 404, w.call("GET", "/responses/"+r.ID, nil, nil))
		require.Equal(t, 404, w.call("DELETE", "/responses/"+r.ID, nil, nil))
		require.Equal(t, 404, w.call("GET", "/responses/"+r.ID+"/input_items", nil, nil))
		require.Equal(t, 404, w.respond(map[string]any{"model": "support", "input": "go on", "previous_response_id": r.ID}).Status)
		require.Equal(t, 404, w.respond(map[string]any{"model": "support", "input": []any{map[string]any{"type": "item_reference", "id": r.Output[0].ID}}}).Status)
	}
	asked := second.Output[len(second.Output)-1]
	r := w.respond(map[string]any{"model": "support", "conversation": first.Conversation.ID,
		"input": []any{map[string]any{"type": "mcp_approval_response", "approval_request_id": asked.ID, "approve": true}}})
	require.Equal(t, "Done: refunded 7", r.text())
	require.Equal(t, 200, w.call("GET", "/responses/"+r.Response.ID, nil, nil))
}

// TestItemReferences: a reference stands for the item, if it is one of the caller's.
func TestItemReferences(t *testing.T) {
	w := newWorld(t, newDesk(t).root)
	refer := func(id string) map[string]any { return map[string]any{"type": "item_reference", "id": id} }
	first := w.respond(map[string]any{"model": "support", "input": "hello"}).Response
	var in listed
	require.Equal(t, 200, w.call("GET", "/responses/"+first.ID+"/input_items", nil, &in))
	require.Equal(t, []string{"user: hello"}, in.said())

	second := w.respond(map[string]any{"model": "support", "input": []any{refer(in.First), map[string]any{"id": first.Output[0].ID}, user("refund")}}).is(t, 200)
	require.Equal(t, first.Conversation.ID, second.Response.Conversation.ID, "the history is known")
	out := second.Response.Output
	third := w.respond(map[string]any{"model": "support", "input": []any{user("hello"), refer(first.Output[0].ID), user("refund"), refer(out[0].ID), refer(out[1].ID),
		map[string]any{"type": "mcp_approval_response", "approval_request_id": out[1].ID, "approve": true}}})
	require.Equal(t, 200, third.Status, "%+v", third.Error)
	require.Equal(t, "Done: refunded 7", third.text())
	require.Equal(t, first.Conversation.ID, third.Response.Conversation.ID)
	in = listed{}
	require.Equal(t, 200, w.call("GET", "/responses/"+third.Response.ID+"/input_items", nil, &in))
	require.Equal(t, []string{"mcp_approval_response: true"}, in.said())

	history := []any{user("hello"), refer(first.Output[0].ID), user("refund"), refer(out[0].ID), refer(out[1].ID),
		map[string]any{"type": "mcp_approval_response", "approval_request_id": out[1].ID, "approve": true}, refer(third.Response.Output[0].ID), user("hello")}
	fourth := w.respond(map[string]any{"model": "support", "input": history}).is(t, 200)
	require.Equal(t, first.Conversation.ID, fourth.Response.Conversation.ID, "what was approved and answered is history")

	for _, id := range []string{"x", "msg_0_1@x.y", first.Output[0].ID + "x", strings.Replace(first.Output[0].ID, "msg_0", "msg_9", 1)} {
		r := w.respond(map[string]any{"model": "support", "input": []any{refer(id), user("hello")}}).is(t, 404, id)
		require.Equal(t, "input[0].id", *r.Error.Param)
		require.Equal(t, "invalid_request_error", r.Error.Type)
	}
	w.respond(map[string]any{"model": "support", "input": []any{refer(first.Output[0].ID), user("hello")}}, with("Authorization", "Bearer other")).is(t, 404, "bob has no item of ann's")
	dropped := w.respond(map[string]any{"model": "support", "input": "hello", "store": false}).Response
	require.Equal(t, 404, w.respond(map[string]any{"model": "support", "input": []any{refer(dropped.Output[0].ID)}}).Status)
	require.Equal(t, 404, w.respond(map[string]any{"model": "support", "input": "on", "previous_response_id": dropped.ID}).Status)
}

// TestConversationsOfOfficialClients: the official clients list, delete and refer to items.
func TestConversationsOfOfficialClients(t *testing.T) {
	t.Parallel()
	for _, peer := range []string{"node", "python"} {
		program, script := peers.OpenAI().Node(t, "conversations.mjs")
		if peer == "python" {
			program, script = peers.OpenAI().Python(t, "conversations.py")
		}
		var got map[string]any
		url := loopback(t, newWorld(t, newDesk(t).root))
		peers.Run(t, map[string]any{"base": url + "/v1", "model": "support"}, &got, program, script)
		require.Equal(t, map[string]any{
			"metadata": map[string]any{"topic": "money"},
			"items":    []any{"user: one", "assistant: Words 1.", "user: two", "assistant: Words 2."},
			"input":    []any{"user: two"},
			"again":    "Words 3.",
			"gone":     []any{404.0, 404.0},
			"grows":    400.0,
			"unknown":  404.0,
		}, got, peer)
	}
}

// TestFailedHasType: what failed says of which type the error is.
func TestFailedHasType(t *testing.T) {
	w := newWorld(t, newDesk(t).root)
	for _, stream := range []bool{false, true} {
		r := w.respond(map[string]any{"model": "support", "input": "fail", "stream": stream})
		require.Equal(t, "failed", r.Response.Status)
		require.Equal(t, "server_error", r.Response.Error.Type)
	}
}
