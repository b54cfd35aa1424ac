package runner_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// ruled is the tree of chain with one level, in which a rule decides and no model.
func ruled(t testing.TB) agent.Agent {
	t.Helper()
	a := must.Get(llmagent.New("a1", "You are a1.", scripted.Always("a1", scripted.Reply(scripted.Text("I see two charges.")))))
	billing := router.Specialist(a)
	return must.Get(router.New("a0", router.Rules(router.When(router.Keyword("charged")).To(billing)), router.Default(billing)))
}

// BenchmarkRoutedTurn measures one turn of a new session in which a specialist answers, chosen
// by a rule and chosen by a model that answers at once.
func BenchmarkRoutedTurn(b *testing.B) {
	for name, root := range map[string]agent.Agent{"rule": ruled(b), "model": chain(b, 1, "I see two charges.")} {
		b.Run(name, func(b *testing.B) {
			store := session.NewMemory()
			r := newRunner(b, root, store, runner.WithCache(1))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				turn(b, r, session.ID(fmt.Sprint("s", i)))
				if i++; i%100 == 0 {
					b.StopTimer()
					r = newRunner(b, root, session.NewMemory(), runner.WithCache(1))
					b.StartTimer()
				}
			}
		})
	}
}

// seated opens so many handoffs at a desk, one a session, and returns their legs.
func seated(t testing.TB, legs int) (*runner.Runner, *human.Room, []human.Leg) {
	t.Helper()
	room := must.Get(human.NewRoom(human.WithMaxLegs(legs)))
	r := newRunner(t, ruled(t), session.NewMemory(), runner.WithDesk(room))
	room.Serve(r.Deliver)
	for i := range legs {
		for _, err := range r.Run(context.Background(), session.ID(fmt.Sprint("s", i)), llm.UserText("A person"), runner.CallHuman("")) {
			require.NoError(t, err)
		}
	}
	var open []human.Leg
	for _, w := range room.Legs() {
		require.NoError(t, room.Accept(context.Background(), w.Leg, "Ann"))
		open = append(open, w.Leg)
	}
	return r, room, open
}

// BenchmarkDesk measures a word of a person to the user and one of the user to the person, with
// few and with many handoffs open.
func BenchmarkDesk(b *testing.B) {
	for _, legs := range []int{10, 1000} {
		b.Run(fmt.Sprintf("legs=%d", legs), func(b *testing.B) {
			r, room, open := seated(b, legs)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				leg := open[i%legs]
				i++
				if err := room.Say(context.Background(), leg, "One moment."); err != nil {
					b.Fatal(err)
				}
				turn(b, r, leg.Session)
			}
		})
	}
}

// TestAllocationBudgetOfADesk: a word and its answer cost the same with 10 and with 1,000 handoffs open.
func TestAllocationBudgetOfADesk(t *testing.T) {
	cost := func(legs int) float64 {
		r, room, open := seated(t, legs)
		i := 0
		return race.Allocations(t, 100, func() {
			leg := open[i%10]
			i++
			if err := room.Say(context.Background(), leg, "One moment."); err != nil {
				t.Fatal(err)
			}
			turn(t, r, leg.Session)
		})
	}
	few, many := cost(10), cost(1000)
	t.Logf("%.0f allocations with 10 handoffs open, %.0f with 1,000", few, many)
	require.LessOrEqual(t, many, few+5)
	require.LessOrEqual(t, many, 175.0)
}
