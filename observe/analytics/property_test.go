package analytics_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/observe/analytics"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// chance plays a tree whose agents do what is drawn when they run.
type chance struct {
	t     *rapid.T
	names []string
	stop  context.CancelFunc
	steps int
	made  int // decisions of routers in this turn
}

func (c *chance) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(c.t, label) }

// act is a step of any agent that is no router.
func (c *chance) act(ctx context.Context, inv *agent.Invocation, yield func(event.Data) bool) error {
	c.steps++
	if c.pick("speaks", 2) == 1 && !yield(&event.Text{Content: "words"}) {
		return nil
	}
	what := c.pick("does", 12)
	switch {
	case c.steps > 30:
	case what == 0:
		return errors.New("broken")
	case what == 1:
		panic("oh")
	case what == 2:
		return &agent.LimitError{Name: "x", Limit: 1}
	case what == 3:
		c.stop()
		return context.Cause(ctx)
	case what == 4:
		yield(&event.Finish{Reason: event.FinishReasonInputRequired})
	case what == 5:
		yield(&event.Continue{})
	case what == 6:
		yield(&event.RemoteTask{TaskID: "t1"})
	case what < 10 && len(inv.Node().Targets()) > 0:
		targets := inv.Node().Targets()
		yield(&event.Transfer{To: targets[c.pick("target", len(targets))].Agent.Name()})
	}
	return nil
}

func (c *chance) choose(inv *agent.Invocation) (string, error) {
	c.steps++
	var may []string
	for _, name := range append(c.names, agent.Human) {
		if n := inv.Tree().Node(name); n != nil && name != inv.Agent().Name() && inv.Node().MayTransferTo(n) {
			may = append(may, name)
		}
	}
	if c.steps > 30 || c.pick("fails", 8) == 0 {
		return "", errors.New("no rule")
	}
	if c.made++; c.pick("cancelled when it has decided", 8) == 0 {
		c.stop()
	}
	return may[c.pick("chosen", len(may))], nil
}

// away is an agent that cannot start.
type away struct {
	agent.Agent
	c *chance
}

func (a *away) Unwrap() agent.Agent { return a.Agent }
func (a *away) Ready(ctx context.Context) error {
	if a.c.pick("cancelled while it is asked", 4) == 0 {
		a.c.stop()
		return context.Cause(ctx)
	}
	return errors.New("away")
}

// tree draws an agent with all below it.
func (c *chance) tree(t testing.TB, depth int) agent.Agent {
	name := fmt.Sprint("n", len(c.names))
	c.names = append(c.names, name)
	var kids []agent.Agent
	router := depth < 3 && c.pick("router", 2) == 0
	if depth < 3 {
		for range c.pick("children", 3) + map[bool]int{true: 1}[router] {
			kid := c.tree(t, depth+1)
			if n := len(kids); n > 0 && c.pick("on error", 2) == 0 {
				kid = agent.Via(kid, agent.OnError(kids[n-1].Name()))
			}
			kids = append(kids, kid)
		}
	}
	if router {
		return newRouter(t, name, c.choose, agent.WithSubAgents(kids...), everywhere())
	}
	a := does(t, name, c.act, agent.WithSubAgents(kids...), everywhere())
	if c.pick("away", 5) == 0 {
		return &away{a, c}
	}
	return a
}

// TestOrder plays random turns on random trees, whose consumers break, panic, cancel and crash,
// and holds what is told of them against the grammar, and against the log. -rapid.checks=N
// plays N of them.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &chance{t: rt}
		root := c.tree(t, 0)
		d := desk{}
		if c.pick("nobody there", 3) == 0 {
			d.down = human.ErrUnavailable
		}
		tree := must.Get(agent.NewTree(root))
		store := session.NewMemory()
		for turn := range 1 + c.pick("turns", 3) {
			var routes int
			var last error
			var cut bool
			all := told(rt, nil, func(i agent.Interceptor) {
				r := must.Get(runner.New(root, store, runner.WithInterceptors(i), runner.WithDesk(d, human.WithPatience(0))))
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				c.stop, c.steps, c.made = cancel, 0, 0
				events := r.Run(ctx, key, llm.UserText("hello"))
				if turn > 0 && c.pick("resumes", 2) == 0 {
					events = r.Resume(ctx, key)
				}
				after, how := c.pick("after", 40), c.pick("how", 4)
				defer func() {
					if p := recover(); p != nil && p != any("the consumer") {
						panic(p)
					}
				}()
				for e, err := range events {
					last = err
					if err != nil {
						continue
					}
					if d, ok := e.Data.(*event.Route); ok && d.Failed == nil {
						routes++
					}
					if after--; after != 0 {
						continue
					}
					if cut = true; how == 0 {
						panic("the consumer")
					} else if how == 1 {
						break
					} else if how == 2 {
						cancel()
					}
				}
			})
			var decided int
			ordered := slices.DeleteFunc(slices.Clone(all), func(e analytics.Event) bool { return !strings.HasPrefix(e.Type, "agent_") })
			for n, e := range ordered { // who was chosen was started, whether or not it could be
				if to := tree.Node(e.To); e.Type == "agent_routed" && to != nil && to.GraphPath() != nil && to.GraphPath()[0] == e.GraphID && !to.Properties.Router && !cut {
					next := ordered[n+1]
					require.Equal(rt, []string{"agent_specialist_started", e.To}, []string{next.Type, next.SpecialistID}, strings.Join(types(all), "\n"))
				}
			}
			for n, e := range all {
				switch {
				case e.Type == "agent_routed":
					decided++
				case e.Type == "agent_graph_exited" && n == len(all)-1 && !cut && agent.PropertiesOf(root).Router: // all of the tree is one graph
					require.Equal(rt, last != nil, e.Outcome == "failed" || e.Outcome == "cancelled", "%v\n%s", last, strings.Join(types(all), "\n"))
				}
			}
			require.Equal(rt, routes, decided, strings.Join(types(all), "\n"))
			if !cut {
				require.Equal(rt, c.made, decided, "a decision is lost: %s", strings.Join(types(all), "\n"))
			}
		}
	})
}
