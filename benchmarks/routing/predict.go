package main

import (
	"context"
	"fmt"
	"io"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// predict prints how often runner.SharedWords predicts the first transfer of a message, at several thresholds. It also
// prints the tokens of the requests to wrong targets per message, as budgets estimate them. It asks no model.
func predict(ctx context.Context, f flags, stdout io.Writer) error {
	fmt.Fprintln(stdout, "| tree | threshold | transfers predicted right | predicted wrong | nothing predicted | without a transfer, predicted one | wasted tokens a message |\n|---|---|---|---|---|---|---|")
	for _, name := range f.trees {
		agents, err := roles(name)
		if err != nil {
			return err
		}
		var target string
		var request *llm.Request // the last request to the target
		model := scripted.New().Func("m", func(req *llm.Request) scripted.Answer {
			if request = req; req.Agent == agents[0].Name {
				return scripted.Reply(scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name":%q}`, target)))
			}
			return scripted.Reply(scripted.Text("Done."))
		}).Model("m")
		root, err := grow(agents, model, 1, variant{})
		if err != nil {
			return err
		}
		r, err := runner.New(root, session.NewMemory())
		if err != nil {
			return err
		}
		messages, err := load("data/"+name+"/messages.yaml", f.half, f.n)
		if err != nil {
			return err
		}
		for _, threshold := range []float64{0.3, 0.5, 0.6, 0.8, 1} {
			var right, wrong, none, vain, transfers, tokens int
			for i, m := range messages {
				start := r.Tree().Root()
				p := runner.Prospect{Agent: start, Targets: start.Targets(), Message: llm.Content{Text: m.Turns[0].User}}
				var confidence float64
				target, confidence = runner.SharedWords(ctx, p)
				predicted, path := target != "" && confidence >= threshold, m.Turns[0].Expect.Path
				if predicted && (len(path) < 2 || target != path[1][0]) {
					key := session.ID(fmt.Sprintf("%g-%d", threshold, i))
					if _, err := runner.Collect(r.Run(ctx, key, llm.UserText(m.Turns[0].User))); err != nil {
						return err
					}
					tokens += llm.CountRequest(request, llm.EstimateTokens)
				}
				switch {
				case len(path) < 2: // the coordinator answers
					if predicted {
						vain++
					}
					continue
				case !predicted:
					none++
				case target == path[1][0]:
					right++
				default:
					wrong++
				}
				transfers++
			}
			share := func(n, of int) string { return fmt.Sprintf("%d of %d", n, of) }
			fmt.Fprintf(stdout, "| %s | %.1f | %s | %d | %d | %s | %d |\n", name, threshold, share(right, transfers), wrong, none,
				share(vain, len(messages)-transfers), tokens/len(messages))
		}
	}
	return nil
}
