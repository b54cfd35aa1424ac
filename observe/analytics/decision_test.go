package analytics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/observe/analytics"
	"github.com/agentarbor/arbor/observe/debugbundle"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/workflowagent"
)

// peers are remote agents that cannot answer, by why: each serves until the test ends, and calls asked
// when somebody asks for its card.
var peers = map[string]func(t *testing.T, asked func()) (cardURL string){
	"refused": func(t *testing.T, _ func()) string {
		s := httptest.NewServer(http.NotFoundHandler())
		s.Close()
		return s.URL
	},
	"503": func(t *testing.T, asked func()) string {
		return peer(t, func(w http.ResponseWriter, _ *http.Request) { asked(); w.WriteHeader(http.StatusServiceUnavailable) })
	},
	"no card": func(t *testing.T, asked func()) string {
		return peer(t, func(w http.ResponseWriter, _ *http.Request) { asked(); fmt.Fprint(w, "<html>") })
	},
	"503 of the message": func(t *testing.T, asked func()) string {
		return peer(t, func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodPost {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			asked()
			fmt.Fprintf(w, `{"name":"x","supportedInterfaces":[{"url":"http://%s/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`, req.Host)
		})
	},
}

func peer(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// cancelling is a store that calls a function before it stores a decision.
type cancelling struct {
	session.Store
	decided func(*event.Route)
}

func (s *cancelling) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return s.Store.Write(ctx, key, w)
	}
	for _, e := range w.Events {
		if d, ok := e.Data.(*event.Route); ok {
			s.decided(d)
		}
	}
	if err := ctx.Err(); err != nil {
		return session.Lease{}, err
	}
	return s.Store.Write(ctx, key, w)
}

// TestDecisionsAreKept: a decision is in the log, in the debug bundle and in analytics whatever becomes of the
// specialist, and a specialist that cannot answer has failed.
func TestDecisionsAreKept(t *testing.T) {
	const (
		never   = iota
		before  // while the router decides
		stored  // when the decision is being stored
		asking  // while the peer is asked for its card
		another // when the decision that another one goes on is being stored
	)
	for why, serve := range peers {
		for _, onError := range []bool{false, true} {
			for _, chained := range []bool{false, true} {
				for when, name := range []string{"", " cancelled before", " cancelled when stored", " cancelled while asked", " cancelled when another goes on"} {
					if when == asking && why == "refused" || when == another && !onError {
						continue
					}
					t.Run(fmt.Sprintf("%s onError=%v chained=%v%s", why, onError, chained, name), func(t *testing.T) {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						on := func(now int) {
							if now == when {
								cancel()
							}
						}
						remote := must.Get(a2a.Remote("far", serve(t, func() { on(asking) })))
						rest := router.Specialist(says(t, "rest"))
						far := router.Specialist(remote)
						if onError {
							far = router.Specialist(remote, router.OnError(rest))
						}
						decides := router.When(router.Predicate(func(router.Turn) bool { on(before); return true }))
						root := must.Get(router.New("inner", router.Rules(decides.To(far)), router.Default(rest)))
						path := "inner"
						if chained {
							inner := router.Specialist(root)
							root = must.Get(router.New("front", router.Default(inner)))
							path = "front/inner"
						}
						store := &cancelling{Store: sessiontest.Memory(t), decided: func(d *event.Route) {
							if d.Failed != nil {
								on(another)
							} else if d.To == "far" {
								on(stored)
							}
						}}
						var last error
						all := told(t, nil, func(i agent.Interceptor) {
							r := must.Get(runner.New(root, store, runner.WithInterceptors(i)))
							for _, last = range r.Run(ctx, key, llm.UserText("hello")) {
							}
							bundle := must.Get(debugbundle.New(t.Context(), r, key, debugbundle.Options{}))
							var decided []string
							for _, d := range bundle.AgentGraph.Decisions {
								decided = append(decided, d.From+"→"+d.To)
							}
							var routes []string
							if chained {
								routes = append(routes, "front→inner")
							}
							if when != before {
								routes = append(routes, "inner→far")
							}
							if onError && (when == never || when == another) {
								routes = append(routes, "far→rest")
							}
							require.Equal(t, routes, decided, "%v", last)
						})
						want := []string{"entered " + strings.Split(path, "/")[0]}
						if chained {
							want = append(want, "routed front→inner")
						}
						switch {
						case when == before:
							want = append(want, "exited cancelled "+path)
						case when == stored, when == asking:
							want = append(want, "routed inner→far", "started far", "failed far canceled", "exited cancelled "+path+"/far")
						case when == another:
							want = append(want, "routed inner→far", "started far", "failed far CODE", "started rest", "failed rest canceled", "exited cancelled "+path+"/rest")
						case onError:
							want = append(want, "routed inner→far", "started far", "failed far CODE", "started rest", "completed rest stop", "exited specialist "+path+"/rest")
						default:
							want = append(want, "routed inner→far", "started far", "failed far CODE", "exited failed "+path+"/far")
						}
						require.Equal(t, strings.Join(want, "\n"), uncoded(all), "%v", last)
						for _, e := range all {
							if e.Type == "agent_routed" {
								require.Less(t, e.LatencyMs, 50.0, "the card is no part of the decision")
							}
						}
						switch {
						case when != never:
							require.ErrorIs(t, last, context.Canceled)
						case onError:
							require.NoError(t, last)
						default:
							require.Error(t, last)
						}
					})
				}
			}
		}
	}
}

// uncoded tells what happened in graphs, without the code of the failure of "far".
func uncoded(all []analytics.Event) string {
	words := graphs(types(all))
	for i, w := range words {
		if strings.HasPrefix(w, "failed far ") && w != "failed far canceled" {
			words[i] = "failed far CODE"
		}
	}
	return strings.Join(words, "\n")
}

// TestNobodyReadyGoesOn: an agent that is to go on for one that failed, and cannot answer, has failed as well.
func TestNobodyReadyGoesOn(t *testing.T) {
	for why, serve := range peers {
		for _, onError := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s onError=%v", why, onError), func(t *testing.T) {
				remote := must.Get(a2a.Remote("far", serve(t, func() {})))
				rest, far := router.Specialist(says(t, "rest")), router.Specialist(remote)
				want, exit := []string{}, "exited failed front/far"
				if onError {
					far = router.Specialist(remote, router.OnError(rest))
					want, exit = []string{"started rest", "completed rest stop"}, "exited specialist front/rest"
				}
				broken := does(t, "broken", func(context.Context, *agent.Invocation, func(event.Data) bool) error { return errors.New("broken") })
				first := router.Specialist(broken, router.OnError(far))
				root := must.Get(router.New("front", router.Specialists(rest), router.Default(first)))
				all := told(t, nil, func(i agent.Interceptor) {
					r, err := runner.New(root, sessiontest.Memory(t), runner.WithInterceptors(i))
					require.NoError(t, err)
					for _, err = range r.Run(t.Context(), key, llm.UserText("hello")) {
					}
					require.Equal(t, onError, err == nil, "%v", err)
				})
				want = append(append([]string{"entered front", "routed front→broken", "started broken", "failed broken agent_error", "started far", "failed far CODE"}, want...), exit)
				require.Equal(t, strings.Join(want, "\n"), uncoded(all))
			})
		}
	}
}

// TestCancelledWhenDecided: a turn that is cancelled right after a decision has it in its log, wherever the router is,
// and the specialist does not run.
func TestCancelledWhenDecided(t *testing.T) {
	for name, around := range map[string]func(t *testing.T, front agent.Agent) agent.Agent{
		"a router": func(_ *testing.T, front agent.Agent) agent.Agent { return front },
		"in a workflow": func(t *testing.T, front agent.Agent) agent.Agent {
			return must.Get(workflowagent.Sequential("plan", "", []agent.Agent{front}))
		},
		"in a tool": func(t *testing.T, front agent.Agent) agent.Agent {
			tool := must.Get(agenttool.New(front))
			return must.Get(llmagent.New("caller", "", scripted.Always("m", scripted.Reply(scripted.Call("front", `{"input":"hello"}`))), llmagent.WithTools(tool)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ran, looks := false, 0
			deaf := does(t, "deaf", func(context.Context, *agent.Invocation, func(event.Data) bool) error { ran = true; return nil })
			clock := func() time.Time { // which the router reads before it decides, and after
				if looks++; looks == 2 {
					cancel()
				}
				return time.Time{}
			}
			front := must.Get(router.New("front", router.Wrap(deaf), router.WithClock(clock)))
			all := told(t, nil, func(i agent.Interceptor) {
				r, err := runner.New(around(t, front), sessiontest.Memory(t), runner.WithInterceptors(i))
				require.NoError(t, err)
				for _, err = range r.Run(ctx, key, llm.UserText("hello")) {
				}
				require.ErrorIs(t, err, context.Canceled)
				bundle := must.Get(debugbundle.New(t.Context(), r, key, debugbundle.Options{}))
				require.Len(t, bundle.AgentGraph.Decisions, 1)
				require.Equal(t, "deaf", bundle.AgentGraph.Decisions[0].To)
			})
			require.False(t, ran)
			if name == "a router" {
				require.Equal(t, "entered front\nrouted front→deaf\nstarted deaf\nfailed deaf canceled\nexited cancelled front/deaf", uncoded(all))
			}
		})
	}
}
