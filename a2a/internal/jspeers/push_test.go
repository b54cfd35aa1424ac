package jspeers_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2aserver/push"
)

// posted is what a webhook got.
type posted struct {
	contentType, token, authorization string
	event                             update
}

// newWebhook serves a webhook on loopback.
func newWebhook(t *testing.T) (url string, got chan posted) {
	got = make(chan posted, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := posted{contentType: r.Header.Get("Content-Type"), token: r.Header.Get("X-A2A-Notification-Token"), authorization: r.Header.Get("Authorization")}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &p.event) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		got <- p
	}))
	t.Cleanup(hook.Close)
	return hook.URL + "/hook", got
}

// until returns what a webhook gets up to a task's state.
func until(t *testing.T, got chan posted, want state) (all []posted) {
	t.Helper()
	for {
		select {
		case p := <-got:
			all = append(all, p)
			if e := p.event; e.Task != nil && e.Task.Status.State == want || e.Status != nil && e.Status.Status.State == want {
				return all
			}
		case <-time.After(patience):
			require.Fail(t, "the webhook was not told", "%s is missing after %d posts", want, len(all))
		}
	}
}

func TestClientIsPushed(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		to := s.target(serve(t, support(t), a2aserver.WithPush(push.Options{AllowHTTP: true, AllowLoopback: true})))
		url, got := newWebhook(t)
		config := map[string]any{"id": "c1", "url": url, "token": "check-me",
			"authentication": map[string]any{"scheme": "Bearer", "credentials": "hook-secret"}}
		if s.old {
			config["authentication"] = map[string]any{"schemes": []string{"Bearer"}, "credentials": "hook-secret"}
		}

		// A webhook for a task that runs.
		req := s.say("wait", nil)
		req["configuration"] = map[string]any{"returnImmediately": true, "blocking": false}
		id := s.send(to, req).ID
		create, one := map[string]any{"taskId": id}, map[string]any{"taskId": id, "id": "c1"}
		for k, v := range config {
			create[k] = v
		}
		all := map[string]any{"taskId": id}
		if s.old {
			create = map[string]any{"taskId": id, "pushNotificationConfig": config}
			one, all = map[string]any{"id": id, "pushNotificationConfigId": "c1"}, map[string]any{"id": id}
		}
		type saved struct {
			ID, URL, Token string
			Inner          *struct{ ID, URL, Token string } `json:"pushNotificationConfig"`
		}
		check := func(c saved) {
			t.Helper()
			if s.old {
				require.NotNil(t, c.Inner)
				c.ID, c.URL = c.Inner.ID, c.Inner.URL
			}
			require.Equal(t, "c1", c.ID)
			require.Equal(t, url, c.URL)
		}
		var made, read saved
		require.NoError(t, s.call(to, "createPush", create, &made))
		check(made)
		require.NoError(t, s.call(to, "getPush", one, &read))
		check(read)
		var list struct{ Configs []saved }
		if s.old {
			require.NoError(t, s.call(to, "listPush", all, &list.Configs))
		} else {
			require.NoError(t, s.call(to, "listPush", all, &list))
		}
		require.Len(t, list.Configs, 1)
		check(list.Configs[0])

		require.NoError(t, s.call(to, "cancel", map[string]any{"id": id}, nil))
		for _, p := range until(t, got, "canceled") {
			require.Equal(t, "check-me", p.token)
			require.Equal(t, "Bearer hook-secret", p.authorization)
			if s.old || s.legacy {
				require.Equal(t, "application/json", p.contentType)
			} else {
				require.Equal(t, "application/a2a+json", p.contentType)
			}
		}
		require.NoError(t, s.call(to, "deletePush", one, nil))
		s.refused("TaskNotFoundError", to, "getPush", one)

		// A webhook that comes with the message.
		req = s.say("charges", nil)
		req["configuration"] = map[string]any{"taskPushNotificationConfig": config}
		if s.old {
			req["configuration"] = map[string]any{"pushNotificationConfig": config}
		}
		done := s.send(to, req)
		require.Equal(t, state("completed"), done.Status.State)
		until(t, got, "completed")
	})
}
