package crashtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Suite is a way, and how thoroughly it is tested.
type Suite struct {
	Way
	// Child names the test that calls [Child] with the way.
	Child string
	// Kills is the minimal number of killed processes, without those of outages. From 500 on, one is killed at every
	// possible point; 0 means none.
	Kills int
	// Calls is the minimal number of processes that are killed while a model is asked or a tool runs.
	Calls int
	// Outages is how often a server of the way is killed, too.
	Outages int
	// Stories are the stories to play; nil means all.
	Stories []Story
	// CheckLog checks a complete log in addition to the laws of all logs. It may be nil.
	CheckLog func(testing.TB, *runner.Runner, []*event.Event)
}

// killsForAllPoints is the number of kills from which one happens at every point.
const killsForAllPoints = 500

// Run runs the suite, one subtest for each story.
func (s Suite) Run(t *testing.T) {
	stories := s.Stories
	if stories == nil {
		stories = Stories()
	}
	campaigns := make([]*campaign, len(stories))
	t.Run("stories", func(t *testing.T) {
		for i := range stories {
			t.Run(stories[i].Name, func(t *testing.T) {
				t.Parallel()
				campaigns[i] = &campaign{T: t, Suite: s, story: &stories[i], random: rand.New(rand.NewPCG(uint64(i), 7)), base: t.TempDir(),
					share: part(s.Kills, len(stories)), calls: part(s.Calls, len(stories))}
				campaigns[i].begin()
				if s.Kills > 0 {
					campaigns[i].run()
				}
			})
		}
	})
	if !t.Failed() && s.Outages > 0 { // one server for all
		t.Run("outages", func(t *testing.T) {
			for i, c := range campaigns {
				t.Run(c.story.Name, func(t *testing.T) {
					c.T, c.base = t, t.TempDir()
					c.newAddress()
					c.outages(part(s.Outages-i, len(campaigns)))
				})
			}
		})
	}
	if t.Failed() {
		return
	}
	var all, calls, outages, taken int64
	for _, c := range campaigns {
		t.Logf("%4d processes were killed in %q", c.killed.Load(), c.story.Name)
		all, calls, outages, taken = all+c.killed.Load(), calls+c.inCall.Load(), outages+int64(c.servers), taken+int64(c.adoptions)
	}
	t.Logf("%4d processes were killed, %d of them in a call at least, and a server %d times; turns were adopted %d times", all, calls, outages, taken)
	require.GreaterOrEqual(t, all, int64(s.Kills), "fewer processes were killed than was asked for")
	require.GreaterOrEqual(t, calls, int64(s.Calls), "fewer processes were killed in a call than was asked for")
	require.GreaterOrEqual(t, outages, int64(s.Outages))
	require.True(t, taken > 0 == s.Adopts || s.Kills == 0, "what the logs say of turns that were adopted")
}

// part returns the share of n for one of several, rounded up.
func part(n, of int) int { return max(0, (n+of-1)/of) }

// campaign kills processes in one story until there were enough.
type campaign struct {
	*testing.T
	Suite
	story  *Story
	share  int
	calls  int
	random *rand.Rand

	killed, inCall atomic.Int64
	servers        int // the number of killed servers
	adoptions      int // the number of adopted turns in the logs

	address string // of the place
	base    string // the folder of the sessions' folders
	n       int
	whole   snapshot // of the undisturbed run
	want    []line
	points  []killPoint
	life    time.Duration // the life time of a process that is not killed, from its beginning
}

// begin plays the story without a disturbance.
func (c *campaign) begin() {
	c.newAddress()
	at := c.place()
	o := &Odometer{}
	require.NoError(c, c.story.Play(c.Way, at, o))
	c.points = o.points()
	c.whole = inspect(c.T, c.Way, at)
	c.want = account(c.whole.events)
	c.checkRecord(c.whole)
	c.checkEnd(at, c.whole)

	process := c.start(c.place(), killPoint{})
	started := time.Now()
	require.False(c, process.end(c.T))
	c.life = time.Since(started)
}

// newAddress creates the place of the following sessions.
func (c *campaign) newAddress() {
	if c.Way.Place != nil {
		c.address = c.Way.Place(c.T)
	}
}

// place returns the place of a new session.
func (c *campaign) place() Place {
	c.n++
	at := Place{Address: c.address, Dir: filepath.Join(c.base, strconv.Itoa(c.n)), Key: session.Key{App: session.DefaultApp, User: c.story.Name, ID: "s" + strconv.Itoa(c.n)}}
	require.NoError(c, os.Mkdir(at.Dir, 0o700))
	return at
}

func (c *campaign) start(at Place, kill killPoint) *child {
	return begin(c.T, c.Child, childTask{Way: c.Way.Name, Story: c.story.Name, Place: at, Kill: kill})
}

// run first kills at the points, or at some that are evenly distributed, then at random instants, and then during calls
// until there were enough.
func (c *campaign) run() {
	points := c.points
	if most := max(1, c.share/3); (c.Kills < killsForAllPoints || c.story.some) && len(points) > most {
		points = spread(points, most)
	}
	for i, p := range points {
		c.session(fmt.Sprint("at ", p), func(at Place, before snapshot) snapshot {
			before = c.check(at, before, c.kill(at, p))
			// The process that continues may be killed, too.
			return c.check(at, before, c.kill(at, killPoint{kinds[i%len(kinds)], 1 + i%3}))
		})
	}
	for tries := 0; c.inCall.Load() < int64(c.calls); tries++ {
		require.Less(c, tries, 20+c.calls, "processes end before they are killed")
		c.session("in a call", func(at Place, before snapshot) snapshot {
			before = c.check(at, before, c.kill(at, killPoint{onCall, 1 + c.random.IntN(max(1, c.whole.calls()))}))
			return c.check(at, before, c.kill(at, killPoint{onCall, 1}))
		})
	}
	enough := max(int64(c.share), c.killed.Load()+int64(c.share/3))
	for tries := 0; c.killed.Load() < enough; tries++ {
		require.Less(c, tries, 20+c.share, "processes end before they are killed")
		if tries%3 == 2 && len(c.story.messages) == 1 {
			c.session("beside another process", c.raceTwo)
			continue
		}
		c.session("at random instants", func(at Place, before snapshot) snapshot {
			for range 1 + c.random.IntN(3) {
				process := c.start(at, killPoint{})
				c.killLater(before, func() { _ = process.cmd.Process.Kill() })
				before = c.check(at, before, c.count(process))
			}
			return before
		})
	}
}

// spread returns evenly distributed points.
func spread(points []killPoint, most int) []killPoint {
	some := make([]killPoint, most)
	for i := range some {
		some[i] = points[(2*i+1)*len(points)/(2*most)]
	}
	return some
}

// outages kills a server at random instants, and every other time the process as well.
func (c *campaign) outages(n int) {
	for tries := 0; c.servers < n; tries++ {
		require.Less(c, tries, 20+n, "processes end before the server is killed")
		c.session("while the server is killed", func(at Place, before snapshot) snapshot {
			process := c.start(at, killPoint{})
			over, back, dies := make(chan struct{}), make(chan bool, 1), c.random.IntN(2) == 0
			c.killLater(before, func() {
				select {
				case <-over:
					back <- false
					return
				default:
				}
				if dies {
					_ = process.cmd.Process.Kill()
				}
				c.Way.Outage(c.T)
				back <- true
			})
			killed := c.count(process)
			close(over)
			if <-back {
				c.servers++
			}
			return c.check(at, before, killed)
		})
	}
}

// raceTwo lets two processes continue one turn at once, and kills one of them.
func (c *campaign) raceTwo(at Place, before snapshot) snapshot {
	before = c.check(at, before, c.kill(at, killPoint{OnEvent, 1 + c.random.IntN(4)}))
	one, other := c.start(at, killPoint{}), c.start(at, killPoint{})
	c.killLater(before, func() { _ = one.cmd.Process.Kill() })
	killed := c.count(one)
	require.False(c, other.end(c.T), "who waited for the session comes to the end")
	return c.check(at, before, killed)
}

// session disturbs a session, then continues it to the end, and compares the result.
func (c *campaign) session(name string, disturb func(at Place, before snapshot) snapshot) {
	passed := c.T.Run(name, func(t *testing.T) {
		outer := c.T
		c.T = t
		defer func() { c.T = outer }()
		at := c.place()
		before := disturb(at, snapshot{})
		require.NoError(t, c.story.Play(c.Way, at, &Odometer{}))
		after := c.check(at, before, false)
		requireAccount(t, c.want, account(after.events), c.story)
		c.checkEnd(at, after)
		c.adoptions += after.adoptions()
		require.NoError(t, os.RemoveAll(at.Dir))
	})
	if !passed {
		c.FailNow()
	}
}

// kill starts a process that kills itself at a point, if it reaches the point.
func (c *campaign) kill(at Place, p killPoint) (killed bool) {
	return c.count(c.start(at, p))
}

// killLater calls a function at a random instant of the expected life time of a process.
func (c *campaign) killLater(before snapshot, do func()) {
	left := 1 - float64(len(before.events))/float64(len(c.whole.events)+1)
	timer := time.AfterFunc(time.Duration(c.random.Float64()*left*float64(c.life)), do)
	c.Cleanup(func() { timer.Stop() })
}

func (c *campaign) count(p *child) (killed bool) {
	if killed = p.end(c.T); killed {
		if c.Way.Settle != nil {
			require.NoError(c, c.Way.Settle(c.Context(), p.at, p.name))
		}
		c.killed.Add(1)
		if p.kill.On == onCall {
			c.inCall.Add(1)
		}
	}
	return killed
}
