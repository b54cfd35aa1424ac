package openaiapi

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

// TestApprovalThatIsNotTheUsers: a client whose user may not approve the call can continue, although its history has a "yes".
func TestApprovalThatIsNotTheUsers(t *testing.T) {
	eachClient(t, func(t *testing.T, c aClient) {
		refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) { return "paid", nil }, tools.NeedsApproval(tools.ByStaff())))
		root := must.Get(llmagent.New("till", "", callsThen(scripted.Call("refund", "{}")), llmagent.WithTools(refund)))
		w := newWorld(t, root)
		c.say("refund")
		_, _, calls := c.send(w, "till")
		require.Len(t, calls, 1)
		c.answer(calls, func(string) string { return "yes" })
		status, _, _ := c.send(w, "till")
		require.NotEqual(t, http.StatusOK, status)
		c.say("Never mind.")
		status, said, _ := c.send(w, "till")
		require.Equal(t, http.StatusOK, status, said)
	})
}

// TestAnswerNextToAnApprovalThatIsNotTheUsers: the user's answer to a question counts, although the client's history has a "yes" to
// a call that only staff may approve.
func TestAnswerNextToAnApprovalThatIsNotTheUsers(t *testing.T) {
	eachClient(t, func(t *testing.T, c aClient) {
		refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) { return "paid", nil }, tools.NeedsApproval(tools.ByStaff())))
		book := must.Get(tools.Func("book", "Books.", func(ctx tools.Context, _ struct{}) (string, error) {
			day, err := ctx.Ask("Is Friday fine?", nil)
			return "booked " + string(day), err
		}))
		root := must.Get(llmagent.New("till", "", callsThen(scripted.Call("refund", `{}`), scripted.Call("book", "{}")), llmagent.WithTools(refund, book)))
		w := newWorld(t, root)
		c.say("refund and book")
		_, _, calls := c.send(w, "till")
		require.Len(t, calls, 1)
		c.answer(calls, func(string) string { return "yes" })
		c.say("Friday is fine.")
		status, said, _ := c.send(w, "till")
		require.Equal(t, http.StatusOK, status, said)
	})
}
