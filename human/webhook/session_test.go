package webhook_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestSession plays a handoff whose words travel over HTTP both ways, and starts this side
// afresh before each of them.
func TestSession(t *testing.T) {
	f, store := newDeskServer(t), sessiontest.Memory(t)
	script := must.Get(scripted.Parse([]byte(`
support: call transfer_to_agent {"agent_name": "human"}
support: expect user "Thanks" "Goodbye!"
`)))
	support := must.Get(llmagent.New("support", "You help.", script.Model("support")))
	fresh := func() (*runner.Runner, http.Handler) {
		d := newDesk(t, f.URL)
		r := must.Get(runner.New(support, store, runner.WithDesk(d, human.WithPatience(0))))
		return r, d.Handler(r.Deliver)
	}
	say := func(words string) (heard []string) {
		r, _ := fresh()
		for e, err := range sessiontest.Turn(t, r.Run(t.Context(), session, llm.UserText(words))) {
			require.NoError(t, err)
			if s := e.Visible(); s != "" {
				heard = append(heard, s)
			}
		}
		return heard
	}
	f.answers = append(f.answers, status(503), says(`{"status":"queued","queuePosition":2}`))
	say("A person, please.")
	require.Len(t, f.posts, 2)
	require.Equal(t, f.posts[0].id, f.posts[1].id)
	handoff := f.posts[1].json.Data["handoffId"].(string)

	post := func(id, event string) int {
		_, h := fresh()
		return deskPost{id: id, body: body(`"handoffId":"` + handoff + `",` + event)}.post(h).Code
	}
	require.Equal(t, 204, post("1", `"id":"1","status":"connected","targetAgent":"Ann"`))
	require.Equal(t, 204, post("2", `"id":"2","text":"I am Ann."`))
	require.Equal(t, 204, post("2", `"id":"2","text":"I am Ann."`), "the same, to a process that does not remember it")
	require.Equal(t, 409, post("3", `"id":"3","status":"queued"`))
	require.Empty(t, say("Hello Ann."))
	require.Equal(t, "Hello Ann.", f.posts[2].json.Data["message"].(map[string]any)["text"])
	require.Equal(t, 204, post("4", `"id":"4","status":"completed"`))
	require.Equal(t, 410, post("5", `"id":"5","text":"One more thing."`))
	require.Equal(t, []string{"Goodbye!"}, say("Thanks."))

	r, _ := fresh()
	var said []string
	for e, err := range r.History(context.Background(), session) {
		require.NoError(t, err)
		if e.Agent == agent.Human && e.Text() != "" {
			said = append(said, e.Text())
		}
	}
	require.Equal(t, []string{"I have asked for a person to join us.", "I am Ann."}, said)
	require.NoError(t, script.Done())
}
