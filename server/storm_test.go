package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/integrity"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/tools"
)

var (
	stormReaders = flag.Int("storm.readers", 80, "streams that TestStorm has open")
	stormKills   = flag.Int("storm.kills", 3, "how often TestStorm kills the server")
)

// stormEnv makes a process of this test a server, with a stormConfig.
const stormEnv = "ARBOR_STORM"

const stormToken = "storm-token"

type stormConfig struct {
	Addr, Dir string
	// Postgres and Redis are addresses; without them the store is a file in Dir.
	Postgres, Redis string

	Adopt  time.Duration
	Skew   time.Duration // by which the process's clock is wrong
	Host   string        // another name of the machine, for this process
	Stalls bool          // the model says some words and nothing more
	Dies   bool          // the model ends the process
}

// open opens the sessions.
func (c stormConfig) open(ctx context.Context) (session.Store, error) {
	if c.Postgres == "" {
		return sqlite.Open(filepath.Join(c.Dir, "storm.db"))
	}
	return postgres.Open(ctx, c.Postgres)
}

// follows opens them as a store that others can follow.
func (c stormConfig) follows(ctx context.Context) (live.Store, error) {
	db, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if c.Redis == "" {
		return tail.New(db)
	}
	return redis.New(ctx, c.Redis, db)
}

// stormServer serves a tree whose agent streams words, calls a tool that must not run twice, and
// streams words again, until it is killed.
func stormServer(c stormConfig) error {
	ledger, err := os.OpenFile(filepath.Join(c.Dir, "ledger"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	note, err := tools.Func("note", "Notes something down.", func(ctx tools.Context, _ struct{}) (string, error) {
		_, err := fmt.Fprintln(ledger, ctx.Session().ID, ctx.CallID())
		return "noted", err
	})
	if err != nil {
		return err
	}
	words := func(n int) (parts []scripted.Item) {
		for i := range n {
			parts = append(parts, scripted.Text(fmt.Sprintf("word%d ", i)), scripted.Wait(func(ctx context.Context) error {
				select {
				case <-time.After(time.Duration(rand.IntN(4)) * time.Millisecond): // the pace of a model
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}))
		}
		return parts
	}
	model := scripted.Func("storm", func(req *llm.Request) scripted.Answer {
		if c.Dies {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
		}
		if c.Stalls {
			return scripted.Reply(append(words(5), scripted.Wait(func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}))...)
		}
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(words(20)...)
		}
		return scripted.Reply(append(words(10), scripted.Call("note", "{}"))...)
	})
	a, err := llmagent.New("clerk", "You note things down.", model, llmagent.WithTools(note))
	if err != nil {
		return err
	}
	store, err := c.follows(context.Background())
	if err != nil {
		return err
	}
	run, err := runner.New(a, store, runner.WithStreaming(), runner.WithClock(func() time.Time { return time.Now().Add(c.Skew) }))
	if err != nil {
		return err
	}
	turns, err := live.New(run, store, live.WithAdoption(c.Adopt))
	if err != nil {
		return err
	}
	users, err := access.Secrets(map[string]string{stormToken: "ann"})
	if err != nil {
		return err
	}
	bearer, err := access.Bearer(users)
	if err != nil {
		return err
	}
	guard, err := access.New(access.Options{Users: bearer, Streams: access.NewLimit(1000, 0)})
	if err != nil {
		return err
	}
	api, err := server.New(turns, server.WithGuard(guard))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	web := &http.Server{Handler: server.Mux(api)}
	access.Harden(web)
	return web.Serve(l)
}

// replica is a server that is killed and started again.
type replica struct {
	stormConfig
	child *exec.Cmd
}

func (r *replica) start(t *testing.T) {
	line, err := bufio.NewReader(r.launch(t)).ReadString('\n')
	require.NoError(t, err, "the server did not start")
	require.Equal(t, "ready\n", line)
}

// launch starts the server, and returns what it prints.
func (r *replica) launch(t *testing.T) io.Reader {
	config := must.Get(json.Marshal(r.stormConfig))
	r.child = exec.Command(os.Args[0], "-test.run=^$")
	if r.Host != "" {
		r.child = exec.Command("unshare", "--uts", "sh", "-c", `echo "$0" >/proc/sys/kernel/hostname && exec "$@"`, r.Host, os.Args[0], "-test.run=^$")
	}
	r.child.Env = append(os.Environ(), stormEnv+"="+string(config))
	r.child.Stderr = os.Stderr
	out := must.Get(r.child.StdoutPipe())
	require.NoError(t, r.child.Start())
	return out
}

func (r *replica) kill(t *testing.T) {
	require.NoError(t, r.child.Process.Kill())
	_ = r.child.Wait() // it was killed
}

// storm are clients of servers.
type storm struct {
	t     *testing.T
	base  string
	http  *http.Client
	shown chan struct{} // a delta that a client has seen, while somebody counts them
}

// do sends a request until it is answered by something else than a server that is away or busy.
func (s *storm) do(ctx context.Context, method, path, key, body string) (status int, answer []byte) {
	for ctx.Err() == nil {
		r := must.Get(http.NewRequestWithContext(ctx, method, s.base+path, strings.NewReader(body)))
		r.Header.Set("Authorization", "Bearer "+stormToken)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Prefer", "wait=30")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		res, err := s.http.Do(r)
		if err == nil {
			answer, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
		}
		if err == nil && !away(res.StatusCode) && !(res.StatusCode == http.StatusConflict && bytes.Contains(answer, []byte("session_busy"))) {
			return res.StatusCode, answer
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond): // as a client waits before it tries again
		}
	}
	return 0, nil
}

// away reports whether a status is that of a server, or of a proxy, which cannot answer now.
func away(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusBadGateway
}

// talk has turns in a session, at least so many and until the killing has ended, and returns how
// many they were.
func (s *storm) talk(ctx context.Context, id string, turns int, killed <-chan struct{}) (n int, err error) {
	for ; ctx.Err() == nil; n++ {
		if n >= turns {
			select {
			case <-killed:
				return n, nil
			default:
			}
		}
		path, body := "/api/v1/sessions/"+id+"/turns", fmt.Sprintf(`{"content":"note %d"}`, n)
		if n == 0 {
			path, body = "/api/v1/sessions", fmt.Sprintf(`{"id":%q,"content":"note 0"}`, id)
		}
		for {
			status, answer := s.do(ctx, http.MethodPost, path, fmt.Sprintf("%s-%d", id, n), body)
			if status != http.StatusOK && status != http.StatusAccepted {
				return n, fmt.Errorf("turn %d of %s: %d %s", n, id, status, answer)
			}
			var turn struct{ State string }
			if err := json.Unmarshal(answer, &turn); err != nil {
				return n, err
			}
			if turn.State == "done" {
				break
			}
			if turn.State != "running" && turn.State != "cut_off" {
				return n, fmt.Errorf("turn %d of %s is %s: %s", n, id, turn.State, answer)
			}
		}
	}
	return n, context.Cause(ctx)
}

// reader follows a session over connections that stall and break, and checks what it is told.
type reader struct {
	s      *storm
	id     string
	rand   *rand.Rand
	last   string // the id of the last frame
	stored []*event.Event
	open   map[string]string // the deltas of blocks that are not settled
}

// errGone is the end of a connection that the reader leaves.
var errGone = errors.New("gone")

func (r *reader) follow(ctx context.Context, until func(seq int64) bool) error {
	for ctx.Err() == nil {
		if n := len(r.stored); n > 0 && until(r.stored[n-1].Seq) {
			return nil
		}
		err := r.connect(ctx, until)
		if err != nil && !errors.Is(err, errGone) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(r.rand.IntN(20)) * time.Millisecond):
		}
	}
	return context.Cause(ctx)
}

func (r *reader) connect(ctx context.Context, until func(seq int64) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.s.base+"/api/v1/sessions/"+r.id+"/events", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+stormToken)
	req.Header.Set("Accept", "text/event-stream")
	if r.last != "" {
		req.Header.Set("Last-Event-ID", r.last)
	}
	res, err := r.s.http.Do(req)
	if err != nil {
		return nil // it is away
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusOK:
	case res.StatusCode == http.StatusNotFound, away(res.StatusCode): // it does not exist yet
		return nil
	default:
		body, _ := io.ReadAll(res.Body)
		return fmt.Errorf("%s: %d %s", r.id, res.StatusCode, body)
	}
	leave := -1
	if r.rand.IntN(2) == 0 {
		leave = r.rand.IntN(60)
	}
	var id, typ string
	lines := bufio.NewReader(res.Body)
	for n := 0; ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil // it was killed
		}
		line = strings.TrimSuffix(line, "\n")
		switch name, value, _ := strings.Cut(line, ": "); {
		case name == "id":
			id = value
		case name == "event":
			typ = value
		case name == "data" && typ == "":
			var e event.Event
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				return err
			}
			if err := r.take(id, &e); err != nil {
				return err
			}
			if !e.Partial && until(e.Seq) {
				return nil
			}
			if n++; n == leave {
				return errGone
			}
			if r.rand.IntN(100) == 0 { // it reads nothing for a while
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(r.rand.IntN(50)) * time.Millisecond):
				}
			}
		case line == "":
			id, typ = "", ""
		}
	}
}

// take checks an event against those before.
func (r *reader) take(id string, e *event.Event) error {
	if id == "" {
		return errors.New("an event without an id")
	}
	pos, err := session.ParsePosition(id)
	if err != nil {
		return err
	}
	if r.last != "" {
		before, err := session.ParsePosition(r.last)
		if err != nil {
			return err
		}
		if pos.Compare(before) <= 0 {
			return fmt.Errorf("%s: the entry %s came after %s", r.id, id, r.last)
		}
	}
	r.last = id
	if e.Partial {
		select {
		case r.s.shown <- struct{}{}:
		default:
		}
		if d, ok := e.Data.(*event.Text); ok {
			r.open[e.ID] += d.Content
		}
		return nil
	}
	if want := int64(len(r.stored) + 1); e.Seq != want {
		return fmt.Errorf("%s: event %d came where %d was to come", r.id, e.Seq, want)
	}
	if d, ok := e.Data.(*event.Text); ok && r.open[e.ID] != "" && !subsequence(r.open[e.ID], d.Content) {
		return fmt.Errorf("%s: the deltas %q are none of the text %q", r.id, r.open[e.ID], d.Content)
	}
	delete(r.open, e.ID)
	r.stored = append(r.stored, e)
	return nil
}

// subsequence reports whether the words are among those of the whole, in their order: deltas may
// be missing, and none comes twice.
func subsequence(words, whole string) bool {
	rest := strings.Fields(whole)
	for _, w := range strings.Fields(words) {
		i := slices.Index(rest, w)
		if i < 0 {
			return false
		}
		rest = rest[i+1:]
	}
	return true
}

// Readers stall, leave and come back, and the server is killed in mid-turn and started again:
// nothing is lost, nothing comes twice, and no tool runs twice.
func TestStorm(t *testing.T) {
	c := stormConfig{Addr: servers.Address(t), Dir: t.TempDir()}
	rage(t, "http://"+c.Addr, *stormReaders, *stormKills, &replica{stormConfig: c})
}

// The same with two servers on one PostgreSQL and one Redis, between which a proxy chooses for
// each request anew.
func TestReplicas(t *testing.T) {
	c := stormConfig{Dir: t.TempDir(), Postgres: servers.Database(t), Redis: servers.SharedRedis(t)}
	one, two := c, c
	one.Addr, two.Addr = servers.Address(t), servers.Address(t)
	var turn atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		to := []string{one.Addr, two.Addr}[turn.Add(1)%2]
		r.SetURL(&url.URL{Scheme: "http", Host: to})
	}})
	t.Cleanup(proxy.Close)
	rage(t, proxy.URL, *stormReaders/4, *stormKills, &replica{stormConfig: one}, &replica{stormConfig: two})
}

// rage has clients talk, follow, stall and come back while servers are killed, one after the
// other, and checks what everybody was told.
func rage(t *testing.T, base string, readers, kills int, replicas ...*replica) {
	const sessions = 20
	const turns = 3
	s := &storm{t: t, base: base, shown: make(chan struct{}), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	for _, r := range replicas {
		r.start(t)
		t.Cleanup(func() { r.kill(t) })
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	killed := make(chan struct{})
	told := make([]int, sessions)          // turns that a client has had
	ends := make([]atomic.Int64, sessions) // where the logs end, once it is known
	all := make([]*reader, readers)
	var reading, talking sync.WaitGroup
	for i := range all {
		of := i % sessions
		r := &reader{s: s, id: fmt.Sprintf("s%d", of), rand: rand.New(rand.NewPCG(1, uint64(i))), open: make(map[string]string)}
		all[i] = r
		reading.Go(func() {
			err := r.follow(ctx, func(seq int64) bool { end := ends[of].Load(); return end > 0 && seq >= end })
			if err != nil {
				t.Errorf("reader %d, behind %s: %v", i, r.last, err)
				cancel()
			}
		})
	}
	for i := range sessions {
		talking.Go(func() {
			var err error
			if told[i], err = s.talk(ctx, fmt.Sprintf("s%d", i), turns, killed); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	// They are killed when readers have seen many words since the last time: somebody is always
	// in the middle of something.
	for n := range kills {
		for count := readers * (8 + 4*(n%3)); count > 0 && ctx.Err() == nil; count-- {
			select {
			case <-s.shown:
			case <-ctx.Done():
			}
		}
		r := replicas[n%len(replicas)]
		r.kill(t)
		r.start(t)
	}
	close(killed)
	talking.Wait()
	require.NoError(t, ctx.Err())
	db := must.Get(replicas[0].open(t.Context()))
	defer db.Close()
	logs := make([][]*event.Event, sessions)
	for i := range sessions {
		for e, err := range db.Load(t.Context(), session.Key{App: session.DefaultApp, User: "ann", ID: fmt.Sprintf("s%d", i)}, 0) {
			require.NoError(t, err)
			logs[i] = append(logs[i], e)
		}
		require.NotEmpty(t, logs[i])
		broken := must.Get(integrity.Check(func(yield func(*event.Event, error) bool) {
			for _, e := range logs[i] {
				if !yield(e, nil) {
					return
				}
			}
		}))
		require.Empty(t, broken)
		ends[i].Store(int64(len(logs[i])))
		said := 0
		for _, e := range logs[i] {
			if _, ok := e.Data.(*event.User); ok {
				said++
			}
		}
		require.Equal(t, told[i], said, "each message began one turn")
	}
	for _, r := range replicas { // those who have read all of it, and wait for more, find that out
		r.kill(t)
		r.start(t)
	}
	reading.Wait()
	for i, r := range all {
		log := logs[i%sessions]
		require.Len(t, r.stored, len(log))
		for n, e := range r.stored {
			require.Equal(t, string(event.EncodeJSON(log[n])), string(event.EncodeJSON(e)))
		}
	}
	data := must.Get(os.ReadFile(filepath.Join(replicas[0].Dir, "ledger")))
	lines := strings.Fields(string(data))
	calls := make(map[string]int)
	for i := 1; i < len(lines); i += 2 {
		calls[lines[i-1]+lines[i]]++
	}
	require.NotEmpty(t, calls)
	for call, times := range calls {
		require.Equal(t, 1, times, "the call %s ran twice", call)
	}
}

// TestMain makes a process of the test a server where the environment says so.
func TestMain(m *testing.M) {
	config := os.Getenv(stormEnv)
	if config == "" {
		os.Exit(m.Run())
	}
	var c stormConfig
	err := json.Unmarshal([]byte(config), &c)
	if err == nil {
		err = stormServer(c)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
