package redis_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/tools"
)

// follows is a tail, made by the function that each of these tests is run with.
type follows interface {
	session.Store
	session.Tail
}

func eachTail(t *testing.T, run func(t *testing.T, tail follows)) {
	t.Run("live", func(t *testing.T) {
		l := must.Get(tail.New(session.NewMemory(), tail.WithPoll(20*time.Millisecond)))
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		run(t, l)
	})
	t.Run("redis", func(t *testing.T) {
		prefix := rand.Text()
		run(t, newTail(t, servers.SharedRedis(t), session.NewMemory(), redis.WithPrefix(prefix), redis.WithPoll(20*time.Millisecond)))
	})
}

// tree makes a tree in which agents transfer, think, call tools and speak inside each
// other, two at a time, and whose endpoint fails in mid-answer.
func tree(t *testing.T) (agent.Agent, *scripted.Script) {
	script := must.Get(scripted.Parse([]byte(`
support: "One " "moment." call lookup#k1 {"id": 1}
support: call ask_expert#k2 {"input": "Is it right?"} call ask_clerk#k3 {"input": "Is it there?"}
expert: think "Let me " think "see." "It " "is " "right."
clerk: "It " "is " "there."
support: "I gue" fault=cut
support: call transfer_to_agent#k4 {"agent_name": "billing"}
billing: "Your money " "comes back."
billing: "You are " "welcome."
`)))
	var inside []tools.Tool
	for _, name := range []string{"expert", "clerk"} {
		a := must.Get(llmagent.New(name, "You know.", script.Model(name)))
		tool := must.Get(agenttool.New(a, agenttool.WithName("ask_"+name)))
		inside = append(inside, tool)
	}
	lookup := must.Get(tools.Func("lookup", "Looks something up.", func(tools.Context, struct {
		ID int `json:"id"`
	}) (string, error) {
		return "two charges", nil
	}))
	billing := must.Get(llmagent.New("billing", "You pay back.", script.Model("billing")))
	support := must.Get(llmagent.New("support", "You route.", script.Model("support"), llmagent.WithTools(append(inside, lookup)...), llmagent.WithSubAgents(billing)))
	return support, script
}

// TestFollowTheRunner: what followers see of real turns reduces to the graph of the
// log, also for those that are cut off again and again, and to what the caller saw.
func TestFollowTheRunner(t *testing.T) {
	eachTail(t, func(t *testing.T, tail follows) {
		root, script := tree(t)
		r := must.Get(runner.New(root, tail, runner.WithStreaming()))
		key := session.ID("s")
		c := follow(t, tail, key, "")

		var wg sync.WaitGroup
		running, over := context.WithCancel(t.Context())
		results := make([][]session.Entry, 4)
		for i := range results {
			wg.Go(func() {
				rng := mathrand.New(mathrand.NewPCG(uint64(i), 1))
				for last := ""; running.Err() == nil; {
					n := rng.IntN(4)
					for e, err := range tail.Follow(running, key, last) {
						if err != nil {
							break
						}
						results[i], last = append(results[i], e), e.ID
						if n--; n < 0 {
							break
						}
					}
				}
			})
		}
		for _, text := range []string{"I was charged twice", "Thanks"} {
			for _, err := range r.Run(t.Context(), key, llm.UserText(text)) {
				require.NoError(t, err)
			}
		}
		require.NoError(t, script.Done())
		n := int64(0)
		for _, err := range tail.Load(t.Context(), key, 0) {
			require.NoError(t, err)
			n++
		}
		must.Wait(t, func() bool {
			list := c.entries()
			return len(list) > 0 && list[len(list)-1].Event.Seq == n
		})
		over()
		wg.Wait()
		c.sound(tail, key)
		end := c.entries()[len(c.entries())-1].ID
		for i, got := range results { // what was not asked for yet
			last := ""
			if len(got) > 0 {
				last = got[len(got)-1].ID
			}
			if last == end {
				continue
			}
			for e, err := range tail.Follow(t.Context(), key, last) {
				require.NoError(t, err)
				if results[i] = append(results[i], e); e.ID == end {
					break
				}
			}
		}

		var seen []string
		for _, e := range c.entries() {
			if e.Event.Partial && e.Event.Scope == "" {
				seen = append(seen, e.Event.Text())
			}
		}
		require.Equal(t, []string{"One ", "moment.", "I gue", "Your money ", "comes back.", "You are ", "welcome."}, seen)
		// Each delta comes once, those of agents inside of a tool as well.
		deltas, whole := make(map[string]string), make(map[string]string)
		for _, e := range c.entries() {
			switch {
			case e.Event.Partial:
				deltas[e.Event.ID] += e.Event.Text()
			case e.Event.Type() == event.TypeText:
				whole[e.Event.ID] = e.Event.Text()
			}
		}
		for id, words := range deltas {
			if text, ok := whole[id]; ok {
				require.Equal(t, text, words)
			}
		}
		for _, got := range results {
			require.Equal(t, ids(c.entries()), ids(got))
			other := &client{t: t, got: got}
			other.sound(tail, key)
		}
	})
}

func ids(entries []session.Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.ID + " " + e.Event.Type() + " " + e.Event.Text()
	}
	return out
}

// TestCancelInMidAnswer: a turn that is canceled while a model speaks leaves followers
// with the graph of the log, and so does the next turn.
func TestCancelInMidAnswer(t *testing.T) {
	eachTail(t, func(t *testing.T, tail follows) {
		hold := make(chan struct{})
		script := scripted.New().Add("solo",
			scripted.Reply(scripted.Text("Half ", "an "), scripted.WaitFor(hold), scripted.Text("answer")),
			scripted.Reply(scripted.Text("A ", "whole ", "one.")))
		solo := must.Get(llmagent.New("solo", "", script.Model("solo")))
		r := must.Get(runner.New(solo, tail, runner.WithStreaming()))
		key := session.ID("s")
		c := follow(t, tail, key, "")
		shown := ""
		for e, err := range r.Run(t.Context(), key, llm.UserText("Hi")) {
			require.NoError(t, err)
			if e.Partial {
				shown = e.ID
				if e.Text() == "an " {
					break
				}
			}
		}
		c.seesLast("void " + shown)
		c.sound(tail, key)
		for _, err := range r.Run(t.Context(), key, llm.UserText("And now?")) {
			require.NoError(t, err)
		}
		c.seesLast(".") // the run's end
		must.Wait(t, func() bool { return strings.Contains(fmt.Sprint(c.words()), "A whole one.") })
		c.seesLast(".")
		c.sound(tail, key)
	})
}

// TestTurnsDoNotWaitForRedis: turns continue, complete and correct, while Redis is
// down.
func TestTurnsDoNotWaitForRedis(t *testing.T) {
	server := servers.NewRedis(t)
	var heard log
	tail := newTail(t, server.URL(), session.NewMemory(), redis.WithPoll(20*time.Millisecond), heard.option())
	require.NoError(t, server.Kill())
	root, script := tree(t)
	r := must.Get(runner.New(root, tail, runner.WithStreaming()))
	key := session.ID("s")
	c := follow(t, tail, key, "")
	heard.hold(t, func() {
		for _, text := range []string{"I was charged twice", "Thanks"} {
			for _, err := range r.Run(t.Context(), key, llm.UserText(text)) {
				require.NoError(t, err)
			}
		}
	})
	require.NoError(t, script.Done())
	n := 0
	for _, err := range tail.Load(t.Context(), key, 0) {
		require.NoError(t, err)
		n++
	}
	must.Wait(t, func() bool { return len(c.entries()) == n+1 })
	c.sound(tail, key)
}
