package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// smallDisk mounts a file system of its own, which only root may.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := enterable(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); errors.Is(err, syscall.EPERM) {
		t.Skip("no right to mount a file system")
	} else {
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		// The watch of the server removes its folder, and ends after that.
		must.Wait(t, func() bool { return syscall.Unmount(dir, 0) == nil })
	})
	return dir
}

// noise is text that does not compress.
func noise(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%016x", rand.Uint64())
	}
	return b.String()
}

// fillUp appends until it fails, and requires that the batch that failed left
// nothing.
func fillUp(t *testing.T, s session.Store, key session.Key, lease session.Lease) (seq int64, err error) {
	t.Helper()
	for err == nil {
		require.Less(t, seq, int64(10_000), "the disk never got full")
		state := storetest.Text(seq+3, "")
		state.Data = &event.State{Delta: map[string]any{"app:seq": seq}}
		if err = sessiontest.Append(t.Context(), s, key, seq, lease, storetest.Text(seq+1, "small"), storetest.Text(seq+2, noise(50<<10)), state); err == nil {
			seq += 3
		}
	}
	return seq, err
}

// TestFullDisk: a disk of the database that is full makes appends fail, and nothing
// else; with room made, the same append works.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "24m")
	p := servers.NewPostgres(t)
	require.NoError(t, p.Own(dir))
	run(t, p.URL("postgres"), "CREATE TABLESPACE small LOCATION '"+dir+"'")
	run(t, p.URL("postgres"), "CREATE DATABASE full_disk TABLESPACE small")
	s, key := open(t, p.URL("full_disk")), session.ID("s")
	lease := acquire(t, s, key)
	filler := filepath.Join(dir, "filler")
	require.NoError(t, os.WriteFile(filler, make([]byte, 6<<20), 0o600))
	seq, err := fillUp(t, s, key, lease)
	require.ErrorContains(t, err, "/full_disk: the server's disk is full: make room")
	require.NotErrorIs(t, err, agent.ErrConflict)
	require.NotContains(t, err.Error(), "not known")
	require.Len(t, storetest.Load(t, s, key), int(seq), "the batch that failed left something")
	require.Equal(t, fmt.Sprint(seq), run(t, p.URL("full_disk"), "SELECT count(*) FROM arbor.event"))
	shared := must.Get(s.SharedState(t.Context(), key))
	require.EqualValues(t, seq-3, shared["app:seq"])

	require.NoError(t, os.Remove(filler))
	require.NoError(t, sessiontest.Append(t.Context(), s, key, seq, lease, storetest.Text(seq+1, "small"), storetest.Text(seq+2, noise(50<<10))))
	require.Len(t, storetest.Load(t, s, key), int(seq)+2)
	require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
}

// TestFullDiskOfTheServer: without room for anything, its own log included, the
// server may end. When it is back, all that was acknowledged is there, and the
// session continues.
func TestFullDiskOfTheServer(t *testing.T) {
	dir := smallDisk(t, "160m")
	require.NoError(t, os.Chmod(dir, 0o777))
	t.Setenv("TMPDIR", dir)
	p := servers.NewPostgres(t, "min_wal_size=32MB", "max_wal_size=32MB")
	s, key := open(t, p.Database(t)), session.ID("s")
	lease := acquire(t, s, key)
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Batch(0, 3)...))
	filler, err := os.Create(filepath.Join(dir, "filler"))
	require.NoError(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 64<<10))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, filler.Close())
	postgres.WithRetryTime(5 * time.Second)(s)
	seq := int64(3)
	for err = nil; err == nil; {
		require.Less(t, seq, int64(10_000), "the disk never got full")
		if err = sessiontest.Append(t.Context(), s, key, seq, lease, storetest.Text(seq+1, noise(50<<10))); err == nil {
			seq++
		}
	}
	require.Regexp(t, "disk is full|cannot be reached", err.Error())

	require.NoError(t, os.Remove(filler.Name()))
	require.NoError(t, p.StopImmediately()) // if it is not down by itself
	require.NoError(t, p.Start())
	patient(s)
	log := storetest.Load(t, s, key)
	require.GreaterOrEqual(t, len(log), int(seq))
	require.LessOrEqual(t, len(log), int(seq)+1)
	seq = int64(len(log))
	require.NoError(t, sessiontest.Append(t.Context(), s, key, seq, lease, storetest.Batch(seq, 3)...))
	require.Len(t, storetest.Load(t, s, key), int(seq)+3)
}
