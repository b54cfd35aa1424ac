package a2aconformance

import (
	"github.com/stretchr/testify/require"
)

// sending are the rules of Send Message (sections 3.1.1 and 3.2.2).
func sending() []testCase {
	return []testCase{
		{"send waits for the end", nil, func(s *suite) {
			task := s.send("echo hello you")
			require.Equal(s, "COMPLETED", state(task))
			require.Len(s, list(task, "artifacts"), 1)
			require.Equal(s, "hello you", words(list(task, "artifacts")[0]))
			require.Equal(s, task, s.get(id(task)), "what was told is what can be got")
			require.Equal(s, "echo hello you", words(list(task, "history")[0]))
			require.Equal(s, "ROLE_USER", text(list(task, "history")[0], "role"))
		}},
		{"send waits until something is asked", nil, func(s *suite) {
			task := s.send("ask")
			require.Equal(s, "INPUT_REQUIRED", state(task))
			require.NotEmpty(s, words(task["status"].(object)["message"]), "the question is in the status")
		}},
		{"a task that fails says so", nil, func(s *suite) {
			require.Equal(s, "FAILED", state(s.send("fail")))
		}},
		{"returnImmediately does not wait", nil, func(s *suite) {
			task := s.begin("wait")
			require.False(s, over(state(task)), state(task))
			s.Release()
			s.await(id(task), "COMPLETED")
		}},
		{"returnImmediately is false by default", nil, func(s *suite) {
			params := with(message("echo now"), "configuration", object{"returnImmediately": false})
			require.Equal(s, "COMPLETED", state(s.task(s.call("SendMessage", params))))
			params = with(message("echo now"), "configuration", object{})
			require.Equal(s, "COMPLETED", state(s.task(s.call("SendMessage", params))))
		}},
		{"ids are the server's, and new", nil, func(s *suite) {
			one, two := s.send("echo a"), s.send("echo b")
			require.NotEqual(s, id(one), id(two))
			require.NotEqual(s, contextID(one), contextID(two))
		}},
		{"data, files and several parts are messages", nil, func(s *suite) {
			params := message("echo parts")
			m := params["message"].(object)
			m["parts"] = []any{object{"text": "echo"}, object{"text": " and more"}, object{"data": object{"n": 1.0}, "mediaType": "application/json"}}
			m["metadata"] = object{"some_key": object{"x": true}}
			require.Equal(s, "COMPLETED", state(s.task(s.call("SendMessage", params))))
		}},
		{"history length on send (section 3.2.4)", nil, func(s *suite) {
			for n, want := range map[int]int{0: 0, 1: 1, 100: 2} {
				task := s.send("ask")
				params := with(message("yes", object{"taskId": id(task)}), "configuration", object{"historyLength": n})
				history := list(s.task(s.call("SendMessage", params)), "history")
				if n == 100 {
					require.GreaterOrEqual(s, len(history), want)
				} else {
					require.Len(s, history, want)
				}
			}
		}},
	}
}

// turns are the rules of conversations (section 3.4).
func turns() []testCase {
	return []testCase{
		{"a context goes on with a new task", nil, func(s *suite) {
			one := s.send("echo a")
			two := s.send("echo b", object{"contextId": contextID(one)})
			require.Equal(s, contextID(one), contextID(two))
			require.NotEqual(s, id(one), id(two))
			require.Equal(s, "b", words(list(two, "artifacts")[0]))
			require.Equal(s, one, s.get(id(one)), "the earlier task is as it was")
		}},
		{"a client's context is kept or refused", nil, func(s *suite) {
			answer, err := s.try("SendMessage", message("echo a", object{"contextId": "my-own-context-7"}))
			if err != nil {
				s.requireError(invalidParams, err)
				return
			}
			require.Equal(s, "my-own-context-7", contextID(s.task(answer)))
		}},
		{"an answer goes to the task that asked", nil, func(s *suite) {
			task := s.send("ask")
			done := s.send("yes", object{"taskId": id(task), "contextId": contextID(task)})
			require.Equal(s, id(task), id(done))
			require.Equal(s, "COMPLETED", state(done))
		}},
		{"the context is that of the task", nil, func(s *suite) {
			task := s.send("ask")
			done := s.send("yes", object{"taskId": id(task)})
			require.Equal(s, id(task), id(done))
			require.Equal(s, contextID(task), contextID(done))
		}},
		{"a context that is not the task's is refused", nil, func(s *suite) {
			task := s.send("ask")
			s.refused(invalidParams, "SendMessage", message("yes", object{"taskId": id(task), "contextId": "another"}))
			require.Equal(s, "INPUT_REQUIRED", state(s.get(id(task))))
		}},
		{"a task that does not exist is not made", nil, func(s *suite) {
			s.refused(taskNotFound, "SendMessage", message("echo a", object{"taskId": "my-own-task"}))
		}},
		{"a task that is over takes no messages", nil, func(s *suite) {
			for _, text := range []string{"echo a", "fail"} {
				task := s.send(text)
				s.refused(unsupportedOperation, "SendMessage", message("echo b", object{"taskId": id(task)}))
				require.Equal(s, task, s.get(id(task)))
			}
			task := s.begin("wait")
			s.call("CancelTask", object{"id": id(task)})
			s.refused(unsupportedOperation, "SendMessage", message("echo b", object{"taskId": id(task)}))
		}},
	}
}

// reading are the rules of Get Task (sections 3.1.3 and 3.2.4).
func reading() []testCase {
	return []testCase{
		{"a task that does not exist", nil, func(s *suite) {
			s.refused(taskNotFound, "GetTask", object{"id": "nothing"})
		}},
		{"history length on get", nil, func(s *suite) {
			task := s.send("ask")
			task = s.send("yes", object{"taskId": id(task)})
			all := list(s.get(id(task)), "history")
			require.GreaterOrEqual(s, len(all), 2)
			none := s.call("GetTask", object{"id": id(task), "historyLength": 0})
			require.Empty(s, list(none, "history"))
			if s.b.Absence {
				require.NotContains(s, none, "history")
			}
			one := s.call("GetTask", object{"id": id(task), "historyLength": 1})
			require.Equal(s, all[len(all)-1:], list(one, "history"), "the most recent one")
			require.Equal(s, all, list(s.call("GetTask", object{"id": id(task), "historyLength": 1000}), "history"))
			s.refused(invalidParams, "GetTask", object{"id": id(task), "historyLength": -1})
		}},
		{"getting changes nothing", nil, func(s *suite) {
			task := s.send("ask")
			for range 3 {
				require.Equal(s, task, s.get(id(task)))
			}
		}},
		{"a task survives a restart", restarts, func(s *suite) {
			done, asks := s.send("echo a"), s.send("ask")
			s.Restart()
			require.Equal(s, done, s.get(id(done)))
			require.Equal(s, asks, s.get(id(asks)))
			require.Equal(s, "COMPLETED", state(s.send("yes", object{"taskId": id(asks)})))
		}},
	}
}

func restarts(t Target, _ Binding) bool { return t.Restart != nil }

// canceling are the rules of Cancel Task (sections 3.1.5 and 3.3.1).
func canceling() []testCase {
	return []testCase{
		{"a task that works is canceled", nil, func(s *suite) {
			task := s.begin("wait")
			canceled := s.call("CancelTask", object{"id": id(task)})
			s.checkTask(canceled)
			require.Equal(s, id(task), id(canceled))
			require.Equal(s, "CANCELED", state(canceled))
			require.Equal(s, "CANCELED", state(s.get(id(task))))
			next := s.send("echo more", object{"contextId": contextID(task)})
			require.Equal(s, "COMPLETED", state(next), "the context goes on")
		}},
		{"a task that asks is canceled", nil, func(s *suite) {
			task := s.send("ask")
			require.Equal(s, "CANCELED", state(s.call("CancelTask", object{"id": id(task)})))
			s.refused(unsupportedOperation, "SendMessage", message("yes", object{"taskId": id(task)}))
		}},
		{"canceling twice has one effect", nil, func(s *suite) {
			task := s.begin("wait")
			first := s.call("CancelTask", object{"id": id(task)})
			again, err := s.try("CancelTask", object{"id": id(task)})
			if err != nil {
				s.requireError(taskNotCancelable, err)
			} else {
				require.Equal(s, "CANCELED", state(again))
			}
			require.Equal(s, state(first), state(s.get(id(task))))
			require.Equal(s, text(first, "status", "timestamp"), text(s.get(id(task)), "status", "timestamp"))
		}},
		{"a task that is over cannot be canceled", nil, func(s *suite) {
			for _, words := range []string{"echo a", "fail"} {
				task := s.send(words)
				s.refused(taskNotCancelable, "CancelTask", object{"id": id(task)})
				require.Equal(s, task, s.get(id(task)))
			}
		}},
		{"a task that does not exist cannot be canceled", nil, func(s *suite) {
			s.refused(taskNotFound, "CancelTask", object{"id": "nothing"})
		}},
	}
}
