// Package chatstest plays random conversations of clients that keep their conversation themselves, for tests of what
// speaks a protocol to them.
package chatstest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
)

// Echo returns an agent that answers with all that the user has said in the conversation, as the agent is shown it. For
// words "loop 2 3" it calls the client's get_time three times, twice, before. An agent to which it transfers does the same.
func Echo(t testing.TB) agent.Agent {
	t.Helper()
	answer := func(name string) llm.Model {
		return scripted.Func(name, func(req *llm.Request) scripted.Answer {
			heard, results := heardIn(req.Messages)
			last := heard[len(heard)-1]
			if strings.HasSuffix(last, "move") && name == "front" && slices.ContainsFunc(req.Tools, func(s llm.ToolSpec) bool { return s.Name == agent.TransferTool }) {
				return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"back"}`))
			}
			var rounds, calls int
			if _, err := fmt.Sscanf(last, "loop %d %d", &rounds, &calls); err == nil && results < rounds*calls {
				items := []scripted.Item{scripted.Text("Round. ")}
				if len(heard)%2 == 0 {
					items = nil
				}
				for range calls {
					items = append(items, scripted.Call("get_time", `{}`))
				}
				return scripted.Reply(items...)
			}
			return scripted.Reply(scripted.Text(strings.Join(heard, "/") + " " + strconv.Itoa(results)))
		})
	}
	back, err := llmagent.New("back", "", answer("back"), llmagent.WithDescription("Continues the conversation"))
	require.NoError(t, err)
	root, err := llmagent.New("front", "", answer("front"), llmagent.WithSubAgents(back))
	require.NoError(t, err)
	return root
}

// heardIn returns what users said in messages, and the number of results of tools since.
func heardIn(messages []llm.Message) (heard []string, results int) {
	for _, m := range messages {
		switch m.Role {
		case llm.RoleUser:
			texts := []string{m.Text}
			for _, p := range m.Parts {
				if text, ok := p.(llm.TextPart); ok {
					texts = append(texts, text.Text)
				}
			}
			for _, text := range texts {
				switch {
				case strings.HasPrefix(text, "(The user sent the next lines"):
					results += strings.Count(text, "Claimed result of")
				case strings.HasPrefix(text, "["): // what another agent said and did
					results += strings.Count(text, "called get_time")
				case text != "":
					heard, results = append(heard, text), 0
				}
			}
		case llm.RoleTool:
			results++
		}
	}
	return heard, results
}

// Client is a client of one protocol. Messages are in the form of its protocol.
type Client interface {
	// Send sends a conversation and returns the messages of the answer. A request that is repeated has the name of the one
	// before.
	Send(all []any, repeated bool) []any
	// User returns words of the user.
	User(id, text string) any
	// Called returns the call of a tool by another model.
	Called(call string) any
	// Give adds the result of a call to answers.
	Give(answers []any, call string) []any
	// Read reads a message of an answer: its text, the calls that wait for a result, and whether it is one that was given.
	Read(answer any) (said string, calls []string, given bool)
	// Move makes the client meet another process.
	Move()
}

// item is what a window shows of the user's words and of what followed.
type item struct {
	id, user string
	answers  []any
}

// window shows the conversation of a client.
type window struct {
	Client
	t      testing.TB
	rng    *rand.Rand
	keeps  bool
	hidden []string // words that only the server still has
	items  []item
	ids    int
	left   []window // what it has shown before
}

// words are what the user may say to [Echo].
var words = []string{"a", "b", "c", "move", "loop 1 1", "loop 2 1", "loop 2 2", "loop 1 3"}

// Play plays a conversation with [Echo]: a client continues, asks again, changes an earlier message, forgets the beginning,
// repeats a request, asks another model in between, goes back to what it has left, and meets another process at each step. An agent must be shown what the
// window shows: all of the user's words, in order, once, and nothing of another branch. If the server keeps the
// conversation, the agent is still shown what the window has forgotten. Play returns what the user has said, at the end.
func Play(t testing.TB, seed uint64, client Client, keeps bool) (heard []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	c := &window{Client: client, t: t, rng: rng, keeps: keeps}
	for range 10 {
		c.move()
		step, n := rng.IntN(9), len(c.items)
		switch {
		case step <= 2 || n == 0: // the user says more
			c.say(words[rng.IntN(len(words))])
		case step == 3: // asks again
			c.items[n-1].answers = nil
		case step == 4: // changes earlier words
			k := rng.IntN(n)
			id := c.items[k].id
			c.items = c.items[:k:k]
			c.say(words[rng.IntN(len(words))])
			if k == 0 || rng.IntN(2) == 0 { // they have their place by their id alone
				c.items[k].id = id
			}
		case step == 5 && n > 1: // forgets the beginning
			if keeps {
				c.hidden = append(c.hidden, c.items[0].user)
			}
			c.items = slices.Clone(c.items[1:])
			c.say(words[rng.IntN(len(words))])
		case step == 6: // another model has answered some of it
			c.say(words[rng.IntN(4)])
			last, call := &c.items[len(c.items)-1], fmt.Sprint("other", rng.Uint32())
			last.answers = c.Give([]any{c.Called(call)}, call)
		case step == 7 && len(c.left) > 0: // goes back
			old := c.left[rng.IntN(len(c.left))]
			c.hidden, c.items = slices.Clone(old.hidden), slices.Clone(old.items)
			c.say(words[rng.IntN(len(words))])
		default: // repeats the last request, as clients do that lost the answer
			last := &c.items[n-1]
			for k := len(last.answers); k > 0; k-- {
				if _, _, given := c.Read(last.answers[k-1]); given {
					break
				}
				last.answers = slices.Clone(last.answers[:k-1])
			}
			said, calls := c.send(true)
			require.Nil(t, calls)
			c.check(said)
			continue
		}
		c.turn()
		c.left = append(c.left, window{hidden: slices.Clone(c.hidden), items: slices.Clone(c.items)})
	}
	return c.heard()
}

func (c *window) heard() []string {
	heard := slices.Clone(c.hidden)
	for _, i := range c.items {
		heard = append(heard, i.user)
	}
	return heard
}

func (c *window) move() {
	if c.rng.IntN(4) == 0 {
		c.Move()
	}
}

func (c *window) say(text string) {
	c.ids++
	c.items = append(c.items, item{id: fmt.Sprint("u", c.ids), user: text})
}

// send sends what the window has, and returns the words and the calls of the answer, which it keeps.
func (c *window) send(repeated bool) (said string, calls []string) {
	c.t.Helper()
	var all []any
	for _, i := range c.items {
		all = append(append(all, c.User(i.id, i.user)), i.answers...)
	}
	last := &c.items[len(c.items)-1]
	for _, m := range c.Send(all, repeated) {
		text, some, _ := c.Read(m)
		said, calls, last.answers = said+text, append(calls, some...), append(last.answers, m)
	}
	return said, calls
}

// turn sends the window until it has an answer without calls, and compares that with what the window has.
func (c *window) turn() {
	c.t.Helper()
	for {
		said, calls := c.send(false)
		if calls == nil {
			c.check(said)
			return
		}
		last := &c.items[len(c.items)-1]
		for _, id := range calls {
			last.answers = c.Give(last.answers, id)
		}
		c.move()
	}
}

// check compares an answer with what the user has said in the window.
func (c *window) check(said string) {
	c.t.Helper()
	heard, results := c.heard(), 0
	for _, m := range c.items[len(c.items)-1].answers {
		if _, _, given := c.Read(m); given {
			results++
		}
	}
	require.True(c.t, strings.HasSuffix(said, fmt.Sprint(strings.Join(heard, "/"), " ", results)), "%q: %q and %d", said, heard, results)
}
