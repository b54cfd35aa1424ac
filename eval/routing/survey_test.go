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

// TestSurvey: a model that cannot tell two of the targets apart, and gives the messages of one to another.
func TestSurvey(t *testing.T) {
	m := &answering{t: t, answer: func(text string) (string, error) {
		switch {
		case strings.Contains(text, "Two agents:"):
			if strings.Contains(text, "- billing") && strings.Contains(text, "- refunds") {
				return "SAME: \"I want my\nmoney\x1b[31m\"", nil
			}
			return "CLEAR", nil
		case strings.Contains(text, "that are for refunds"):
			return "1. \"pay me back\"\n2. 3 refunds, please\n\n- third\nfourth", nil
		case strings.Contains(text, "that are for"):
			return "hello", nil
		case strings.Contains(text, "pay me back"), strings.Contains(text, "\"3 refunds, please"):
			return "Billing", nil
		case strings.Contains(text, "\"hello\""):
			return "I do not know", nil
		}
		return "refunds", nil
	}}
	s := NewSurvey(surveyTree(t), m, 3, nil)
	// The three are offered by support; that each of them offers the two others makes no question more.
	require.Equal(t, 3+3+3*3+3*3*6, s.Questions)
	require.Greater(t, s.Tokens, 30*s.Questions)
	got, err := s.Ask(t.Context())
	require.NoError(t, err)
	found := got.Findings
	require.LessOrEqual(t, m.asked, s.Questions)
	require.Equal(t, 10*m.asked, got.Used.InputTokens)
	var kinds []string
	for _, f := range found {
		kinds = append(kinds, string(f.Kind)+" "+strings.Join(f.Agents, " "))
	}
	require.Equal(t, []string{"alike billing refunds", "confused refunds billing"}, kinds)
	require.Equal(t, "2 of 3 messages that the model small wrote for refunds it gives to billing, such as “pay me back”", found[1].Message)

	clear := &answering{t: t, answer: func(text string) (string, error) { return "CLEAR", nil }}
	got, err = NewSurvey(surveyTree(t), clear, 0, nil).Ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, clear.asked)
	require.Equal(t, &SurveyResult{Findings: []Finding{}, Forms: []Measured{}, Used: llm.Usage{InputTokens: 30, OutputTokens: 6}}, got)

	gone := errors.New("gone")
	broken := &answering{t: t, answer: func(string) (string, error) { return "", gone }}
	got, err = NewSurvey(surveyTree(t), broken, 3, nil).Ask(t.Context())
	require.ErrorIs(t, err, gone)
	require.Equal(t, &SurveyResult{}, got)
	require.Equal(t, 1, broken.asked, "it is not asked again")
}
