package runner_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
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
	session.Wrapped
	made []string
}

func (w *noted) Acquire(ctx context.Context, key session.Key, owner session.Owner) (session.Lease, error) {
	w.made = append(w.made, "acquire")
	return w.Wrapped.Acquire(ctx, key, owner)
}

func (w *noted) AcquireAppend(ctx context.Context, key session.Key, owner session.Owner, expected session.Lease, events ...*event.Event) (session.Lease, error) {
	w.made = append(w.made, "acquire and append")
	return w.Wrapped.AcquireAppend(ctx, key, owner, expected, events...)
}

func (w *noted) Append(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	w.made = append(w.made, "append")
	return w.Wrapped.Append(ctx, key, seq, lease, events...)
}

func (w *noted) AppendRelease(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	w.made = append(w.made, "append and release")
	return w.Wrapped.AppendRelease(ctx, key, seq, lease, events...)
}

func (w *noted) Renew(ctx context.Context, key session.Key, lease session.Lease) error {
	w.made = append(w.made, "renew")
	return w.Wrapped.Renew(ctx, key, lease)
}

func (w *noted) Release(ctx context.Context, key session.Key, lease session.Lease) error {
	w.made = append(w.made, "release")
	return w.Wrapped.Release(ctx, key, lease)
}

func (w *noted) Abandon(ctx context.Context, key session.Key, lease session.Lease) error {
	w.made = append(w.made, "abandon")
	return w.Wrapped.Abandon(ctx, key, lease)
}

// TestWritesOfATurn: whatever stands between the runner and a store, a turn makes no write more than on the store itself.
func TestWritesOfATurn(t *testing.T) {
	type wrapper func(t *testing.T, store session.Store) session.Store
	live := func(t *testing.T, store session.Store) session.Store {
		s, err := tail.New(store)
		require.NoError(t, err)
		return s
	}
	files := func(t *testing.T, store session.Store) session.Store {
		s, err := folder.New(t.TempDir(), store)
		require.NoError(t, err)
		return s
	}
	published := func(t *testing.T, store session.Store) session.Store {
		s, err := redis.New(t.Context(), "redis://"+miniredis.RunT(t).Addr(), store)
		require.NoError(t, err)
		return s
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
				file, err := sqlite.Open(filepath.Join(t.TempDir(), "sessions.db"))
				require.NoError(t, err)
				disk := &noted{Wrapped: session.Wrapped{Store: file}}
				store := wrap(t, disk)
				t.Cleanup(func() { require.NoError(t, store.Close()) })
				r := newRunner(t, chain(t, 1, "I see two charges."), store, append(options, runner.WithStreaming(), runner.WithSnapshots(0))...)
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
