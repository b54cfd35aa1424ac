package openaiapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// says is the body of a request, with more members if there are some.
func says(input any, more ...any) map[string]any {
	body := map[string]any{"model": "support", "input": input}
	for i := 0; i < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return body
}

func approval(item *wireItem, yes bool) map[string]any {
	return map[string]any{"type": "mcp_approval_response", "approval_request_id": item.ID, "approve": yes}
}

// TestResponsesSessions: where a response belongs.
func TestResponsesSessions(t *testing.T) {
	w := newWorld(t, newDesk(t).root)
	one := w.respond(says("hello"))
	require.Equal(t, "Words 1.", one.text())
	require.Equal(t, "completed", one.Response.Status)
	require.Equal(t, "billing", one.Response.Output[0].Agent)
	id := one.Response.Conversation.ID
	require.Equal(t, "resp_"+one.Response.Arbor.Turn+"."+id, one.Response.ID)
	require.Equal(t, id, one.Header.Get("Arbor-Session"))
	require.Equal(t, 7, one.Response.Usage.Total)

	t.Run("a conversation", func(t *testing.T) {
		two := w.respond(says("again", "conversation", id))
		require.Equal(t, "Words 2.", two.text())
		three := w.respond(says([]any{map[string]any{"role": "user", "content": "more"}}, "conversation", map[string]any{"id": id}, "stream", true))
		require.Equal(t, "Words 3.", three.text())
		require.Equal(t, []string{"hello", "again", "more"}, w.words(id))
	})
	t.Run("behind a response that is not the last one", func(t *testing.T) {
		two := w.respond(says("something else", "previous_response_id", one.Response.ID, "model", nil))
		require.Equal(t, "Words 2.", two.text())
		require.NotEqual(t, id, two.Response.Conversation.ID)
		require.Equal(t, []string{"hello", "something else"}, w.words(two.Response.Conversation.ID))
		require.Equal(t, one.Response.ID, *two.Response.Previous)
		three := w.respond(says("and on", "previous_response_id", two.Response.ID))
		require.Equal(t, two.Response.Conversation.ID, three.Response.Conversation.ID, "the last one: the session itself goes on")
	})
	t.Run("another agent", func(t *testing.T) {
		got := w.respond(says("hello", "previous_response_id", one.Response.ID, "model", "support/billing"))
		require.Equal(t, http.StatusBadRequest, got.Status)
		require.Equal(t, "model", *got.Error.Param)
	})
	t.Run("an agent below the root", func(t *testing.T) {
		one := w.respond(says("root and hello", "model", "support/billing"))
		require.Equal(t, "Words 1.", one.text())
		require.Equal(t, "support/billing", one.Response.Model)
		require.Equal(t, "resp_"+one.Response.Arbor.Turn+"~support:billing."+one.Response.Conversation.ID, one.Response.ID)
		two := w.respond(says("more", "previous_response_id", one.Response.ID, "model", nil))
		require.Equal(t, "Words 2.", two.text())
		require.Equal(t, one.Response.Conversation, two.Response.Conversation)
		require.Equal(t, two.Response, w.get(two.Response.ID, -1).Response)
		got := w.respond(says("more", "conversation", one.Response.Conversation.ID)).is(t, http.StatusNotFound, "the root has another")
		require.Equal(t, "conversation", *got.Error.Param)
		got = w.respond(says("more", "previous_response_id", "resp_1.x")).is(t, http.StatusNotFound)
		require.Equal(t, "previous_response_id", *got.Error.Param)
		require.Equal(t, "previous_response_not_found", got.Error.Code)
	})
	t.Run("a history that is known, and one that is not", func(t *testing.T) {
		first := w.respond(says("good day"))
		history := []any{map[string]any{"role": "user", "content": "good day"},
			map[string]any{"type": "message", "role": "assistant", "id": first.Response.Output[0].ID, "content": []any{map[string]any{"type": "output_text", "text": "Words 1."}}},
			map[string]any{"role": "user", "content": "again"}}
		second := w.respond(says(history))
		require.Equal(t, first.Response.Conversation, second.Response.Conversation)
		other := newWorldOn(t, w.turns).respond(says(history))
		require.NotEqual(t, first.Response.Conversation, other.Response.Conversation)
		require.Equal(t, []string{"good day", "again"}, w.words(other.Response.Conversation.ID))
	})
	t.Run("metadata and user", func(t *testing.T) {
		got := w.respond(says("hello", "metadata", map[string]any{"ticket": "7"}, "user", "u1"))
		require.Equal(t, map[string]string{"ticket": "7"}, got.Response.Metadata)
		require.Equal(t, "u1", got.Response.User)
		got = w.respond(says("hello", "metadata", map[string]any{"user": "u2"}, "user", "u1"))
		require.Equal(t, map[string]string{"user": "u2"}, got.Response.Metadata, "that of the metadata")
		require.Equal(t, got.Response, w.get(got.Response.ID, -1).Response)
	})
	t.Run("not to be given again", func(t *testing.T) {
		got := w.respond(says("hello", "store", false))
		require.False(t, got.Response.Store)
		require.Equal(t, http.StatusNotFound, w.get(got.Response.ID, -1).Status)
		require.Equal(t, http.StatusNotFound, w.respond(says("more", "previous_response_id", got.Response.ID)).Status)
		require.Equal(t, http.StatusOK, w.respond(says("more", "conversation", got.Response.Conversation.ID)).Status)
	})
	t.Run("sent twice", func(t *testing.T) {
		first := w.respond(says("once"), with("Idempotency-Key", "k1"))
		again := w.respond(says("once"), with("Idempotency-Key", "k1"))
		require.Equal(t, first.Response, again.Response)
		retried := w.respond(says("once", "conversation", first.Response.Conversation.ID))
		require.Equal(t, retried.Response, w.respond(says("once", "conversation", first.Response.Conversation.ID), with("X-Stainless-Retry-Count", "1")).Response)
		require.Equal(t, []string{"once", "once"}, w.words(first.Response.Conversation.ID))
	})
	t.Run("with events", func(t *testing.T) {
		got := w.respond(says("hello", "stream", true, "arbor", map[string]any{"events": true}))
		newReader(t).read(got.Events...).whole()
		var stored []*event.Event
		for _, e := range eventsOf(got.Events) {
			if !e.Partial {
				stored = append(stored, e)
			}
		}
		require.Equal(t, w.log(ann(got.Response.Conversation.ID)), stored)
		whole := w.respond(says("hello", "arbor", map[string]any{"events": true}))
		require.Equal(t, w.log(ann(whole.Response.Conversation.ID)), whole.Response.Arbor.Events)
	})
}

// TestResponsesApprovals: what is asked is an item, and what is answered begins a response.
func TestResponsesApprovals(t *testing.T) {
	newAsked := func(t *testing.T, words string) (*world, *responded, []*wireItem) {
		w := newWorld(t, newDesk(t).root)
		got := w.respond(says(words, "stream", true))
		w.resumed(got.Events, true)
		require.Equal(t, "completed", got.Response.Status)
		require.Equal(t, live.Waiting, got.Response.Arbor.State)
		var asked []*wireItem
		for _, item := range got.Response.Output {
			if item.Type == "mcp_approval_request" {
				asked = append(asked, item)
			}
		}
		return w, got, asked
	}
	t.Run("approved", func(t *testing.T) {
		w, one, asked := newAsked(t, "refund")
		require.Equal(t, "One moment.", one.text())
		require.Len(t, asked, 1)
		require.Equal(t, "arbor", asked[0].ServerLabel)
		require.Equal(t, "refund", asked[0].Name)
		require.JSONEq(t, `{"amount":7}`, *asked[0].Arguments)
		two := w.respond(says([]any{approval(asked[0], true)}, "previous_response_id", one.Response.ID, "stream", true))
		require.Equal(t, `Done: refunded 7`, two.text())
		require.Equal(t, one.Response.Conversation, two.Response.Conversation)
		require.Equal(t, one.Response.Arbor.Turn, two.Response.Arbor.Turn)
		require.NotEqual(t, one.Response.ID, two.Response.ID)
		w.resumed(two.Events, true)
		newWorldOn(t, newTurns(t, newDesk(t).root, w.turns.Store())).resumed(two.Events, false)
		require.Equal(t, one.Response.Output, w.get(one.Response.ID, -1).Response.Output, "what was asked stays what it was")

		again := w.respond(says([]any{approval(asked[0], true)}, "previous_response_id", one.Response.ID))
		require.Equal(t, two.Response, again.Response, "the same decision is the same response")
		other := w.respond(says([]any{approval(asked[0], false)}, "previous_response_id", one.Response.ID))
		require.Equal(t, http.StatusConflict, other.Status)
		require.Equal(t, "nothing_waits", other.Error.Code)
		require.Equal(t, "false", other.Header.Get("X-Should-Retry"))
		for _, e := range w.log(ann(one.Response.Conversation.ID)) {
			if d, ok := e.Data.(*event.RelayResolved); ok {
				require.Equal(t, "ann", d.By)
			}
		}
		three := w.respond(says("thanks", "previous_response_id", two.Response.ID))
		require.Equal(t, "Words 2.", three.text())
		require.Equal(t, one.Response.Conversation, three.Response.Conversation)
	})
	t.Run("denied, in a conversation", func(t *testing.T) {
		w, one, asked := newAsked(t, "refund")
		no := approval(asked[0], false)
		no["reason"] = "too much"
		two := w.respond(says([]any{no}, "conversation", one.Response.Conversation.ID))
		require.Contains(t, two.text(), "too much")
	})
	t.Run("one of two", func(t *testing.T) {
		w, one, asked := newAsked(t, "refund both")
		require.Len(t, asked, 2)
		two := w.respond(says([]any{approval(asked[0], true)}, "previous_response_id", one.Response.ID, "stream", true))
		require.Equal(t, live.Waiting, two.Response.Arbor.State)
		require.Len(t, two.Response.Arbor.Pending, 1)
		w.resumed(two.Events, true)
		again := w.respond(says([]any{approval(asked[0], false)}, "previous_response_id", two.Response.ID))
		require.Equal(t, "nothing_waits", again.Error.Code)
		three := w.respond(says([]any{approval(asked[1], true)}, "previous_response_id", two.Response.ID))
		require.Equal(t, live.Done, three.Response.Arbor.State)
		require.NotEqual(t, two.Response.ID, three.Response.ID)
		var in listed
		require.Equal(t, 200, w.call("GET", "/responses/"+three.Response.ID+"/input_items", nil, &in))
		require.Equal(t, asked[1].ID, in.Data[0].Request, "the answer names the request of an earlier response")
	})
	t.Run("one after the other", func(t *testing.T) {
		w, one, asked := newAsked(t, "refund in parts")
		two := w.respond(says([]any{approval(asked[0], true)}, "previous_response_id", one.Response.ID))
		asked = append(asked, two.Response.Output...)
		three := w.respond(says([]any{approval(asked[1], true)}, "previous_response_id", two.Response.ID))
		require.Equal(t, "Done: refunded 4", three.text())
		var all listed
		require.Equal(t, 200, w.call("GET", "/conversations/"+one.Response.Conversation.ID+"/items?order=asc", nil, &all))
		for i, r := range []*responded{two, three} {
			var in listed
			require.Equal(t, 200, w.call("GET", "/responses/"+r.Response.ID+"/input_items", nil, &in))
			require.Equal(t, asked[i].ID, in.Data[0].Request, "the answer names the request")
			require.Contains(t, all.Data, in.Data[0])
		}
	})
	t.Run("both at once", func(t *testing.T) {
		w, one, asked := newAsked(t, "refund both")
		two := w.respond(says([]any{approval(asked[0], true), approval(asked[1], false)}, "previous_response_id", one.Response.ID, "stream", true))
		require.Equal(t, live.Done, two.Response.Arbor.State)
		w.resumed(two.Events, true)
	})
	t.Run("in words", func(t *testing.T) {
		w, one, _ := newAsked(t, "refund")
		two := w.respond(says("yes please", "previous_response_id", one.Response.ID))
		require.Equal(t, `Done: refunded 7`, two.text())
		require.Equal(t, []string{"refund"}, w.words(one.Response.Conversation.ID))
	})
	t.Run("other words are no answer", func(t *testing.T) {
		w, one, asked := newAsked(t, "refund")
		for _, body := range []map[string]any{says("yes, but only half", "conversation", one.Response.Conversation.ID), says("hm", "previous_response_id", one.Response.ID)} {
			got := w.respond(body).refused(t, http.StatusConflict, "approval_required")
			require.Equal(t, "The tool refund wants to run with amount=7. Answer yes to let it run, or no.", got.Error.Message)
			require.Equal(t, "false", got.Header.Get("X-Should-Retry"))
		}
		two := w.respond(says([]any{approval(asked[0], true)}, "conversation", one.Response.Conversation.ID))
		require.Equal(t, "Done: refunded 7", two.text())
	})
	t.Run("a call that asks", func(t *testing.T) {
		w, one, asked := newAsked(t, "count")
		require.Empty(t, asked)
		require.Contains(t, one.text(), "│ How many?\n│ A number.\n")
		bad := w.respond(says("a lot", "previous_response_id", one.Response.ID))
		require.Equal(t, "approval_required", bad.Error.Code)
		require.Contains(t, bad.Error.Message, "That was no answer: ")
		two := w.respond(says("3", "previous_response_id", one.Response.ID))
		require.Equal(t, `Done: 3`, two.text())
	})
	t.Run("elsewhere", func(t *testing.T) {
		w, one, asked := newAsked(t, "refund")
		turn := must.Get(w.turns.Resume(t.Context(), ann(one.Response.Conversation.ID), runner.Approve(callOf(t, asked[0].ID))))
		require.NoError(t, turn.Wait(t.Context()))
		now := w.get(one.Response.ID, -1).Response
		require.Equal(t, "One moment.Done: refunded 7", textIn(now), "the response goes on with what others decide")
		client := newReader(t).read(one.Events...)
		client.final = nil
		client.read(w.get(one.Response.ID, client.last).Events...).whole()
		require.Equal(t, now, client.final)
	})
}

// TestResponsesBackground: a response that nobody waits for.
func TestResponsesBackground(t *testing.T) {
	d := newDesk(t)
	w := newWorld(t, d.root)
	began := w.respond(says("think", "background", true))
	require.Equal(t, "in_progress", began.Response.Status)
	require.True(t, began.Response.Background)
	<-d.thinks
	require.Equal(t, "in_progress", w.get(began.Response.ID, -1).Response.Status)
	busy := w.respond(says("more", "previous_response_id", began.Response.ID))
	require.Equal(t, "session_busy", busy.Error.Code)

	var group sync.WaitGroup
	followers := make([]*responded, 3)
	for i := range followers {
		group.Go(func() { followers[i] = w.get(began.Response.ID, 0) })
	}
	d.free <- struct{}{}
	group.Wait()
	for _, f := range followers {
		require.Equal(t, "completed", f.Response.Status)
		require.Equal(t, "Let me think.", f.text())
	}
	require.Equal(t, followers[0].Response, w.get(began.Response.ID, -1).Response)
	over := w.request(http.MethodPost, "/responses/"+began.Response.ID+"/cancel").is(t, http.StatusConflict)
	require.Equal(t, "turn_over", over.Error.Code)

	t.Run("canceled", func(t *testing.T) {
		began := w.respond(says("think", "background", true))
		<-d.thinks
		var follower *responded
		ready := make(chan struct{})
		group.Go(func() {
			close(ready)
			follower = w.get(began.Response.ID, 0)
		})
		<-ready
		for range 2 {
			got := w.request(http.MethodPost, "/responses/"+began.Response.ID+"/cancel").is(t, http.StatusOK)
			require.Equal(t, "cancelled", got.Response.Status)
		}
		group.Wait()
		newReader(t).read(append(w.startOf(began.Response.ID), follower.Events...)...)
		require.Equal(t, "response.cancelled", follower.Events[len(follower.Events)-1].Type)
		require.Equal(t, "completed", w.respond(says("hello", "previous_response_id", began.Response.ID)).Response.Status)
	})
	t.Run("a question that is canceled", func(t *testing.T) {
		asked := w.respond(says("refund"))
		got := w.request(http.MethodPost, "/responses/"+asked.Response.ID+"/cancel")
		require.Equal(t, "cancelled", got.Response.Status)
		require.Equal(t, live.Canceled, got.Response.Arbor.State)
	})
}

// startOf is what a client has that comes back with the number 0.
func (w *world) startOf(id string) []*wireResponseEvent {
	return []*wireResponseEvent{{Type: "response.created", Response: &wireResponse{ID: id, Status: "in_progress"}}}
}

// TestResponsesDiscard: words that are taken back end their item, and others begin the next one.
func TestResponsesDiscard(t *testing.T) {
	a := must.Get(llmagent.New("support", "", scripted.New().Add("support", scripted.Reply(scripted.Text("Hel", "lo"), scripted.Cut()),
		scripted.Reply(scripted.Text("Good ", "day."))).Model("support")))
	w := newWorldOn(t, newTurns(t, a, sessiontest.Memory(t), runner.WithIDs(transcript.Counter())))
	got := w.respond(says("hi", "stream", true))
	require.Equal(t, []string{"created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_item.done",
		"output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed"}, got.types())
	require.Equal(t, "incomplete", got.Events[6].Item.Status)
	require.Equal(t, 1, *got.Events[7].OutputIndex)
	require.Equal(t, "Good day.", got.text())
	w.resumed(got.Events, true)
}

// TestResponsesOfOthers: what is somebody else's is as unknown as what there is not.
func TestResponsesOfOthers(t *testing.T) {
	w := newWorld(t, newDesk(t).root)
	one := w.respond(says("refund")).Response
	bob := with("Authorization", "Bearer other")
	for _, id := range []string{one.ID, "resp_none.none", "resp_", "x", "resp_" + one.Arbor.Turn + "-7." + one.Conversation.ID, "resp_" + one.Arbor.Turn + "~support:billing." + one.Conversation.ID,
		"resp_" + one.Arbor.Turn + "~gone." + one.Conversation.ID, "resp_$0." + one.Conversation.ID, "resp_-1." + one.Conversation.ID} {
		want := w.request(http.MethodGet, "/responses/resp_unknown.unknown", bob).Error
		require.Equal(t, "not_found", want.Code)
		require.Equal(t, want, w.get(id, -1, bob).Error, id)
		require.Equal(t, want, w.get(id, 0, bob).Error)
		require.Equal(t, want, w.request(http.MethodPost, "/responses/"+id+"/cancel", bob).Error)
		for _, input := range []any{"hello", []any{approval(one.Output[1], true)}} {
			want := w.respond(says(input, "previous_response_id", "resp_unknown.unknown"), bob).Error
			want.Message = strings.Replace(want.Message, "resp_unknown.unknown", id, 1)
			require.Equal(t, want, w.respond(says(input, "previous_response_id", id), bob).Error)
		}
	}
	want := w.respond(says("hello", "conversation", "unknown"), bob).Error
	want.Message = strings.Replace(want.Message, "unknown", one.Conversation.ID, 1)
	require.Equal(t, want, w.respond(says("hello", "conversation", one.Conversation.ID), bob).Error)
	require.Equal(t, []string{"refund"}, w.words(one.Conversation.ID))
	require.Equal(t, live.Waiting, w.get(one.ID, -1).Response.Arbor.State)
}

// TestResponsesFields: what is honoured, ignored and refused.
func TestResponsesFields(t *testing.T) {
	w := newWorld(t, newDesk(t).root)
	got := w.respond(says([]any{map[string]any{"role": "developer", "content": "Be brief."}, map[string]any{"role": "user", "content": "hello"}},
		"temperature", 1, "instructions", "Be brief.", "max_output_tokens", 16, "reasoning", map[string]any{"effort": "low"}, "include", []any{"reasoning.encrypted_content"},
		"tools", []any{}, "tool_choice", "auto", "text", map[string]any{"format": map[string]any{"type": "text"}, "verbosity": "low"}, "service_tier", nil, "truncation", "auto", "novelty", 1))
	require.Equal(t, http.StatusOK, got.Status, "%+v", got.Error)
	require.Equal(t, "instructions, max_output_tokens, novelty, reasoning, temperature, truncation, include[0], text.verbosity, input[0]", got.Header.Get("Arbor-Ignored"))
	got = w.respond(says([]any{map[string]any{"role": "system", "content": "hello"}})).is(t, http.StatusOK, "a prompt that is only the system's")
	require.Empty(t, got.Header.Get("Arbor-Ignored"))
	w.respond(says([]any{map[string]any{"role": "system", "content": "Be terse."}}, "previous_response_id", got.Response.ID)).is(t, http.StatusBadRequest, "later, the words of the system are no prompt")
	for path, body := range map[string]map[string]any{
		"tools[0].type":        says("hi", "tools", []any{map[string]any{"type": "web_search"}}),
		"tool_choice":          says("hi", "tool_choice", "required"),
		"text.format.schema":   says("hi", "text", map[string]any{"format": map[string]any{"type": "json_schema", "name": "x"}}),
		"text.format.type":     says("hi", "text", map[string]any{"format": map[string]any{"type": "grammar"}}),
		"include[0]":           says("hi", "include", []any{"message.output_text.logprobs"}),
		"top_logprobs":         says("hi", "top_logprobs", 3),
		"prompt":               says("hi", "prompt", map[string]any{"id": "p"}),
		"metadata.arbor.x":     says("hi", "metadata", map[string]any{"arbor.x": "1"}),
		"model":                says("hi", "model", "gpt-5"),
		"store":                says("hi", "store", false, "background", true),
		"input":                says([]any{}),
		"input[1]":             says([]any{map[string]any{"role": "user", "content": "x"}, map[string]any{"type": "mcp_approval_response", "approve": true}}),
		"input[0].type":        says([]any{map[string]any{"type": "call_of_a_robot", "call_id": "c", "output": "x"}}),
		"input[2]":             says([]any{map[string]any{"role": "system", "content": "x"}, map[string]any{"role": "user", "content": "x"}, map[string]any{"role": "robot", "content": "x"}}),
		"input[0]":             says([]any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "input_image", "file_id": "f"}}}}),
		"conversation":         says("hi", "conversation", map[string]any{}),
		"previous_response_id": says("hi", "conversation", "c", "previous_response_id", "resp_x.y"),
	} {
		got := w.respond(body)
		require.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound}, got.Status, path)
		require.NotNil(t, got.Error.Param, "%s: %s", path, got.Error.Message)
		require.Equal(t, path, *got.Error.Param, got.Error.Message)
		require.Equal(t, "false", got.Header.Get("X-Should-Retry"))
	}
	for _, body := range []map[string]any{
		says([]any{map[string]any{"role": "user", "content": "a"}, map[string]any{"type": "mcp_approval_response", "approval_request_id": "mcpr_x", "approve": true}}, "conversation", "c"),
		says([]any{map[string]any{"type": "mcp_approval_response", "approval_request_id": "mcpr_x", "approve": true}}),
		says([]any{map[string]any{"role": "assistant", "content": "a"}, map[string]any{"role": "user", "content": "b"}}, "conversation", "c"),
	} {
		require.Equal(t, http.StatusBadRequest, w.respond(body).Status)
	}
	one := w.respond(says("hello")).Response
	for _, query := range []string{"?starting_after=1", "?stream=true&starting_after=-1", "?stream=true&starting_after=x", "?stream=true&starting_after=99999999999999999999"} {
		require.Equal(t, "bad_request", w.request(http.MethodGet, "/responses/"+one.ID+query).Error.Code, query)
	}
	beyond := w.get(one.ID, 1<<53-1).is(t, http.StatusOK)
	require.Empty(t, beyond.Events)
	require.Len(t, w.list(), 3)
}

// listen asks for a stream on loopback, and reads it until it is as far as the test wants. Then it hangs up.
func listen(t testing.TB, method, address string, body map[string]any, enough func(*wireResponseEvent) bool) (events []*wireResponseEvent) {
	t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	var data io.Reader
	if body != nil {
		data = bytes.NewReader(event.EncodeJSON(body))
	}
	r := must.Get(http.NewRequestWithContext(ctx, method, address, data))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer secret")
	resp := must.Get(http.DefaultClient.Do(r))
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
		if data, ok := strings.CutPrefix(scanner.Text(), "data: "); ok {
			ev := new(wireResponseEvent)
			require.NoError(t, json.Unmarshal([]byte(data), ev))
			if events = append(events, ev); enough(ev) {
				break
			}
		}
	}
	return events
}

// shows reports whether an event has the words.
func shows(words string) func(*wireResponseEvent) bool {
	return func(ev *wireResponseEvent) bool { return ev.Delta != nil && *ev.Delta == words }
}

func ends(ev *wireResponseEvent) bool {
	return ev.Response != nil && ev.Response.Status != "in_progress"
}

// TestResponsesHangUp: a stream whose client has gone stops the turn, and who comes back for the rest lets it go on.
func TestResponsesHangUp(t *testing.T) {
	for _, background := range []bool{false, true} {
		d := newDesk(t)
		w := newWorldOn(t, newTurns(t, d.root, sessiontest.Memory(t), runner.WithIDs(transcript.Counter())), WithPatience(1))
		url := loopback(t, w) + "/v1/responses"
		client := newReader(t).read(listen(t, http.MethodPost, url, says("think", "stream", true, "background", background), shows("Let me "))...)
		key := ann(w.list()[0].Key.ID)
		now := must.Get(w.turns.Look(t.Context(), key))
		id := "resp_" + now.Turn + "." + key.ID
		for !background && now.State != live.CutOff {
			now = must.Get(w.turns.Look(t.Context(), key))
		}
		if !background {
			require.NoError(t, w.turns.Stop(t.Context(), key)) // waits until all watchers have been told
			stopped := w.get(id, -1).Response
			require.Equal(t, "incomplete", stopped.Status)
			require.Equal(t, "stopped", stopped.Incomplete.Reason)
		}
		d.free <- struct{}{}
		client.read(listen(t, http.MethodGet, url+"/"+id+"?stream=true&starting_after="+strconv.FormatInt(client.last, 10), nil, ends)...).whole()
		require.Equal(t, "Let me think.", textIn(client.final))
		require.Equal(t, client.final, w.get(id, -1).Response)
		if background {
			require.Equal(t, 1, len(client.order), "nothing was taken back")
		}
	}
}

// TestResponsesStopped: somebody stops the turn that a client reads, or the server.
func TestResponsesStopped(t *testing.T) {
	for code, stop := range map[string]func(*world) error{
		"stopped":  func(w *world) error { return w.turns.Stop(t.Context(), w.list()[0].Key) },
		"stopping": func(w *world) error { return w.turns.Close(t.Context()) },
	} {
		d := newDesk(t)
		w := newWorld(t, d.root)
		got := listen(t, http.MethodPost, loopback(t, w)+"/v1/responses", says("think", "stream", true), func(ev *wireResponseEvent) bool {
			if shows("Let me ")(ev) {
				require.NoError(t, stop(w))
			}
			return false
		})
		last := got[len(got)-1]
		require.Equal(t, "error", last.Type)
		require.Equal(t, code, last.Code)
		newReader(t).read(got...)
	}
}

// TestResponsesTwoProcesses: a response that one process runs is read in another one while it runs.
func TestResponsesTwoProcesses(t *testing.T) {
	d, store := newDesk(t), sessiontest.Memory(t)
	here, there := newWorldOn(t, newTurns(t, d.root, store)), newWorldOn(t, newTurns(t, newDesk(t).root, store))
	began := here.respond(says("think", "background", true)).Response
	<-d.thinks
	require.Equal(t, "in_progress", there.get(began.ID, -1).Response.Status)
	done := make(chan *responded)
	go func() { done <- there.get(began.ID, 0) }()
	d.free <- struct{}{}
	require.Equal(t, "Let me think.", (<-done).text())
	require.Equal(t, here.get(began.ID, -1).Response, there.get(began.ID, -1).Response)
}
