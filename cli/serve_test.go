package cli_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/llm/scripted"
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
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(b)
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
	s := &served{running: &running{Cmd: i.command(t, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)}, t: t, said: &words{}}
	s.Stderr = s.said
	out, err := s.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "%s", s.said)
	base, ok := strings.CutSuffix(line, "/.well-known/agent-card.json\n")
	require.True(t, ok, line)
	s.base = base
	return s
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
	data, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(data)
}

func (s *served) open(method, path, body, token string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	return resp
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
	var result struct{ Task task }
	require.NoError(s.t, json.Unmarshal([]byte(body), &result))
	return result.Task
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
	var k task
	require.NoError(s.t, json.Unmarshal([]byte(body), &k))
	return k
}

// completes asks for a task until it is completed.
func (s *served) completes(id string) (k task) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		k = s.get(id)
		return k.Status.State == "TASK_STATE_COMPLETED"
	}, 30*time.Second, 20*time.Millisecond)
	return k
}

// The card tells clients where to go; a message is answered; what was said is a session
// of the command.
func TestServe(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	require.Equal(t, 0, invocation{home: home}.run(t, "run", desk, "a secret", "--session", "s1").status)
	s := invocation{home: home}.serve(t, desk)
	card := s.card("")
	require.Equal(t, "support", card.Name)
	require.Equal(t, s.base+"/rpc", card.SupportedInterfaces[0].URL)
	status, body := s.call("GET", "/healthz", "")
	require.Equal(t, "200 ok\n", fmt.Sprint(status, " ", body))

	answered := s.send("an invoice shows two charges")
	require.Equal(t, "TASK_STATE_COMPLETED", answered.Status.State)
	require.Contains(t, answered.words(), "I am the offline model")

	// What was said at the machine is not theirs to see.
	status, body = s.call("POST", "/message:send", strings.Replace(sending("hello"), `{"messageId"`, `{"contextId":"s1","messageId"`, 1))
	require.NotContains(t, body, "secret")
	if status == 200 {
		require.Contains(t, body, `"name":"support"`, "a new context begins at the root")
	}
	status, body = s.call("GET", "/tasks?historyLength=10", "")
	require.Equal(t, 200, status, body)
	require.Contains(t, body, answered.ID)
	require.NotContains(t, body, "secret")

	for _, wrong := range []string{"", "wrong"} {
		resp := s.open("POST", "/message:send", sending("hello"), wrong)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	}
	require.Equal(t, 0, s.stop(os.Interrupt), "%s", s.said)
	require.Contains(t, s.said.String(), "arbor: serving support at "+s.base+"; the token is that of ARBOR_TOKEN\n")
	require.NotContains(t, s.said.String(), token)
	require.True(t, strings.HasSuffix(s.said.String(), "arbor: stopped\n"))

	got := invocation{home: home}.run(t, "sessions", "show", answered.ContextID)
	require.Equal(t, 0, got.status, got.err)
	require.Contains(t, got.out, "user: an invoice shows two charges\nsupport → billing")
}

// A process that dies in mid-turn loses no task: its successor goes on with it.
func TestServeAfterKill(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]os.Signal{"killed": syscall.SIGKILL, "terminated": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			first, asked, release := slow("never heard")
			defer close(release)
			script := answers(scripted.Reply(scripted.Text("One moment. "), scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`)),
				first, scripted.Reply(scripted.Text("It is refunded.")))
			env := serve(t, script)
			s := invocation{home: home, env: env}.serve(t, desk)
			begun, _ := s.stream("I was charged twice")
			receive(t, asked)
			require.Equal(t, "TASK_STATE_WORKING", s.get(begun.ID).Status.State)
			want := 0
			if sig == syscall.SIGKILL {
				want = -1
			}
			require.Equal(t, want, s.stop(sig), "%s", s.said)

			s = invocation{home: home, env: env}.serve(t, desk)
			k := s.completes(begun.ID)
			require.Equal(t, "One moment. It is refunded.", k.words())
			require.Equal(t, begun.ContextID, k.ContextID)
			require.NoError(t, script.Done(), "what was recorded is not asked for again")
			require.Equal(t, 0, s.stop(os.Interrupt))
		})
	}
}

// One client's turn does not wait for another's.
func TestServeTwoClients(t *testing.T) {
	t.Parallel()
	blocked, asked, release := slow("late")
	script := answers(blocked, scripted.Reply(scripted.Text("quick")))
	s := invocation{env: serve(t, script)}.serve(t, desk, "--db", ":memory:")
	begun, lines := s.stream("first")
	receive(t, asked)
	require.Equal(t, "quick", s.send("second").words())
	close(release)
	rest := ""
	for lines.Scan() {
		rest += lines.Text()
	}
	require.Contains(t, rest, "TASK_STATE_COMPLETED")
	require.Equal(t, "late", s.get(begun.ID).words())
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// Two servers share a database: what one runs, clients of the other can follow.
func TestServeTwoServers(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	answer, asked, release := slow("It is refunded.")
	env := serve(t, answers(answer))
	a, b := invocation{home: home, env: env}.serve(t, desk), invocation{home: home, env: env}.serve(t, desk)
	begun, _ := a.stream("hello")
	receive(t, asked)
	require.Equal(t, "TASK_STATE_WORKING", b.get(begun.ID).Status.State)
	resp := b.open("GET", "/tasks/"+begun.ID+":subscribe", "", token)
	defer resp.Body.Close()
	require.Equal(t, 200, resp.StatusCode)
	close(release)
	all, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(all), "It is refunded.")
	require.Contains(t, string(all), "TASK_STATE_COMPLETED")
	require.Equal(t, 0, a.stop(os.Interrupt))
	require.Equal(t, 0, b.stop(os.Interrupt))
}

// The second signal ends the program, whatever still runs.
func TestServeSecondSignal(t *testing.T) {
	t.Parallel()
	s := invocation{program: "stubborn"}.serve(t, "--db", ":memory:")
	_, lines := s.stream("hello")
	for !strings.Contains(lines.Text(), "working") {
		require.True(t, lines.Scan())
	}
	require.NoError(t, s.Process.Signal(os.Interrupt))
	for lines.Scan() { // the stream ends, and so the first signal has arrived
	}
	require.Equal(t, cli.StatusInterrupted, s.stop(os.Interrupt))
}

// A tree in one process is a specialist in another's, by its address and its token.
func TestServeIsRemoteAgent(t *testing.T) {
	t.Parallel()
	s := invocation{}.serveWith(t, desk, "--token-file", file(t, "token", token+"\n"), "--db", ":memory:")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "far.md"), []byte("---\ndescription: Everything\na2a: $FAR\nauth: {bearer: $FAR_TOKEN}\n---\n"), 0o644))
	i := invocation{home: t.TempDir(), env: []string{"FAR=" + s.base, "FAR_TOKEN=" + token}}
	got := i.run(t, "run", dir, "an invoice shows two charges", "--session", "s1")
	require.Equal(t, 0, got.status, got.err)
	require.Contains(t, got.out, "far: I am the offline model")
	i.env[1] = "FAR_TOKEN=wrong"
	got = i.run(t, "run", dir, "and now?", "--session", "s1")
	require.Equal(t, cli.StatusFailed, got.status)
	require.Contains(t, got.err, "401")
	require.Equal(t, 0, s.stop(os.Interrupt))
	require.NotContains(t, s.said.String()+got.err, token)
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// With --grpc the card names one interface more, and remote agents of files can use it.
func TestServeGRPC(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--grpc", "127.0.0.1:0", "--db", ":memory:")
	card := s.card("GRPC")
	require.Len(t, card.SupportedInterfaces, 1)
	at := card.SupportedInterfaces[0].URL
	require.True(t, strings.HasPrefix(at, "http://127.0.0.1:"), at)
	only := serveCard(t, map[string]any{"name": card.Name, "description": "", "version": "1", "capabilities": map[string]any{"streaming": true},
		"supportedInterfaces": card.SupportedInterfaces, "defaultInputModes": []string{}, "defaultOutputModes": []string{}, "skills": []any{}})
	dir := t.TempDir()
	front := fmt.Sprintf("---\na2a: $FAR\nauth: {bearer: $FAR_TOKEN, origins: [%q]}\n---\n", at)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "far.md"), []byte(front), 0o644))
	got := invocation{env: []string{"FAR=" + only, "FAR_TOKEN=" + token}}.run(t, "run", dir, "an invoice shows two charges", "--db", ":memory:")
	require.Equal(t, 0, got.status, got.err)
	require.Contains(t, got.out, "far: I am the offline model")
	got = invocation{env: []string{"FAR=" + only, "FAR_TOKEN=wrong"}}.run(t, "run", dir, "hello", "--db", ":memory:")
	require.Equal(t, cli.StatusFailed, got.status, got.out)
	require.Contains(t, got.err, "remote_unauthorized")
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// serveCard serves a card at a host of its own, whose address it returns.
func serveCard(t *testing.T, card map[string]any) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(card) }))
	t.Cleanup(s.Close)
	return s.URL
}

// With --a2a03 clients of version 0.3 are answered beside those of 1.0, and remote agents
// of files can be of that version.
func TestServeOldProtocol(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--a2a03", "--db", ":memory:")
	require.Contains(t, s.send("hello").words(), "I am the offline model")
	status, body := s.call("POST", "/rpc", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"text","text":"hello"}]}}}`)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"kind":"task"`)
	require.Contains(t, body, `"state":"completed"`)

	status, body = s.call("GET", "/.well-known/agent.json", "")
	require.Equal(t, 200, status)
	var card map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &card))
	require.Equal(t, s.base+"/rpc", card["url"])
	delete(card, "supportedInterfaces") // as those have it who know of no other version
	dir := t.TempDir()
	front := fmt.Sprintf("---\na2a: $FAR\nauth: {bearer: $FAR_TOKEN, origins: [%q]}\n---\n", s.base)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "far.md"), []byte(front), 0o644))
	got := invocation{env: []string{"FAR=" + serveCard(t, card), "FAR_TOKEN=" + token}}.run(t, "run", dir, "an invoice shows two charges", "--db", ":memory:")
	require.Equal(t, 0, got.status, got.err)
	require.Contains(t, got.out, "far: I am the offline model")
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// signKey makes a file with a private key.
func signKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return file(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// A signed card can be verified with the key set that stands beside it.
func TestServeSignsCard(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--sign-key", signKey(t), "--db", ":memory:")
	fetch := func(path string) []byte {
		resp := s.open("GET", path, "", "")
		defer resp.Body.Close()
		require.Equal(t, 200, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return body
	}
	keys, err := cardsign.ParseKeySet(fetch("/.well-known/jwks.json"))
	require.NoError(t, err)
	verifier, err := cardsign.NewVerifier(keys...)
	require.NoError(t, err)
	card := fetch("/.well-known/agent-card.json")
	require.NoError(t, verifier.Verify(t.Context(), card))
	require.ErrorIs(t, verifier.Verify(t.Context(), bytes.Replace(card, []byte("support"), []byte("another"), 1)), cardsign.ErrUnverified)
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// What is wrong with the command line is one line, and status 2.
func TestServeBadInput(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--db", ":memory:")
	taken := strings.TrimPrefix(s.base, "http://")
	t.Run("lines", func(t *testing.T) { // it ends when all of them have
		for name, tt := range map[string]struct {
			args []string
			env  []string
			want string
		}{
			"flag":        {args: []string{"--adr", ":0"}, want: "unknown flag: --adr; did you mean --addr?"},
			"taken":       {args: []string{"--addr", taken}, want: "--addr " + taken + ": bind: address already in use; port 0 takes any that is free"},
			"grpc":        {args: []string{"--grpc", taken}, want: "--grpc " + taken + ": bind: address already in use"},
			"grpc open":   {args: []string{"--grpc", ":0", "--no-token"}, want: "can be reached from other machines"},
			"no port":     {args: []string{"--addr", "localhost"}, want: "--addr localhost: an address is HOST:PORT, such as 127.0.0.1:8420"},
			"bad port":    {args: []string{"--addr", "127.0.0.1:99999"}, want: "--addr 127.0.0.1:99999: "},
			"elsewhere":   {args: []string{"--addr", "192.0.2.1:0"}, want: "--addr 192.0.2.1:0: bind: "},
			"no token":    {args: []string{"--addr", "0.0.0.0:0", "--no-token"}, want: "can be reached from other machines; listen at 127.0.0.1, or use a token"},
			"public":      {args: []string{"--no-token", "--url", "https://agents.example.com"}, want: "--no-token: --url says that other machines are to reach the server"},
			"both":        {args: []string{"--no-token", "--token-file", "x"}, want: "--no-token and --token-file exclude each other"},
			"no file":     {args: []string{"--token-file", "none"}, want: "--token-file: open none: no such file or directory"},
			"empty file":  {args: []string{"--token-file", file(t, "t", " \n")}, want: "the file is empty"},
			"odd token":   {env: []string{"ARBOR_TOKEN=s3cret and more"}, want: "the token must be one word"},
			"url":         {args: []string{"--url", "agents.example.com"}, want: "--url must be such as https://agents.example.com"},
			"key where":   {args: []string{"--addr", ":0", "--sign-key", signKey(t)}, want: "--sign-key needs --url"},
			"no key":      {args: []string{"--sign-key", "none"}, want: "--sign-key: open none: no such file or directory"},
			"odd key":     {args: []string{"--sign-key", file(t, "k", "s3cret")}, want: "there is no PEM block"},
			"webhooks":    {args: []string{"--webhook-file", file(t, "w", "s3cret")}, want: "--webhook-file: the file of push notification configs"},
			"no tree":     {args: []string{"nowhere"}, want: "1 argument too many"},
			"broken tree": {args: nil, want: "3 problems in the agents' files"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				path := desk
				if name == "broken tree" {
					path = "testdata/broken"
				}
				got := invocation{env: tt.env}.run(t, append([]string{"serve", path, "--db", ":memory:", "--addr", "127.0.0.1:0"}, tt.args...)...)
				require.Equal(t, cli.StatusUsage, got.status, got.err)
				require.Empty(t, got.out)
				require.Contains(t, got.err, tt.want)
				require.NotContains(t, got.err, "s3cret")
				if name != "broken tree" {
					require.Equal(t, 1, strings.Count(got.err, "\n"), got.err)
				}
			})
		}
	})
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// Without a token of one's own there is a new one each time, told once.
func TestServeMakesToken(t *testing.T) {
	t.Parallel()
	s := invocation{program: "func"}.serveWith(t, "--db", ":memory:")
	made := ""
	require.Eventually(t, func() bool { // what it said is on its way
		_, rest, _ := strings.Cut(s.said.String(), "the token of this run is ")
		made, _, _ = strings.Cut(rest, " ")
		return strings.Contains(rest, "\n")
	}, time.Minute, time.Millisecond)
	require.Len(t, made, 26)
	resp := s.open("POST", "/message:send", sending("hello"), made)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, 0, s.stop(syscall.SIGTERM))
	require.Equal(t, 1, strings.Count(s.said.String(), made))
}

// On this machine alone a server may do without a token.
func TestServeWithoutToken(t *testing.T) {
	t.Parallel()
	s := invocation{program: "embedded"}.serveWith(t, "--no-token", "--db", ":memory:")
	resp := s.open("POST", "/message:send", sending("hello"), "")
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, 0, s.stop(os.Interrupt))
	require.Contains(t, s.said.String(), "no token is needed")
}
