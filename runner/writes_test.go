package runner_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/folder"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
)

// noted notes the writes to a store, each of which is a transaction.
type noted struct {
	session.Store
	made []string
}

func (n *noted) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	var parts []string
	for _, part := range []struct {
		is   bool
		name string
	}{{w.Acquires(), "acquire"}, {len(w.Events) > 0, "append"}, {w.Release, "release"}, {w.Abandon, "abandon"}} {
		if part.is {
			parts = append(parts, part.name)
		}
	}
	n.made = append(n.made, strings.Join(parts, " and "))
	return n.Store.Write(ctx, key, w)
}

// TestWritesOfATurn: whatever stands between the runner and a store, a turn makes no write more than on the store itself.
func TestWritesOfATurn(t *testing.T) {
	type wrapper func(t *testing.T, store session.Store) session.Store
	live := func(t *testing.T, store session.Store) session.Store {
		return must.Get(tail.New(store))
	}
	files := func(t *testing.T, store session.Store) session.Store {
		return must.Get(folder.New(t.TempDir(), store))
	}
	published := func(t *testing.T, store session.Store) session.Store {
		return must.Get(redis.New(t.Context(), "redis://"+miniredis.RunT(t).Addr(), store))
	}
	for name, wrap := range map[string]wrapper{
		"store":           func(_ *testing.T, store session.Store) session.Store { return store },
		"tail":            live,
		"redis":           published,
		"folder":          files,
		"checked":         func(t *testing.T, store session.Store) session.Store { return sessiontest.Checked(t, store) },
		"tail of folder":  func(t *testing.T, store session.Store) session.Store { return live(t, files(t, store)) },
		"redis of folder": func(t *testing.T, store session.Store) session.Store { return published(t, files(t, store)) },
	} {
		for kind, options := range map[string][]runner.Option{"plain": nil, "transfer": {runner.ResumeRoot()}} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				file := must.Get(sqlite.Open(filepath.Join(t.TempDir(), "sessions.db")))
				disk := &noted{Store: file}
				store := wrap(t, disk)
				t.Cleanup(func() { require.NoError(t, store.Close()) })
				r := must.Get(runner.New(chain(t, 1, "I see two charges."), store, append(options, runner.WithStreaming(), runner.WithSnapshots(0))...))
				turn(t, r, s1)
				require.Equal(t, []string{"acquire", "append", "append", "append and release"}, disk.made)
				want := []string{"acquire and append", "append and release"}
				if kind == "transfer" {
					want = []string{"acquire and append", "append", "append and release"}
				}
				for range 3 {
					disk.made = nil
					turn(t, r, s1)
					require.Equal(t, want, disk.made)
				}
			})
		}
	}
}
