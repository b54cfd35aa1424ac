package main

import (
	"context"
	"fmt"
	"io"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
)

// predict prints how often runner.SharedWords predicts the first transfer of a message, at several thresholds. It asks
// no model.
func predict(ctx context.Context, f flags, stdout io.Writer) error {
	fmt.Fprintln(stdout, "| tree | threshold | transfers predicted right | predicted wrong | nothing predicted | without a transfer, predicted one |\n|---|---|---|---|---|---|")
	for _, name := range f.trees {
		agents, err := roles(name)
		if err != nil {
			return err
		}
		root, err := grow(agents, scripted.Always("none", scripted.Reply()), 1, variant{})
		if err != nil {
			return err
		}
		tree, err := agent.NewTree(root)
		if err != nil {
			return err
		}
		messages, err := load("data/"+name+"/messages.yaml", f.half, f.n)
		if err != nil {
			return err
		}
		for _, threshold := range []float64{0.3, 0.5, 0.6, 0.8, 1} {
			var right, wrong, none, vain, transfers int
			for _, m := range messages {
				p := runner.Prospect{Agent: tree.Root(), Targets: tree.Root().Targets(), Message: llm.Content{Text: m.Turns[0].User}}
				target, confidence := runner.SharedWords(ctx, p)
				predicted, path := target != "" && confidence >= threshold, m.Turns[0].Expect.Path
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
			fmt.Fprintf(stdout, "| %s | %.1f | %s | %d | %d | %s |\n", name, threshold, share(right, transfers), wrong, none, share(vain, len(messages)-transfers))
		}
	}
	return nil
}
