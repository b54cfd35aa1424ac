package runner_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools/transfer"
)

// sent is a request, and the position at which its session's log was then.
type sent struct {
	key     session.Key
	seq     int64
	agent   string
	req     *llm.Request
	redacts bool // the agent's view does
}

func (w *world) notes(m *plannedModel, req *llm.Request) {
	infos, err := w.store.List(context.Background(), w.key, session.Page{})
	if err != nil || len(infos) != 1 {
		w.problem("the session %s is not in the list: %v %v", w.key, infos, err)
		return
	}
	w.checkReadFold(infos[0])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, sent{w.key, infos[0].Seq, m.name, req, m.history.redacts})
}

// checkSent: what a model was asked can be rebuilt at any time later, from the log
// alone.
func (w *world) checkSent() {
	w.opts = append(w.opts, runner.WithSnapshots(0))
	r := w.runner()
	for _, s := range w.sent {
		w.checkUser(s)
		got := must.Get(r.PreviewAt(context.Background(), s.key, s.seq, s.agent))
		if !sameMessages(got.Messages, s.req.Messages) {
			w.t.Fatalf("%s at %d of %s was not asked this:\n%v\nbut this:\n%v", s.agent, s.seq, s.key, got.Messages, s.req.Messages)
		}
		if got.System != s.req.System || !sameTools(got.Tools, s.req.Tools) {
			w.t.Fatalf("%s at %d of %s was offered something else:\n%v\n%v", s.agent, s.seq, s.key, got.Request, s.req)
		}
		w.checkOffer(r.Tree().Node(s.agent), s)
	}
}

// checkOffer holds what a model was offered against the log before it: no target after a limit, no
// agent that has given the conversation back in this turn, and only children where the agent is held.
func (w *world) checkOffer(n *agent.Node, s sent) {
	var handed, began *event.Transfer // the last one, and the one that began the run
	var last, since *event.Transfer   // the last one, and the one of an earlier turn that gave the agent the conversation
	running, limited, done, answered, itself, aside := false, false, false, false, false, int64(0)
	from, bounced, returned := "", false, map[string]bool{}
	chosen, onTheWay := false, false // by the question who answers
	silent, gave := "", ""           // who has said nothing since it got the conversation, and who gave it
	for _, e := range must.All(w.store.Load(context.Background(), s.key, 0)) {
		if e.Seq > s.seq {
			break
		}
		if e.Scope != "" {
			continue
		}
		switch d := e.Data.(type) {
		case *event.HarnessEnd:
			if d.FinishReason != event.FinishReasonInputRequired {
				running, began, limited, answered, itself, from = false, nil, false, false, false, ""
			}
			if d.FinishReason != event.FinishReasonTransfer {
				handed = nil
			}
		case *event.Transfer:
			if d.Outcome != event.TransferCommitted {
				break
			}
			refused, route := d.TransferType == event.TransferTypeRefused, d.TransferType == event.TransferTypeRoute || d.Routed()
			source, target := n.Tree().Node(d.From), n.Tree().Node(d.To)
			wordless := silent == d.From && d.ToolCallID != "" && !refused && d.To != agent.Human && (source == nil || target == nil || target.Parent != source)
			bounced = bounced || wordless
			if d.To == s.agent && (refused || wordless && gave == d.To) {
				returned[d.From] = true
			}
			last, since = d, nil
			if handed, silent, gave = d, d.To, d.From; route {
				silent = ""
			}
		case *event.User:
			from, silent, gave, bounced, returned = "", "", "", false, map[string]bool{}
			running, began, handed, limited, answered, itself = false, nil, nil, false, false, false
			if last != nil && last.To == s.agent && n.Parent != nil && last.TransferType == "" && !last.Routed() {
				since = last
			}
		case *event.HarnessStart:
			if !running { // else it takes up what another has begun
				running, began, done = true, handed, false
				chosen, onTheWay = byQuestion(handed)
				itself = chosen && w.traits[s.agent].decides
				answered = itself
				if from = ""; handed != nil && handed.TransferType == "" && !handed.Routed() && !returned[handed.From] {
					from = handed.From
				} else if since != nil {
					from = since.From
					w.happened["a request that begins as in an earlier turn"] = true
				}
			}
		case *event.Notice:
			limited = limited || d.Code == event.NoticeTransferLimit
			answered = answered || d.Code == event.NoticeUndecided
			itself = itself || d.Code == event.NoticeDecided
		case *event.Compaction:
			aside = e.Seq + 1 // the usage of its summary
		case *event.Usage:
			answered = answered || e.Seq != aside
		case *event.Text:
			if done = done || strings.TrimSpace(d.Content) != ""; strings.TrimSpace(d.Content) != "" && silent == e.Agent {
				silent = ""
			}
		case *event.ToolResult:
			if answered := d.Name != agent.TransferTool && !d.IsError; answered {
				if done = true; silent == e.Agent {
					silent = ""
				}
			}
		}
	}
	var targets []string
	for _, t := range n.Targets() {
		held := !done && !onTheWay && began != nil && began.TransferType != event.TransferTypeRoute && !began.Routed() &&
			(bounced || w.traits[s.agent].holds && began.TransferType != event.TransferTypeRefused)
		if limited || returned[t.Agent.Name()] || held && t.Parent != n && !t.Virtual() {
			continue
		}
		targets = append(targets, t.Agent.Name())
	}
	w.decided(n, s, targets, answered)
	if itself {
		targets = nil
	}
	if candidates(s.req) != nil {
		return
	}
	require.Equal(w.t, targets, offered(w.t, s.req), "%s at %d of %s: limited %v, done %v, decided %v", s.agent, s.seq, s.key, limited, done, itself)
	form, system := transfer.OneTool, s.req.System
	if w.traits[s.agent].each {
		form = transfer.ToolPerTarget
	}
	if text, _, shared := instructions(s.req); shared {
		form, system = transfer.Shared, text
		require.Equal(w.t, targets != nil, slices.Contains(s.req.Allowed, agent.TransferTool))
		require.NotContains(w.t, s.req.Allowed, w.traits[s.agent].without)
	}
	var left []*agent.Node
	for _, t := range n.Targets() {
		if slices.Contains(targets, t.Agent.Name()) {
			left = append(left, t)
		}
	}
	_, words := transfer.DefaultForm(form).Offer(n, left, from)
	words, _, _ = strings.Cut(words, "{reason}")
	if len(n.Tree().Root().Children()) == 0 {
		words = ""
	}
	require.Contains(w.t, system, words, "the system text lists other agents")
	require.Equal(w.t, targets != nil, strings.Contains(system, "transfer_to_"))
	switch {
	case itself:
		w.happened["no transfer offered after a decision"] = true
	case limited:
		w.happened["no transfer offered after a limit"] = true
	case len(targets) < len(n.Targets()):
		w.happened["an agent that is held or got the conversation back"] = true
	}
}

// byQuestion reports whether the question who answers made a transfer: for its target, or for an agent that the target
// leads to.
func byQuestion(t *event.Transfer) (chosen, onTheWay bool) {
	if t == nil || t.TransferType != "" || !strings.HasPrefix(t.Reason, "decided") {
		return false, false
	}
	onTheWay = strings.Contains(t.Reason, ": for ")
	return !onTheWay && !strings.Contains(t.Reason, "asks again"), onTheWay
}

// offered returns the agents that a request offers to hand over to.
func offered(t testing.TB, req *llm.Request) (agents []string) {
	var schema struct {
		Properties struct {
			Name struct{ Enum []string } `json:"agent_name"`
		}
	}
	if text, _, shared := instructions(req); shared {
		_, list, _ := strings.Cut(text, "\nOther agents, for other work only:\n")
		for line := range strings.Lines(list) {
			name, is := strings.CutPrefix(line, "- ")
			if !is {
				break
			}
			name, _, _ = strings.Cut(strings.TrimSpace(name), ":")
			agents = append(agents, name)
		}
		return agents
	}
	for _, tool := range req.Tools {
		if tool.Name == agent.TransferTool {
			require.NoError(t, json.Unmarshal(tool.Parameters, &schema))
			require.Empty(t, agents)
			agents = schema.Properties.Name.Enum
		} else if name, ok := strings.CutPrefix(tool.Name, "transfer_to_"); ok {
			require.NotContains(t, string(tool.Parameters), "agent_name")
			agents = append(agents, name)
		}
	}
	return agents
}
