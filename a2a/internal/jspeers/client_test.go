package jspeers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func TestClientStreams(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		to := s.target(serve(t, support(t)))
		events := s.stream(to, "stream", s.say("hello", nil)).rest()
		first, end := events[0].Task, events[len(events)-1].Status
		require.NotNil(t, first, "a stream begins with the task")
		require.Contains(t, []state{"submitted", "working"}, first.Status.State)
		require.NotNil(t, end)
		require.Equal(t, state("completed"), end.Status.State)
		require.Equal(t, s.old, end.Final)
		var deltas []string
		for _, e := range events {
			if u := e.Artifact; u != nil {
				require.Equal(t, len(deltas) > 0 && !u.LastChunk, u.Append)
				require.True(t, !u.LastChunk || textOf(u.Artifact.Parts) == "You said: hello", "the last chunk has the whole text")
				require.NotEmpty(t, u.Artifact.Parts)
				deltas = append(deltas, textOf(u.Artifact.Parts))
			}
		}
		require.Greater(t, len(deltas), 2, "words come as they are said")
		require.Equal(t, []string{"support: You said: hello"}, assemble(events).texts())

		var got task
		require.NoError(t, s.call(to, "get", map[string]any{"id": first.ID}, &got))
		require.Equal(t, state("completed"), got.Status.State)
		require.Equal(t, first.ContextID, got.ContextID)
		require.Equal(t, []string{"support: You said: hello"}, got.texts())
		require.Equal(t, "hello", textOf(got.History[0].Parts))
	})
}

// A conversation is a context; each turn of it is a task.
func TestClientConverses(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		to := s.target(serve(t, support(t)))
		first := s.send(to, s.say("charges", nil))
		require.Equal(t, state("completed"), first.Status.State)
		require.Equal(t, []string{"support: One moment.", "billing: I see two charges."}, first.texts(), "one task spans both agents")

		second := s.send(to, s.say("And why?", map[string]any{"contextId": first.ContextID}))
		require.Equal(t, first.ContextID, second.ContextID)
		require.NotEqual(t, first.ID, second.ID)
		require.Equal(t, []string{"billing: I see two charges."}, second.texts())
	})
}

// A call that needs an approval is a question on the task, and is answered there.
func TestClientApproves(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		to := s.target(serve(t, support(t)))
		for _, streams := range []bool{true, false} {
			var asked *task
			if streams {
				events := s.stream(to, "stream", s.say("refund", nil)).rest()
				asked = assemble(events)
				asked.ID, asked.ContextID = events[0].Task.ID, events[0].Task.ContextID
			} else {
				asked = s.send(to, s.say("refund", nil))
			}
			require.Equal(t, state("input-required"), asked.Status.State)
			question := asked.Status.Message
			require.NotNil(t, question)
			require.Contains(t, question.Parts[0].Text, "refund")
			require.Equal(t, "refund", question.Parts[1].Data["tool"])
			require.Equal(t, map[string]any{"charge": 2.0}, question.Parts[1].Data["params"])

			more := map[string]any{"taskId": asked.ID, "contextId": asked.ContextID}
			if streams {
				events := s.stream(to, "stream", s.say("yes", more)).rest()
				require.Equal(t, asked.ID, events[0].Task.ID)
				done := assemble(events)
				require.Equal(t, state("completed"), done.Status.State)
				require.Contains(t, done.texts(), `support: The tool says: charge 2 was refunded`)
				continue
			}
			answer := map[string]any{"data": map[string]any{"callId": question.Parts[1].Data["callId"], "approved": false, "reason": "too much"}}
			if s.old {
				answer["kind"] = "data"
			}
			more["parts"] = []any{answer}
			done := s.send(to, s.say("", more))
			require.Equal(t, asked.ID, done.ID)
			require.Equal(t, state("completed"), done.Status.State)
			require.Contains(t, done.texts()[len(done.texts())-1], "too much")
		}
	})
}

func TestClientCancels(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		to := s.target(serve(t, support(t)))
		running := s.stream(to, "stream", s.say("wait", nil))
		id := running.must().Task.ID
		for running.must().Artifact == nil {
		}
		var canceled task
		require.NoError(t, s.call(to, "cancel", map[string]any{"id": id}, &canceled))
		require.Equal(t, id, canceled.ID)
		require.Equal(t, state("canceled"), canceled.Status.State)
		events := running.rest()
		require.Equal(t, state("canceled"), events[len(events)-1].Status.Status.State, "the stream tells of it and ends")
		s.refused("TaskNotCancelableError", to, "cancel", map[string]any{"id": id})
	})
}

func TestClientSeesFailure(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		to := s.target(serve(t, support(t)))
		events := s.stream(to, "stream", s.say("fail", nil)).rest()
		end := events[len(events)-1].Status
		require.NotNil(t, end)
		require.Equal(t, state("failed"), end.Status.State)
		require.NotEmpty(t, textOf(end.Status.Message.Parts))
		require.NotContains(t, textOf(end.Status.Message.Parts), "secret.test")

		failed := s.send(to, s.say("fail", nil))
		require.Equal(t, state("failed"), failed.Status.State)
		require.Empty(t, failed.Artifacts)
	})
}

func TestClientLists(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		if s.old || s.legacy {
			t.Skip("A2A 0.3 has no list of tasks")
		}
		to := s.target(serve(t, support(t)))
		type page struct {
			Tasks         []task `json:"tasks"`
			NextPageToken string `json:"nextPageToken"`
			PageSize      int    `json:"pageSize"`
			TotalSize     int    `json:"totalSize"`
		}
		list := func(params map[string]any) (p page) {
			t.Helper()
			require.NoError(t, s.call(to, "list", params, &p))
			return p
		}
		require.Empty(t, list(map[string]any{}).Tasks)
		var ids []string
		for _, words := range []string{"hello", "refund", "charges"} {
			ids = append(ids, s.send(to, s.say(words, nil)).ID)
		}
		whole := list(map[string]any{"includeArtifacts": true})
		require.Equal(t, 3, whole.TotalSize)
		require.Len(t, whole.Tasks, 3)
		for i, one := range whole.Tasks {
			require.Equal(t, ids[2-i], one.ID, "the newest comes first")
			require.NotEmpty(t, one.Artifacts)
		}
		first := list(map[string]any{"pageSize": 2})
		require.Len(t, first.Tasks, 2)
		require.Equal(t, 2, first.PageSize)
		require.Equal(t, 3, first.TotalSize)
		require.Empty(t, first.Tasks[0].Artifacts)
		second := list(map[string]any{"pageSize": 2, "pageToken": first.NextPageToken})
		require.Len(t, second.Tasks, 1)
		require.Equal(t, ids[0], second.Tasks[0].ID)
		require.Empty(t, second.NextPageToken)
		require.Equal(t, ids[1], list(map[string]any{"status": "TASK_STATE_INPUT_REQUIRED"}).Tasks[0].ID)
		require.Len(t, list(map[string]any{"contextId": whole.Tasks[0].ContextID}).Tasks, 1)
		s.refused("RequestMalformedError", to, "list", map[string]any{"pageSize": 101})
		s.refused("RequestMalformedError", to, "list", map[string]any{"pageToken": "oops"})
	})
}

// Whoever wants no answer yet gets the task at once, and as much of its history as
// it asks for.
func TestClientDoesNotWait(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		to := s.target(serve(t, support(t)))
		req := s.say("wait", nil)
		req["configuration"] = map[string]any{"returnImmediately": true}
		if s.old {
			req["configuration"] = map[string]any{"blocking": false}
		}
		begun := s.send(to, req)
		require.Contains(t, []state{"submitted", "working"}, begun.Status.State)
		var got task
		require.NoError(t, s.call(to, "get", map[string]any{"id": begun.ID, "historyLength": 0}, &got))
		require.Empty(t, got.History)
		require.NoError(t, s.call(to, "cancel", map[string]any{"id": begun.ID}, nil))
	})
}

// Tasks are there after a restart, and go on.
func TestClientAfterRestart(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		store := sessiontest.Memory(t)
		first := serveFrom(t, store, support(t), a2av0.Server())
		to := s.target(first)
		done, asked := s.send(to, s.say("charges", nil)), s.send(to, s.say("refund", nil))
		running := s.stream(to, "stream", s.say("wait", nil))
		id := running.must().Task.ID
		for running.must().Artifact == nil {
		}
		require.NoError(t, first.Close(t.Context()))

		to = s.target(serveFrom(t, store, support(t), a2av0.Server()))
		var got task
		require.NoError(t, s.call(to, "get", map[string]any{"id": done.ID}, &got))
		require.Equal(t, state("completed"), got.Status.State)
		require.Equal(t, done.texts(), got.texts())
		again := s.send(to, s.say("yes", map[string]any{"taskId": asked.ID, "contextId": asked.ContextID}))
		require.Equal(t, asked.ID, again.ID)
		require.Equal(t, state("completed"), again.Status.State)
		require.Contains(t, again.texts(), "support: The tool says: charge 2 was refunded")

		// What was cut off begins anew when somebody listens.
		listening := s.stream(to, "subscribe", map[string]any{"id": id})
		require.Equal(t, id, listening.must().Task.ID)
		for listening.must().Artifact == nil {
		}
		require.NoError(t, s.call(to, "cancel", map[string]any{"id": id}, &got))
		require.Equal(t, state("canceled"), got.Status.State)
		events := listening.rest()
		require.Equal(t, state("canceled"), events[len(events)-1].Status.Status.State)
	})
}
