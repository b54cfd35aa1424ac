package cli_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/access/usersfile"
)

const token = "test-token-of-serve"

// served is a tree served by a process of its own.
type served struct {
	*running
	t    *testing.T
	base string
	said *words
}

// words collects what a process writes, while it does.
type words struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{} // closed when more has come, if somebody waits
}

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.more != nil {
		close(w.more)
		w.more = nil
	}
	return w.buf.Write(b)
}

// until waits until a text has been written so many times.
func (w *words) until(t *testing.T, text string, times int) {
	t.Helper()
	late := time.After(patience)
	for {
		w.mu.Lock()
		if w.more == nil {
			w.more = make(chan struct{})
		}
		all, more := w.buf.String(), w.more
		w.mu.Unlock()
		if strings.Count(all, text) >= times {
			return
		}
		select {
		case <-more:
		case <-late:
			require.FailNow(t, "it was not said", "%q is not %d times in %q", text, times, all)
		}
	}
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// serve starts the command at a free port, with the test's token.
func (i invocation) serve(t *testing.T, args ...string) *served {
	t.Helper()
	i.env = append([]string{"ARBOR_TOKEN=" + token}, i.env...)
	return i.serveWith(t, args...)
}

func (i invocation) serveWith(t *testing.T, args ...string) *served {
	t.Helper()
	s := &served{running: &running{Cmd: i.command(t, append([]string{cmp.Or(i.server, "serve"), "--addr", "127.0.0.1:0"}, args...)...)}, t: t, said: &words{}}
	s.Stderr = s.said
	out := must.Get(s.StdoutPipe())
	require.NoError(t, s.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "%s", s.said)
	base, ok := strings.CutSuffix(line, "\n")
	require.True(t, ok, line)
	s.base = base
	return s
}

// TestServeRoot: a browser at the root is led to the page, other clients read where things are.
func TestServeRoot(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--db", ":memory:")
	once := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for accept, want := range map[string]int{"text/html,application/xhtml+xml,*/*;q=0.8": http.StatusFound, "application/json": http.StatusOK, "": http.StatusOK} {
		req := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.base+"/", nil))
		req.Header.Set("Accept", accept)
		resp := must.Get(once.Do(req))
		body := must.Get(io.ReadAll(resp.Body))
		require.NoError(t, resp.Body.Close())
		if require.Equal(t, want, resp.StatusCode, accept); want == http.StatusFound {
			require.Equal(t, "inspect/", resp.Header.Get("Location"))
			continue
		}
		require.JSONEq(t, `{"apis":{"api":"/api/v1","openai":"/v1","agui":"/agui","a2a":"/rpc","inspector":"/inspect/"}}`, string(body))
	}
}

// stop sends a signal and returns the status.
func (s *served) stop(sig os.Signal) int {
	s.t.Helper()
	require.NoError(s.t, s.Process.Signal(sig))
	return s.end()
}

func (s *served) end() int {
	_ = s.Wait() // the status says it
	return s.ProcessState.ExitCode()
}

// call makes a request with the token and returns status and body.
func (s *served) call(method, path, body string) (int, string) {
	s.t.Helper()
	resp := s.open(method, path, body, token)
	defer resp.Body.Close()
	return resp.StatusCode, string(must.Get(io.ReadAll(resp.Body)))
}

func (s *served) open(method, path, body, token string) *http.Response {
	s.t.Helper()
	req := must.Get(http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body)))
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return must.Get(http.DefaultClient.Do(req))
}

func sending(text string) string {
	return fmt.Sprintf(`{"message":{"messageId":"m-%s","role":"ROLE_USER","parts":[{"text":%q}]}}`, strings.ReplaceAll(text, " ", "-"), text)
}

// card is what the tests read of a card.
type card struct {
	Name                string
	SupportedInterfaces []struct {
		URL             string `json:"url"`
		ProtocolBinding string `json:"protocolBinding"`
		ProtocolVersion string `json:"protocolVersion"`
	} `json:"supportedInterfaces"`
}

// card fetches the card, with the interfaces of one binding, or all for "".
func (s *served) card(binding string) (c card) {
	s.t.Helper()
	resp := s.open("GET", "/.well-known/agent-card.json", "", "")
	defer resp.Body.Close()
	require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&c))
	for i := len(c.SupportedInterfaces) - 1; i >= 0; i-- {
		if binding != "" && c.SupportedInterfaces[i].ProtocolBinding != binding {
			c.SupportedInterfaces = slices.Delete(c.SupportedInterfaces, i, i+1)
		}
	}
	return c
}

// task is what the tests read of a task.
type task struct {
	ID, ContextID string
	Status        struct{ State string }
	Artifacts     []struct {
		Name  string
		Parts []struct{ Text string }
	}
}

// words returns all text of the artifacts.
func (k task) words() (text string) {
	for _, a := range k.Artifacts {
		for _, p := range a.Parts {
			text += p.Text
		}
	}
	return text
}

func (s *served) send(text string) task {
	s.t.Helper()
	status, body := s.call("POST", "/message:send", sending(text))
	require.Equal(s.t, 200, status, body)
	return must.JSON[struct{ Task task }](body).Task
}

// stream sends a message and returns the first task that comes, and what follows.
func (s *served) stream(text string) (task, *bufio.Scanner) {
	s.t.Helper()
	resp := s.open("POST", "/message:stream", sending(text), token)
	s.t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(s.t, 200, resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var event struct{ Task task }
		if data, ok := strings.CutPrefix(lines.Text(), "data:"); ok && json.Unmarshal([]byte(data), &event) == nil && event.Task.ID != "" {
			return event.Task, lines
		}
	}
	require.FailNow(s.t, "no task came")
	return task{}, nil
}

func (s *served) get(id string) task {
	s.t.Helper()
	status, body := s.call("GET", "/tasks/"+id, "")
	require.Equal(s.t, 200, status, body)
	return must.JSON[task](body)
}

// completes asks for a task until it is completed.
func (s *served) completes(id string) (k task) {
	s.t.Helper()
	must.Wait(s.t, func() bool {
		k = s.get(id)
		return k.Status.State == "TASK_STATE_COMPLETED"
	})
	return k
}

// A server of A2A alone is as well as any other, and has no other door.
func TestServeOneDoor(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--apis", "a2a", "--db", ":memory:")
	for _, path := range []string{"/healthz", "/readyz"} {
		status, body := s.call("GET", path, "")
		require.Equal(t, "200 {\"status\":\"ok\"}\n", fmt.Sprint(status, " ", body), path)
	}
	for _, path := range []string{"/api/v1/me", "/v1/models", "/inspect/"} {
		status, _ := s.call("GET", path, "")
		require.NotEqual(t, 200, status, path)
	}
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// The card tells clients where to go; a message is answered; what was said is a session
// of the command.
func TestServe(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	require.Equal(t, 0, invocation{home: home}.run(t, "run", desk, "a secret", "--session", "s1").status)
	users := filepath.Join(home, "users.yaml")
	peer := must.Get(usersfile.Add(users, "peer", 0))
	s := invocation{home: home}.serve(t, desk, "--users", users)
	card := s.card("")
	require.Equal(t, "support", card.Name)
	require.Equal(t, s.base+"/rpc", card.SupportedInterfaces[0].URL)
	status, body := s.call("GET", "/healthz", "")
	require.Equal(t, "200 {\"status\":\"ok\"}\n", fmt.Sprint(status, " ", body))

	answered := s.send("an invoice shows two charges")
	require.Equal(t, "TASK_STATE_COMPLETED", answered.Status.State)
	require.Contains(t, answered.words(), "I am the offline model")

	// What was said at the machine is the owner's to see, and nobody else's.
	status, body = s.call("GET", "/tasks?historyLength=10", "")
	require.Equal(t, 200, status, body)
	require.Contains(t, body, answered.ID)
	require.Contains(t, body, "a secret")
	resp := s.open("POST", "/message:send", strings.Replace(sending("hello"), `{"messageId"`, `{"contextId":"s1","messageId"`, 1), peer)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	resp = s.open("GET", "/tasks?historyLength=10", "", peer)
	said := must.Get(io.ReadAll(resp.Body))
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(said), `"text":"hello"`)
	require.NotContains(t, string(said), "secret")

	for _, wrong := range []string{"", "wrong"} {
		resp := s.open("POST", "/message:send", sending("hello"), wrong)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	}
	require.Equal(t, 0, s.stop(os.Interrupt), "%s", s.said)
	require.Contains(t, s.said.String(), "arbor: serving support at "+s.base+"; the owner's token is that of ARBOR_TOKEN\n")
	require.NotContains(t, s.said.String(), token)
	require.True(t, strings.HasSuffix(s.said.String(), "arbor: stopped\n"))

	got := invocation{home: home}.run(t, "sessions", "show", answered.ContextID).exits(t, 0)
	require.Contains(t, got.out, "user: an invoice shows two charges\nsupport → billing")
}
