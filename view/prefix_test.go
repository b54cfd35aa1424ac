package view_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// recorder is an endpoint over HTTP that compares each request of an agent, byte
// by byte, with the one before it.
type recorder struct {
	mu       sync.Mutex
	random   *rand.Rand
	turn     int
	lastTurn map[string]int // policies that trim: after how many turns they do
	sent     map[string]map[string]json.RawMessage
	in       map[string]int // the turn of the last request
	breaks   map[string]int
	compared int
	failed   []string
}

func (r *recorder) reset(seed uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.random = rand.New(rand.NewPCG(seed, seed))
	r.turn, r.failed = 0, nil
	r.lastTurn, r.sent, r.in, r.breaks = make(map[string]int), make(map[string]map[string]json.RawMessage), make(map[string]int), make(map[string]int)
}

func (r *recorder) record(body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request := make(map[string]json.RawMessage)
	if err := json.Unmarshal(bytes.Clone(body), &request); err != nil {
		r.failed = append(r.failed, err.Error())
		return
	}
	var name string
	_ = json.Unmarshal(request["model"], &name)
	// The instruction about transfers comes and goes with their tools.
	request["messages"] = aboutTransfers.ReplaceAll(request["messages"], nil)
	before, turn := r.sent[name], r.in[name]
	r.sent[name], r.in[name] = request, r.turn
	if before == nil {
		return
	}
	r.compared++
	for field := range request {
		if field != "messages" && field != "tools" && !bytes.Equal(request[field], before[field]) {
			r.failed = append(r.failed, fmt.Sprintf("%s: %s was %s and is %s", name, field, before[field], request[field]))
		}
	}
	// Of the tools, the last ones alone may be there or not: those for transfers.
	if was, is := others(before["tools"]), others(request["tools"]); was != is {
		r.failed = append(r.failed, fmt.Sprintf("%s: the tools were %s and are %s", name, was, is))
	}
	if len(request) != len(before) {
		r.failed = append(r.failed, fmt.Sprintf("%s: other fields", name))
	}
	old := bytes.TrimSuffix(before["messages"], []byte("]"))
	if bytes.HasPrefix(request["messages"], old) {
		return
	}
	var was, is []json.RawMessage
	_ = json.Unmarshal(before["messages"], &was)
	_ = json.Unmarshal(request["messages"], &is)
	switch n := r.lastTurn[name]; {
	case !bytes.Equal(was[0], is[0]):
		r.failed = append(r.failed, fmt.Sprintf("%s: the system message was %s and is %s", name, was[0], is[0]))
	case r.breaks[name] > 0:
		r.breaks[name] = 0 // it was compacted in between
	case n == 0 || !trims(n, turn, r.turn):
		r.failed = append(r.failed, fmt.Sprintf("%s, turn %d: after\n%s\ncomes\n%s", name, r.turn, before["messages"], request["messages"]))
	}
}

// aboutTransfers matches the instruction about transfers with its list, the last of the
// system text.
var aboutTransfers = regexp.MustCompile(`\\n\\nYou are [a-z]+(?:[^"\\]|\\.)*`)

// others returns the tools of a request but those for transfers, which must be the
// last.
func others(list json.RawMessage) string {
	if i := bytes.Index(list, []byte(`,{"function":{"name":"transfer_to_`)); i >= 0 {
		list = append(bytes.Clone(list[:i]), ']')
	}
	return string(list)
}

// trims reports whether LastTurns(n) trims in a turn after one and up to another:
// in turns 2n+1, 3n+1 and so on.
func trims(n, after, upTo int) bool {
	for t := max(after+1, 2*n+1); t <= upTo; t++ {
		if (t-1)%n == 0 {
			return true
		}
	}
	return false
}

// answer makes up what an agent says. It is called by the server's goroutines,
// one at a time.
func (r *recorder) answer(*llm.Request) scripted.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	var items []scripted.Item
	if r.random.IntN(3) > 0 {
		items = append(items, scripted.Text([]string{"Well.", " ", "[root] <b>&\u2028", "Ich prüfe das. 日本"}[r.random.IntN(4)]))
	}
	if r.random.IntN(4) == 0 {
		items = append(items, scripted.Think("hm"))
	}
	for range max(0, r.random.IntN(5)-1) {
		switch to := []string{"root", "left", "right", "leaf", "nobody"}[r.random.IntN(5)]; r.random.IntN(4) {
		case 3:
			items = append(items, scripted.Call("transfer_to_"+to, `{"reason": "a secret", "more": 1}`))
		case 0:
			items = append(items, scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name": %q, "reason": "a secret"}`, to)))
		case 1:
			items = append(items, scripted.Call("fine", `{"b": 1e2, "a": "a secret"}`))
		default:
			items = append(items, scripted.Call(to, "no JSON"))
		}
	}
	switch r.random.IntN(12) {
	case 0:
		items = append(items, scripted.Cut())
	case 1, 2, 3:
		items = append(items, scripted.Usage(1+r.random.IntN(1000), 7, 0))
	}
	return scripted.Reply(items...)
}

// TestRequestsShareTheirPrefix runs random conversations against an endpoint over
// HTTP. Whatever the policy, and across transfers, turns and broken ones, its next
// request begins with all bytes of an agent's request up to the end of its messages,
// and the rest is the same. The exceptions are where LastTurns trims, once in n
// turns, where the agent's view was compacted, and the tools of transfers with their
// instruction, which are there when it has targets.
func TestRequestsShareTheirPrefix(t *testing.T) {
	require.NoError(t, flag.Set("rapid.nofailfile", "true")) // a failure prints its seed
	rec := &recorder{}
	models := make(map[string]llm.Model)
	for _, name := range []string{"root", "left", "right", "leaf"} {
		models[name] = scripted.Func(name, rec.answer)
	}
	server := httptest.NewServer(endpoint.Handler(func(name string) (llm.Model, bool) { m, ok := models[name]; return m, ok }, endpoint.WithRecorder(rec.record)))
	defer server.Close()
	fine := must.Get(tools.Func("fine", "", func(tools.Context, struct {
		A string  `json:"a"`
		B float64 `json:"b"`
	}) (string, error) {
		return strings.Repeat("fine, and a secret\n", 5), nil
	}))
	policies := []view.Policy{view.Full(), view.TextOnly(), view.Own(), view.Func(func(e *event.Event) bool { return e.Seq%2 == 0 }), view.Full().Redact(hush),
		view.LastTurns(1), view.LastTurns(2), view.LastTurns(3).Redact(hush)}
	trim := []int{0, 0, 0, 0, 0, 1, 2, 3}

	compacted, trimmed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		rec.reset(rapid.Uint64().Draw(rt, "seed"))
		open := agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}
		made := func(name string, kids ...agent.Agent) agent.Agent {
			m := must.Get(openai.New(name, openai.WithBaseURL(server.URL), openai.WithAPIKey("k"), openai.WithRetries(0)))
			p := rapid.IntRange(0, len(policies)-1).Draw(rt, "policy of "+name)
			rec.lastTurn[name] = trim[p]
			opts := []llmagent.Option{llmagent.WithSubAgents(kids...), llmagent.WithTransferPolicy(open), llmagent.WithTools(fine),
				llmagent.WithTransferTools(rapid.SampledFrom([]transfer.Tools{transfer.OneTool, transfer.ToolPerTarget}).Draw(rt, "transfer tools")), llmagent.WithHistory(policies[p])}
			if trim[p] == 0 && rapid.IntRange(0, 3).Draw(rt, "compaction") == 3 {
				opts = append(opts, llmagent.WithCompaction(llmagent.Compaction{Window: rapid.IntRange(300, 900).Draw(rt, "window")}))
			}
			return must.Get(llmagent.New(name, "You are "+name+".", m, opts...))
		}
		left := made("left", made("leaf"))
		if rapid.Bool().Draw(rt, "edge") {
			p := rapid.IntRange(0, len(policies)-1).Draw(rt, "policy of the edge")
			rec.lastTurn["left"] = trim[p]
			left = agent.Via(left, policies[p], agent.HideReason())
		}
		store := sessiontest.Memory(t)
		root := made("root", left, made("right"))
		cached := rapid.IntRange(0, 1).Draw(rt, "cached")
		key := session.ID("s")
		r := must.Get(runner.New(root, store, runner.WithCache(cached)))
		for turn := range rapid.IntRange(1, 9).Draw(rt, "turns") {
			rec.mu.Lock()
			rec.turn = turn + 1
			rec.mu.Unlock()
			stop, n := rapid.IntRange(0, 60).Draw(rt, "stop"), 0
			for e, err := range r.Run(context.Background(), key, llm.UserText(fmt.Sprint("turn ", turn, ", a secret"))) {
				if err != nil {
					break
				}
				if _, ok := e.Data.(*event.Compaction); ok {
					rec.mu.Lock()
					rec.breaks[e.Agent]++
					rec.mu.Unlock()
					compacted++
				}
				if n++; n == stop {
					break
				}
			}
		}
		for _, n := range rec.lastTurn {
			if n > 0 && rec.turn > 2*n {
				trimmed++
			}
		}
		if len(rec.failed) > 0 {
			rt.Fatalf("%s", rec.failed[0])
		}
	})
	require.NotZero(t, compacted)
	require.NotZero(t, trimmed)
	require.Greater(t, rec.compared, 100)
}
