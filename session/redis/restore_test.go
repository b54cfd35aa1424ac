package redis_test

import (
	"crypto/rand"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/following"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
)

// TestFollowersOfADatabaseThatGoesBack: followers of a session whose database was restored see another past: who was shown what is gone
// gets an error, who was not continues, and both see the words of the next turn while they are made. None of them has to wait for a look
// into the store.
func TestFollowersOfADatabaseThatGoesBack(t *testing.T) {
	tails := map[string]func(t *testing.T, store session.Store) follows{
		"live": func(t *testing.T, store session.Store) follows {
			l := must.Get(tail.New(store, tail.WithPoll(time.Hour)))
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			return l
		},
		"redis": func(t *testing.T, store session.Store) follows {
			return newTail(t, servers.SharedRedis(t), store, redis.WithPrefix(rand.Text()), redis.WithPoll(time.Hour))
		},
	}
	for name, around := range tails {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sessions.db")
			store := must.Get(sqlite.Open(path))
			follows, key := around(t, store), session.ID("s")
			turn := func(id string) {
				t.Helper()
				w := begin(t, follows, key)
				w.show(id, id+" ")
				w.add(id, id)
				w.show(id+"2", id+"2 ")
				w.add(id+"2", id+"2")
				w.end()
			}
			turn("kept")
			restore := servers.SaveFile(t, path)
			early := follow(t, follows, key, "")
			early.seesLast("kept2.")
			turn("gone")
			late := follow(t, follows, key, "1-0")
			early.seesLast("gone2.")
			late.seesLast("gone2.")
			restore()
			turn("new")
			for _, c := range []*client{early, late} {
				<-c.end
				require.ErrorIs(t, c.err, agent.ErrConflict)
				require.ErrorContains(t, c.err, "the database was restored")
			}
			again := follow(t, follows, key, "2-0")
			again.sees("new ", "new.", "new2 ", "new2.")

			// In the middle of a turn. An id of before the restore, which the log has again, is taken as one of now.
			again = follow(t, follows, key, "4-0")
			begin(t, follows, key).show("lost", "lo")
			again.seesLast("lo")
			restore()
			w := begin(t, follows, key)
			<-again.end
			require.ErrorIs(t, again.err, agent.ErrConflict)
			w.show("live", "live ")
			comesBack(t, follows, key, "2-0", "live ")
			w.add("live", "live")
			comesBack(t, follows, key, "2-0", "live.")
			w.end()
		})
	}
}

// comesBack requires that a client sees something that comes back with its last id whenever it is told that what it was shown is gone.
func comesBack(t *testing.T, follows follows, key session.Key, last, want string) {
	t.Helper()
	for {
		c := follow(t, follows, key, last)
		var seen []string
		c.waits(want, func(has []string) bool {
			select {
			case <-c.end:
				return true
			default:
				seen = has
				return len(seen) > 0 && seen[len(seen)-1] == want
			}
		})
		if len(seen) > 0 && seen[len(seen)-1] == want {
			return
		}
		require.ErrorIs(t, c.err, following.ErrGone)
		if got := c.entries(); len(got) > 0 {
			last = got[len(got)-1].ID
		}
	}
}

// TestFollowersOfADatabaseWhoseClockIsBehind: if the clock goes back together with the database, followers see whole answers only, until
// the clock has caught up.
func TestFollowersOfADatabaseWhoseClockIsBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	clock := sessiontest.NewClock()
	store := must.Get(sqlite.Open(path, sqlite.WithClock(clock.Now)))
	follows := newTail(t, servers.SharedRedis(t), store, redis.WithPrefix(rand.Text()), redis.WithPoll(20*time.Millisecond))
	key := session.ID("s")
	turn := func(id string) {
		t.Helper()
		w := begin(t, follows, key)
		w.show(id, id+" ")
		w.add(id, id)
		w.end()
	}
	turn("kept")
	restore := servers.SaveFile(t, path)
	c := follow(t, follows, key, "")
	c.seesLast("kept.")
	clock.Advance(time.Hour)
	turn("gone")
	c.seesLast("gone.")
	restore()
	clock.Advance(-time.Hour)
	turn("new")
	comesBack(t, follows, key, "1-0", "new.")
	clock.Advance(2 * time.Hour)
	c = follow(t, follows, key, "2-0")
	turn("newer")
	c.seesLast("newer.") // the follower may have missed the partial event
}
