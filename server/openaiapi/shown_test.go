package openaiapi

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// newPayer calls pay three times, one after the other or all at once.
func newPayer(t testing.TB, atOnce bool) (root *llmagent.Agent, paid *[]int) {
	t.Helper()
	paid = new([]int)
	pay, err := tools.Func("pay", "Pays.", func(_ tools.Context, in struct {
		Amount int `json:"amount"`
	}) (string, error) {
		*paid = append(*paid, in.Amount)
		return "paid", nil
	}, tools.NeedsApproval(tools.ByUser()))
	require.NoError(t, err)
	root, err = llmagent.New("payer", "", scripted.Func("payer", func(req *llm.Request) scripted.Answer {
		n := 0
		for _, m := range req.Messages {
			if m.Role == llm.RoleTool {
				n++
			}
		}
		call := func(n int) scripted.Item { return scripted.Call("pay", fmt.Sprintf(`{"amount":%d}`, 10+n)) }
		switch {
		case n == 3:
			return scripted.Reply(scripted.Text("All paid."))
		case atOnce && n == 0:
			return scripted.Reply(call(0), call(1), call(2))
		}
		return scripted.Reply(call(n))
	}), llmagent.WithTools(pay))
	require.NoError(t, err)
	return root, paid
}

// TestTextsAnswerWhatWasShown: a text answers the question that its client was shown last, and no other one, also if
// somebody else has answered that question, if the request is sent again, or if the server was restarted.
func TestTextsAnswerWhatWasShown(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			root, paid := newPayer(t, r.IntN(2) == 0)
			turns := newTurns(t, root, sessiontest.Memory(t))
			windows := []*window{{world: newWorldOn(t, turns), model: "payer", stream: r.IntN(2) == 0}}
			var named []change
			if r.IntN(2) == 0 {
				named = []change{with("Arbor-Session", "s")}
			}
			key := ann(windows[0].say("go", named...).Arbor.Session)
			for range 1 + r.IntN(6) {
				switch w := windows[r.IntN(len(windows))]; r.IntN(5) {
				case 0: // a colleague decides
					if s, err := turns.Look(t.Context(), key); err == nil && len(s.Pending) > 0 {
						x, err := turns.Resume(t.Context(), key, runner.Approve(s.Pending[r.IntN(len(s.Pending))].ToolCallID))
						require.NoError(t, err)
						require.NoError(t, x.Wait(t.Context()))
					}
				case 1: // the server is restarted; without a name, that begins another session
					if restarted := newWorldOn(t, turns); named != nil {
						for _, w := range windows {
							w.world = restarted
						}
					}
				case 2: // the next request is sent twice
					windows = append(windows, w.clone())
					fallthrough
				default:
					shown, before := w.messages[len(w.messages)-1]["content"].(string), len(*paid)
					if got := w.say("yes", named...); got.Status != http.StatusOK { // in a fork, where the call cannot run
						require.Equal(t, "nothing_waits", got.Error.Code)
					}
					for _, amount := range (*paid)[before:] {
						require.Contains(t, shown, fmt.Sprintf("amount=%d", amount))
					}
				}
			}
			slices.Sort(*paid)
			require.Len(t, slices.Compact(slices.Clone(*paid)), len(*paid), "each is paid once")
		})
	}
}

// TestTextsAnswerTheResponse is the same for a text that continues a response.
func TestTextsAnswerTheResponse(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		root, paid := newPayer(t, atOnce)
		w := newWorld(t, root)
		first := w.respond(map[string]any{"model": "payer", "input": "go"})
		yes := map[string]any{"model": "payer", "input": "yes", "previous_response_id": first.Response.ID}
		second := w.respond(yes)
		require.Equal(t, []int{10}, *paid)
		again := w.respond(yes)
		require.Equal(t, 200, again.Status, "%+v", again.Error)
		require.Equal(t, []int{10}, *paid, "the text was about the first call")
		yes["previous_response_id"] = second.Response.ID
		w.respond(yes)
		require.Equal(t, []int{10, 11}, *paid)
	}
}
