package runner_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var crashes = flag.Int("crashes", 60, "how many processes TestCrash kills at least; from 500 on, at every point there is")

// killPoint is where a process of TestCrash kills itself: when something has
// happened for the N-th time in it. The zero value lets it live.
type killPoint struct {
	On string // see killOn
	N  int
}

const (
	onEvent   = "event"   // the consumer gets an event, or a delta of one
	onCall    = "call"    // a model is asked, or a tool runs, and has not answered
	onWrite   = "write"   // the store is about to be written: lease, events, or the lease's end
	onWritten = "written" // the store was written, and nobody knows yet
)

func (p killPoint) String() string {
	if p.N == 0 {
		return "at the end"
	}
	return fmt.Sprintf("%s %d", p.On, p.N)
}

// odometer counts what happens in a process, and ends the process at its point.
type odometer struct {
	kill   killPoint
	counts [4]atomic.Int64
}

func (o *odometer) pass(on string) {
	for i, kind := range []string{onEvent, onCall, onWrite, onWritten} {
		if kind != on {
			continue
		}
		if n := o.counts[i].Add(1); o.kill.On == on && n == int64(o.kill.N) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// points returns all places at which a process that did the same could be killed.
func (o *odometer) points() (all []killPoint) {
	for i, on := range []string{onEvent, onCall, onWrite, onWritten} {
		for n := range int(o.counts[i].Load()) {
			all = append(all, killPoint{on, n + 1})
		}
	}
	return all
}

// crashOrder is what a process of TestCrash must do.
type crashOrder struct {
	Story, Dir string
	Kill       killPoint
}

// TestCrashChild is the process that TestCrash kills: it continues a story from
// wherever the log is, to the story's end or to its own.
func TestCrashChild(t *testing.T) {
	text := os.Getenv("ARBOR_CRASH")
	if text == "" {
		t.Skip("run by TestCrash")
	}
	var order crashOrder
	require.NoError(t, json.Unmarshal([]byte(text), &order))
	for _, s := range crashStories {
		if s.name == order.Story {
			fmt.Println("begins")
			require.NoError(t, s.play(order.Dir, &odometer{kill: order.Kill}))
		}
	}
}

// child is a running process of TestCrash.
type child struct {
	cmd    *exec.Cmd
	out    io.Reader
	output bytes.Buffer
}

// begin starts a process and waits until it is about to begin.
func begin(t *testing.T, order crashOrder) *child {
	text, err := json.Marshal(order)
	require.NoError(t, err)
	c := &child{cmd: exec.Command(os.Args[0], "-test.run=^TestCrashChild$")}
	c.cmd.Env = append(os.Environ(), "ARBOR_CRASH="+string(text), "GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = &c.output
	c.out, err = c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	_, err = io.ReadFull(c.out, make([]byte, len("begins\n")))
	require.NoError(t, err)
	return c
}

// end waits for the process's end and reports whether it was killed. One that
// was not killed must have come to the end of the story.
func (c *child) end(t *testing.T) (killed bool) {
	rest, err := io.ReadAll(c.out)
	require.NoError(t, err)
	err = c.cmd.Wait()
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	if status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true
	}
	require.NoError(t, err, "%s\n%s", rest, &c.output)
	return false
}

// TestCrash kills real processes with SIGKILL: after each event that a consumer
// gets, while each model is asked and each tool runs, before and after each write
// of the store, at random instants, and while another process waits for the
// session. Other processes go on, and are killed too. What comes out is compared
// with a run that nobody disturbed: nothing is lost, nothing is there twice,
// nothing that was recorded is asked for or run again.
func TestCrash(t *testing.T) {
	share := (*crashes + len(crashStories) - 1) / len(crashStories)
	counts := make([]atomic.Int64, len(crashStories))
	t.Run("stories", func(t *testing.T) {
		for i := range crashStories {
			t.Run(crashStories[i].name, func(t *testing.T) {
				t.Parallel()
				newCampaign(t, &crashStories[i], share, &counts[i], uint64(i)).run()
			})
		}
	})
	all := int64(0)
	for i := range counts {
		all += counts[i].Load()
		t.Logf("%4d processes were killed in %q", counts[i].Load(), crashStories[i].name)
	}
	t.Logf("%4d processes were killed", all)
	if !t.Failed() {
		require.GreaterOrEqual(t, all, int64(*crashes), "fewer processes were killed than -crashes asks for")
	}
}

// campaign kills processes in one story until there were enough.
type campaign struct {
	*testing.T
	story  *crashStory
	share  int
	killed *atomic.Int64
	random *rand.Rand

	base   string // a folder for the sessions' folders
	n      int
	whole  record // of the undisturbed run
	want   []line
	points []killPoint
	life   time.Duration // of a process that nobody kills, from where it begins
}

func newCampaign(t *testing.T, s *crashStory, share int, killed *atomic.Int64, seed uint64) *campaign {
	c := &campaign{T: t, story: s, share: share, killed: killed, random: rand.New(rand.NewPCG(seed, 7)), base: t.TempDir()}
	dir := c.newDir()
	o := &odometer{}
	require.NoError(t, s.play(dir, o))
	c.points = o.points()
	c.whole = inspect(t, dir)
	c.want = account(c.whole.events)
	c.checkRecord(c.whole)
	c.checkEnd(dir, c.whole)

	process := begin(t, crashOrder{Story: s.name, Dir: c.newDir()})
	started := time.Now()
	require.False(t, process.end(t))
	c.life = time.Since(started)
	return c
}

func (c *campaign) newDir() string {
	c.n++
	dir := filepath.Join(c.base, strconv.Itoa(c.n))
	require.NoError(c, os.Mkdir(dir, 0o700))
	return dir
}

// run kills at the points first, or at some that are spread over them, and then
// at random instants.
func (c *campaign) run() {
	points := c.points
	if most := max(1, c.share/3); (*crashes < 500 || c.story.some) && len(points) > most {
		spread := make([]killPoint, most)
		for i := range spread {
			spread[i] = points[(2*i+1)*len(points)/(2*most)]
		}
		points = spread
	}
	for i, p := range points {
		c.session(fmt.Sprint("at ", p), func(dir string, before record) record {
			before = c.checked(dir, before, c.kill(dir, p))
			// Whoever goes on may be killed too.
			return c.checked(dir, before, c.kill(dir, killPoint{[]string{onEvent, onCall, onWrite, onWritten}[i%4], 1 + i%3}))
		})
	}
	enough := max(int64(c.share), c.killed.Load()+int64(c.share/3))
	for tries := 0; c.killed.Load() < enough; tries++ {
		require.Less(c, tries, 20+c.share, "processes end before they are killed")
		if tries%3 == 2 && len(c.story.messages) == 1 {
			c.session("beside another process", c.contest)
			continue
		}
		c.session("at random instants", func(dir string, before record) record {
			for range 1 + c.random.IntN(3) {
				process := begin(c.T, crashOrder{Story: c.story.name, Dir: dir})
				c.killLater(process, before)
				before = c.checked(dir, before, c.count(process))
			}
			return before
		})
	}
}

// contest lets two processes continue one turn at once, and kills one of them.
func (c *campaign) contest(dir string, before record) record {
	before = c.checked(dir, before, c.kill(dir, killPoint{onEvent, 1 + c.random.IntN(4)}))
	one, other := begin(c.T, crashOrder{Story: c.story.name, Dir: dir}), begin(c.T, crashOrder{Story: c.story.name, Dir: dir})
	c.killLater(one, before)
	killed := c.count(one)
	require.False(c, other.end(c.T), "who waited for the session comes to the end")
	return c.checked(dir, before, killed)
}

// session runs a session that is disturbed, then continues it to the end, and
// compares.
func (c *campaign) session(name string, disturb func(dir string, before record) record) {
	passed := c.Run(name, func(t *testing.T) {
		outer := c.T
		c.T = t
		defer func() { c.T = outer }()
		dir := c.newDir()
		before := disturb(dir, record{})
		require.NoError(t, c.story.play(dir, &odometer{}))
		after := c.checked(dir, before, false)
		requireAccount(t, c.want, account(after.events), c.story)
		c.checkEnd(dir, after)
		require.NoError(t, os.RemoveAll(dir))
	})
	if !passed {
		c.FailNow()
	}
}

// kill starts a process that kills itself at a point, if it gets there.
func (c *campaign) kill(dir string, at killPoint) (killed bool) {
	return c.count(begin(c.T, crashOrder{Story: c.story.name, Dir: dir, Kill: at}))
}

// killLater kills a process at a random instant of the life it would have.
func (c *campaign) killLater(p *child, before record) {
	left := 1 - float64(len(before.events))/float64(len(c.whole.events)+1)
	instant := time.Duration(c.random.Float64() * left * float64(c.life))
	timer := time.AfterFunc(instant, func() { _ = p.cmd.Process.Kill() })
	c.Cleanup(func() { timer.Stop() })
}

func (c *campaign) count(p *child) (killed bool) {
	if killed = p.end(c.T); killed {
		c.killed.Add(1)
	}
	return killed
}
