package server_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// A search finds sessions by their first and last words, phrases, agent, state and date, among all that a user has, and
// says how far it went.
func TestSearch(t *testing.T) {
	s := newServed(t)
	s.say(t, "one", "hello green tree")
	s.say(t, "two", "hello tree green")
	s.say(t, "three", "hello first")
	s.say(t, "three", "hello LAST words")
	s.say(t, "asks", "ask")
	find := func(query ...string) (ids []string) {
		values := url.Values{}
		for i := 0; i < len(query); i += 2 {
			values.Set(query[i], query[i+1])
		}
		page := s.get(t, "ann", "/sessions?"+values.Encode()).json(t)
		for _, one := range page["sessions"].([]any) {
			ids = append(ids, one.(map[string]any)["id"].(string))
		}
		require.NotContains(t, page, "next")
		require.NotZero(t, page["searched"].(map[string]any)["sessions"])
		return ids
	}
	require.Equal(t, []string{"two", "one"}, find("q", "TREE green"))
	require.Equal(t, []string{"one"}, find("q", `"green  tree"`))
	require.Equal(t, []string{"one"}, find("q", `hello "green tree`), "a quote without an end")
	require.Equal(t, []string{"three"}, find("q", "first"))
	require.Equal(t, []string{"three"}, find("q", "three"), "the id")
	require.Empty(t, find("q", "nothing of this"))
	require.Equal(t, []string{"asks"}, find("q", "ask", "state", "waiting"))
	require.Empty(t, find("q", "hello", "agent", "nobody"))
	require.Len(t, find("agent", "desk"), 4)
	require.Len(t, find("since", time.Now().Add(-time.Hour).Format(time.RFC3339)), 4)
	require.Empty(t, find("until", time.Now().Add(-time.Hour).Format(time.RFC3339)))
	require.Equal(t, 400, s.get(t, "ann", "/sessions?since=yesterday").status)

	a := s.get(t, "ann", "/sessions?q=hello&limit=1").json(t)
	require.Contains(t, a, "next")
	a = s.get(t, "ann", "/sessions?q=hello&limit=2&after="+url.QueryEscape(a["next"].(string))).json(t)
	require.Len(t, a["sessions"], 2)
}

// A fork is titled by what was said in it first, and by its parent's first words until then.
func TestForkTitle(t *testing.T) {
	s := newServed(t)
	s.say(t, "one", "hello there")
	seq := s.get(t, "ann", "/sessions/one").json(t)["seq"].(float64)
	require.Equal(t, 201, s.do(t, "ann", "POST", "/sessions/one/forks", fmt.Sprintf(`{"at":%v,"id":"fork"}`, seq)).status)
	require.Equal(t, "hello there", s.get(t, "ann", "/sessions/fork").json(t)["title"])
	s.say(t, "fork", "something else")
	require.Equal(t, "something else", s.get(t, "ann", "/sessions/fork").json(t)["title"])
}

// A title is made of what is said in the first events alone, however long the log is.
func TestTitleOfLongLog(t *testing.T) {
	for title, first := range map[string]int64{"late": 200, "": 201} {
		store, key := session.NewMemory(), session.Key{App: "app", User: "ann", ID: "s"}
		lease := must.Get(sessiontest.Acquire(t.Context(), store, key, session.Self()))
		var log []*event.Event
		for seq := range first {
			log = append(log, &event.Event{Seq: seq + 1, ID: "e", TurnID: "t", RunID: "r", Data: &event.Text{Content: "x"}})
		}
		log[first-1].Data = &event.User{Content: llm.Content{Text: "late"}}
		require.NoError(t, sessiontest.Append(t.Context(), store, key, 0, lease, log...))
		require.Equal(t, title, must.Get(form.TitleOf(t.Context(), store, session.Info{Key: key})))
	}
}
