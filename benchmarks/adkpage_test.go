package benchmarks

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/genai"
)

// adkDesk is the desk of docs/frameworks.md.
func adkDesk(gemini model.LLM) (agent.Agent, error) {
	billing, err := llmagent.New(llmagent.Config{
		Name:        "billing",
		Description: "Refunds, invoices, being charged twice",
		Instruction: "You handle refunds and invoices.",
		Model:       gemini,
	})
	if err != nil {
		return nil, err
	}
	return llmagent.New(llmagent.Config{
		Name:        "support",
		Instruction: "Route to the right specialist.",
		Model:       gemini,
		SubAgents:   []agent.Agent{billing},
	})
}

// routing is a model that transfers, and that answers after a transfer.
type routing struct{ asked int }

func (*routing) Name() string { return "routing" }

func (m *routing) GenerateContent(context.Context, *model.LLMRequest, bool) iter.Seq2[*model.LLMResponse, error] {
	m.asked++
	part := genai.NewPartFromText("One of them is refunded.")
	if m.asked == 1 {
		part = genai.NewPartFromFunctionCall(TransferTool, map[string]any{"agent_name": "billing"})
	}
	return func(yield func(*model.LLMResponse, error) bool) {
		yield(&model.LLMResponse{Content: genai.NewContentFromParts([]*genai.Part{part}, genai.RoleModel)}, nil)
	}
}

// The desk of docs/frameworks.md does in ADK what the page says.
func TestADKPage(t *testing.T) {
	ctx, lines := t.Context(), []string(nil)
	check := func(err error) { require.NoError(t, err) }
	root, err := adkDesk(&routing{})
	check(err)
	r, err := runner.NewInMemory("desk", root)
	check(err)
	message := genai.NewContentFromText("I was charged twice.", genai.RoleUser)
	for ev, err := range r.Run(ctx, "ann", "s1", message, agent.RunConfig{}) {
		check(err)
		if to := ev.Actions.TransferToAgent; to != "" {
			lines = append(lines, ev.Author+" → "+to)
		} else if ev.IsFinalResponse() {
			lines = append(lines, ev.Author+": "+ev.Content.Parts[0].Text)
		}
	}
	require.Equal(t, []string{"support → billing", "billing: One of them is refunded."}, lines)
}
