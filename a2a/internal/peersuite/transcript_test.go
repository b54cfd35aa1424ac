package peersuite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// transcripts are those of the runner and more.
func transcripts(t testing.TB) []*transcript.Transcript {
	return append(transcript.All(t, "../../../runner/testdata/transfer/*.txtar"), transcript.All(t, "testdata/*.txtar")...)
}

// spec is one line of a transcript's agents: NAME [parent] [peers] [back] [TOOL…] [| DESCRIPTION]
type spec struct {
	depth      int
	name, desc string
	words      []string
	kids       []*spec
}

func parseAgents(text string) *spec {
	root := &spec{depth: -1}
	open := []*spec{root}
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) == "" {
			continue
		}
		head, desc, _ := strings.Cut(l, "|")
		words := strings.Fields(head)
		s := &spec{depth: len(l) - len(strings.TrimLeft(l, " ")), name: words[0], words: words[1:], desc: strings.TrimSpace(desc)}
		for open[len(open)-1].depth >= s.depth {
			open = open[:len(open)-1]
		}
		parent := open[len(open)-1]
		parent.kids = append(parent.kids, s)
		open = append(open, s)
	}
	return root.kids[0]
}

// inner are the words of agents that run others in scopes, and of those that only such agents,
// a person or a server of tools make complete: they are handed no conversation.
var inner = []string{"tool", "sequential", "parallel", "loop", "graph", "human", "asks", "pay", "mcp"}

// scoped reports whether the transcript is about more than handing the conversation over.
func (s *spec) scoped() bool {
	return slices.ContainsFunc(s.words, func(w string) bool { return slices.Contains(inner, w) }) || slices.ContainsFunc(s.kids, (*spec).scoped)
}

// movable returns the specialists that can stand behind a server: leaves that hand over to
// nobody. Those below a remote agent would not be known to the tree.
func (s *spec) movable() (names []string) {
	for _, k := range s.kids {
		if len(k.kids) == 0 && !slices.Contains(k.words, "parent") && !slices.Contains(k.words, "peers") {
			names = append(names, k.name)
		}
		names = append(names, k.movable()...)
	}
	return names
}

// stage builds trees of transcripts.
type stage struct {
	testing.TB
	asked
	place  place
	moved  string // the specialist that stands in the place
	models func(name string) llm.Model
}

func (g *stage) build(s *spec) agent.Agent {
	if s.name == g.moved {
		s.desc = cmp.Or(s.desc, "Does what it can") // as a card has one
	}
	opts := []llmagent.Option{llmagent.WithTransferTools(transfer.OneTool), llmagent.WithDescription(s.desc)} // as transcripts are written
	var policy agent.TransferPolicy
	for _, w := range s.words {
		if w, other, ok := strings.Cut(w, "="); ok && w == "decide" {
			opts = append(opts, llmagent.WithDecision(g.model(other, g.models(other))))
			continue
		}
		switch w {
		case "parent":
			policy.AllowTransferToParent = true
		case "peers":
			policy.AllowTransferToPeers = true
		case "hold":
			policy.HoldOnArrival = true
		case "decide":
			opts = append(opts, llmagent.WithDecision(nil))
		case "each":
			opts = append(opts, llmagent.WithTransferTools(transfer.ToolPerTarget))
		default:
			opts = append(opts, llmagent.WithTools(testTool(g.TB, w)))
		}
	}
	if s.name == g.moved { // a remote node sends words alone, so its like must not see more
		opts = append(opts, llmagent.WithHistory(view.TextOnly()))
	}
	for _, k := range s.kids {
		opts = append(opts, llmagent.WithSubAgents(g.build(k)))
	}
	a := must.Get(llmagent.New(s.name, "You are "+s.name+".", g.model(s.name, g.models(s.name)), append(opts, llmagent.WithTransferPolicy(policy))...))
	if s.name == g.moved {
		return g.place.put(g.TB, a).Agent
	}
	return a
}

func testTool(t testing.TB, name string) tools.Tool {
	type in struct {
		ID int `json:"id,omitempty"`
	}
	return must.Get(tools.Func(name, "Does "+name+".", func(_ tools.Context, in in) (any, error) {
		if name == "broken" {
			return nil, errors.New("the database is on fire")
		}
		return map[string]any{"id": in.ID, "amount": 19}, nil
	}))
}

// outcome is what came out of a conversation.
type outcome struct {
	Log    []string
	Failed []bool              // by turn
	Active []string            // by turn
	Wire   map[string][]string // of all agents but the specialist's own
	News   [][]string          // what the specialist was told
}

// play plays a transcript with one specialist in a place. Every turn has a new runner,
// as in a process that was started anew.
func play(t *testing.T, tr *transcript.Transcript, p place, moved string, streaming bool) outcome {
	script := must.Get(scripted.Parse([]byte(tr.Section("script"))))
	agents := parseAgents(tr.Section("agents"))
	g := &stage{TB: t, place: p, moved: moved, models: script.Model}
	root := g.build(agents)
	store := sessiontest.Memory(t)
	var opts []runner.Option
	if streaming {
		opts = append(opts, runner.WithStreaming())
	}
	out := outcome{Wire: make(map[string][]string)}
	for text := range strings.Lines(tr.Section("user")) {
		r := newRunner(t, root, store, opts...)
		shown := make(map[string]string)
		var err error
		for e, turnErr := range sessiontest.Turn(t, r.Run(context.Background(), key, llm.UserText(strings.TrimSuffix(text, "\n")))) {
			switch {
			case turnErr != nil:
				err = turnErr
			case e.Type() != event.TypeText:
			case e.Partial:
				shown[e.ID] += e.Text()
			case streaming && tr.Name() != "cut-stream": // there the first attempt's words are taken back
				require.Equal(t, e.Text(), shown[e.ID], "deltas and the complete text of %s differ", e.Agent)
			}
		}
		out.Failed = append(out.Failed, err != nil)
		active := must.Get(r.Active(context.Background(), key))
		out.Active = append(out.Active, active)
	}
	events := log(store)
	checkCalls(t, events)
	out.Log = account(events)
	for _, name := range agents.names() {
		if name != moved {
			out.Wire[name] = g.wire(name)
		}
	}
	out.News = g.news(moved)
	if slices.Contains(out.Failed, true) { // words with which a peer failed are sent to it again
		for i := range out.News {
			// What it reads of its own empty answers stays behind the server.
			out.News[i] = slices.DeleteFunc(out.News[i], func(text string) bool {
				return text == "[Your answer was empty. Answer now, in words or by calling a tool.]"
			})
			out.News[i] = slices.Compact(out.News[i])
		}
	}
	require.NoError(t, script.Done())
	out.number()
	return out
}

// made matches the ids of calls in requests.
var made = regexp.MustCompile(`#[a-z0-9]{12}\b`)

// number puts numbers in the place of such ids.
func (o *outcome) number() {
	names := make(map[string]string)
	for _, agent := range slices.Sorted(maps.Keys(o.Wire)) {
		lines := o.Wire[agent]
		for i := range lines {
			lines[i] = made.ReplaceAllStringFunc(lines[i], func(id string) string {
				if names[id] == "" {
					names[id] = fmt.Sprintf("#made-%d", len(names)+1)
				}
				return names[id]
			})
		}
	}
}

func (s *spec) names() []string {
	names := []string{s.name}
	for _, k := range s.kids {
		names = append(names, k.names()...)
	}
	return names
}

// TestTranscripts plays the truth table of transfers with each specialist that can stand
// elsewhere, beside its coordinator and behind a server: the logs, the agents that are
// active after each turn, what other agents' models are asked and what the specialist
// is told must be the same.
func TestTranscripts(t *testing.T) {
	played := 0
	for _, tr := range transcripts(t) {
		agents := parseAgents(tr.Section("agents"))
		if agents.scoped() {
			continue
		}
		for _, moved := range agents.movable() {
			t.Run(tr.Name()+"/"+moved, func(t *testing.T) {
				for _, streaming := range []bool{false, true} {
					var want outcome
					for _, p := range places {
						name := p.name
						if streaming {
							name += ", streamed"
						}
						t.Run(name, func(t *testing.T) {
							got := play(t, tr, p, moved, streaming)
							if !p.remote {
								want = got
								return
							}
							played++
							require.Equal(t, want, got)
						})
					}
				}
			})
		}
	}
	require.GreaterOrEqual(t, played, 60)
}
