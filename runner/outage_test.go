package runner_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// failsOnce is a store that fails once in an operation, when it is told to.
type failsOnce struct {
	session.Store
	in string
}

func (s *failsOnce) fails(operation string) error {
	if s.in != operation {
		return nil
	}
	s.in = ""
	return errStoreDied
}

func (s *failsOnce) SharedState(ctx context.Context, key session.Key) (map[string]any, error) {
	if err := s.fails("SharedState"); err != nil {
		return nil, err
	}
	return s.Store.SharedState(ctx, key)
}

func (s *failsOnce) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	if err := s.fails("Load"); err != nil {
		return func(yield func(*event.Event, error) bool) { yield(nil, err) }
	}
	return s.Store.Load(ctx, key, after)
}

func (s *failsOnce) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) > 0 {
		if err := s.fails("Write"); err != nil {
			return session.Lease{}, err
		}
	}
	return s.Store.Write(ctx, key, w)
}

// TestOutageIsNobodysFailure: an operation of the store fails once, whichever it is, and it works again at once. The turn
// is cut off. Nothing in the log blames an agent, and whoever resumes the turn brings it to its end.
func TestOutageIsNobodysFailure(t *testing.T) {
	for _, operation := range []string{"SharedState", "Load", "Write"} {
		t.Run(operation, func(t *testing.T) {
			ctx := context.Background()
			store := &failsOnce{Store: sessiontest.Memory(t)}
			model := scripted.Func("m", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("Hello.")) })
			a := must.Get(llmagent.New("solo", "Obey {user:name?}.", model, llmagent.WithStateInInstructions()))
			warm := newRunner(t, a, store)
			for range 300 { // more than a runner keeps of what it has just read
				require.NoError(t, drain(warm.Run(ctx, s1, llm.UserText("hi"))))
			}
			var err error
			for e, wrong := range newRunner(t, a, store).Run(ctx, s1, llm.UserText("hi")) {
				if err = wrong; err == nil && e.Type() == event.TypeHarnessStart {
					store.in = operation
				}
			}
			require.ErrorIs(t, err, errStoreDied)
			require.False(t, errors.As(err, new(*agent.RunError)), "no agent has failed")
			require.Empty(t, store.in, "it has failed")
			r := newRunner(t, a, store)
			state := must.Get(r.State(ctx, s1))
			require.False(t, state.Over)
			require.NoError(t, drain(r.Resume(ctx, s1)))
			for _, e := range must.All(store.Store.Load(ctx, s1, 0)) {
				require.NotEqual(t, event.TypeError, e.Type())
			}
		})
	}
}

// goesBack is a database that can be put back to an earlier state.
type goesBack struct {
	open func() (session.Store, error)
	save func() (restore func() error, err error)
}

var goingBack = map[string]func(t *testing.T) goesBack{
	"an SQLite file is restored": func(t *testing.T) goesBack {
		path := filepath.Join(t.TempDir(), "sessions.db")
		return goesBack{
			open: func() (session.Store, error) { return sqlite.Open(path) },
			save: func() (func() error, error) {
				restore := servers.SaveFile(t, path)
				return func() error { restore(); return nil }, nil
			},
		}
	},
	"a dump of PostgreSQL is restored": func(t *testing.T) goesBack {
		p := servers.NewPostgres(t)
		url := p.Database(t)
		return goesBack{
			open: func() (session.Store, error) { return postgres.Open(t.Context(), url) },
			save: func() (func() error, error) { return p.Dump(url) },
		}
	},
	"a standby of PostgreSQL is promoted": func(t *testing.T) goesBack {
		p := servers.NewPostgres(t)
		url := p.Database(t)
		return goesBack{
			open: func() (session.Store, error) { return postgres.Open(t.Context(), url) },
			save: p.Standby,
		}
	},
}

// TestADatabaseThatGoesBack: a process that has a session warm notices that its database went back to an earlier state. No model is
// shown a message that the log has not, no two processes write under one lease, and no answer is stored after another message.
func TestADatabaseThatGoesBack(t *testing.T) {
	for name, database := range goingBack {
		t.Run(name, func(t *testing.T) {
			d := database(t)
			for what, others := range map[string]bool{"to fewer events": false, "to other events": true} {
				t.Run(what, func(t *testing.T) { goBack(t, d, session.ID(what), others) })
			}
		})
	}
}

func goBack(t *testing.T, d goesBack, key session.Key, others bool) {
	var asked *llm.Request
	during := func() {}
	root := must.Get(llmagent.New("a", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		asked = req
		during()
		return scripted.Reply(scripted.Text("Re: " + req.Messages[len(req.Messages)-1].PlainText()))
	})))
	process := func() (*runner.Runner, session.Store) {
		store := must.Get(d.open())
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		return newRunner(t, root, store), store
	}
	first, store := process()
	second, _ := process()
	say := func(r *runner.Runner, words string) error {
		_, err := collect(r.Run(t.Context(), key, llm.UserText(words)))
		return err
	}
	save := func() func() {
		t.Helper()
		restore := must.Get(d.save())
		return func() { t.Helper(); require.NoError(t, restore()) }
	}
	require.NoError(t, say(first, "One"))
	restore := save()
	require.NoError(t, say(first, "Two"))
	restore()
	want := []string{"One"}
	if others {
		require.NoError(t, say(second, "Another"))
		want = append(want, "Another")
	}
	want = append(want, "Three")
	require.NoError(t, say(first, "Three"))
	require.Equal(t, want, saidTo(asked))

	// Under a turn, whose client is told. The process that comes next has the lease meanwhile.
	restore = save()
	during = func() {
		during = func() {}
		restore()
		if others {
			require.NoError(t, say(second, "Other"))
		}
	}
	err := say(first, "Lost")
	require.ErrorIs(t, err, agent.ErrConflict)
	require.ErrorContains(t, err, "the database was restored")
	if others {
		want = append(want, "Other")
	}
	want = append(want, "Four")
	require.NoError(t, say(first, "Four"))
	require.Equal(t, want, saidTo(asked))
	requireAnswered(t, store, key, want)
}

// saidTo returns what users say in a request.
func saidTo(req *llm.Request) (words []string) {
	for _, m := range req.Messages {
		if m.Role == llm.RoleUser {
			words = append(words, m.PlainText())
		}
	}
	return words
}

// requireAnswered requires that the log has these messages, each with the answer to it.
func requireAnswered(t *testing.T, store session.Store, key session.Key, want []string) {
	t.Helper()
	var said []string
	for _, e := range must.All(store.Load(t.Context(), key, 0)) {
		switch d := e.Data.(type) {
		case *event.User:
			said = append(said, (&llm.Message{Content: d.Content}).PlainText())
		case *event.Text:
			require.Equal(t, said[len(said)-1], strings.TrimPrefix(d.Content, "Re: "))
		}
	}
	require.Equal(t, want, said)
}
