package agui

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/peerfolder"
)

// clientProcess is a Node.js process with any number of the official AG-UI clients from npm. Their verifier and schemas
// check the answers of the server.
type clientProcess struct {
	in io.Writer

	mu      sync.Mutex
	last    int
	waiting map[int]chan *peerReply
}

// peerCommand is a command for a client: to run, to connect, or to disconnect.
type peerCommand struct {
	ID   int    `json:"id"`
	Op   string `json:"op"`
	Page string `json:"page"` // the name of the client, which keeps messages and state between commands

	URL     string            `json:"url"`
	Thread  string            `json:"thread"`
	Headers map[string]string `json:"headers,omitempty"`
	Query   string            `json:"query,omitempty"`

	Run       string           `json:"run,omitempty"`
	Say       []map[string]any `json:"say,omitempty"`      // messages to append
	Messages  []map[string]any `json:"messages,omitempty"` // messages that replace all others
	State     any              `json:"state,omitempty"`
	Tools     []map[string]any `json:"tools,omitempty"`
	Context   []map[string]any `json:"context,omitempty"`
	Forwarded map[string]any   `json:"forwardedProps,omitempty"`
	Resume    []map[string]any `json:"resume,omitempty"`
	Forget    bool             `json:"forget,omitempty"`  // disables the client's own checks of answers
	Earlier   bool             `json:"earlier,omitempty"` // use the client for the protocol before version 1.0
	Live      bool             `json:"live,omitempty"`    // also reply with each event
}

// peerReply is the result of a command.
type peerReply struct {
	ID         int              `json:"id"`
	Done       bool             `json:"done"`
	Event      map[string]any   `json:"event"` // an event of a live command that is not complete
	Events     []map[string]any `json:"events"`
	Error      string           `json:"error"` // the exception of the client
	Status     int              `json:"status"`
	Warnings   []string         `json:"warnings"` // about violations of the protocol
	Messages   []map[string]any `json:"messages"`
	State      map[string]any   `json:"state"`
	Interrupts []map[string]any `json:"interrupts"`
}

// startPeer starts the process and ends it after the test.
func startPeer(t testing.TB) *clientProcess {
	t.Helper()
	node, script := peerfolder.Folder{Path: filepath.Join("..", "internal", "peers", "agui"), Name: "server/internal/peers/agui", Of: "AG-UI", Probe: "@ag-ui/client"}.Node(t, "client.mjs")
	cmd := exec.Command(node, script)
	cmd.Stderr = os.Stderr
	in := must.Get(cmd.StdinPipe())
	out := must.Get(cmd.StdoutPipe())
	require.NoError(t, cmd.Start())
	p := &clientProcess{in: in, waiting: make(map[int]chan *peerReply)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		p.read(out)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-over
		_ = cmd.Wait()
	})
	return p
}

// read sends replies to the channels of their commands, and closes all channels when the process ends.
func (p *clientProcess) read(out io.Reader) {
	dec := json.NewDecoder(bufio.NewReader(out))
	for {
		r := &peerReply{}
		err := dec.Decode(r)
		p.mu.Lock()
		if err != nil {
			for _, replies := range p.waiting {
				close(replies)
			}
			p.waiting = nil
			p.mu.Unlock()
			return
		}
		replies := p.waiting[r.ID]
		if r.Event == nil {
			delete(p.waiting, r.ID)
		}
		p.mu.Unlock()
		replies <- r
		if r.Event == nil {
			close(replies)
		}
	}
}

// begin sends a command. The last reply is the result.
func (p *clientProcess) begin(t testing.TB, c peerCommand) <-chan *peerReply {
	t.Helper()
	replies := make(chan *peerReply, 10_000)
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NotNil(t, p.waiting, "the process of the clients has ended")
	p.last++
	c.ID = p.last
	p.waiting[c.ID] = replies
	line := must.Get(json.Marshal(c))
	must.Get(p.in.Write(append(line, '\n')))
	return replies
}

// do sends a command and waits for its result. A warning of the client fails the test.
func (p *clientProcess) do(t testing.TB, c peerCommand) *peerReply {
	t.Helper()
	var last *peerReply
	for r := range p.begin(t, c) {
		last = r
	}
	require.NotNil(t, last, "the process of the clients has ended")
	if last.Error == "" { // an error also causes warnings
		require.Empty(t, last.Warnings)
	}
	return last
}
