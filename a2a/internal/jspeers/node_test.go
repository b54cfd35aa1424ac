package jspeers_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// needNode ends the test if Node.js or what npm installs is missing.
func needNode(t *testing.T) {
	t.Helper()
	const how = "npm --prefix a2a/internal/jspeers ci --ignore-scripts"
	missing := ""
	if _, err := exec.LookPath("node"); err != nil {
		missing = "node is not installed; with Node.js 20 or later: "
	} else if _, err := os.Stat("node_modules/@a2a-js/sdk/package.json"); err != nil {
		missing = "the JavaScript SDK of A2A is not installed: "
	}
	if missing == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(missing + how)
	}
	t.Skip(missing + how)
}

// output keeps what a process writes, for when it fails.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// program is a process of Node.js. It ends when its standard input does, which is at the end of all tests.
type program struct {
	in   io.Writer
	out  *bufio.Reader
	said output // on its standard error
}

func launch(script string) *program {
	cmd := exec.Command("node", script)
	p := &program{in: must.Get(cmd.StdinPipe()), out: bufio.NewReader(must.Get(cmd.StdoutPipe()))}
	cmd.Stderr = &p.said
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return p
}

// watch shows what the process wrote if the test fails.
func (p *program) watch(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.said.String())
		}
	})
}

// shared returns what makes something of each script once, for all tests.
func shared[T any](make func(script string) T, scripts ...string) map[string]func() T {
	all := map[string]func() T{}
	for _, script := range scripts {
		all[script] = sync.OnceValue(func() T { return make(script) })
	}
	return all
}

var peers = shared(newPeer, "server.mjs", "server03.mjs")

// peer is a process of Node.js that serves agents.
type peer struct {
	*program
	URL   string `json:"url"`
	Unary string `json:"unary"` // where those are that stream nothing, if it is another place
}

// newPeer runs a script that serves, and reads where.
func newPeer(script string) *peer {
	p := &peer{program: launch(script)}
	if line, err := p.out.ReadBytes('\n'); err != nil || json.Unmarshal(line, p) != nil {
		panic(fmt.Sprintf("%s did not begin to serve: %v: %q: %s", script, err, line, p.said.String()))
	}
	return p
}

// start is newPeer for one test.
func start(t *testing.T, script string) *peer {
	t.Helper()
	needNode(t)
	p := newPeer(script)
	p.watch(t)
	return p
}

// heard is what the peer's agent got, in the JSON of the protocol that it speaks.
type heard struct {
	Messages []struct {
		MessageID string `json:"messageId"`
		ContextID string `json:"contextId"`
		TaskID    string `json:"taskId"`
		Role      string `json:"role"`
		Parts     []struct {
			Text string `json:"text"`
		} `json:"parts"`
		Metadata map[string]any `json:"metadata"`
	} `json:"messages"`
	Extensions [][]string `json:"extensions"`
	Canceled   []string   `json:"canceled"`
	Waiting    []string   `json:"waiting"` // tasks that wait to be canceled or granted
}

func (h heard) texts(i int) (texts []string) {
	for _, p := range h.Messages[i].Parts {
		texts = append(texts, p.Text)
	}
	return texts
}

// count returns how many messages begin with the words.
func (h heard) count(words string) (n int) {
	for i, m := range h.Messages {
		if len(m.Parts) > 0 && h.texts(i)[0] == words {
			n++
		}
	}
	return n
}

// in returns what was heard in one context of the peer's.
func (h heard) in(contextID string) heard {
	var mine heard
	for _, m := range h.Messages {
		if m.ContextID == contextID {
			mine.Messages = append(mine.Messages, m)
		}
	}
	mine.Canceled = h.Canceled
	return mine
}

func (p *peer) heard(t *testing.T) (h heard) {
	t.Helper()
	resp := must.Get(http.Get(p.URL + "/seen"))
	defer resp.Body.Close()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&h))
	return h
}
