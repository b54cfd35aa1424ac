package jspeers_test

import (
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// abort ends the call, as a user does who walks away.
func (s *stream) abort() {
	s.c.t.Helper()
	line := must.Get(json.Marshal(map[string]any{"op": "abort", "params": s.id}))
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	must.Get(s.c.in.Write(append(line, '\n')))
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
		s.refused("UnsupportedOperationError", to, "subscribe", map[string]any{"id": id})
	})
}

// The errors of the protocol are told apart by a client that nobody here wrote.
func TestClientIsRefused(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		to := s.target(serve(t, support(t)))
		done := s.send(to, s.say("hello", nil))
		unknown := map[string]any{"id": "nothing"}
		for _, op := range []string{"get", "cancel", "subscribe"} {
			s.refused("TaskNotFoundError", to, op, unknown)
		}
		for _, op := range []string{"send", "stream"} {
			s.refused("TaskNotFoundError", to, op, s.say("hi", map[string]any{"taskId": "nothing"}))
			s.refused("UnsupportedOperationError", to, op, s.say("hi", map[string]any{"taskId": done.ID}))
		}
		s.refused("TaskNotCancelableError", to, "cancel", map[string]any{"id": done.ID})
		s.refused("UnsupportedOperationError", to, "subscribe", map[string]any{"id": done.ID})
		if s.old || s.legacy {
			return // its client has one error for all others
		}
		for _, op := range []string{"send", "stream"} {
			s.refused("RequestMalformedError", to, op, s.say("hi", map[string]any{"parts": []any{}}))
			s.refused("RequestMalformedError", to, op, s.say("hi", map[string]any{"messageId": ""}))
			s.refused("RequestMalformedError", to, op, s.say("hi", map[string]any{"role": "ROLE_AGENT"}))
			sound := map[string]any{"raw": "aGk=", "mediaType": "audio/wav"}
			s.refused("ContentTypeNotSupportedError", to, op, s.say("hi", map[string]any{"parts": []any{sound}}))
		}
		s.refused("RequestMalformedError", to, "get", map[string]any{"id": done.ID, "historyLength": -1})
	})
}
