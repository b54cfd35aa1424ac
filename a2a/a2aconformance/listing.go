package a2aconformance

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// listing are the rules of List Tasks (section 3.1.4).
func listing() []testCase {
	return []testCase{
		{"a list is in pages, and the newest task comes first", nil, func(s *suite) {
			context, ids := s.conversation(7)
			slices.Reverse(ids)
			var got []string
			token := ""
			for pages := 0; ; pages++ {
				require.Less(s, pages, 10)
				params := object{"contextId": context, "pageSize": 3}
				if token != "" {
					params["pageToken"] = token
				}
				page := s.call("ListTasks", params)
				require.EqualValues(s, 7, page["totalSize"])
				for _, task := range list(page, "tasks") {
					got = append(got, id(task.(object)))
				}
				require.LessOrEqual(s, len(list(page, "tasks")), 3)
				if s.b.Absence {
					require.Contains(s, page, "nextPageToken", "it is there on the last page too")
					require.EqualValues(s, 3, page["pageSize"])
				}
				if token = text(page, "nextPageToken"); token == "" {
					break
				}
			}
			require.Equal(s, ids, got)
			s.checkOrder(list(s.call("ListTasks", object{}), "tasks"))
		}},
		{"new tasks do not shift the pages", nil, func(s *suite) {
			context, ids := s.conversation(5)
			slices.Reverse(ids)
			first := s.call("ListTasks", object{"contextId": context, "pageSize": 2})
			s.send("echo late", object{"contextId": context})
			second := s.call("ListTasks", object{"contextId": context, "pageSize": 100, "pageToken": text(first, "nextPageToken")})
			var got []string
			for _, task := range append(list(first, "tasks"), list(second, "tasks")...) {
				got = append(got, id(task.(object)))
			}
			require.Equal(s, ids, got)
		}},
		{"the default is at most 50 a page", nil, func(s *suite) {
			page := s.call("ListTasks", object{})
			require.LessOrEqual(s, len(list(page, "tasks")), 50)
		}},
		{"an empty list is a list", nil, func(s *suite) {
			page := s.call("ListTasks", object{"contextId": "nothing-here"})
			require.Empty(s, list(page, "tasks"))
			if s.b.Absence {
				require.IsType(s, []any{}, page["tasks"])
				require.Equal(s, "", page["nextPageToken"])
				require.EqualValues(s, 0, page["totalSize"])
			}
		}},
		{"a list is filtered", nil, func(s *suite) {
			done := s.send("echo a")
			asks := s.send("ask", object{"contextId": contextID(done)})
			only := func(params object, want ...string) {
				s.Helper()
				params["contextId"] = contextID(done)
				got := []string{}
				for _, task := range list(s.call("ListTasks", params), "tasks") {
					got = append(got, id(task.(object)))
				}
				require.ElementsMatch(s, want, got, "%v", params)
			}
			only(object{}, id(done), id(asks))
			only(object{"status": "TASK_STATE_COMPLETED"}, id(done))
			only(object{"status": "TASK_STATE_INPUT_REQUIRED"}, id(asks))
			only(object{"status": "TASK_STATE_REJECTED"})
			at := text(asks, "status", "timestamp")
			only(object{"statusTimestampAfter": at}, id(asks))
			only(object{"statusTimestampAfter": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
			only(object{"statusTimestampAfter": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}, id(done), id(asks))
		}},
		{"artifacts are left out unless they are asked for", nil, func(s *suite) {
			task := s.send("echo a")
			s.send("fail", object{"contextId": contextID(task)})
			for _, got := range list(s.call("ListTasks", object{"contextId": contextID(task)}), "tasks") {
				require.NotContains(s, got, "artifacts")
			}
			page := list(s.call("ListTasks", object{"contextId": contextID(task), "includeArtifacts": true}), "tasks")
			require.Equal(s, list(task, "artifacts"), list(page[1].(object), "artifacts"))
		}},
		{"history length on list", nil, func(s *suite) {
			task := s.send("ask")
			s.send("yes", object{"taskId": id(task)})
			for n, want := range map[int]int{0: 0, 1: 1} {
				page := list(s.call("ListTasks", object{"contextId": contextID(task), "historyLength": n}), "tasks")
				require.Len(s, page, 1)
				require.Len(s, list(page[0].(object), "history"), want)
			}
		}},
		{"a list agrees with its tasks", nil, func(s *suite) {
			context, ids := s.conversation(2)
			for _, task := range list(s.call("ListTasks", object{"contextId": context, "includeArtifacts": true}), "tasks") {
				require.Contains(s, ids, id(task.(object)))
				require.Equal(s, s.get(id(task.(object))), task)
			}
		}},
		{"a list that cannot be is refused", nil, func(s *suite) {
			for _, params := range []object{{"pageSize": -1}, {"pageSize": 101}, {"pageToken": "not one of yours"}, {"historyLength": -1}} {
				s.refused(invalidParams, "ListTasks", params)
			}
		}},
		{"a list survives a restart", restarts, func(s *suite) {
			context, ids := s.conversation(3)
			first := s.call("ListTasks", object{"contextId": context, "pageSize": 2})
			s.Restart()
			second := s.call("ListTasks", object{"contextId": context, "pageSize": 2, "pageToken": text(first, "nextPageToken")})
			require.Len(s, list(second, "tasks"), 1)
			require.Equal(s, ids[0], id(list(second, "tasks")[0].(object)))
		}},
	}
}

// conversation makes a context with n tasks.
func (s *suite) conversation(n int) (context string, ids []string) {
	s.Helper()
	for range n {
		more := object{}
		if context != "" {
			more["contextId"] = context
		}
		task := s.send("echo a", more)
		context = contextID(task)
		ids = append(ids, id(task))
	}
	return context, ids
}

// checkOrder requires that the task whose status changed last comes first.
func (s *suite) checkOrder(tasks []any) {
	s.Helper()
	var last time.Time
	for i, task := range tasks {
		at, err := time.Parse(time.RFC3339Nano, text(task, "status", "timestamp"))
		require.NoError(s, err)
		if i > 0 {
			require.False(s, at.After(last), "task %d of the list changed after the one before it", i)
		}
		last = at
	}
}
