package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/tools"
)

// desk is an agent that does what it is told: to think until it is let go on, to ask, to fail.
type desk struct {
	thinks chan string   // what it was told, when it thinks about it
	free   chan struct{} // lets one thought end
}

func newDesk(t testing.TB) (*desk, agent.Agent) {
	t.Helper()
	d := &desk{make(chan string, 100), make(chan struct{}, 100)}
	refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) { return "refunded", nil }, tools.NeedsApproval(tools.ByUser())))
	model := scripted.Func("desk", func(req *llm.Request) scripted.Answer {
		last := req.Messages[len(req.Messages)-1]
		switch text := last.PlainText(); {
		case last.Role == llm.RoleTool:
			return scripted.Reply(scripted.Text("Thank you."))
		case strings.Contains(text, "think"):
			return scripted.Reply(scripted.Text("thin"), scripted.Wait(func(context.Context) error { d.thinks <- text; return nil }),
				scripted.WaitFor(d.free), scripted.Text("king done"))
		case strings.Contains(text, "ask"):
			return scripted.Reply(scripted.Call("refund", `{}`))
		case strings.Contains(text, "fail"):
			return scripted.Reply(scripted.Status(400, 0))
		}
		return scripted.Reply(scripted.Text("Hello."))
	})
	a := must.Get(llmagent.New("desk", "You obey.", model, llmagent.WithTools(refund)))
	return d, a
}

// newTurns makes Turns on a store as a process of its own does.
func newTurns(t testing.TB, a agent.Agent, store session.Store, opts ...Option) *Turns {
	t.Helper()
	tail := must.Get(tail.New(store))
	run := must.Get(runner.New(a, tail, runner.WithStreaming()))
	turns := must.Get(New(run, tail, opts...))
	t.Cleanup(func() { require.NoError(t, turns.Close(context.Background())) }) // or time goes on for ever in a bubble
	return turns
}

func stateIs(t testing.TB, turns *Turns, key session.Key, want State) Status {
	t.Helper()
	s, err := turns.Look(context.Background(), key)
	require.NoError(t, err)
	require.Equal(t, want, s.State)
	return s
}

var key = session.ID("s")

// What a session looks like after each thing that can happen to it.
func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		begin := func(words string) *Turn {
			x := must.Get(turns.Begin(ctx, key, llm.UserText(words)))
			require.Equal(t, words, x.First.Data.(*event.User).Content.Text)
			return x
		}
		stateIs(t, turns, key, "")

		require.NoError(t, begin("hello").Wait(ctx))
		s := stateIs(t, turns, key, Done)
		require.Equal(t, "desk", s.Agent)
		require.Empty(t, s.Pending)

		x := begin("think")
		<-d.thinks
		s = stateIs(t, turns, key, Running)
		require.Equal(t, x.First.TurnID, s.Turn)
		d.free <- struct{}{}
		require.NoError(t, x.Wait(ctx))
		stateIs(t, turns, key, Done)

		require.NoError(t, begin("ask").Wait(ctx))
		s = stateIs(t, turns, key, Waiting)
		require.Len(t, s.Pending, 1)
		require.Equal(t, "refund", s.Pending[0].Tool)
		_, err := turns.Resume(ctx, key, runner.Approve("nobody"))
		require.ErrorIs(t, err, runner.ErrNoApproval)
		x, err = turns.Resume(ctx, key, runner.Approve(s.Pending[0].ToolCallID))
		require.NoError(t, err)
		require.NoError(t, x.Wait(ctx))
		stateIs(t, turns, key, Done)

		require.Error(t, begin("fail").Wait(ctx))
		stateIs(t, turns, key, Failed)

		x = begin("think")
		<-d.thinks
		events, err := turns.Cancel(ctx, key)
		require.NoError(t, err)
		require.NotEmpty(t, events)
		require.Error(t, x.Wait(ctx))
		stateIs(t, turns, key, Canceled)

		require.NoError(t, begin("ask").Wait(ctx))
		events, err = turns.Cancel(ctx, key)
		require.NoError(t, err)
		require.NotEmpty(t, events)
		stateIs(t, turns, key, Canceled)
		events, err = turns.Cancel(ctx, key)
		require.NoError(t, err)
		require.Empty(t, events, "it is over")

		x, err = turns.Resume(ctx, key)
		require.NoError(t, err)
		require.Nil(t, x.First, "there is nothing to resume")
		require.NoError(t, turns.Close(ctx))
	})
}

// A turn goes on when whoever began it goes away, and who follows it sees all of it.
func TestWhoBeganATurnMayGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		request, leave := context.WithCancel(ctx)
		x := must.Get(turns.Begin(request, key, llm.UserText("think"), runner.WithMetadata(map[string]any{"door": "test"})))
		require.Equal(t, "test", x.First.Data.(*event.User).Metadata["door"])
		leave()
		require.ErrorIs(t, x.Wait(request), context.Canceled)
		<-d.thinks

		var told []string
		var last string
		follow := func(after string, until string) {
			for entry, err := range turns.Follow(ctx, key, after) {
				require.NoError(t, err)
				last = entry.ID
				told = append(told, fmt.Sprint(entry.Event.Type(), " ", entry.Event.Text()))
				if entry.Event.Type() == until {
					return
				}
			}
		}
		follow("", "text") // the first piece of it
		d.free <- struct{}{}
		follow(last, "harness_end")
		require.Equal(t, []string{"user ", "harness_start ", "text thin", "text king done", "text thinking done", "usage ", "harness_end "}, told)
		require.NoError(t, x.Wait(ctx))
		require.NoError(t, turns.Close(ctx))
	})
}

// Nobody knows of a turn whose words were not stored when its client went.
func TestWhoGoesTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDesk(t)
		store := &slowLease{Store: sessiontest.Memory(t), asked: make(chan struct{}), let: make(chan struct{})}
		turns := newTurns(t, a, store)
		request, leave := context.WithCancel(context.Background())
		begun := make(chan error)
		go func() {
			_, err := turns.Begin(request, key, llm.UserText("think"))
			begun <- err
		}()
		<-store.asked
		leave()
		require.ErrorIs(t, <-begun, context.Canceled)
		close(store.let)
		require.NoError(t, turns.Close(context.Background()))
		require.Empty(t, d.thinks)
	})
}

// slowLease is a store that takes its time with the first lease.
type slowLease struct {
	session.Store
	once  sync.Once
	asked chan struct{}
	let   chan struct{}
}

func (s *slowLease) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if !w.Acquires() {
		return s.Store.Write(ctx, key, w)
	}
	s.once.Do(func() {
		close(s.asked)
		<-s.let
	})
	return s.Store.Write(ctx, key, w)
}

// A turn that was stopped stays so while others follow it, until somebody resumes it.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		require.NoError(t, turns.Stop(ctx, key), "nothing runs")
		x := must.Get(turns.Begin(ctx, key, llm.UserText("think")))
		<-d.thinks
		require.NoError(t, turns.Stop(ctx, key))
		require.ErrorIs(t, x.Wait(ctx), agent.ErrSuspended)
		stateIs(t, turns, key, CutOff)

		follower, leave := context.WithTimeout(ctx, 2*time.Minute)
		defer leave()
		for _, err := range turns.Follow(follower, key, "") {
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		}
		turns.Adopt(key)
		synctest.Wait()
		require.Empty(t, d.thinks)

		x, err := turns.Resume(ctx, key)
		require.NoError(t, err)
		<-d.thinks
		d.free <- struct{}{}
		require.NoError(t, x.Wait(ctx))
		stateIs(t, turns, key, Done)
		require.NoError(t, turns.Close(ctx))
	})
}

// A turn that one process leaves is resumed by another one in which a client follows it, if
// that one may, and what was said is not asked again.
func TestTakenUpByAnotherProcess(t *testing.T) {
	for _, may := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			d, a := newDesk(t)
			store := sessiontest.Memory(t)
			one := newTurns(t, a, store)
			two := newTurns(t, a, store, WithAutoResume(func(u *event.User) bool { return may && u.Content.Text == "think" }))
			must.Get(one.Begin(ctx, key, llm.UserText("think")))
			<-d.thinks
			_, err := two.Begin(ctx, key, llm.UserText("hello"))
			require.ErrorIs(t, err, agent.ErrSessionBusy)

			ended := make(chan error)
			follower, leave := context.WithCancel(ctx)
			go func() {
				for entry, err := range two.Follow(follower, key, "") {
					if err != nil || entry.Event.Type() == "harness_end" {
						ended <- err
						return
					}
				}
			}()
			time.Sleep(time.Minute) // of the bubble
			require.Empty(t, d.thinks, "it is at work")
			require.NoError(t, one.Close(ctx))
			time.Sleep(2 * session.LeaseTTL)
			if !may {
				require.Empty(t, d.thinks)
				leave()
				require.ErrorIs(t, <-ended, context.Canceled)
			} else {
				<-d.thinks
				d.free <- struct{}{}
				require.NoError(t, <-ended)
			}
			leave()
			require.NoError(t, two.Close(ctx))
		})
	}
}

// A turn that waits for something done elsewhere is resumed although the process has not let
// go of the session yet.
func TestTakenUpWhileItComesToRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, asked, gate := context.Background(), 0, make(chan struct{})
		a := must.Get(agent.New("door", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				if asked++; asked == 1 {
					yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}}, nil)
					return
				}
				yield(&event.Event{Data: &event.Text{Content: "Come in."}}, nil)
			}
		}))
		store := must.Get(tail.New(sessiontest.Memory(t)))
		run := must.Get(runner.New(a, store, runner.WithInterceptors(lingers{gate: gate})))
		turns := must.Get(New(run, store))
		x := must.Get(turns.Begin(ctx, key, llm.UserText("open")))
		synctest.Wait()
		stateIs(t, turns, key, Waiting)
		begun := make(chan struct{})
		turns.ResumeInBackground(key, func() { close(begun) })
		turns.ResumeInBackground(key, func() { t.Error("resumed twice") })
		synctest.Wait()
		close(gate)
		require.NoError(t, x.Wait(ctx))
		<-begun
		synctest.Wait()
		stateIs(t, turns, key, Done)
		require.Equal(t, 2, asked)
		require.NoError(t, turns.Close(ctx))
	})
}

// lingers holds up the end of turns.
type lingers struct {
	agent.Passthrough
	gate chan struct{}
}

func (l lingers) Turn(ctx context.Context, t agent.TurnInfo, next agent.TurnFunc) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		next(ctx)(yield)
		<-l.gate
	}
}

// Who closes Turns ends turns and followers, and nothing is begun any more.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		x := must.Get(turns.Begin(ctx, key, llm.UserText("think")))
		<-d.thinks
		ended := make(chan error)
		go func() {
			for _, err := range turns.Follow(ctx, key, "") {
				if err != nil {
					ended <- err
				}
			}
		}()
		synctest.Wait()
		require.NoError(t, turns.Close(ctx))
		require.ErrorIs(t, <-ended, ErrClosed)
		require.ErrorIs(t, x.Wait(ctx), agent.ErrSuspended)
		_, err := turns.Begin(ctx, key, llm.UserText("hello"))
		require.ErrorIs(t, err, ErrClosed)
		_, err = turns.Resume(ctx, key)
		require.ErrorIs(t, err, ErrClosed)
		_, err = turns.Cancel(ctx, key)
		require.ErrorIs(t, err, ErrClosed)
		turns.ResumeInBackground(key, nil)
		stateIs(t, turns, key, CutOff)
		require.NoError(t, turns.Close(ctx))
	})
}

// Each user has so many turns at work; Turns can share the bound.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		limit := access.NewLimit(2, 0)
		one, two := newTurns(t, a, sessiontest.Memory(t), WithLimit(limit)), newTurns(t, a, sessiontest.Memory(t), WithLimit(limit))
		of := func(user, id string) session.Key { return session.Key{App: "app", User: user, ID: id} }
		must.Get(one.Begin(ctx, of("ann", "1"), llm.UserText("think")))
		_, err := two.Begin(ctx, of("ann", "2"), llm.UserText("think"))
		require.NoError(t, err)
		_, err = one.Begin(ctx, of("ann", "3"), llm.UserText("hello"))
		var refused *access.LimitError
		require.ErrorAs(t, err, &refused)
		must.Get(one.Begin(ctx, of("bob", "1"), llm.UserText("hello")))
		<-d.thinks
		_, err = one.Cancel(ctx, of("ann", "1"))
		require.NoError(t, err)
		synctest.Wait()
		must.Get(one.Begin(ctx, of("ann", "3"), llm.UserText("hello")))
		require.NoError(t, one.Close(ctx))
		require.NoError(t, two.Close(ctx))
	})
}

func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		_, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		unlock, err := turns.Lock(ctx, key, func() error { return errors.New("waits") })
		require.NoError(t, err)
		_, err = turns.Lock(ctx, key, func() error { return errors.New("waits") })
		require.EqualError(t, err, "waits")
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = turns.Lock(soon, key, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		other, err := turns.Lock(ctx, session.ID("other"), nil)
		require.NoError(t, err)
		other()
		next := make(chan func())
		go func() {
			unlock, _ := turns.Lock(ctx, key, nil)
			next <- unlock
		}()
		synctest.Wait()
		unlock()
		(<-next)()
		require.NoError(t, turns.Close(ctx))
	})
}

func TestNewRefuses(t *testing.T) {
	_, a := newDesk(t)
	tail := must.Get(tail.New(session.NewMemory()))
	run := must.Get(runner.New(a, tail))
	for _, make := range []func() (*Turns, error){
		func() (*Turns, error) { return New(nil, tail) },
		func() (*Turns, error) { return New(run, nil) },
		func() (*Turns, error) { return New(run, tail, nil) },
		func() (*Turns, error) { return New(run, tail, WithLimit(nil)) },
		func() (*Turns, error) { return New(run, tail, WithLogger(nil)) },
		func() (*Turns, error) { return New(run, tail, WithAutoResume(nil)) },
		func() (*Turns, error) { return New(run, tail, WithApp("")) },
	} {
		_, err := make()
		require.Error(t, err)
	}
}

// A store on a disk behaves as the one in memory does.
func TestOnAFile(t *testing.T) {
	ctx := t.Context()
	d, a := newDesk(t)
	db := must.Get(sqlite.Open(filepath.Join(t.TempDir(), "s.db")))
	defer db.Close()
	one, two := newTurns(t, a, db), newTurns(t, a, db)
	x := must.Get(one.Begin(ctx, key, llm.UserText("think")))
	<-d.thinks
	require.NoError(t, one.Close(ctx))
	require.ErrorIs(t, x.Wait(ctx), agent.ErrSuspended)
	next, stop := iter.Pull2(two.Follow(ctx, key, ""))
	defer stop()
	<-waitFor(d.thinks, func() { next() })
	d.free <- struct{}{}
	for {
		entry, err, ok := next()
		require.True(t, ok)
		require.NoError(t, err)
		if entry.Event.Type() == "harness_end" {
			break
		}
	}
	stateIs(t, two, key, Done)
	require.NoError(t, two.Close(ctx))
}

// waitFor has something going on in the background that leads to a value, or goes on with it.
func waitFor[T any](c chan T, do func()) chan T {
	do()
	return c
}

func TestYesOrNo(t *testing.T) {
	for words, want := range map[string][2]bool{
		"yes": {true, true}, "Yes, please!": {true, true}, "OK": {true, true}, "y": {true, true}, "approved, thank you": {true, true}, "yes. go ahead": {true, true},
		"no": {false, true}, "No, never": {false, true}, "deny": {false, true}, "n": {false, true},
		"sure, go ahead": {true, true}, "Go ahead.": {true, true}, "nope": {false, true}, "don’t do it": {false, true}, "I agree, thanks": {true, true},
		"Ja, bitte": {true, true}, "nein danke": {false, true}, "d'accord, merci": {true, true}, "Non": {false, true}, "Sí, por favor": {true, true},
		"Não": {false, true}, "va bene": {true, true}, "ga je gang": {true, true}, "NIE": {false, true}, "Да, пожалуйста": {true, true}, "нет": {false, true},
		"Evet": {true, true}, "hayır": {false, true}, "好的，谢谢": {true, true}, "不要": {false, true}, "はい、お願いします": {true, true}, "いいえ": {false, true},
		"네": {true, true}, "아니요": {false, true}, "Si\u0301": {true, true},
		"not sure": {}, "no problem": {}, "never mind": {}, "ok?": {}, "is that fine": {}, "absolutely not": {}, "да нет": {}, "уes": {}, "yes don't": {}, "好的但是": {}, "go": {},
		"": {}, "?": {}, "yes, but only half": {}, "yesterday": {}, "maybe": {}, "please": {}, "I said yes": {}, "ok no": {},
		"yes 👍🏽": {true, true}, "**Yes!**": {true, true}, "no, 50": {false, true}, "yes, $50": {}, "ok 50%": {}, "はい５": {}, "yes ²": {}, "yes x": {},
		"yes 👎": {}, "ok ❌": {}, "~~yes~~": {}, "yes\u0336": {}, "yes\x00": {}, "yes؟": {}, "yes +": {}, "\xffyes": {},
		"好的~": {true, true}, "好的～": {true, true}, "네~": {true, true}, "好的~ 谢谢": {true, true}, "yes ❤️": {true, true}, "yes 🎉": {true, true}, "`yes`": {true, true},
		"yes =)": {true, true}, "yes^^": {true, true}, "d´accord": {true, true}, "yes\u200b": {true, true}, "\u200fyes": {true, true}, "\ufeffyes": {true, true}, "yes\u00ad": {true, true},
		"🙏 yes": {true, true}, "🙏 👎": {false, true}, "😢 nein": {false, true}, "1. no": {false, true}, "$50 yes": {}, "👍": {true, true}, "👍🏽👍🏽": {true, true}, "✅ thanks": {true, true}, "👎": {false, true}, "❌ never": {false, true},
		"🙏": {}, "👍?": {}, "👍 👎": {}, "~~👍~~": {}, "yes, ~do it~": {}, "sí 5": {}, "5 yes": {}, "👍 5": {}, "yes €": {}, "yes ≥": {}, "yes ˂": {}, "yes <": {}, "yes ①": {}, "yes 💔": {},
		"🙂\u200d↔️ yes": {}, "yes 🙂\u200d↔️": {}, "\u202eyes": {}, "yes\u2064": {}, "yes\U000E0035": {}, "yes 5️⃣": {}, "yes🤔": {},
	} {
		yes, understood := YesOrNo(words)
		require.Equal(t, want, [2]bool{yes, understood}, words)
	}
}

func TestContent(t *testing.T) {
	for schema, answers := range map[string]map[string]string{
		"":                   {"two words": `"two words"`, `{"a":1}`: `"{\"a\":1}"`},
		`{"type":"integer"}`: {"3": `3`, "three": `"three"`},
		`{"type":"string"}`:  {"3": `"3"`},
		`{"type":"object","properties":{"seats":{"type":"integer"}}}`:       {"3": `{"seats":3}`, ` {"seats":4}`: ` {"seats":4}`, "x y": `{"seats":"x y"}`},
		`{"type":"object","properties":{"name":{"type":"string"}}}`:         {"7": `{"name":"7"}`},
		`{"type":"object","properties":{"a":{"type":"string"},"b":{}}}`:     {`{"a":"x"}`: `{"a":"x"}`, "x": `"x"`},
		`{"type":["object","null"],"properties":{"a":{"type":["string"]}}}`: {"x": `"x"`},
		`not a schema`: {"x": `"x"`, "1": "1"},
	} {
		for words, want := range answers {
			d := &event.Relay{}
			if schema != "" {
				d.Schema = json.RawMessage(schema)
			}
			require.Equal(t, want, string(Content(d, words)), "%s: %s", schema, words)
		}
	}
}

// A question that names the user next to rights, as a mistaken program or log may, is not one for the user's consent.
func TestUserNextToRights(t *testing.T) {
	asked := &event.Relay{Kind: event.RelayPermission, ToolCallID: "c", By: tools.ByStaff("zeal", "user").Needs()}
	for _, who := range []access.User{{}, {Name: key.User}, {Name: "max", Rights: access.All}, {Name: "zoe", Grants: []string{"zeal"}}} {
		_, err := Deciders{}.May(who, key, asked)
		require.ErrorIs(t, err, access.ErrForbidden)
	}
}
