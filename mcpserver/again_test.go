package mcpserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// TestAnswerSentAgain: an answer that a client sends again, because it lost the result, answers no other question of
// the call.
func TestAnswerSentAgain(t *testing.T) {
	var got []string
	pay := must.Get(tools.Func("pay", "Pays.", func(ctx tools.Context, _ struct{}) (string, error) {
		from, err := ctx.Ask("From which account?", nil)
		if err != nil {
			return "", err
		}
		to, err := ctx.Ask("To which account?", nil)
		if err == nil {
			got = append(got, string(from)+" to "+string(to))
		}
		return "paid", err
	}))
	root := must.Get(llmagent.New("clerk", "You pay.", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("Paid."))
		}
		return scripted.Reply(scripted.Call("pay", `{}`))
	}), llmagent.WithTools(pay)))
	c := client(t, webOf(t, must.Get(runner.New(root, sessiontest.Memory(t)))), "ann-token", versions[0], nil)
	_, r, _ := ask(t, c, map[string]any{"message": "pay"})
	require.Len(t, r.Questions, 1)
	require.NotEmpty(t, r.Questions[0].Digest)
	answer := map[string]any{"session": r.Session, "answers": map[string]any{r.Questions[0].CallID: "ann's"}}
	_, second, _ := ask(t, c, answer)
	text, _, failed := ask(t, c, answer)
	require.True(t, failed)
	require.Contains(t, text, "has asked before")
	require.Empty(t, got)
	_, r, _ = ask(t, c, map[string]any{"session": r.Session, "answers": map[string]any{r.Questions[0].CallID: map[string]any{"content": "bob's", "digest": second.Questions[0].Digest}}})
	require.Empty(t, r.Questions)
	require.Equal(t, []string{`"ann's" to "bob's"`}, got)
}
