package jspeers_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
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

// peer is a process of Node.js that serves agents.
type peer struct {
	URL   string `json:"url"`
	Unary string `json:"unary"` // where those are that stream nothing, if it is another place
}

// start runs a script that serves until its standard input ends, and reads where.
// What the process wrote to its standard error is shown if the test fails.
func start(t *testing.T, script string, args ...string) *peer {
	t.Helper()
	needNode(t)
	cmd := exec.Command("node", append([]string{script}, args...)...)
	ownGroup(cmd)
	in := must.Get(cmd.StdinPipe())
	out := must.Get(cmd.StdoutPipe())
	var said output
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		endGroup(cmd)
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s wrote: %s", script, said.String())
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err, "%s did not begin to serve", script)
	var p peer
	require.NoError(t, json.Unmarshal(line, &p), "%s", line)
	return &p
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
