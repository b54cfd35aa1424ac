package jspeers_test

import (
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// abort ends the call, as a user does who walks away.
func (s *stream) abort() {
	s.c.t.Helper()
	line, err := json.Marshal(map[string]any{"op": "abort", "params": s.id})
	require.NoError(s.c.t, err)
	_, err = s.c.in.Write(append(line, '\n'))
	require.NoError(s.c.t, err)
}

// Who walks away stops listening, not the task. Another one can listen in.
func TestClientSubscribes(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		to := s.target(serve(t, support(t)))
		first := s.stream(to, "stream", s.say("wait", nil))
		id := first.must().Task.ID
		for first.must().Artifact == nil {
		}
		first.abort()
		for {
			if _, err := first.next(); err != nil {
				require.NotErrorIs(t, err, errSilent)
				require.False(t, errors.Is(err, io.EOF))
				break
			}
		}

		second, third := s.stream(to, "subscribe", map[string]any{"id": id}), s.stream(to, "subscribe", map[string]any{"id": id})
		for _, sub := range []*stream{second, third} {
			snapshot := sub.must().Task
			require.NotNil(t, snapshot, "a subscription begins with the task")
			require.Equal(t, id, snapshot.ID)
			require.Equal(t, state("working"), snapshot.Status.State)
		}
		require.NoError(t, s.call(to, "cancel", map[string]any{"id": id}, nil))
		for _, sub := range []*stream{second, third} {
			events := sub.rest()
			require.Equal(t, state("canceled"), events[len(events)-1].Status.Status.State)
		}
		require.Equal(t, "UnsupportedOperationError", s.refused(to, "subscribe", map[string]any{"id": id}))
	})
}

// The errors of the protocol are told apart by a client that nobody here wrote.
func TestClientIsRefused(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		to := s.target(serve(t, support(t)))
		done := s.send(to, s.say("hello", nil))
		unknown := map[string]any{"id": "nothing"}
		for _, op := range []string{"get", "cancel", "subscribe"} {
			require.Equal(t, "TaskNotFoundError", s.refused(to, op, unknown), op)
		}
		for _, op := range []string{"send", "stream"} {
			require.Equal(t, "TaskNotFoundError", s.refused(to, op, s.say("hi", map[string]any{"taskId": "nothing"})), op)
			require.Equal(t, "UnsupportedOperationError", s.refused(to, op, s.say("hi", map[string]any{"taskId": done.ID})), op)
		}
		require.Equal(t, "TaskNotCancelableError", s.refused(to, "cancel", map[string]any{"id": done.ID}))
		require.Equal(t, "UnsupportedOperationError", s.refused(to, "subscribe", map[string]any{"id": done.ID}))
		if s.old || s.legacy {
			return // its client has one error for all others
		}
		for _, op := range []string{"send", "stream"} {
			require.Equal(t, "RequestMalformedError", s.refused(to, op, s.say("hi", map[string]any{"parts": []any{}})), op)
			require.Equal(t, "RequestMalformedError", s.refused(to, op, s.say("hi", map[string]any{"messageId": ""})), op)
			require.Equal(t, "RequestMalformedError", s.refused(to, op, s.say("hi", map[string]any{"role": "ROLE_AGENT"})), op)
			sound := map[string]any{"raw": "aGk=", "mediaType": "audio/wav"}
			require.Equal(t, "ContentTypeNotSupportedError", s.refused(to, op, s.say("hi", map[string]any{"parts": []any{sound}})), op)
		}
		require.Equal(t, "RequestMalformedError", s.refused(to, "get", map[string]any{"id": done.ID, "historyLength": -1}))
	})
}
