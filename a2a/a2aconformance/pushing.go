package a2aconformance

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/stretchr/testify/require"
)

func pushes(t Target, _ Binding) bool { return t.Push }

// pushing are the rules of push notifications (sections 3.1.7 to 3.1.10 and 4.3).
func pushing() []testCase {
	const create, get, all, del = "CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"
	return []testCase{
		{"push notification configs are made, read, listed and deleted", pushes, func(s *suite) {
			hook := newWebhook(s, 0)
			task := s.begin("wait")
			defer s.unhook(id(task))
			made := s.call(create, object{"taskId": id(task), "url": hook.URL, "token": "t0ken"})
			require.NotEmpty(s, text(made, "id"), "the server gives an id")
			require.Equal(s, hook.URL, text(made, "url"))
			require.Equal(s, id(task), text(made, "taskId"))
			named := s.call(create, object{"taskId": id(task), "id": "mine", "url": hook.URL})
			require.Equal(s, "mine", text(named, "id"))
			require.Equal(s, hook.URL, text(s.call(get, object{"taskId": id(task), "id": text(made, "id")}), "url"))
			require.Len(s, list(s.call(all, object{"taskId": id(task)}), "configs"), 2)
			for range 2 { // deleting is idempotent
				s.call(del, object{"taskId": id(task), "id": "mine"})
			}
			s.refused(taskNotFound, get, object{"taskId": id(task), "id": "mine"})
			require.Len(s, list(s.call(all, object{"taskId": id(task)}), "configs"), 1)
		}},
		{"push notification configs of a task that does not exist", pushes, func(s *suite) {
			s.refused(taskNotFound, create, object{"taskId": "nothing", "url": "http://127.0.0.1:9/"})
			s.refused(taskNotFound, get, object{"taskId": "nothing", "id": "x"})
			s.refused(taskNotFound, all, object{"taskId": "nothing"})
			s.refused(taskNotFound, del, object{"taskId": "nothing", "id": "x"})
		}},
		{"a webhook hears of its task until the end, although it fails at first", pushes, func(s *suite) {
			hook := newWebhook(s, 1)
			task := s.begin("wait")
			defer s.unhook(id(task))
			s.call(create, object{"taskId": id(task), "url": hook.URL, "token": "t0ken", "authentication": object{"scheme": "Bearer", "credentials": "s3cret"}})
			s.Release()
			s.await(id(task), "COMPLETED")
			hook.awaitState(s, "COMPLETED")
			for _, r := range hook.requests() {
				require.Equal(s, "application/a2a+json", r.header.Get("Content-Type"))
				require.Equal(s, "Bearer s3cret", r.header.Get("Authorization"))
				require.Equal(s, "t0ken", r.header.Get("X-A2A-Notification-Token"))
				require.Len(s, r.body, 1, "one of task, message, statusUpdate and artifactUpdate")
				s.checkNames(r.body)
			}
		}},
		{"a webhook that comes with the message", pushes, func(s *suite) {
			hook := newWebhook(s, 0)
			params := with(message("echo a"), "configuration", object{"taskPushNotificationConfig": object{"url": hook.URL}})
			task := s.task(s.call("SendMessage", params))
			defer s.unhook(id(task))
			require.Equal(s, "COMPLETED", state(task))
			hook.awaitState(s, "COMPLETED")
		}},
		{"a webhook whose config was deleted hears nothing more", pushes, func(s *suite) {
			hook, other := newWebhook(s, 0), newWebhook(s, 0)
			task := s.begin("wait")
			defer s.unhook(id(task))
			made := s.call(create, object{"taskId": id(task), "url": hook.URL})
			s.call(create, object{"taskId": id(task), "url": other.URL})
			s.call(del, object{"taskId": id(task), "id": text(made, "id")})
			before := len(hook.requests())
			s.Release()
			s.await(id(task), "COMPLETED")
			other.awaitState(s, "COMPLETED")
			require.LessOrEqual(s, len(hook.requests()), before+1, "one may have been on its way")
			for _, r := range hook.requests() {
				require.NotEqual(s, "COMPLETED", r.state())
			}
		}},
		{"a webhook survives a restart", func(t Target, b Binding) bool { return t.Push && t.Restart != nil }, func(s *suite) {
			hook := newWebhook(s, 0)
			task := s.begin("wait")
			defer s.unhook(id(task))
			s.call(create, object{"taskId": id(task), "url": hook.URL})
			s.Restart()
			require.Len(s, list(s.call(all, object{"taskId": id(task)}), "configs"), 1)
			s.Release()
			hook.awaitState(s, "COMPLETED")
		}},
		{"a config without a URL is refused", pushes, func(s *suite) {
			task := s.begin("wait")
			defer s.unhook(id(task))
			for _, url := range []string{"", "not a url", "ftp://example.com/"} {
				s.refused(invalidParams, create, object{"taskId": id(task), "url": url})
			}
		}},
		{"push notifications that are not supported", func(t Target, _ Binding) bool { return !t.Push }, func(s *suite) {
			task := s.send("echo a")
			s.refused(pushNotSupported, create, object{"taskId": id(task), "url": "https://example.com/"})
			s.refused(pushNotSupported, get, object{"taskId": id(task), "id": "x"})
			s.refused(pushNotSupported, all, object{"taskId": id(task)})
			s.refused(pushNotSupported, del, object{"taskId": id(task), "id": "x"})
			s.refused(pushNotSupported, "SendMessage", with(message("echo a"), "configuration", object{"taskPushNotificationConfig": object{"url": "https://example.com/"}}))
		}},
	}
}

// webhook is a receiver of push notifications.
type webhook struct {
	*httptest.Server
	mu    sync.Mutex
	fails int
	got   []posted
	more  chan struct{}
}

type posted struct {
	header http.Header
	body   object
}

func (p posted) state() string {
	for _, name := range []string{"task", "statusUpdate"} {
		if o, ok := p.body[name].(object); ok {
			return state(o)
		}
	}
	return ""
}

// newWebhook starts a receiver that fails some times first.
func newWebhook(s *suite, fails int) *webhook {
	w := &webhook{fails: fails, more: make(chan struct{}, 1000)}
	w.Server = httptest.NewServer(http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		data, _ := io.ReadAll(req.Body)
		var body object
		_ = json.Unmarshal(data, &body)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.fails > 0 {
			w.fails--
			res.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.got = append(w.got, posted{req.Header.Clone(), body})
		w.more <- struct{}{}
	}))
	s.Cleanup(w.Close)
	return w
}

func (w *webhook) requests() []posted {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]posted(nil), w.got...)
}

// unhook deletes the configs of a task, so that nobody tries to reach receivers that are
// gone.
func (s *suite) unhook(task string) {
	s.Helper()
	for _, config := range list(s.call("ListTaskPushNotificationConfigs", object{"taskId": task}), "configs") {
		s.call("DeleteTaskPushNotificationConfig", object{"taskId": task, "id": text(config, "id")})
	}
}

// awaitState waits until the webhook has heard of a state.
func (w *webhook) awaitState(s *suite, want string) {
	s.Helper()
	for {
		for _, p := range w.requests() {
			if p.state() == want {
				return
			}
		}
		select {
		case <-w.more:
		case <-s.ctx.Done():
			require.Fail(s, "the webhook does not hear of the state", "%s in %v", want, w.requests())
		}
	}
}
