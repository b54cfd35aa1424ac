package runner

import (
	"context"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/bm25"
)

// SharedWords is a [Predictor] that needs no model: it names the target whose name and description share the rarest
// words with the user's message. Its confidence is the target's part of what all targets and the agent itself share
// with the message, 0 if no word is shared.
func SharedWords(_ context.Context, p Prospect) (target string, confidence float64) {
	texts := make([][]bm25.Word, 0, len(p.Targets)+1)
	for _, n := range append(p.Targets[:len(p.Targets):len(p.Targets)], p.Agent) {
		texts = append(texts, describing(n))
	}
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

func describing(n *agent.Node) []bm25.Word {
	return bm25.Split(n.Agent.Name() + " " + n.Agent.Description())
}
