package a2aserver

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
)

var (
	hostileSeeds = flag.Int("hostile.seeds", 4, "how many storms TestHostileClients raises")
	hostileSteps = flag.Int("hostile.steps", 60, "how many operations each client of a storm makes")
	hostileSeed  = flag.Uint64("hostile.seed", 0, "the first storm's seed")
)

// TestHostileClients has several clients of several callers do whatever comes to their
// minds, cancel at any moment, and restart the server under each other's hands. Whatever
// they do: nothing panics, every error is one of the protocol's, a task that is over stays
// as it is, streams end and tell what the task is, lists and tasks agree, every task can
// be brought to rest, and no goroutine is left.
func TestHostileClients(t *testing.T) {
	for i := range *hostileSeeds {
		seed := *hostileSeed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { storm(t, seed, *hostileSteps) })
	}
}

// FuzzHostileClients finds other storms.
func FuzzHostileClients(f *testing.F) {
	f.Add([]byte("storm"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var seed [8]byte
		copy(seed[:], data)
		storm(t, binary.LittleEndian.Uint64(seed[:]), 5+len(data)%40)
	})
}

// sea is a server that many clients use and restart.
type sea struct {
	t     testing.TB
	store session.Store
	root  agent.Agent

	restarting sync.Mutex
	server     atomic.Pointer[Server]

	mu    sync.Mutex
	tasks map[string][]sdk.TaskID // by caller
	ctxs  []string
	over  map[sdk.TaskID]sdk.TaskState
	free  chan struct{} // closed when what waits is to go on
}

var hostileCallers = []string{"ann", "bob", "cleo"}

func storm(t testing.TB, seed uint64, steps int) {
	w := &sea{t: t, store: sessiontest.Memory(t), tasks: make(map[string][]sdk.TaskID), over: make(map[sdk.TaskID]sdk.TaskState), free: make(chan struct{})}
	if seed%2 == 1 {
		db := must.Get(sqlite.Open(filepath.Join(t.TempDir(), "s.db")))
		w.store = db
		defer func() { require.NoError(t, db.Close()) }()
	}
	w.root = w.tree()
	before := runtime.NumGoroutine()
	w.server.Store(w.serve())
	var clients sync.WaitGroup
	for i := range 2 * len(hostileCallers) {
		clients.Go(func() {
			c := &hostile{sea: w, caller: hostileCallers[i%len(hostileCallers)], r: rand.New(rand.NewPCG(seed, uint64(i)))}
			for range steps {
				if t.Failed() {
					return
				}
				c.step()
			}
		})
	}
	clients.Wait()
	close(w.free)
	if !t.Failed() {
		w.calm()
	}
	states := make(map[sdk.TaskState]int)
	for _, state := range w.over {
		states[state]++
	}
	t.Logf("%d steps, tasks that are over: %v", 2*len(hostileCallers)*steps, states)
	require.NoError(t, w.server.Load().Close(context.Background()))
	if !within(time.Minute, func() bool { return runtime.NumGoroutine() <= before }) {
		buf := make([]byte, 1<<20)
		t.Errorf("goroutines are left, %d before, %d now:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
	}
}

// within looks for something of which nobody tells, such as that goroutines are gone.
func within(d time.Duration, done func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(d)
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			return false
		}
	}
	return true
}

func (w *sea) serve() *Server {
	return must.Get(New(w.root, w.store, WithWait(20*time.Millisecond), WithLogger(slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))), WithPush(push.Options{AllowHTTP: true, AllowLoopback: true, GiveUpAfter: 50 * time.Millisecond})))
}

// restart stops the server, at once or after its turns, and starts a successor.
func (w *sea) restart() {
	w.restarting.Lock()
	defer w.restarting.Unlock()
	if err := w.server.Load().Close(context.Background()); err != nil {
		w.t.Errorf("the server does not stop: %v", err)
	}
	w.server.Store(w.serve())
}

// tree has an agent that does what it is told, and one to which it hands over.
func (w *sea) tree() agent.Agent {
	check := must.Get(tools.Func("check", "Checks.", func(tools.Context, struct{}) (string, error) { return "checked", nil }, tools.NeedsApproval(tools.ByUser())))
	answer := func(name string) llm.Model {
		return scripted.Func(name, func(req *llm.Request) scripted.Answer {
			last := req.Messages[len(req.Messages)-1]
			text := last.PlainText()
			switch {
			case last.Role == llm.RoleTool:
				return scripted.Reply(scripted.Text("Thank ", "you."))
			case strings.Contains(text, "both"):
				return scripted.Reply(scripted.Text("May I?"), scripted.Call("check", `{}`), scripted.Call("check", `{}`))
			case strings.Contains(text, "ask"):
				return scripted.Reply(scripted.Call("check", `{}`))
			case strings.Contains(text, "wait"):
				return scripted.Reply(scripted.Text("begun "), scripted.Wait(func(ctx context.Context) error {
					select {
					case <-w.free:
						return nil
					case <-time.After(25 * time.Millisecond): // others cancel it before, or not
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}), scripted.Text("and ", "done"))
			case strings.Contains(text, "fail"):
				return scripted.Reply(scripted.Text("I "), scripted.Status(http.StatusBadRequest, 0))
			case strings.Contains(text, "over") && name == "root":
				return scripted.Reply(scripted.Text("Over."), scripted.Call(agent.TransferTool, `{"agent_name":"desk"}`))
			case strings.Contains(text, "back") && name == "desk":
				return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"root"}`))
			case strings.Contains(text, "nothing"):
				return scripted.Reply()
			}
			return scripted.Reply(scripted.Text("I ", "hear ", "you."))
		})
	}
	desk := must.Get(llmagent.New("desk", "You obey.", answer("desk"), llmagent.WithTools(check), llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})))
	return must.Get(llmagent.New("root", "You obey.", answer("root"), llmagent.WithTools(check), llmagent.WithSubAgents(desk)))
}

// ended notes that a task was seen in a state, by an operation that began when the tasks
// in known were over, and complains about those that were and are not.
func (w *sea) seen(id sdk.TaskID, state sdk.TaskState, known map[sdk.TaskID]sdk.TaskState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was, ok := known[id]; ok && was != state {
		w.t.Errorf("task %s was %s and is %s", id, was, state)
	}
	if !state.Terminal() {
		return
	}
	if was, ok := w.over[id]; ok && was != state {
		w.t.Errorf("task %s ended as %s and as %s", id, was, state)
	}
	w.over[id] = state
}

func (w *sea) known() map[sdk.TaskID]sdk.TaskState {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := make(map[sdk.TaskID]sdk.TaskState, len(w.over))
	for k, v := range w.over {
		known[k] = v
	}
	return known
}

// hostile is one client.
type hostile struct {
	*sea
	caller string
	r      *rand.Rand
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func (c *hostile) step() {
	ctx := withCaller(context.Background(), c.caller)
	if c.r.IntN(3) == 0 {
		ctx = withCaller(withExtension(context.Background()), c.caller)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	defer func(whole context.Context) {
		if whole.Err() != nil {
			c.t.Error("an operation took more than a minute")
		}
	}(ctx)
	if c.r.IntN(3) == 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(c.r.IntN(2000))*time.Microsecond)
		defer stop()
	}
	h := c.server.Load().RequestHandler()
	known := c.known()
	switch n := c.r.IntN(100); {
	case n < 25:
		res, err := h.SendMessage(ctx, c.request())
		c.check(ctx, "SendMessage", err)
		if task, ok := res.(*sdk.Task); ok && err == nil {
			c.task(task, known)
		}
	case n < 45:
		c.stream(ctx, h, known, func(yield func(sdk.Event, error) bool) { h.SendStreamingMessage(ctx, c.request())(yield) })
	case n < 57:
		id := c.taskID()
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond) // perhaps nobody answers what the task asks
		defer cancel()
		c.stream(ctx, h, known, func(yield func(sdk.Event, error) bool) {
			h.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id})(yield)
		})
	case n < 70:
		task, err := h.GetTask(ctx, &sdk.GetTaskRequest{ID: c.taskID(), HistoryLength: c.length()})
		c.check(ctx, "GetTask", err)
		if err == nil {
			c.task(task, known)
		}
	case n < 82:
		task, err := h.CancelTask(ctx, &sdk.CancelTaskRequest{ID: c.taskID()})
		c.check(ctx, "CancelTask", err)
		if err == nil {
			if task.Status.State != sdk.TaskStateCanceled {
				c.t.Errorf("a canceled task is %s", task.Status.State)
			}
			c.task(task, known)
		}
	case n < 90:
		res, err := h.ListTasks(ctx, &sdk.ListTasksRequest{PageSize: c.r.IntN(102), ContextID: pick(c.r, "", c.context()), HistoryLength: c.length(),
			IncludeArtifacts: c.r.IntN(2) == 0, Status: pick(c.r, "", sdk.TaskStateCompleted, sdk.TaskStateWorking, "odd"), PageToken: pick(c.r, "", "", "x")})
		c.check(ctx, "ListTasks", err)
		if err == nil {
			for _, task := range res.Tasks {
				c.task(task, known)
			}
		}
	case n < 98:
		id := c.taskID()
		cfg, err := h.CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: id, ID: pick(c.r, "", "a"), URL: pick(c.r, "http://127.0.0.1:1/", "x", "https://example.com:99999/")})
		c.check(ctx, "CreateTaskPushConfig", err)
		_, err = h.ListTaskPushConfigs(ctx, &sdk.ListTaskPushConfigRequest{TaskID: id})
		c.check(ctx, "ListTaskPushConfigs", err)
		if cfg != nil {
			_, err = h.GetTaskPushConfig(ctx, &sdk.GetTaskPushConfigRequest{TaskID: id, ID: cfg.ID})
			c.check(ctx, "GetTaskPushConfig", err)
			c.check(ctx, "DeleteTaskPushConfig", h.DeleteTaskPushConfig(ctx, &sdk.DeleteTaskPushConfigRequest{TaskID: id, ID: cfg.ID}))
		}
	case n == 99:
		c.restart()
	}
}

// request is a message, or something like it.
func (c *hostile) request() *sdk.SendMessageRequest {
	words := pick(c.r, "hello", "wait", "wait", "ask", "both", "yes", "yes", "no", "fail", "over", "over wait", "back", "nothing", "hi", "")
	m := userMessage(fmt.Sprintf("m%d", c.r.IntN(2000)), words)
	switch c.r.IntN(40) {
	case 0:
		m.Parts = nil
	case 1:
		m.Parts = append(m.Parts, nil)
	case 2:
		m.Parts = append(m.Parts, sdk.NewDataPart(map[string]any{"callId": pick(c.r, "x", ""), "approved": pick[any](c.r, true, "yes", nil)}))
	case 3:
		m.Parts = append(m.Parts, &sdk.Part{Content: sdk.Text("\xff")})
	case 4:
		m.Role = pick(c.r, sdk.MessageRoleAgent, "")
	case 5:
		m.Metadata = map[string]any{a2a.Extension: pick[any](c.r, "x", nil, map[string]any{"chain": []any{"a", 7, strings.Repeat("b", 600)}}, map[string]any{"chain": "a"})}
	case 6:
		m.ID = pick(c.r, "", strings.Repeat("x", 2000))
	}
	switch c.r.IntN(8) {
	case 0, 1:
		m.TaskID = c.taskID()
	case 2, 3:
		m.ContextID = c.context()
	case 4:
		m.TaskID, m.ContextID = c.taskID(), c.context()
	}
	req := &sdk.SendMessageRequest{Message: m}
	if c.r.IntN(2) == 0 {
		req.Config = &sdk.SendMessageConfig{ReturnImmediately: c.r.IntN(2) == 0, HistoryLength: c.length()}
		if c.r.IntN(6) == 0 {
			req.Config.PushConfig = &sdk.PushConfig{URL: pick(c.r, "http://127.0.0.1:1/", "x")}
		}
	}
	if c.r.IntN(40) == 0 {
		req.Message = nil
	}
	return req
}

func (c *hostile) length() *int {
	return pick(c.r, nil, nil, new(int), func() *int { n := c.r.IntN(4) - 1; return &n }())
}

// taskID is a task of the client's caller, mostly.
func (c *hostile) taskID() sdk.TaskID {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.caller
	if c.r.IntN(8) == 0 {
		who = pick(c.r, hostileCallers...)
	}
	if ids := c.tasks[who]; len(ids) > 0 && c.r.IntN(12) > 0 {
		return ids[len(ids)-1-c.r.IntN(min(len(ids), 8))] // what happened lately
	}
	return pick(c.r, sdk.TaskID(""), "x", "1-a.b", "../..")
}

func (c *hostile) context() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ctxs) > 0 && c.r.IntN(8) > 0 {
		return c.ctxs[len(c.ctxs)-1-c.r.IntN(min(len(c.ctxs), 6))]
	}
	return pick(c.r, "mine", "a/b", strings.Repeat("x", 300), "\x00")
}

// task checks a task and remembers it.
func (c *hostile) task(task *sdk.Task, known map[sdk.TaskID]sdk.TaskState) {
	c.seen(task.ID, task.Status.State, known)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, who := range hostileCallers {
		if who != c.caller && slices.Contains(c.tasks[who], task.ID) && !strings.HasSuffix(string(task.ID), ".mine") {
			c.t.Errorf("%s sees a task of %s", c.caller, who)
		}
	}
	if !slices.Contains(c.tasks[c.caller], task.ID) {
		c.tasks[c.caller] = append(c.tasks[c.caller], task.ID)
		c.ctxs = append(c.ctxs, task.ContextID)
	}
}

// check requires that an error is one that clients may see.
func (c *hostile) check(ctx context.Context, operation string, err error) {
	var protocol *sdk.Error
	switch {
	case ctx.Err() != nil: // nobody hears it
		return
	case err == nil, errors.As(err, &protocol):
		if errors.Is(err, sdk.ErrInternalError) && c.server.Load().background.Err() == nil && !strings.Contains(err.Error(), "stopped") {
			c.t.Errorf("%s: %v", operation, err)
		}
		return
	}
	for _, known := range []error{sdk.ErrTaskNotFound, sdk.ErrPushNotificationNotSupported, sdk.ErrUnsupportedOperation, sdk.ErrInvalidParams, sdk.ErrTaskNotCancelable} {
		if errors.Is(err, known) {
			return
		}
	}
	c.t.Errorf("%s: %v", operation, err)
}

// stream reads a stream, perhaps to its end, and holds it against the task.
func (c *hostile) stream(ctx context.Context, h a2asrv.RequestHandler, known map[sdk.TaskID]sdk.TaskState, events func(func(sdk.Event, error) bool)) {
	left := -1
	if c.r.IntN(4) == 0 {
		left = c.r.IntN(5)
	}
	var f fold
	for e, err := range events {
		if err != nil {
			if f.task != nil && ctx.Err() == nil {
				c.t.Errorf("a stream broke: %v", err)
			}
			c.check(ctx, "a stream", err)
			return
		}
		if problem := f.add(e); problem != "" {
			c.t.Errorf("a stream: %s: %#v", problem, e)
			return
		}
		if task, ok := e.(*sdk.Task); ok {
			c.task(task, known)
		}
		if left--; left == 0 {
			return
		}
	}
	if f.task == nil || ctx.Err() != nil || !f.task.Status.State.Terminal() {
		return // stopped with the server, or waiting
	}
	task, err := h.GetTask(withCaller(context.Background(), c.caller), &sdk.GetTaskRequest{ID: f.task.ID})
	if err != nil {
		c.check(ctx, "GetTask after a stream", err)
		return
	}
	c.task(task, known)
	if problem := f.compare(task); problem != "" {
		c.t.Errorf("the stream and task %s differ: %s", task.ID, problem)
	}
}

// fold makes a task of the events of a stream.
type fold struct {
	task      *sdk.Task
	artifacts []*sdk.Artifact
}

func (f *fold) add(e sdk.Event) string {
	if f.task == nil {
		task, ok := e.(*sdk.Task)
		if !ok {
			return "it does not begin with the task"
		}
		own := *task
		f.task = &own
		for _, a := range task.Artifacts {
			own := *a
			f.artifacts = append(f.artifacts, &own)
		}
		return ""
	}
	if e.TaskInfo() != f.task.TaskInfo() {
		return "an event is another task's"
	}
	if f.task.Status.State.Terminal() {
		return "an event comes after the end"
	}
	switch e := e.(type) {
	case *sdk.TaskStatusUpdateEvent:
		f.task.Status = e.Status
	case *sdk.TaskArtifactUpdateEvent:
		i := slices.IndexFunc(f.artifacts, func(a *sdk.Artifact) bool { return a.ID == e.Artifact.ID })
		switch {
		case i < 0 && e.Append:
			return "an artifact is appended to that nobody knows"
		case i < 0:
			own := *e.Artifact
			f.artifacts = append(f.artifacts, &own)
		case e.Append:
			f.artifacts[i].Parts = slices.Concat(f.artifacts[i].Parts, e.Artifact.Parts)
		default:
			own := *e.Artifact
			f.artifacts[i] = &own
		}
	default:
		return "an event is of a kind that streams do not have"
	}
	return ""
}

// compare says how the task that a stream told of differs from what the task is.
// Artifacts that were taken back are empty on the stream, and not in the task.
func (f *fold) compare(task *sdk.Task) string {
	if f.task.Status.State != task.Status.State {
		return fmt.Sprintf("the states are %s and %s", f.task.Status.State, task.Status.State)
	}
	told, are := make(map[sdk.ArtifactID]string), make(map[sdk.ArtifactID]string)
	for _, a := range f.artifacts {
		if text := partsText(a.Parts); text != "" {
			told[a.ID] = text
		}
	}
	for _, a := range task.Artifacts {
		are[a.ID] = partsText(a.Parts)
	}
	for id, text := range are {
		if told[id] != text {
			return fmt.Sprintf("artifact %s was told as %q and is %q", id, told[id], text)
		}
	}
	for id, text := range told {
		if _, ok := are[id]; !ok {
			return fmt.Sprintf("artifact %s was told as %q and is not there", id, text)
		}
	}
	return ""
}

func partsText(parts sdk.ContentParts) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text())
	}
	return b.String()
}

// resume resumes the turns that no process adopts any more, because ten servers were stopped in them.
func (w *sea) resume() {
	infos := must.Get(w.store.List(context.Background(), session.Key{}, session.Page{Status: session.StatusOpen}))
	for _, info := range infos {
		if _, err := w.server.Load().trees[""].turns.Resume(context.Background(), info.Key); err != nil {
			require.ErrorIs(w.t, err, agent.ErrSessionBusy)
		}
	}
}

// calm brings all tasks to rest, and holds the lists against them.
func (w *sea) calm() {
	h := w.server.Load().RequestHandler()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	w.resume()
	for _, caller := range hostileCallers {
		ctx := withCaller(ctx, caller)
		listed := make(map[sdk.TaskID]*sdk.Task)
		token := ""
		for {
			res := must.Get(h.ListTasks(ctx, &sdk.ListTasksRequest{PageSize: 100, PageToken: token}))
			for _, task := range res.Tasks {
				require.Nil(w.t, listed[task.ID], "a task is in the list twice")
				listed[task.ID] = task
			}
			if token = res.NextPageToken; token == "" {
				break
			}
		}
		for _, id := range w.tasks[caller] {
			require.NotNil(w.t, listed[id], "a task is not in the list")
		}
		for id := range listed {
			task := must.Get(h.GetTask(ctx, &sdk.GetTaskRequest{ID: id}))
			if state := task.Status.State; !state.Terminal() && state != sdk.TaskStateInputRequired {
				for e, err := range h.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id}) {
					if err != nil {
						require.ErrorIs(w.t, err, sdk.ErrUnsupportedOperation, "it was over meanwhile")
					}
					if now, ok := e.(*sdk.Task); ok && now.Status.State == sdk.TaskStateInputRequired {
						break // it asked meanwhile, and no agent is left to answer
					}
				}
				task = must.Get(h.GetTask(ctx, &sdk.GetTaskRequest{ID: id}))
			}
			state := task.Status.State
			require.True(w.t, state.Terminal() || state == sdk.TaskStateInputRequired, "task %s does not come to rest: %s", id, state)
			w.seen(id, state, w.known())
		}
		token = ""
		for {
			res, err := h.ListTasks(ctx, &sdk.ListTasksRequest{PageSize: 30, PageToken: token, IncludeArtifacts: true})
			require.NoError(w.t, err)
			for _, task := range res.Tasks {
				got := must.Get(h.GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID}))
				if len(got.Artifacts) == 0 {
					got.Artifacts = task.Artifacts
				}
				require.Equal(w.t, got, task)
			}
			if token = res.NextPageToken; token == "" {
				break
			}
		}
	}
}
