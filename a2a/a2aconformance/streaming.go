package a2aconformance

import (
	"slices"
	"sync"

	"github.com/stretchr/testify/require"
)

// streaming are the rules of streams (sections 3.1.2, 3.1.6 and 3.5.2).
func streaming() []testCase {
	return []testCase{
		{"a stream begins with the task and ends with its end", nil, func(s *suite) {
			for text, end := range map[string]string{"echo one two three": "COMPLETED", "fail": "FAILED", "ask": "INPUT_REQUIRED"} {
				events := s.stream("SendStreamingMessage", message(text))
				task := s.fold(events)
				require.Equal(s, end, state(task))
				s.same(s.get(id(task)), task)
			}
		}},
		{"history length on a stream", nil, func(s *suite) {
			for n, want := range map[int]int{0: 0, 1: 1} {
				events := s.stream("SendStreamingMessage", with(message("echo a"), "configuration", object{"historyLength": n}))
				require.Len(s, list(events[0]["task"].(object), "history"), want)
			}
		}},
		{"an answer on a stream", nil, func(s *suite) {
			task := s.send("ask")
			events := s.stream("SendStreamingMessage", message("yes", object{"taskId": id(task)}))
			done := s.fold(events)
			require.Equal(s, id(task), id(done))
			require.Equal(s, "COMPLETED", state(done))
		}},
		{"who stops reading does not stop the task", nil, func(s *suite) {
			name := ""
			for e, err := range s.open("SendStreamingMessage", message("wait")) {
				require.NoError(s, err)
				name = id(e["task"].(object))
				break
			}
			require.False(s, over(state(s.get(name))))
			s.Release()
			s.await(name, "COMPLETED")
		}},
		{"a subscription begins with the task as it is", nil, func(s *suite) {
			task := s.begin("wait")
			first := true
			for e, err := range s.open("SubscribeToTask", object{"id": id(task)}) {
				require.NoError(s, err)
				if first {
					first = false
					require.Contains(s, e, "task")
					require.Equal(s, id(task), id(e["task"].(object)))
					s.Release()
				}
			}
			require.False(s, first)
			require.Equal(s, "COMPLETED", state(s.get(id(task))), "the stream ends with the task")
		}},
		{"all subscribers hear the same in the same order", nil, func(s *suite) {
			task := s.begin("wait")
			var wg sync.WaitGroup
			streams := make([][]object, 5)
			failed := make([]error, len(streams))
			begun := make(chan struct{}, len(streams))
			for i := range streams {
				wg.Go(func() {
					first := true
					for e, err := range s.open("SubscribeToTask", object{"id": id(task)}) {
						if failed[i] = err; err != nil {
							break
						}
						streams[i] = append(streams[i], e)
						if first {
							first = false
							begun <- struct{}{}
							if i == 0 {
								return // and the others hear on
							}
						}
					}
					if first {
						begun <- struct{}{}
					}
				})
			}
			for range streams {
				<-begun
			}
			s.Release()
			wg.Wait()
			want := s.get(id(task))
			for i, events := range streams {
				require.NoError(s, failed[i])
				if i == 0 {
					continue
				}
				s.same(want, s.fold(events))
				require.Equal(s, statuses(streams[1]), statuses(events))
			}
		}},
		{"a task that asks can be subscribed to", nil, func(s *suite) {
			task := s.send("ask")
			var events []object
			for e, err := range s.open("SubscribeToTask", object{"id": id(task)}) {
				require.NoError(s, err)
				if events = append(events, e); len(events) == 1 {
					require.Equal(s, "INPUT_REQUIRED", state(e["task"].(object)))
					s.send("yes", object{"taskId": id(task)})
				}
			}
			s.same(s.get(id(task)), s.fold(events))
		}},
		{"a task that is over cannot be subscribed to", nil, func(s *suite) {
			for _, text := range []string{"echo a", "fail"} {
				s.streamRefused(unsupportedOperation, "SubscribeToTask", object{"id": id(s.send(text))})
			}
		}},
		{"a task that does not exist cannot be subscribed to", nil, func(s *suite) {
			s.streamRefused(taskNotFound, "SubscribeToTask", object{"id": "nothing"})
		}},
		{"cancel ends the streams", nil, func(s *suite) {
			task := s.begin("wait")
			var events []object
			for e, err := range s.open("SubscribeToTask", object{"id": id(task)}) {
				require.NoError(s, err)
				if events = append(events, e); len(events) == 1 {
					s.call("CancelTask", object{"id": id(task)})
				}
			}
			require.Equal(s, "CANCELED", state(s.fold(events)))
		}},
		{"a subscription after a restart", restarts, func(s *suite) {
			works, asks := s.begin("wait"), s.send("ask")
			s.Restart()
			s.Release()
			done := s.fold(s.stream("SubscribeToTask", object{"id": id(works)}))
			require.Equal(s, "COMPLETED", state(done), "what was cut off goes on")
			s.same(s.get(id(works)), done)
			var events []object
			for e, err := range s.open("SubscribeToTask", object{"id": id(asks)}) {
				require.NoError(s, err)
				if events = append(events, e); len(events) == 1 {
					require.Equal(s, "INPUT_REQUIRED", state(e["task"].(object)))
					s.send("yes", object{"taskId": id(asks)})
				}
			}
			require.Equal(s, "COMPLETED", state(s.fold(events)))
		}},
	}
}

// fold makes a task of the events of a stream, and holds the stream against the rules.
func (s *suite) fold(events []object) object {
	s.Helper()
	require.NotEmpty(s, events)
	task, ok := events[0]["task"].(object)
	require.True(s, ok, "a stream begins with the task: %v", events[0])
	s.checkTask(task)
	artifacts := list(task, "artifacts")
	for i, e := range events[1:] {
		require.Len(s, e, 1, "an event is one thing: %v", e)
		require.False(s, over(state(task)), "event %d comes after the end: %v", i+1, e)
		switch {
		case e["statusUpdate"] != nil:
			u := e["statusUpdate"].(object)
			require.Equal(s, id(task), text(u, "taskId"))
			require.Equal(s, contextID(task), text(u, "contextId"))
			task["status"] = u["status"]
		case e["artifactUpdate"] != nil:
			u := e["artifactUpdate"].(object)
			require.Equal(s, id(task), text(u, "taskId"))
			require.Equal(s, contextID(task), text(u, "contextId"))
			a := u["artifact"].(object)
			require.NotEmpty(s, list(a, "parts"), "an artifact has at least one part, in every update")
			at := slices.IndexFunc(artifacts, func(o any) bool { return text(o, "artifactId") == text(a, "artifactId") })
			appends, _ := u["append"].(bool)
			switch {
			case at < 0:
				require.False(s, appends, "what is appended to must be known: %v", u)
				artifacts = append(artifacts, a)
			case appends:
				known := artifacts[at].(object)
				artifacts[at] = with(known, "parts", append(slices.Clone(list(known, "parts")), list(a, "parts")...))
			default:
				artifacts[at] = a
			}
		case e["task"] != nil: // a snapshot before the end, which streams may have
			require.Equal(s, id(task), id(e["task"].(object)))
			task = e["task"].(object)
			artifacts = list(task, "artifacts")
		default:
			require.Fail(s, "an event of no known kind", "%v", e)
		}
	}
	if len(artifacts) > 0 {
		task = with(task, "artifacts", artifacts)
	}
	last := state(task)
	require.True(s, over(last) || last == "INPUT_REQUIRED" || last == "AUTH_REQUIRED", "the stream ends although the task does not: %s", last)
	return task
}

// same requires that what a stream told is what the task is.
func (s *suite) same(task, told object) {
	s.Helper()
	require.Equal(s, id(task), id(told))
	require.Equal(s, state(task), state(told))
	require.Len(s, list(told, "artifacts"), len(list(task, "artifacts")))
	for i, a := range list(task, "artifacts") {
		require.Equal(s, text(a, "artifactId"), text(list(told, "artifacts")[i], "artifactId"))
		require.Equal(s, words(a), words(list(told, "artifacts")[i]))
	}
}

// statuses are the states in the updates of a stream.
func statuses(events []object) (states []string) {
	for _, e := range events {
		if u, ok := e["statusUpdate"].(object); ok {
			states = append(states, state(u))
		}
	}
	return states
}
