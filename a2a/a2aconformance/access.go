package a2aconformance

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/stretchr/testify/require"
)

func callers(t Target, _ Binding) bool { return len(t.Callers) > 1 }

// access are the rules of versions, callers and the card (sections 3.6, 7, 8 and 13.1).
func access() []testCase {
	return []testCase{
		{"a version that is not supported", nil, func(s *suite) {
			for _, version := range []string{"99.0", "2.0", "0.1", "one"} {
				_, err := s.do(Request{Operation: "SendMessage", Params: message("echo a"), Version: version})
				s.requireError(versionNotSupported, err)
				_, err = s.do(Request{Operation: "GetTask", Params: object{"id": "x"}, Version: version})
				s.requireError(versionNotSupported, err)
			}
		}},
		{"the patch of a version does not matter", nil, func(s *suite) {
			answer, err := s.do(Request{Operation: "SendMessage", Params: message("echo a"), Version: "1.0.7"})
			require.NoError(s, err)
			require.Equal(s, "COMPLETED", state(s.task(answer)))
		}},
		{"an extension that nobody knows is ignored", nil, func(s *suite) {
			answer, err := s.do(Request{Operation: "SendMessage", Params: message("echo a"), Extensions: []string{"https://example.com/unknown/v1"}})
			require.NoError(s, err)
			require.Equal(s, "COMPLETED", state(s.task(answer)))
		}},
		{"callers do not see each other's tasks", callers, func(s *suite) {
			other := s.Callers[1]
			mine, asks := s.begin("wait"), s.send("ask")
			for operation, params := range map[string]object{
				"GetTask":     {"id": id(mine)},
				"CancelTask":  {"id": id(mine)},
				"SendMessage": message("yes", object{"taskId": id(asks)}),
			} {
				_, err := s.tryAs(other, operation, params)
				s.requireError(taskNotFound, err)
			}
			for _, err := range s.b.Stream(s.ctx, Request{Operation: "SubscribeToTask", Params: object{"id": id(mine)}, Caller: other}) {
				s.requireError(taskNotFound, err)
			}
			if s.Push {
				for operation, params := range map[string]object{
					"CreateTaskPushNotificationConfig": {"taskId": id(mine), "url": "http://127.0.0.1:9/"},
					"GetTaskPushNotificationConfig":    {"taskId": id(mine), "id": "x"},
					"ListTaskPushNotificationConfigs":  {"taskId": id(mine)},
					"DeleteTaskPushNotificationConfig": {"taskId": id(mine), "id": "x"},
				} {
					_, err := s.tryAs(other, operation, params)
					s.requireError(taskNotFound, err)
				}
			}
			page, err := s.tryAs(other, "ListTasks", object{"pageSize": 100})
			require.NoError(s, err)
			for _, task := range list(page, "tasks") {
				require.NotContains(s, []string{id(mine), id(asks)}, id(task.(object)))
			}
			page, err = s.tryAs(other, "ListTasks", object{"contextId": contextID(mine)})
			require.NoError(s, err)
			require.Empty(s, list(page, "tasks"))
			require.Equal(s, "INPUT_REQUIRED", state(s.get(id(asks))))
			require.False(s, over(state(s.get(id(mine)))))
			// The same name of a context is another context.
			answer, err := s.tryAs(other, "SendMessage", message("echo a", object{"contextId": contextID(asks)}))
			if err == nil {
				require.Len(s, list(s.task(answer), "history"), 1)
			}
			require.Equal(s, "INPUT_REQUIRED", state(s.get(id(asks))))
		}},
		{"a stranger is refused", func(t Target, _ Binding) bool { return t.Stranger != "" }, func(s *suite) {
			for _, operation := range []string{"SendMessage", "GetTask", "ListTasks", "CancelTask"} {
				_, err := s.tryAs(s.Stranger, operation, with(message("echo a"), "id", "x"))
				var e *Error
				require.True(s, errors.As(err, &e), "%s: %v", operation, err)
				require.Contains(s, []int{401, 16, -32000, -31401, -32401}, e.Code)
			}
		}},
		{"the extended card", nil, func(s *suite) {
			if !s.ExtendedCard {
				s.refused(unsupportedOperation, "GetExtendedAgentCard", object{})
				return
			}
			card := s.call("GetExtendedAgentCard", object{})
			require.NotEmpty(s, text(card, "name"))
			require.NotEmpty(s, list(card, "supportedInterfaces"))
		}},
		{"the card (sections 4.4.1, 8.2 and 8.6)", func(t Target, b Binding) bool { return t.CardURL != "" && b.Absence }, func(s *suite) {
			res, data := s.fetch(s.CardURL, nil)
			require.Equal(s, http.StatusOK, res.StatusCode)
			var card object
			require.NoError(s, json.Unmarshal(data, &card))
			for _, name := range []string{"name", "description", "version", "supportedInterfaces", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"} {
				require.Contains(s, card, name)
			}
			for _, skill := range list(card, "skills") {
				for _, name := range []string{"id", "name", "description", "tags"} {
					require.Contains(s, skill, name)
				}
			}
			require.True(s, slices.ContainsFunc(list(card, "supportedInterfaces"), func(i any) bool {
				return text(i, "protocolBinding") == s.b.Name && text(i, "protocolVersion") == "1.0" && text(i, "url") != ""
			}), "the card names this binding")
			capabilities, _ := card["capabilities"].(object)
			push, _ := capabilities["pushNotifications"].(bool)
			require.Equal(s, s.Push, push)
			extended, _ := capabilities["extendedAgentCard"].(bool)
			require.Equal(s, s.ExtendedCard, extended)
			require.NotEmpty(s, res.Header.Get("Cache-Control"))
			tag := res.Header.Get("ETag")
			require.NotEmpty(s, tag)
			res, _ = s.fetch(s.CardURL, http.Header{"If-None-Match": {tag}})
			require.Equal(s, http.StatusNotModified, res.StatusCode)
		}},
	}
}
