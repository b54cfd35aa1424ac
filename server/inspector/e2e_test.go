package inspector_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/peerfolder"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/inspector"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
)

// web is the folder of the page's source, where the scripts of these tests are.
const web = "../../web/inspector"

// token is that of the owner.
const token = "the-token"

// pageFolder has the page that is served in place of the one in the binary: what
// "node build.mjs FOLDER" has made of changed sources.
var pageFolder = flag.String("page", "", "folder with another page to test")

// world is what a server of these tests serves.
type world struct {
	root   agent.Agent
	runner []runner.Option
	prices llm.Prices
	// workshop is what the owner may try, nil for nothing.
	workshop func(h *host) server.Workshop
	// users are those besides the owner.
	users []access.Account
	// controls are what a script may ask for by POST, besides what every host answers.
	controls map[string]func(body []byte) (any, error)
}

// host serves a world on loopback, on a file, as a process does. It can be stopped, and started
// again at the same address.
type host struct {
	*world
	t        testing.TB
	addr, db string
	accounts *access.Accounts
	signIn   *access.SignIn
	kept     *server.Requests
	reloads  server.Reloads
	cuts     cuts
	other    bool // serve another page than at first

	mu    sync.Mutex
	web   *http.Server
	turns *live.Turns
	store session.Store
}

// serve serves a world until the test ends.
func serve(t testing.TB, w *world) *host {
	t.Helper()
	peerfolder.Chromium(t)
	h := &host{world: w, t: t, addr: servers.Address(t), db: filepath.Join(t.TempDir(), "sessions.db")}
	require.NoError(t, h.start())
	t.Cleanup(func() { require.NoError(t, h.stop()) })
	return h
}

func (h *host) url() string { return "http://" + h.addr }

// start begins to serve.
func (h *host) start() error {
	l, err := net.Listen("tcp", h.addr)
	if err != nil {
		return err
	}
	if h.signIn == nil { // the first time
		h.addr = l.Addr().String()
		if h.accounts, err = access.NewAccounts(append(h.users, owner(token))...); err != nil {
			return err
		}
		if h.kept, err = server.KeepRequests(32 << 20); err != nil {
			return err
		}
		if h.signIn, err = access.NewSignIn(h.accounts, access.SignInOptions{Port: l.Addr().(*net.TCPAddr).Port}); err != nil {
			return err
		}
	}
	db, err := sqlite.Open(h.db)
	if err != nil {
		return err
	}
	store, err := tail.New(sessiontest.Checked(h.t, db))
	if err != nil {
		return err
	}
	run, err := runner.New(h.root, store, append([]runner.Option{runner.WithStreaming(), runner.WithInterceptors(h.kept)}, h.runner...)...)
	if err != nil {
		return err
	}
	turns, err := live.New(run, store)
	if err != nil {
		return err
	}
	users, err := access.AnyOf(h.accounts, h.signIn)
	if err != nil {
		return err
	}
	guard, err := access.New(access.Options{Users: users})
	if err != nil {
		return err
	}
	served := []server.Option{server.WithGuard(guard), server.WithAPIs("api", "inspector"), server.WithVersion("test"), server.WithReloads(&h.reloads), server.WithRequests(h.kept), server.WithPrices(h.prices)}
	if h.workshop != nil {
		served = append(served, server.WithWorkshop(h.workshop(h)))
	}
	api, err := server.New(turns, served...)
	if err != nil {
		return err
	}
	opts := []inspector.Option{inspector.WithGuard(guard), inspector.WithSignIn(h.signIn)}
	if folder := *pageFolder; folder != "" || h.other {
		if h.other {
			if folder, err = otherPage(h.t.TempDir(), cmp.Or(folder, "dist")); err != nil {
				return err
			}
		}
		opts = append(opts, inspector.WithFiles(os.DirFS(folder)))
	}
	page, err := inspector.New(opts...)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h.cuts.handler(server.Mux(api, page)), ConnContext: withConn}
	access.Harden(srv)
	go func() { _ = srv.Serve(l) }()
	h.reloads.SetSources(func(name string) (server.Source, bool) {
		return server.Source{File: "desk/" + name + ".md", Line: 2}, name != "human"
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.web, h.turns, h.store = srv, turns, store
	return nil
}

// otherPage makes a page that differs from another one, as one of another version does.
func otherPage(to, from string) (string, error) {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return "", err
	}
	index := filepath.Join(to, "index.html")
	data, err := os.ReadFile(index)
	if err != nil {
		return "", err
	}
	return to, os.WriteFile(index, bytes.ReplaceAll(data, []byte("app.js?v="), []byte("app.js?v=0")), 0o600)
}

// stop ends the server as far as its clients can see: connections break, turns are cut off. What is
// stored stays.
func (h *host) stop() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.web == nil {
		return nil
	}
	err := errors.Join(h.web.Close(), h.turns.Close(context.Background()), h.store.Close())
	h.web = nil
	return err
}

func owner(token string) access.Account {
	return access.Account{Name: session.DefaultUser, Token: access.HashToken(token), Rights: access.All | access.Owner}
}

func key(id string) session.Key {
	return session.Key{App: session.DefaultApp, User: session.DefaultUser, ID: id}
}

// say starts a turn, and waits until it ends or waits for a person.
func (h *host) say(id, words string) {
	h.t.Helper()
	turn := must.Get(h.turns.Begin(h.t.Context(), key(id), llm.UserText(words)))
	require.NoError(h.t, restless(turn.Wait(h.t.Context())))
}

// restless is the error of a turn, or nil if the turn waits for a person.
func restless(err error) error {
	if errors.Is(err, agent.ErrSuspended) {
		return nil
	}
	return err
}

// resume continues what a fork has begun.
func (h *host) resume(id string, decisions ...runner.Decision) {
	h.t.Helper()
	turn := must.Get(h.turns.Resume(h.t.Context(), key(id), decisions...))
	require.NoError(h.t, restless(turn.Wait(h.t.Context())))
}

// log returns what is stored of a session.
func (h *host) log(id string) (events []*event.Event, err error) {
	h.mu.Lock()
	store := h.store
	h.mu.Unlock()
	for e, err := range store.Load(context.Background(), key(id), 0) {
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// control answers what a script asks this process for.
func (h *host) control(name string, body []byte) (any, error) {
	var in struct {
		Session  string
		Token    string
		Other    bool
		After    int
		Inside   bool
		Times    int
		Problems []server.TreeProblem
	}
	if c := h.controls[name]; c != nil {
		return c(body)
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	switch name {
	case "code":
		return h.signIn.Code(session.DefaultUser)
	case "rights": // the others have none any more
		var others []access.Account
		for _, u := range h.users {
			u.Rights = 0
			others = append(others, u)
		}
		return nil, h.accounts.Replace(append(others, owner(token))...)
	case "token": // the owner's token is another one from now on
		return nil, h.accounts.Replace(owner(in.Token))
	case "log":
		return h.log(in.Session)
	case "stop":
		return nil, h.stop()
	case "start":
		h.other = in.Other
		return nil, h.start()
	case "cut":
		h.cuts.set(in.After, in.Inside, in.Times)
		return nil, nil
	case "cuts":
		return h.cuts.made(), nil
	case "refused": // files of the tree have changed, and cannot be used
		h.reloads.Failed(in.Problems...)
		return nil, nil
	case "took":
		h.reloads.Loaded()
		return nil, nil
	}
	return nil, fmt.Errorf("there is no control %q", name)
}

// ServeHTTP answers scripts, and browsers as another server of this machine.
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>other</title>")
		return
	}
	body, err := io.ReadAll(r.Body)
	var answer any
	if err == nil {
		answer, err = h.control(strings.TrimPrefix(r.URL.Path, "/"), body)
	}
	if err == nil {
		err = json.NewEncoder(w).Encode(map[string]any{"answer": answer})
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// play runs a script of the page's folder e2e on a host. More than what it needs to know of the
// host is given to it as it is. What it prints with a status other than 0 is the test's failure.
func play(t *testing.T, h *host, script string, more map[string]any) {
	t.Helper()
	controls := httptest.NewServer(h)
	defer controls.Close()
	given := map[string]any{"base": h.url(), "control": controls.URL, "token": token, "script": script}
	maps.Copy(given, more)
	data := must.Get(json.Marshal(given))
	ctx := t.Context()
	if at, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at.Add(-30*time.Second)) // the script reports where it was
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, "node", filepath.Join(web, "e2e", script+".mjs"))
	cmd.Env = append(os.Environ(), "ARBOR_E2E="+string(data))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // the script closes its browser
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if testing.Verbose() || err != nil {
		t.Logf("%s:\n%s", script, out.String())
	}
	require.NoError(t, err, script)
}

// cuts breaks the connections of streams of events.
type cuts struct {
	mu     sync.Mutex
	after  int  // events that a stream may still bring
	inside bool // break inside the next frame
	left   int  // streams that are still to be cut
	done   int
}

func (c *cuts) set(after int, inside bool, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after, c.inside, c.left = after, inside, times
}

func (c *cuts) made() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// handler passes everything on, but breaks streams as set.
func (c *cuts) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") && strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			w = &cutWriter{ResponseWriter: w, cuts: c, conn: r.Context().Value(connKey{}).(net.Conn)}
		}
		next.ServeHTTP(w, r)
	})
}

type cutWriter struct {
	http.ResponseWriter
	cuts *cuts
	conn net.Conn
	come int // frames with an id
}

func (w *cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *cutWriter) Write(p []byte) (int, error) {
	w.cuts.mu.Lock()
	defer w.cuts.mu.Unlock()
	if w.cuts.left == 0 {
		return w.ResponseWriter.Write(p)
	}
	end := 0
	for frame := range bytes.SplitAfterSeq(p, []byte("\n\n")) {
		if bytes.HasPrefix(frame, []byte("id: ")) {
			if w.come == w.cuts.after {
				if w.cuts.inside {
					end += len(frame) / 2
				}
				_, _ = w.ResponseWriter.Write(p[:end])
				_ = http.NewResponseController(w.ResponseWriter).Flush()
				w.cuts.left--
				w.cuts.done++
				w.conn.Close()
				return 0, net.ErrClosed
			}
			w.come++
		}
		end += len(frame)
	}
	return w.ResponseWriter.Write(p)
}
