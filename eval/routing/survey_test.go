package routing

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// answering is a model that answers by a function, and counts.
type answering struct {
	t      *testing.T
	asked  int
	answer func(text string) (string, error)
	routes func(req *llm.Request) *llm.Chunk // of requests in conversations, nil for all others
}

func (*answering) Name() string { return "small" }

func (m *answering) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		m.asked++
		require.Zero(m.t, *req.Settings.Temperature)
		if m.routes != nil && len(req.Messages) > 0 {
			if c := m.routes(req); c != nil {
				c.Usage, c.Finish = &llm.Usage{InputTokens: 10, OutputTokens: 2}, cmp.Or(c.Finish, llm.FinishStop)
				yield(*c, nil)
				return
			}
		}
		text, err := m.answer(req.System + "\n" + req.Messages[0].Text)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		yield(llm.Chunk{Text: text, Usage: &llm.Usage{InputTokens: 10, OutputTokens: 2}, Finish: llm.FinishStop}, nil)
	}
}

func surveyTree(t *testing.T) *agent.Tree {
	peers := agent.TransferPolicy{AllowTransferToPeers: true}
	tree, err := agent.NewTree((&plan{name: "support", kids: []*plan{
		{name: "billing", description: "Invoices", policy: peers}, {name: "refunds", description: "Money back", policy: peers}, {name: "tech", description: "Networks", policy: peers},
	}}).make(t))
	require.NoError(t, err)
	return tree
}

// TestSurvey: a model that gives messages of one target to another.
func TestSurvey(t *testing.T) {
	m := &answering{t: t, answer: func(text string) (string, error) {
		if strings.Contains(text, "that are for refunds") {
			return "1. \"pay me back\"\n2. 3 refunds, please\n\n- third\nfourth", nil
		}
		return "hello", nil
	}}
	m.routes = func(req *llm.Request) *llm.Chunk {
		said := req.Messages[len(req.Messages)-1].PlainText()
		switch {
		case strings.Contains(said, "Write 3 short"):
			return nil
		case req.Agent == "support" && (said == "pay me back" || said == "3 refunds, please"):
			return &llm.Chunk{Call: &llm.ToolCall{ID: "c", Name: agent.TransferTool, Arguments: `{"agent_name":"billing"}`}}
		}
		return &llm.Chunk{Text: "Let me see\x1b[31m."}
	}
	s := NewSurvey(surveyTree(t), m, 3, nil)
	// The three are offered by support; that each of them offers the two others makes no question more.
	require.Equal(t, 3+3*3*6, s.Questions)
	require.Greater(t, s.Tokens, 30*s.Questions)
	got, err := s.Ask(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, m.asked, s.Questions)
	require.Equal(t, 10*m.asked, got.Used.InputTokens)
	require.Equal(t, []Finding{{Kind: Confused, Agents: []string{"refunds", "billing"},
		Message: "2 of 3 messages that the model small wrote for refunds it gives to billing, such as “pay me back”"}}, got.Findings)

	gone := errors.New("gone")
	broken := &answering{t: t, answer: func(string) (string, error) { return "", gone }}
	got, err = NewSurvey(surveyTree(t), broken, 3, nil).Ask(t.Context())
	require.ErrorIs(t, err, gone)
	require.Equal(t, &SurveyResult{}, got)
	require.Equal(t, 1, broken.asked, "it is not asked again")
}
