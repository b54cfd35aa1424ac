package openaiapi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// newPayer calls pay three times, one after the other or all at once.
func newPayer(t testing.TB, atOnce bool) (root *llmagent.Agent, paid *[]int) {
	t.Helper()
	paid = new([]int)
	pay := must.Get(tools.Func("pay", "Pays.", func(_ tools.Context, in struct {
		Amount int `json:"amount"`
	}) (string, error) {
		*paid = append(*paid, in.Amount)
		return "paid", nil
	}, tools.NeedsApproval(tools.ByUser())))
	root = must.Get(llmagent.New("payer", "", scripted.Func("payer", func(req *llm.Request) scripted.Answer {
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
	}), llmagent.WithTools(pay)))
	return root, paid
}

// TestTextsAnswerWhatWasShown: a text answers the question that its client was shown last, and no other one, also if
// somebody else has answered that question, if the request is sent again, or if another server gets it.
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
						x := must.Get(turns.Resume(t.Context(), key, runner.Approve(s.Pending[r.IntN(len(s.Pending))].ToolCallID)))
						require.NoError(t, x.Wait(t.Context()))
					}
				case 1: // another server gets the next requests of a window; without a name, that begins another session
					if named != nil {
						w.world = newWorldOn(t, turns)
					}
				case 2: // the next request is sent twice
					windows = append(windows, w.clone())
					fallthrough
				default:
					if named != nil && r.IntN(3) == 0 { // a client that leaves out old messages
						w.messages = w.messages[max(0, len(w.messages)-1-r.IntN(3)):]
					}
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
		w.respond(yes).is(t, 200)
		require.Equal(t, []int{10}, *paid, "the text was about the first call")
		yes["previous_response_id"] = second.Response.ID
		w.respond(yes)
		require.Equal(t, []int{10, 11}, *paid)
	}
}

// TestTextsAnswerAnItem: in the Responses API a question is an item of its own. A client that keeps the history answers
// it with a text, also if the agent said something before.
func TestTextsAnswerAnItem(t *testing.T) {
	root, paid, _ := newTill(t)
	w := newWorld(t, root)
	require.Equal(t, 200, w.respond(map[string]any{"model": "till", "input": "refund"}).Status)
	said := map[string]any{"role": "assistant", "content": "One moment."}
	yes := map[string]any{"model": "till", "input": []any{user("refund"), said, user("yes")}}
	for range 2 {
		w.respond(yes).is(t, 200)
		require.Equal(t, 7, *paid)
	}
}

// TestTextsAnswerWhatTheyFollow: a client that names its session and sends answers along can approve each call, also if
// it leaves out old messages, and if another server on the same database gets its next request.
func TestTextsAnswerWhatTheyFollow(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		for servers := range 3 {
			for _, kept := range []int{2, 3, 100} {
				t.Run(fmt.Sprint(atOnce, servers, kept), func(t *testing.T) {
					root, paid := newPayer(t, atOnce)
					store := sessiontest.Memory(t)
					all := []*world{newWorldOn(t, newTurns(t, root, store))}
					for range servers {
						all = append(all, newWorldOn(t, newTurns(t, root, store)))
					}
					w := &window{world: all[0], model: "payer", stream: kept == 3}
					w.say("go", with("Arbor-Session", "s"))
					for n := 1; n <= 3; n++ {
						w.world = all[n%len(all)]
						w.messages = w.messages[max(0, len(w.messages)+1-kept):]
						stale := w.clone()
						w.say("yes", with("Arbor-Session", "s")).is(t, http.StatusOK)
						require.Len(t, *paid, n)
						stale.world = all[(n+1)%len(all)]
						again := stale.say("yes", with("Arbor-Session", "s"))
						if n < 3 {
							require.Contains(t, again.Content, fmt.Sprintf("wants to run with amount=%d.", 10+n))
						}
						require.Len(t, *paid, n, "the text was about the call before")
					}
					require.Equal(t, []int{10, 11, 12}, *paid)
				})
			}
		}
	}
}

// TestTextsAnswerEqualQuestionsOnce: a request that comes again at a server that has not seen the conversation approves
// no later call with the same arguments, whose question has the same text.
func TestTextsAnswerEqualQuestionsOnce(t *testing.T) {
	var paid atomic.Int32
	pay := must.Get(tools.Func("pay", "Pays.", func(tools.Context, struct{}) (string, error) {
		paid.Add(1)
		return "paid", nil
	}, tools.NeedsApproval(tools.ByUser())))
	root := must.Get(llmagent.New("payer", "", scripted.Func("payer", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Call("pay", "{}"))
	}), llmagent.WithTools(pay)))
	store := sessiontest.Memory(t)
	w := &window{world: newWorldOn(t, newTurns(t, root, store)), model: "payer"}
	w.say("go", with("Arbor-Session", "s"))
	for n := range int32(3) {
		again := w.clone()
		asked := w.say("yes", with("Arbor-Session", "s")).Content
		require.Equal(t, n+1, paid.Load())
		again.world = newWorldOn(t, newTurns(t, root, store))
		for range 2 {
			require.Equal(t, asked, again.clone().say("yes", with("Arbor-Session", "s")).Content)
			require.Equal(t, n+1, paid.Load(), "the text was about the call before")
		}
		w.world = again.world
	}
}

// TestTextsOfAWindowOfTheHistory: if a client sends only its last two messages, its request about an equal question is
// the same as before. It may be a repetition, and gets the answer again. The next one counts.
func TestTextsOfAWindowOfTheHistory(t *testing.T) {
	var paid atomic.Int32
	pay := must.Get(tools.Func("pay", "Pays.", func(tools.Context, struct{}) (string, error) {
		paid.Add(1)
		return "paid", nil
	}, tools.NeedsApproval(tools.ByUser())))
	root := must.Get(llmagent.New("payer", "", scripted.Always("payer", scripted.Reply(scripted.Text("Next one."), scripted.Call("pay", "{}"))), llmagent.WithTools(pay)))
	for _, stream := range []bool{false, true} {
		paid.Store(0)
		w := &window{world: newWorld(t, root), model: "payer", stream: stream}
		asked := w.say("go", with("Arbor-Session", "s")).Content
		for _, want := range []int32{1, 1, 2, 2, 3} {
			w.messages = w.messages[len(w.messages)-1:]
			got := w.say("yes", with("Arbor-Session", "s"))
			require.Equal(t, asked, got.Content)
			require.Equal(t, want, paid.Load())
		}
	}
}

// TestTextsWithoutAnswers: if a client sends only new messages, a text that comes once more, or from a client that was
// shown the question before, gets the answer again and runs nothing. The next one counts.
func TestTextsWithoutAnswers(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		root, paid := newPayer(t, atOnce)
		w := newWorld(t, root)
		say := func(text string, changes ...change) *reply {
			w := &window{world: w, model: "payer"}
			return w.say(text, append(changes, with("Arbor-Session", "s"))...)
		}
		require.Contains(t, say("go").Content, "amount=10")
		second := say("yes")
		require.Contains(t, second.Content, "amount=11")
		require.Equal(t, second.Content, say("yes", with("X-Stainless-Retry-Count", "1")).Content)
		require.Equal(t, second.Content, say("yes").Content)
		require.Equal(t, []int{10}, *paid)
		require.Contains(t, say("yes").Content, "amount=12")
		require.Equal(t, []int{10, 11}, *paid)

		root, paid = newPayer(t, atOnce)
		w = newWorld(t, root)
		respond := func(text string) *responded {
			return w.respond(map[string]any{"model": "payer", "conversation": "s", "input": text})
		}
		say("go")
		respond("yes")
		require.Equal(t, []int{10}, *paid)
		require.Equal(t, 200, respond("yes").Status)
		require.Equal(t, []int{10}, *paid)
		respond("yes")
		require.Equal(t, []int{10, 11}, *paid)
	}
}

// TestRepeatedRequestApprovesNothing: the answer to a text repeats the question, but is lost. The text that comes again
// was sent before.
func TestRepeatedRequestApprovesNothing(t *testing.T) {
	root, paid := newPayer(t, false)
	turns := newTurns(t, root, sessiontest.Memory(t))
	say := func(w *world, text, count string) {
		one := &window{world: w, model: "payer"}
		one.say(text, with("Arbor-Session", "s"), with("X-Stainless-Retry-Count", count))
	}
	say(newWorldOn(t, turns), "go", "0")
	restarted := newWorldOn(t, turns)
	say(restarted, "yes", "0")
	say(restarted, "yes", "1")
	require.Empty(t, *paid)
	say(restarted, "yes", "0")
	require.Equal(t, []int{10}, *paid)
}

// cutOff is a connection that breaks before a text is written.
type cutOff struct {
	*httptest.ResponseRecorder
	text string
}

func (c cutOff) Write(data []byte) (int, error) {
	if strings.Contains(string(data), c.text) {
		return 0, errors.New("the connection is broken")
	}
	return c.ResponseRecorder.Write(data)
}

// TestTextsAnswerNoLostQuestion: a question that could not be sent is asked again.
func TestTextsAnswerNoLostQuestion(t *testing.T) {
	for _, stream := range []bool{true, false} {
		root, paid := newPayer(t, false)
		w := newWorld(t, root)
		body := fmt.Sprintf(`{"model":"payer","stream":%t,"messages":[{"role":"user","content":"go"}]}`, stream)
		r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer secret")
		r.Header.Set("Arbor-Session", "s")
		w.ServeHTTP(cutOff{httptest.NewRecorder(), "wants to run"}, r)
		for n := range 2 {
			require.Len(t, *paid, 0)
			one := &window{world: w, model: "payer"}
			require.Contains(t, one.say("yes", with("Arbor-Session", "s")).Content, fmt.Sprintf("amount=%d", 10+n))
		}
		require.Equal(t, []int{10}, *paid)
	}
}

// TestTextsAnswerWhatWasShownBeforeARight: a text answers the question that was shown, also if its sender may answer an
// earlier one by now.
func TestTextsAnswerWhatWasShownBeforeARight(t *testing.T) {
	var ran []string
	tool := func(name string, by tools.By) tools.Tool {
		return must.Get(tools.Func(name, "Does it.", func(tools.Context, struct{}) (string, error) {
			ran = append(ran, name)
			return "done", nil
		}, tools.NeedsApproval(by)))
	}
	root := must.Get(llmagent.New("payer", "", scripted.Func("payer", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("Done."))
		}
		return scripted.Reply(scripted.Call("wire", "{}"), scripted.Call("book", "{}"))
	}), llmagent.WithTools(tool("wire", tools.ByStaff()), tool("book", tools.ByUser()))))
	ann := access.Account{Name: "ann", Token: access.HashToken("secret")}
	accounts := must.Get(access.NewAccounts(ann))
	guard := must.Get(access.New(access.Options{Users: accounts}))
	w := &window{world: newWorldOn(t, newTurns(t, root, sessiontest.Memory(t)), WithGuard(guard)), model: "payer"}
	require.Contains(t, w.say("go").Content, "The tool book wants to run")
	ann.Rights = access.Approve
	require.NoError(t, accounts.Replace(ann))
	again := w.say("yes")
	require.Equal(t, []string{"book"}, ran)
	require.Contains(t, again.Content, "The tool wire wants to run")
	require.Equal(t, "Done.", w.say("yes").Content)
	require.Equal(t, []string{"book", "wire"}, ran)
}
