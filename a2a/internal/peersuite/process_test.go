package peersuite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
)

// order is what a process of these tests is told to be: a server of one tree.
type order struct {
	Name    string // of the root
	Addr    string // to listen on
	Dir     string // for the sessions, the calls of the model and the gate
	Peer    string // the name of a remote child, "" for none
	PeerURL string
	Insists bool // hands over again when the peer refuses
}

const orderVariable = "ARBOR_PEERSUITE_PROCESS"

// TestProcess is what the processes of the tests below run.
func TestProcess(t *testing.T) {
	text := os.Getenv(orderVariable)
	if text == "" {
		t.Skip("run by the tests of several processes")
	}
	o := must.JSON[order](text)
	require.NoError(t, o.serve())
}

func (o order) serve() error {
	store, err := sqlite.Open(filepath.Join(o.Dir, "s.db"))
	if err != nil {
		return err
	}
	var opts []llmagent.Option
	if o.Peer != "" {
		peer, err := a2a.Remote(o.Peer, o.PeerURL, a2a.WithDescription("Knows more"))
		if err != nil {
			return err
		}
		opts = append(opts, llmagent.WithSubAgents(peer))
	}
	root, err := llmagent.New(o.Name, "You help.", &slowModel{o}, opts...)
	if err != nil {
		return err
	}
	s, err := a2aserver.New(root, store, a2aserver.WithURL("http://"+o.Addr))
	if err != nil {
		return err
	}
	lis, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return http.Serve(lis, s)
}

// slowModel hands over to the peer if it has one, or answers itself, and notes its calls
// in a file. What it answers to words that hold "slow" ends when there is a file named
// gate, or the call is canceled.
type slowModel struct{ order }

func (m *slowModel) Name() string { return m.order.Name }

func (m *slowModel) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	last := req.Messages[len(req.Messages)-1].PlainText()
	m.note("asked " + strings.ReplaceAll(last, "\n", " / "))
	answer := scripted.Reply(scripted.Text("Nobody knows: ", last))
	refused := strings.Contains(last, "did not accept the conversation")
	switch {
	case strings.Contains(last, "simple"):
		answer = scripted.Reply(scripted.Text("Simple."))
	case m.Peer != "" && (!refused || m.Insists):
		answer = scripted.Reply(scripted.Text("One moment."), scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name":%q}`, m.Peer)))
	case m.Peer == "" && strings.Contains(last, "slow"):
		answer = scripted.Reply(scripted.Text("Let me "), scripted.Wait(m.gate), scripted.Text("see: ", last))
	case m.Peer == "":
		answer = scripted.Reply(scripted.Text("I see: ", last))
	}
	return scripted.Always(m.order.Name, answer).Generate(ctx, req)
}

func (m *slowModel) note(line string) {
	f, err := os.OpenFile(filepath.Join(m.Dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

func (m *slowModel) gate(ctx context.Context) error {
	for {
		if _, err := os.Stat(filepath.Join(m.Dir, "gate")); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			m.note("canceled")
			return context.Cause(ctx)
		case <-time.After(2 * time.Millisecond): // the file is another process's
		}
	}
}

// process is a running server of a tree.
type process struct {
	order
	t      *testing.T
	cmd    *exec.Cmd
	output bytes.Buffer
}

// newProcess gives a process an address and a folder.
func newProcess(t *testing.T, name string) *process {
	t.Helper()
	p := &process{order: order{Name: name, Dir: t.TempDir(), Addr: servers.Address(t)}, t: t}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said:\n%s\nand was asked:\n%s", p.Name, p.output.String(), strings.Join(p.calls(), "\n"))
		}
	})
	return p
}

func (p *process) url() string { return "http://" + p.Addr }

// knows names the peer that the tree has for a child.
func (p *process) knows(peer *process) *process {
	p.Peer, p.PeerURL = peer.Name, peer.url()
	return p
}

// start runs the process and waits until it serves.
func (p *process) start() *process {
	p.t.Helper()
	text := must.Get(json.Marshal(p.order))
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestProcess$")
	p.cmd.Env = append(os.Environ(), orderVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.output
	out := must.Get(p.cmd.StdoutPipe())
	require.NoError(p.t, p.cmd.Start())
	_, err := io.ReadFull(out, make([]byte, len("ready\n")))
	require.NoError(p.t, err, "%s: %s", p.Name, &p.output)
	return p
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
}

// calls returns what the process's model was asked.
func (p *process) calls() []string {
	data, _ := os.ReadFile(filepath.Join(p.Dir, "calls"))
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func (p *process) open() { // what is slow goes on
	require.NoError(p.t, os.WriteFile(filepath.Join(p.Dir, "gate"), nil, 0o600))
}

// log ends the process and returns the log of its only session.
func (p *process) log() (events []*event.Event) {
	p.t.Helper()
	p.kill()
	store := must.Get(sqlite.Open(filepath.Join(p.Dir, "s.db")))
	defer store.Close()
	ctx := context.Background()
	infos := must.Get(store.List(ctx, session.Key{App: session.DefaultApp, User: session.DefaultUser}, session.Page{}))
	require.Len(p.t, infos, 1, "%s has one session", p.Name)
	events = must.All(store.Load(ctx, infos[0].Key, 0))
	checkCalls(p.t, events)
	return events
}

// client is the SDK's client of a process, over its first interface.
func (p *process) client() *a2aclient.Client {
	p.t.Helper()
	transport := &http.Transport{}
	p.t.Cleanup(transport.CloseIdleConnections)
	return must.Get(a2aclient.NewFromEndpoints(context.Background(), []*sdk.AgentInterface{{URL: p.url() + "/rpc", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: sdk.Version}},
		a2aclient.WithJSONRPCTransport(&http.Client{Transport: transport})))
}

func message(text, contextID string) *sdk.SendMessageRequest {
	m := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))
	m.ContextID = contextID
	return &sdk.SendMessageRequest{Message: m}
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (p *process) send(text, contextID string) *sdk.Task {
	p.t.Helper()
	res := must.Get(p.client().SendMessage(limited(p.t), message(text, contextID)))
	return res.(*sdk.Task)
}

func words(task *sdk.Task) (texts []string) {
	for _, a := range task.Artifacts {
		texts = append(texts, a.Name+": "+a.Parts[0].Text())
	}
	return texts
}

// Two trees in two processes hand a question to each other: who has seen it refuses it,
// and the other one answers.
func TestCircle(t *testing.T) {
	alpha, beta := newProcess(t, "alpha"), newProcess(t, "beta")
	alpha.knows(beta).start()
	beta.knows(alpha).start()
	task := alpha.send("who?", "")
	require.Equal(t, sdk.TaskStateCompleted, task.Status.State)
	got := words(task)
	require.Equal(t, "alpha: One moment.", got[0])
	require.Len(t, got, 2)
	require.Contains(t, got[1], "beta: One moment.")
	require.Contains(t, got[1], "Nobody knows: [alpha] did not accept the conversation")

	// Both are usable: alpha's conversation is with beta now, and beta's own clients have one.
	next := alpha.send("something simple", task.ContextID)
	require.Equal(t, []string{"beta: Simple."}, words(next))
	require.Len(t, alpha.calls(), 1)
	require.Len(t, beta.calls(), 3)

	events := beta.log()
	lines := account(events)
	require.Contains(t, lines, "alpha transfer alpha → beta: committed "+event.TransferTypeRefused)
	notice := ""
	for _, e := range events {
		if e.IsNotice(event.NoticeTransferRefused) {
			notice = e.Data.(*event.Notice).Message
		}
	}
	require.Contains(t, notice, "circle", "the log tells why")
	require.Contains(t, account(alpha.log()), "beta harness_end stop → ")
}

// One that insists is ended by the limit of transfers, and both sides' logs tell why.
func TestCircleOfOneThatInsists(t *testing.T) {
	alpha, beta := newProcess(t, "alpha"), newProcess(t, "beta")
	beta.Insists = true
	alpha.knows(beta).start()
	beta.knows(alpha).start()
	task := alpha.send("who?", "")
	require.Equal(t, sdk.TaskStateFailed, task.Status.State)
	require.LessOrEqual(t, len(beta.calls()), 20)
	require.Len(t, alpha.calls(), 1, "alpha was asked by the user alone")

	next := alpha.send("something simple", task.ContextID)
	require.Equal(t, sdk.TaskStateCompleted, next.Status.State)
	require.Equal(t, []string{"beta: Simple."}, words(next))
	direct := beta.send("something simple", "")
	require.Equal(t, sdk.TaskStateCompleted, direct.Status.State)

	var failures []string
	for _, e := range alpha.log() {
		if f, ok := e.Data.(*event.Failure); ok {
			failures = append(failures, e.Agent+" "+f.Code+" "+f.Message)
		}
	}
	require.Len(t, failures, 1)
	require.Contains(t, failures[0], "beta remote_task_failed")
	require.Contains(t, failures[0], "transfer_rejected")
}

// levels are three trees, each behind the one before.
func levels(t *testing.T) (top, middle, bottom *process) {
	top, middle, bottom = newProcess(t, "top"), newProcess(t, "middle"), newProcess(t, "bottom")
	bottom.start()
	middle.knows(bottom).start()
	top.knows(middle).start()
	return top, middle, bottom
}

// speakers returns who said what at which path, of a log.
func speakers(events []*event.Event) (lines []string) {
	for _, e := range events {
		if e.Type() == event.TypeText {
			lines = append(lines, e.Agent+" at "+e.Path+": "+e.Text())
		}
	}
	return lines
}

// A tree over A2A over A2A: in each log the words have the author and the path that they
// have in its tree, and a client that asks for our extension is told those of the tree
// that it speaks to.
func TestThreeLevels(t *testing.T) {
	top, middle, bottom := levels(t)
	ctx := a2aclient.AttachServiceParams(limited(t), a2aclient.ServiceParams{sdk.SvcParamExtensions: {a2a.Extension}})
	res := must.Get(top.client().SendMessage(ctx, message("who?", "")))
	task := res.(*sdk.Task)
	require.Equal(t, sdk.TaskStateCompleted, task.Status.State)
	var authors []string
	for _, a := range task.Artifacts {
		author := a.Metadata[a2a.Extension].(map[string]any)
		require.Equal(t, a.Name, author["agent"])
		require.NotEmpty(t, author["runId"])
		authors = append(authors, fmt.Sprint(author["path"]))
	}
	require.Equal(t, []string{"top", "top/middle"}, authors)
	next := top.send("and when?", task.ContextID)
	require.Len(t, next.Artifacts, 1)

	heard := "who?\n[top] One moment."
	below := heard + "\n[middle] One moment."
	answer := "I see: " + below
	require.Equal(t, []string{"bottom at bottom: " + answer, "bottom at bottom: I see: and when?"}, speakers(bottom.log()))
	require.Equal(t, []string{"middle at middle: One moment.", "bottom at middle/bottom: " + answer, "bottom at middle/bottom: I see: and when?"}, speakers(middle.log()))
	require.Equal(t, []string{"top at top: One moment.", "middle at top/middle: One moment.\n\n" + answer, "middle at top/middle: I see: and when?"}, speakers(top.log()))
	require.Len(t, top.calls(), 1)
	require.Len(t, middle.calls(), 1)
	require.Len(t, bottom.calls(), 2)
}

// follow reads a stream in the background and passes on what it says of its events.
func follow(stream func(func(sdk.Event, error) bool)) <-chan string {
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for e, err := range stream {
			switch e := e.(type) {
			case *sdk.TaskArtifactUpdateEvent:
				lines <- e.Artifact.Name + ": " + e.Artifact.Parts[0].Text()
			case *sdk.TaskStatusUpdateEvent:
				lines <- string(e.Status.State)
			case *sdk.Task:
				lines <- "task " + string(e.ID)
			}
			if err != nil {
				lines <- "error: " + err.Error()
			}
		}
	}()
	return lines
}

func await(t *testing.T, lines <-chan string, text string) (seen []string) {
	t.Helper()
	for deadline := time.After(5 * time.Minute); ; {
		select {
		case l, ok := <-lines:
			require.True(t, ok, "the stream ended without %q: %q", text, seen)
			seen = append(seen, l)
			if strings.Contains(l, text) {
				return seen
			}
		case <-deadline:
			require.Fail(t, "nothing came", "no %q in %q", text, seen)
		}
	}
}

// Who cancels at the top stops the work at the bottom.
func TestCancelThroughThreeLevels(t *testing.T) {
	top, middle, bottom := levels(t)
	lines := follow(top.client().SendStreamingMessage(limited(t), message("slow", "")))
	id := strings.TrimPrefix(await(t, lines, "task ")[0], "task ")
	await(t, lines, "Let me")
	task := must.Get(top.client().CancelTask(limited(t), &sdk.CancelTaskRequest{ID: sdk.TaskID(id)}))
	require.Equal(t, sdk.TaskStateCanceled, task.Status.State)
	await(t, lines, string(sdk.TaskStateCanceled))
	must.Wait(t, func() bool { return slices.Contains(bottom.calls(), "canceled") })
	for _, p := range []*process{top, middle, bottom} {
		client := p.client()
		must.Wait(t, func() bool {
			list, err := client.ListTasks(limited(t), &sdk.ListTasksRequest{})
			return err == nil && len(list.Tasks) == 1 && list.Tasks[0].Status.State == sdk.TaskStateCanceled
		})
	}
	bottom.open() // what was not answered is asked again
	next := top.send("and now?", task.ContextID)
	require.Equal(t, sdk.TaskStateCompleted, next.Status.State)
	require.True(t, strings.HasSuffix(words(next)[0], "and now?"), words(next))
}

// The process in the middle is killed while the bottom answers, and started again: the
// turn goes on at the top, and neither the middle's nor the bottom's model is asked twice.
func TestMiddleDiesInMidTurn(t *testing.T) {
	top, middle, bottom := levels(t)
	lines := follow(top.client().SendStreamingMessage(limited(t), message("slow", "")))
	id := strings.TrimPrefix(await(t, lines, "task ")[0], "task ")
	await(t, lines, "Let me")
	middle.kill()
	middle.start()
	bottom.open()
	await(t, lines, string(sdk.TaskStateCompleted))
	task := must.Get(top.client().GetTask(limited(t), &sdk.GetTaskRequest{ID: sdk.TaskID(id)}))
	require.Len(t, task.Artifacts, 2)
	require.Equal(t, "One moment.\n\nLet me see: slow\n[top] One moment.\n[middle] One moment.", task.Artifacts[1].Parts[0].Text())
	require.Len(t, top.calls(), 1)
	require.Len(t, middle.calls(), 1)
	require.Len(t, bottom.calls(), 1)
	require.Equal(t, sdk.TaskStateCompleted, top.send("and now?", task.ContextID).Status.State)
	require.Equal(t, []string{"asked and now?"}, bottom.calls()[1:])
	for _, p := range []*process{top, middle, bottom} {
		starts := 0
		for _, e := range p.log() {
			if e.Type() == event.TypeUser {
				starts++
			}
		}
		require.Equal(t, 2, starts, p.Name)
	}
}
