package runner

import (
	"context"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/bm25"
)

// SharedWords is a [Predictor] that needs no model: it names the target whose name and description, or those of the agents
// below it, share the rarest words with the user's message. Its confidence is the target's part of what all targets and
// the agent itself share with the message, 0 if no word is shared.
func SharedWords(_ context.Context, p Prospect) (target string, confidence float64) {
	texts := make([][]bm25.Word, 0, len(p.Targets)+1)
	for _, n := range p.Targets {
		texts = append(texts, describing(nil, n, p.Agent.Down(n)))
	}
	texts = append(texts, describing(nil, p.Agent, false))
	var all, most float64
	for i, score := range bm25.Scores(bm25.Split(p.Message.PlainText()), texts) {
		if all += score; score > most && i < len(p.Targets) {
			target, most = p.Targets[i].Agent.Name(), score
		}
	}
	if all > 0 {
		confidence = most / all
	}
	return target, confidence
}

// describing adds the words of an agent's name and description and, if below is true, those of all agents below it.
func describing(words []bm25.Word, n *agent.Node, below bool) []bm25.Word {
	words = append(words, bm25.Split(n.Agent.Name()+" "+n.Agent.Description())...)
	if below {
		for _, kid := range n.Children() {
			words = describing(words, kid, true)
		}
	}
	return words
}
