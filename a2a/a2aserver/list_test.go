package a2aserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// A page of tasks that hold much is short, and the rest is on the next ones.
func TestPageOfLargeTasks(t *testing.T) {
	script := scripted.New()
	for range 5 {
		script.Add("a", scripted.Reply(scripted.Text("Read.")))
	}
	a := must.Get(llmagent.New("a", "Read.", script.Model("a")))
	h := newTestServer(t, a, session.NewMemory()).RequestHandler()
	ctx := context.Background()
	for i := range 5 {
		sendTask(t, h, ctx, userMessage(fmt.Sprint("m", i), strings.Repeat("word ", maxPage/11)))
	}
	seen, pages := make(map[sdk.TaskID]bool), 0
	for req := (&sdk.ListTasksRequest{}); ; {
		list := must.Get(h.ListTasks(ctx, req))
		require.Equal(t, 5, list.TotalSize)
		require.LessOrEqual(t, len(list.Tasks), 3)
		for _, task := range list.Tasks {
			require.False(t, seen[task.ID])
			seen[task.ID] = true
		}
		pages++
		if req.PageToken = list.NextPageToken; req.PageToken == "" {
			break
		}
	}
	require.Len(t, seen, 5)
	require.Equal(t, 2, pages)
	none := 0
	list := must.Get(h.ListTasks(ctx, &sdk.ListTasksRequest{HistoryLength: &none}))
	require.Len(t, list.Tasks, 5, "without their messages they are small")
}

// unreadable is a store with sessions that cannot be read behind some position.
type unreadable struct {
	session.Store
	after map[session.Key]int64
}

func (u *unreadable) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		end, damaged := u.after[key]
		for e, err := range u.Store.Load(ctx, key, after) {
			if damaged && e.Seq > end {
				yield(nil, errors.New("event 2 is damaged: the user's secret"))
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// A session that cannot be read is nobody else's loss: its tasks are left out of lists,
// and the log says so once, without what the session holds.
func TestListWithoutUnreadableSessions(t *testing.T) {
	store := &unreadable{Store: sessiontest.Memory(t), after: make(map[session.Key]int64)}
	var log bytes.Buffer
	a := must.Get(llmagent.New("a", "Answer.", scripted.Always("a", scripted.Reply(scripted.Text("Yes.")))))
	h := newTestServer(t, a, store, WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).RequestHandler()
	ctx := context.Background()
	var tasks []*sdk.Task
	for i := range 6 {
		tasks = append(tasks, sendTask(t, h, ctx, userMessage(fmt.Sprint("m", i), "hi")))
	}
	listed := func(size int) (ids []sdk.TaskID) {
		t.Helper()
		req := &sdk.ListTasksRequest{PageSize: size}
		for {
			list := must.Get(h.ListTasks(ctx, req))
			for _, task := range list.Tasks {
				ids = append(ids, task.ID)
			}
			if req.PageToken = list.NextPageToken; req.PageToken == "" {
				return ids
			}
		}
	}
	require.Len(t, listed(50), 6)

	store.after[session.ID(tasks[4].ContextID)] = 0 // of which the server knows
	for _, size := range []int{1, 2, 50} {
		require.Equal(t, []sdk.TaskID{tasks[5].ID, tasks[3].ID, tasks[2].ID, tasks[1].ID, tasks[0].ID}, listed(size))
	}
	log.Reset()
	h = newTestServer(t, a, store, WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).RequestHandler()
	store.after[session.ID(tasks[2].ContextID)] = 1
	for _, size := range []int{1, 2, 50} {
		require.Equal(t, []sdk.TaskID{tasks[5].ID, tasks[3].ID, tasks[1].ID, tasks[0].ID}, listed(size))
	}
	require.Equal(t, 2, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), tasks[4].ContextID)
	require.Contains(t, log.String(), tasks[2].ContextID)
	require.NotContains(t, log.String(), "secret")

	clear(store.after) // it was restored from a backup
	require.Len(t, listed(2), 6)
}

// past is a store with sessions of several tasks, made by hand, whose writers' clocks are
// not the store's.
type past struct {
	*testing.T
	store *session.Memory
	now   time.Time
	rnd   *rand.Rand
	seqs  map[string]int64
	tasks map[sdk.TaskID]time.Time // of their states
	open  map[string]sdk.TaskID    // the last task of each context
}

func newPast(t *testing.T, seed uint64) *past {
	p := &past{T: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), rnd: rand.New(rand.NewPCG(seed, 0)),
		seqs: make(map[string]int64), tasks: make(map[sdk.TaskID]time.Time), open: make(map[string]sdk.TaskID)}
	p.store = session.NewMemory(session.WithClock(func() time.Time { return p.now }))
	return p
}

// task adds a task to a context; the writer's clock is up to a second before the store's,
// or behind it.
func (p *past) task(context string) {
	p.Helper()
	p.now = p.now.Add(time.Duration(p.rnd.IntN(3)) * 400 * time.Millisecond)
	at := p.now.Add(time.Duration(p.rnd.IntN(2000)-1000) * time.Millisecond)
	key, seq := session.ID(context), p.seqs[context]
	turn := fmt.Sprint("t", seq+1)
	entry := func(n int64, run string, data event.Data) *event.Event {
		return &event.Event{Seq: seq + n, ID: fmt.Sprint("e", seq+n), TurnID: turn, RunID: run, Agent: "a", Time: at, Data: data}
	}
	lease := must.Get(sessiontest.Acquire(p.Context(), p.store, key, session.Self()))
	require.NoError(p, sessiontest.Append(p.Context(), p.store, key, seq, lease, entry(1, "u"+turn, &event.User{}),
		entry(2, "r"+turn, &event.HarnessStart{AgentID: "a"}), entry(3, "r"+turn, &event.HarnessEnd{AgentID: "a", FinishReason: event.FinishReasonStop})))
	require.NoError(p, sessiontest.Release(p.Context(), p.store, key, lease))
	p.tasks[taskID(seq+1, turn, context)] = at
	p.seqs[context] = seq + 3
}

// Read page by page, a list has every task once, and in the order of their times as far
// as the clocks agree, whatever comes in between and however the tasks are spread over
// contexts.
func TestPagesOfAnyPast(t *testing.T) {
	for seed := range uint64(60) {
		p := newPast(t, seed)
		spread := []int{1, 3, 40, 120}[seed%4]
		for range 150 {
			p.task(fmt.Sprint("c", p.rnd.IntN(spread)))
		}
		a := must.Get(llmagent.New("a", "Answer.", scripted.Always("a", scripted.Reply(scripted.Text("Yes.")))))
		h := newTestServer(t, a, p.store, WithoutPush()).RequestHandler()
		before := len(p.tasks)
		want := make(map[sdk.TaskID]bool)
		for id := range p.tasks {
			want[id] = true
		}
		var last time.Time
		req := &sdk.ListTasksRequest{PageSize: 1 + p.rnd.IntN(30)}
		got := make(map[sdk.TaskID]bool)
		for pages := 0; ; pages++ {
			list := must.Get(h.ListTasks(t.Context(), req))
			require.LessOrEqual(t, len(list.Tasks), req.PageSize)
			require.GreaterOrEqual(t, list.TotalSize, before, "seed %d", seed)
			for _, task := range list.Tasks {
				require.False(t, got[task.ID], "seed %d: the task %s is on two pages", seed, task.ID)
				got[task.ID] = true
				at := *task.Status.Timestamp
				require.Equal(t, p.tasks[task.ID], at)
				if !last.IsZero() {
					require.Less(t, at.Sub(last), 2*time.Second, "seed %d", seed)
				}
				last = at
				delete(want, task.ID)
			}
			if req.PageToken = list.NextPageToken; req.PageToken == "" {
				break
			}
			require.Less(t, pages, 400)
			for range p.rnd.IntN(3) {
				p.task(fmt.Sprint("c", p.rnd.IntN(spread+1)))
			}
		}
		require.Empty(t, want, "seed %d: tasks of before are on no page", seed)
	}
}

// Whatever a client makes of a page token, it gets a page of its own tasks, or is told
// that the token is none.
func TestAnyPageToken(t *testing.T) {
	p := newPast(t, 1)
	for i := range 30 {
		p.task(fmt.Sprint("c", i%7))
	}
	a := must.Get(llmagent.New("a", "Answer.", scripted.Always("a", scripted.Reply(scripted.Text("Yes.")))))
	h := newTestServer(t, a, p.store, WithoutPush()).RequestHandler()
	for _, token := range []string{"x", "{}", `{"a":{"u":1,"c":""}}`, `{"a":{"u":1,"c":"\u0000"}}`, `{"a":{"u":1,"c":"x"},"n":-1}`, `{"a":{"u":1,"c":"x"},"n":99999999999}`,
		`{"a":{"u":1,"c":"x"},"l":["a\u0000"]}`, `{"a":{"u":1,"c":"x"},"l":[""]}`, `{"a":{"u":1,"c":"x"},"l":[` + strings.Repeat(`"x",`, 100) + `"x"]}`} {
		_, err := h.ListTasks(t.Context(), &sdk.ListTasksRequest{PageToken: base64.RawURLEncoding.EncodeToString([]byte(token))})
		require.ErrorIs(t, err, sdk.ErrInvalidParams, token)
	}
	for _, token := range []string{`{"a":{"u":9223372036854775807,"c":"x"}}`, `{"a":{"u":-9223372036854775808,"c":"x"},"t":9223372036854775807,"i":"?"}`,
		`{"a":{"u":5,"c":"x"},"f":{"u":9223372036854775807,"c":"y"},"r":{"u":-9223372036854775808,"c":"z"},"l":["c1","c1","../..","nobody"]}`} {
		list, err := h.ListTasks(t.Context(), &sdk.ListTasksRequest{PageToken: base64.RawURLEncoding.EncodeToString([]byte(token))})
		require.NoError(t, err, token)
		require.LessOrEqual(t, len(list.Tasks), 30)
		ids := make([]sdk.TaskID, len(list.Tasks))
		for i, task := range list.Tasks {
			ids[i] = task.ID
		}
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(ids))), len(ids))
	}
	list := must.Get(h.ListTasks(t.Context(), &sdk.ListTasksRequest{ContextID: "a\x00b"}))
	require.Empty(t, list.Tasks)
}

// A page for which few tasks are found ends early, and the next one goes on behind what
// was looked at. A list of what changed lately looks at nothing older.
func TestListThatFindsLittle(t *testing.T) {
	p := newPast(t, 1)
	a := must.Get(llmagent.New("a", "Answer.", scripted.Always("a", scripted.Reply(scripted.Text("Yes.")))))
	lease := must.Get(sessiontest.Acquire(t.Context(), p.store, session.ID("asks"), session.Self()))
	require.NoError(t, sessiontest.Append(t.Context(), p.store, session.ID("asks"), 0, lease, &event.Event{Seq: 1, ID: "u", TurnID: "t", RunID: "u", Time: p.now, Data: &event.User{}}))
	for i := range maxWalk + 500 {
		p.task(fmt.Sprint("c", i))
	}
	h := newTestServer(t, a, p.store, WithoutPush()).RequestHandler()
	req := &sdk.ListTasksRequest{Status: sdk.TaskStateSubmitted}
	list := must.Get(h.ListTasks(t.Context(), req))
	require.Empty(t, list.Tasks)
	require.NotEmpty(t, list.NextPageToken)
	req.PageToken = list.NextPageToken
	list = must.Get(h.ListTasks(t.Context(), req))
	require.Len(t, list.Tasks, 1)
	require.Equal(t, 1, list.TotalSize)
	require.Empty(t, list.NextPageToken)

	list = must.Get(h.ListTasks(t.Context(), &sdk.ListTasksRequest{PageSize: 10}))
	require.Equal(t, maxCounted, list.TotalSize, "the least that there are")
	late := p.now.Add(-time.Second)
	list = must.Get(h.ListTasks(t.Context(), &sdk.ListTasksRequest{Status: sdk.TaskStateSubmitted, StatusTimestampAfter: &late}))
	require.Empty(t, list.Tasks)
	require.Empty(t, list.NextPageToken)
}
