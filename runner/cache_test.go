package runner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestSessionMadeAnew: what is known of a session that was deleted is not used for
// one that has its key now, whether it was learned with a lease or without one.
func TestSessionMadeAnew(t *testing.T) {
	ctx := context.Background()
	for _, turns := range []int{1, 2} { // of the new session
		for _, ran := range []bool{false, true} {
			for _, runs := range []bool{false, true} {
				var sent *llm.Request
				root := must.Get(llmagent.New("solo", "", scripted.Func("solo", func(req *llm.Request) scripted.Answer {
					sent = req
					return scripted.Reply(scripted.Text("Hello."))
				})))
				store := sessiontest.Memory(t)
				r, other := newRunner(t, root, store), newRunner(t, root, store)
				if ran {
					run(t, r, s1, "Old words")
				} else {
					run(t, other, s1, "Old words")
					must.Get(r.Preview(ctx, s1, "solo"))
				}
				require.NoError(t, store.Delete(ctx, s1))
				for range turns {
					run(t, other, s1, "New words")
				}
				if runs {
					run(t, r, s1, "New words")
				} else {
					preview := must.Get(r.Preview(ctx, s1, "solo"))
					sent = preview.Request
				}
				want := 2 * turns
				if runs {
					want++
				}
				require.Len(t, sent.Messages, want)
				for _, m := range sent.Messages {
					require.Contains(t, []string{"New words", "Hello."}, m.PlainText())
				}
			}
		}
	}
}
