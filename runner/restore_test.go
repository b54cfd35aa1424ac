package runner_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	driver "modernc.org/sqlite"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sqlite"
)

// TestADatabaseThatGoesBack: a process that has a session warm notices that the file under it was restored from a copy. No model is
// shown a message that the log has not, and no answer is stored after another message.
func TestADatabaseThatGoesBack(t *testing.T) {
	for name, others := range map[string]bool{"to fewer events": false, "to other events": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sessions.db")
			var asked *llm.Request
			var restore func()
			during := func() {}
			root, err := llmagent.New("a", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
				asked = req
				during()
				return scripted.Reply(scripted.Text("Yes."))
			}))
			require.NoError(t, err)
			process := func() *runner.Runner {
				store, err := sqlite.Open(path)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, store.Close()) })
				return newRunner(t, root, store)
			}
			first, second := process(), process()
			say := func(r *runner.Runner, words string) error {
				_, err := collect(r.Run(t.Context(), s1, llm.UserText(words)))
				return err
			}
			shown := func() (words []string) {
				for _, m := range asked.Messages {
					if m.Role == llm.RoleUser {
						words = append(words, m.PlainText())
					}
				}
				return words
			}
			require.NoError(t, say(first, "One"))
			restore = saved(t, path)
			require.NoError(t, say(first, "Two"))
			restore()
			want := []string{"One"}
			if others {
				require.NoError(t, say(second, "Another"))
				want = append(want, "Another")
			}
			require.NoError(t, say(first, "Three"))
			require.Equal(t, append(want, "Three"), shown())

			// Under a turn, whose client is told.
			restore = saved(t, path)
			during = func() {
				during = func() {}
				restore()
				if others {
					require.NoError(t, say(second, "Another"))
					asked = nil
				}
			}
			err = say(first, "Lost")
			require.ErrorIs(t, err, agent.ErrConflict)
			require.ErrorContains(t, err, "the database was restored")
			want = append(want, "Three")
			if others {
				want = append(want, "Another")
			}
			require.NoError(t, say(first, "Four"))
			require.Equal(t, append(want, "Four"), shown())
		})
	}
}

// saved copies a file. What it returns puts the copy back under the processes that have the file open.
func saved(t *testing.T, path string) (restore func()) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err = db.Exec("VACUUM INTO '" + copied + "'")
	require.NoError(t, err)
	return func() {
		t.Helper()
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.Raw(func(c any) error {
			backup, err := c.(interface {
				NewRestore(string) (*driver.Backup, error)
			}).NewRestore(copied)
			if err != nil {
				return err
			}
			_, err = backup.Step(-1)
			return errors.Join(err, backup.Finish())
		}))
	}
}
