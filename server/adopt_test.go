package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
)

var stood = session.Key{App: session.DefaultApp, User: "ann", ID: "s"}

// standing has a server of its own begin a turn whose model says some words and then nothing more. It returns a function that
// kills the server.
func standing(t *testing.T, c stormConfig) (kill func()) {
	c.Addr, c.Stalls = servers.Address(t), true
	r := &replica{stormConfig: c}
	r.start(t)
	killed := false
	kill = func() {
		if !killed {
			r.kill(t)
		}
		killed = true
	}
	t.Cleanup(kill)
	(&storm{t: t, base: "http://" + c.Addr, http: http.DefaultClient}).begin(t)
	return kill
}

// taker is a server that adopts turns.
func taker(t *testing.T, c stormConfig) *replica {
	c.Addr, c.Adopt = servers.Address(t), time.Second
	r := &replica{stormConfig: c}
	r.start(t)
	t.Cleanup(func() { r.kill(t) })
	return r
}

// logOf reads the log as it is.
func logOf(t *testing.T, db session.Store) (events []*event.Event) {
	for e, err := range db.Load(t.Context(), stood, 0) {
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

// noted waits until the log has a notice, and returns how long that took.
func noted(t *testing.T, db session.Store, code string) time.Duration {
	t.Helper()
	began := time.Now()
	must.Wait(t, func() bool { return count(logOf(t, db), code) > 0 })
	return time.Since(began)
}

// allOver waits until no turn of a store is left to adopt.
func allOver(t *testing.T, db session.Store) {
	t.Helper()
	must.Wait(t, func() bool {
		left, err := db.Orphans(t.Context(), session.Page{})
		return err == nil && len(left) == 0
	})
}

func count(events []*event.Event, code string) (n int) {
	for _, e := range events {
		if e.IsNotice(code) {
			n++
		}
	}
	return n
}

// over waits until the turn has been answered, and checks that it was adopted once and that the tool ran once.
func over(t *testing.T, c stormConfig, db session.Store) {
	t.Helper()
	must.Wait(t, func() bool {
		events := logOf(t, db)
		end, ok := events[len(events)-1].Data.(*event.HarnessEnd)
		return ok && end.FinishReason == event.FinishReasonStop
	})
	require.Equal(t, 1, count(logOf(t, db), event.NoticeAdopted))
	ledger := must.Get(os.ReadFile(filepath.Join(c.Dir, "ledger")))
	require.Equal(t, 1, strings.Count(string(ledger), "\n"), "the tool ran once")
	allOver(t, db)
}

func opened(t *testing.T, c stormConfig) session.Store {
	db := must.Get(c.open(t.Context()))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// TestAdoptOnThisMachine: one of two other processes of the machine continues the turn of a killed process long before
// the lease ends, although no client follows it. A busy machine gets three chances to be quick enough.
func TestAdoptOnThisMachine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]func(*testing.T) stormConfig{
		"sqlite":   func(t *testing.T) stormConfig { return stormConfig{Dir: t.TempDir()} },
		"postgres": func(t *testing.T) stormConfig { return stormConfig{Dir: t.TempDir(), Postgres: servers.Database(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			took := session.LeaseTTL
			for tries := 0; tries < 3 && took >= session.LeaseTTL/2; tries++ {
				c := c(t)
				taker(t, c)
				taker(t, c)
				kill := standing(t, c)
				db := opened(t, c)
				require.Zero(t, count(logOf(t, db), event.NoticeAdopted))
				kill()
				took = noted(t, db, event.NoticeAdopted)
				t.Logf("adopted after %s", took)
				over(t, c, db)
			}
			require.Less(t, took, session.LeaseTTL/2)
		})
	}
}

// A turn of another machine, of which nobody knows whether it still runs, goes on when its lease has ended by the clock of
// the database, however wrong the clocks of the machines are.
func TestAdoptFromElsewhere(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "--uts", "true").CombinedOutput(); err != nil {
		t.Skipf("a process cannot have another host name here: unshare --uts needs util-linux and the right to do it: %v: %s", err, out)
	}
	c := stormConfig{Dir: t.TempDir(), Postgres: servers.Database(t)}
	ahead, behind := c, c
	ahead.Skew, behind.Skew = 2*time.Hour, -2*time.Hour
	taker(t, ahead)
	taker(t, behind)
	far := behind
	far.Host = "elsewhere"
	began := time.Now()
	kill := standing(t, far)
	db := opened(t, c)
	kill()
	noted(t, db, event.NoticeAdopted)
	require.Greater(t, time.Since(began), session.LeaseTTL, "its lease had not ended")
	over(t, c, db)
}

// A turn that kills each process that goes on with it kills three, and then none.
func TestAdoptOfADeadlyTurn(t *testing.T) {
	t.Parallel()
	c := stormConfig{Dir: t.TempDir()}
	standing(t, c)()
	db := opened(t, c)
	deadly := c
	deadly.Addr, deadly.Adopt, deadly.Dies = servers.Address(t), 50*time.Millisecond, true
	for range 3 {
		r := &replica{stormConfig: deadly}
		_, _ = io.Copy(io.Discard, r.launch(t)) // it may die before it is ready
		_ = r.child.Wait()
	}
	r := &replica{stormConfig: deadly}
	r.start(t)
	noted(t, db, event.NoticeLeft)
	events := logOf(t, db)
	taker(t, c)
	allOver(t, db)
	require.Equal(t, 3, count(events, event.NoticeAdopted))
	require.Equal(t, 1, count(events, event.NoticeLeft))
	require.Equal(t, events, logOf(t, db))
	r.kill(t) // it lived
}

// shows is a client that shows what it is told as it comes, and comes back where it was.
type shows struct {
	t     *testing.T
	last  string
	graph *conversation.Graph
	words map[string]string // of blocks that are shown in part
	kinds []string          // of what was stored
}

// follow follows until a function has seen enough, or the connection breaks.
func (s *shows) follow(addr string, enough func(*event.Event) bool) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/api/v1/sessions/s/events", nil))
	req.Header.Set("Authorization", "Bearer "+stormToken)
	req.Header.Set("Accept", "text/event-stream")
	if s.last != "" {
		req.Header.Set("Last-Event-ID", s.last)
	}
	res := must.Get(http.DefaultClient.Do(req))
	defer res.Body.Close()
	require.Equal(s.t, http.StatusOK, res.StatusCode)
	named := false // of a frame that is no event of the session
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "":
			named = false
		case "event":
			named = true
		case "id":
			s.last = value
		case "data":
			if named {
				continue
			}
			var e event.Event
			require.NoError(s.t, json.Unmarshal([]byte(value), &e))
			s.take(&e)
			if enough(&e) {
				return
			}
		}
	}
}

func (s *shows) take(e *event.Event) {
	s.graph = s.graph.Reduce(e)
	if !e.Partial {
		s.kinds = append(s.kinds, e.Type())
	}
	switch d := e.Data.(type) {
	case *event.Text:
		if e.Partial {
			s.words[e.ID] += d.Content
		} else {
			delete(s.words, e.ID)
		}
	case *event.Discard:
		for _, id := range d.IDs {
			delete(s.words, id)
		}
	case *event.Notice:
		if d.Code == event.NoticeAdopted {
			clear(s.words)
		}
	}
}

func (s *shows) half() bool { return len(s.words) == 1 }

// texts are the words that the conversation shows.
func (s *shows) texts() (all []string) {
	for n := range s.graph.Nodes() {
		if n.Kind == event.TypeText {
			all = append(all, n.Text())
		}
	}
	return all
}

func ended(e *event.Event) bool { return e.Type() == event.TypeHarnessEnd }

// Who has seen half an answer when its process is killed learns that it is void before another one comes, whether
// he follows at a server that goes on, which Redis tells, or has to come back to another one.
func TestAdoptVoidsHalfAnAnswer(t *testing.T) {
	t.Parallel()
	for name, redis := range map[string]bool{"with Redis": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := stormConfig{Dir: t.TempDir(), Postgres: servers.Database(t)}
			if redis {
				c.Redis = servers.NewRedis(t).URL()
			}
			first := c
			first.Addr, first.Stalls = servers.Address(t), true
			one := &replica{stormConfig: first}
			one.start(t)
			two := taker(t, c)
			(&storm{t: t, base: "http://" + first.Addr, http: http.DefaultClient}).begin(t)
			at := first.Addr
			if redis {
				at = two.Addr
			}
			s := &shows{t: t, graph: conversation.New(), words: make(map[string]string)}
			killed := false
			s.follow(at, func(e *event.Event) bool {
				if !killed && s.half() && strings.Contains(firstOf(s.words), "word4") {
					one.kill(t)
					killed = true
				}
				return killed && ended(e)
			})
			require.True(t, killed)
			if !redis {
				require.True(t, s.half(), "it has learned nothing yet")
				void := false
				s.follow(two.Addr, func(e *event.Event) bool {
					if e.Partial && !void {
						require.Len(t, s.words, 1, "of the new answer alone")
						require.Len(t, s.texts(), 1, "the conversation shows what is void")
						void = true
					}
					return ended(e)
				})
			}
			require.Empty(t, s.words)
			require.Equal(t, []string{"user", "harness_start", "notice", "text", "tool_call", "usage", "tool_result", "text", "usage", "harness_end"}, s.kinds)
			var want []string
			for _, e := range logOf(t, opened(t, c)) {
				if d, ok := e.Data.(*event.Text); ok {
					want = append(want, d.Content)
				}
			}
			require.Equal(t, want, s.texts())
		})
	}
}

// begin begins the turn, and does not wait for it.
func (s *storm) begin(t *testing.T) {
	req := must.Get(http.NewRequest(http.MethodPost, s.base+"/api/v1/sessions", strings.NewReader(`{"id":"s","content":"note"}`)))
	req.Header.Set("Authorization", "Bearer "+stormToken)
	req.Header.Set("Content-Type", "application/json")
	res := must.Get(s.http.Do(req))
	require.NoError(t, res.Body.Close())
	require.Less(t, res.StatusCode, 300)
}

func firstOf(words map[string]string) string {
	for _, w := range words {
		return w
	}
	return ""
}
