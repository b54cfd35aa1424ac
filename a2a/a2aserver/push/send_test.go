package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/a2a/internal/testing/webhooktest"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// quickly makes a sender for a receiver, whose pauses are short.
func quickly(t testing.TB, r *webhooktest.Receiver, opts Options, with ...deps) *Sender {
	opts.AllowLoopback, opts.TLS = true, r.TLSConfig()
	p := newSender(t, opts, with...)
	p.poster.First, p.poster.Most = time.Millisecond, 2*time.Millisecond
	return p
}

func follow(t testing.TB, p *Sender, task Task, cfg sdk.PushConfig) *webhook {
	saved := must.Get(p.Save(t.Context(), task, sdk.Version, &cfg))
	return p.find(task, saved.ID)
}

func drain(t testing.TB, p *Sender) {
	require.NoError(t, p.Close(context.Background()))
}

func status(task Task, state sdk.TaskState) *sdk.TaskStatusUpdateEvent {
	return &sdk.TaskStatusUpdateEvent{TaskID: task.Task, ContextID: "context", Status: sdk.TaskStatus{State: state}}
}

func words(task Task, id string, add bool, texts ...string) *sdk.TaskArtifactUpdateEvent {
	u := &sdk.TaskArtifactUpdateEvent{TaskID: task.Task, ContextID: "context", Append: add, Artifact: &sdk.Artifact{ID: sdk.ArtifactID(id)}}
	for _, text := range texts {
		u.Artifact.Parts = append(u.Artifact.Parts, sdk.NewTextPart(text))
	}
	return u
}

func snapshotOf(task Task, state sdk.TaskState) func() *sdk.Task {
	return func() *sdk.Task {
		return &sdk.Task{ID: task.Task, ContextID: "context", Status: sdk.TaskStatus{State: state}}
	}
}

func TestPushIsPosted(t *testing.T) {
	r := webhooktest.New(t, nil)
	p := quickly(t, r, Options{})
	task := aTask("alice")
	follow(t, p, task, sdk.PushConfig{URL: r.URL + "/hook?x=1", Token: "TOKEN", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "CREDENTIALS"}})

	started := status(task, sdk.TaskStateWorking)
	p.Notify(task, started, snapshotOf(task, sdk.TaskStateWorking))
	got := r.Next(t)
	require.Equal(t, "application/a2a+json", got.Header.Get("Content-Type"))
	require.Equal(t, "TOKEN", got.Header.Get("X-A2A-Notification-Token"))
	require.Equal(t, "Bearer CREDENTIALS", got.Header.Get("Authorization"))
	require.Equal(t, started, got.Event)
	m := must.JSON[map[string]any](got.Body)
	require.Len(t, m, 1)
	require.Contains(t, m, "statusUpdate")

	// Every kind of event; others' are not posted.
	p.Notify(aTask("bob"), started, nil2)
	for _, e := range []sdk.Event{
		&sdk.Message{ID: "m", Role: sdk.MessageRoleAgent, Parts: sdk.ContentParts{sdk.NewTextPart("hi")}},
		words(task, "a", false, "hi"),
		snapshotOf(task, sdk.TaskStateCompleted)(),
	} {
		p.Notify(task, e, snapshotOf(task, sdk.TaskStateWorking))
		require.Equal(t, e, r.Next(t).Event)
	}
	drain(t, p)
	require.Empty(t, r.Got)
}

func TestPushWithoutSecrets(t *testing.T) {
	r := webhooktest.New(t, nil)
	p := quickly(t, r, Options{})
	task := aTask("alice")
	follow(t, p, task, sdk.PushConfig{URL: r.URL})
	p.Notify(task, status(task, sdk.TaskStateWorking), snapshotOf(task, sdk.TaskStateWorking))
	got := r.Next(t)
	require.NotContains(t, got.Header, "Authorization")
	require.NotContains(t, got.Header, "X-A2a-Notification-Token")
}

func TestPushKeepsOrder(t *testing.T) {
	// The second webhook fails at first, which must not hold up or reorder anything.
	var fails atomic.Int32
	a := webhooktest.New(t, nil)
	b := webhooktest.New(t, func(w http.ResponseWriter, _ *http.Request) {
		if fails.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	p := quickly(t, a, Options{queue: 1000})
	task := aTask("alice")
	follow(t, p, task, sdk.PushConfig{URL: a.URL})
	follow(t, p, task, sdk.PushConfig{URL: b.URL})
	const n = 50
	for i := range n {
		u := status(task, sdk.TaskStateWorking)
		u.Metadata = map[string]any{"n": float64(i)}
		p.Notify(task, u, snapshotOf(task, sdk.TaskStateWorking))
	}
	drain(t, p)
	for _, r := range []*webhooktest.Receiver{a, b} {
		var order []float64
		for len(r.Got) > 0 {
			order = append(order, r.Next(t).Event.Meta()["n"].(float64))
		}
		require.True(t, slices.IsSorted(order))
		require.Len(t, slices.Compact(order), n)
	}
	require.Equal(t, int32(3*n), fails.Load())
}

// script answers with one status after the other.
func script(codes ...int) http.HandlerFunc {
	var n atomic.Int32
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(codes[min(int(n.Add(1)), len(codes))-1])
	}
}

func TestPushIsTriedAgain(t *testing.T) {
	for codes, tries := range map[[3]int]int{
		{200, 200, 200}: 1, {204, 200, 200}: 1, {500, 503, 200}: 3, {429, 200, 200}: 2, {408, 200, 200}: 2, {425, 502, 299}: 3,
		{400, 200, 200}: 1, {401, 200, 200}: 1, {404, 200, 200}: 1, {410, 200, 200}: 1, {301, 200, 200}: 1, {307, 200, 200}: 1, {500, 403, 200}: 2,
	} {
		r := webhooktest.New(t, script(codes[:]...))
		p := quickly(t, r, Options{})
		task := aTask("alice")
		follow(t, p, task, sdk.PushConfig{URL: r.URL})
		p.Notify(task, status(task, sdk.TaskStateCompleted), snapshotOf(task, sdk.TaskStateCompleted))
		drain(t, p)
		require.Len(t, r.Got, tries, codes)
		require.False(t, p.Follows(task), "told, or given up")
	}
}

// transport answers without a network, for tests in which time is not real.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(code int, header ...string) (*http.Response, error) {
	h := make(http.Header)
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: http.NoBody}, nil
}

func TestPushPauses(t *testing.T) {
	run := func(t *testing.T, opts Options, f func(n int) (*http.Response, error)) (times []time.Duration, p *Sender) {
		p = must.Get(New(opts, nil, nil))
		begin, n := time.Now(), 0
		p.poster.Client.Transport = transport(func(*http.Request) (*http.Response, error) {
			times = append(times, time.Since(begin))
			n++
			return f(n)
		})
		task := aTask("alice")
		follow(t, p, task, sdk.PushConfig{URL: hookURL})
		p.Notify(task, status(task, sdk.TaskStateCompleted), snapshotOf(task, sdk.TaskStateCompleted))
		require.NoError(t, p.Close(context.Background()))
		require.False(t, p.Follows(task))
		return times, p
	}
	t.Run("grow, and there is an end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			times, _ := run(t, Options{}, func(int) (*http.Response, error) { return answer(503) })
			require.Zero(t, times[0])
			for i := 1; i < len(times); i++ {
				mean := min(float64(time.Second)*pow(1.5, i-1), float64(time.Minute))
				pause := float64(times[i] - times[i-1])
				require.InDelta(t, mean, pause, mean/2+1, "pause %d", i)
			}
			require.LessOrEqual(t, times[len(times)-1], 5*time.Minute)
			require.Greater(t, times[len(times)-1], 3*time.Minute)
		})
	})
	t.Run("are as long as the webhook asks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			times, _ := run(t, Options{}, func(n int) (*http.Response, error) {
				switch n {
				case 1:
					return answer(429, "Retry-After", "30")
				case 2:
					return answer(503, "Retry-After", begin.Add(2*time.Minute).UTC().Format(http.TimeFormat))
				}
				return answer(200)
			})
			require.Len(t, times, 3)
			require.Equal(t, 30*time.Second, times[1])
			require.InDelta(t, 2*time.Minute, times[2], float64(time.Second))
		})
	})
	t.Run("are not longer than the time that is left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			times, _ := run(t, Options{}, func(int) (*http.Response, error) { return answer(429, "Retry-After", "999999999999") })
			require.Equal(t, []time.Duration{0}, times)
		})
	})
	t.Run("an attempt has its time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := must.Get(New(Options{timeout: 20 * time.Second}, nil, nil))
			var waited []time.Duration
			p.poster.Client.Transport = transport(func(r *http.Request) (*http.Response, error) {
				begin := time.Now()
				<-r.Context().Done()
				waited = append(waited, time.Since(begin))
				return nil, r.Context().Err()
			})
			task := aTask("alice")
			follow(t, p, task, sdk.PushConfig{URL: hookURL})
			begin := time.Now()
			p.Notify(task, status(task, sdk.TaskStateCompleted), snapshotOf(task, sdk.TaskStateCompleted))
			require.NoError(t, p.Close(context.Background()))
			require.LessOrEqual(t, time.Since(begin), 5*time.Minute)
			require.Greater(t, len(waited), 3)
			require.Equal(t, 20*time.Second, waited[0])
		})
	})
}

func pow(x float64, n int) float64 {
	y := 1.0
	for range n {
		y *= x
	}
	return y
}

func TestPushFollowsNoRedirects(t *testing.T) {
	second := webhooktest.New(t, nil)
	first := webhooktest.New(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, second.URL, http.StatusTemporaryRedirect)
	})
	p := quickly(t, first, Options{})
	task := aTask("alice")
	follow(t, p, task, sdk.PushConfig{URL: first.URL, Token: "TOKEN"})
	p.Notify(task, status(task, sdk.TaskStateWorking), snapshotOf(task, sdk.TaskStateWorking))
	drain(t, p)
	require.Len(t, first.Got, 1)
	require.Empty(t, second.Got)
}

// A name that is public when the config is made, and leads into our own network
// when the connection is: only the guard at the dial sees it.
func TestPushGuardsTheDial(t *testing.T) {
	r := webhooktest.New(t, nil)
	_, port, err := net.SplitHostPort(r.Listener.Addr().String())
	require.NoError(t, err)
	var asked atomic.Int32
	resolver := nameServer(t, func(string) netip.Addr {
		asked.Add(1)
		return netip.MustParseAddr("127.0.0.1")
	})
	var log bytes.Buffer
	p := newSender(t, Options{TLS: r.TLSConfig(), resolver: resolver}, deps{log: slog.New(slog.NewTextHandler(&log, nil))})
	task := aTask("alice")
	follow(t, p, task, sdk.PushConfig{URL: "https://rebinding.example:" + port + "/?secret=QUERY", Token: "TOKEN"})
	p.Notify(task, status(task, sdk.TaskStateCompleted), snapshotOf(task, sdk.TaskStateCompleted))
	drain(t, p)
	require.Empty(t, r.Got)
	require.Positive(t, asked.Load())
	require.Contains(t, log.String(), "loopback")
	require.NotContains(t, log.String(), "QUERY")
	require.False(t, p.Follows(task), "there is no use in trying again")

	// The same with loopback allowed: it was the guard.
	cfg := r.TLSConfig().Clone()
	cfg.ServerName = "example.com"
	p = newSender(t, Options{TLS: cfg, resolver: resolver, AllowLoopback: true})
	follow(t, p, task, sdk.PushConfig{URL: "https://rebinding.example:" + port + "/"})
	p.Notify(task, status(task, sdk.TaskStateCompleted), snapshotOf(task, sdk.TaskStateCompleted))
	r.Next(t)

	// And with the address allowed by name.
	p = newSender(t, Options{TLS: cfg, resolver: resolver, AllowAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	follow(t, p, task, sdk.PushConfig{URL: "https://rebinding.example:" + port + "/"})
	p.Notify(task, status(task, sdk.TaskStateCompleted), snapshotOf(task, sdk.TaskStateCompleted))
	r.Next(t)
}

// nameServer is a resolver of the only server of names that a test knows.
func nameServer(t testing.TB, lookup func(name string) netip.Addr) *net.Resolver {
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			if q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0},
					Body:   &dnsmessage.AResource{A: lookup(q.Name.String()).As4()},
				}}
			}
			if b, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(b, from)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestPushIgnoresTheAnswer(t *testing.T) {
	released := make(chan int)
	r := webhooktest.New(t, func(w http.ResponseWriter, req *http.Request) {
		n := 0 // of an answer without an end
		for req.Context().Err() == nil {
			m, err := w.Write(make([]byte, 1024))
			if n += m; err != nil {
				break
			}
		}
		released <- n
	})
	p := quickly(t, r, Options{})
	task := aTask("alice")
	follow(t, p, task, sdk.PushConfig{URL: r.URL})
	p.Notify(task, status(task, sdk.TaskStateCompleted), snapshotOf(task, sdk.TaskStateCompleted))
	require.Less(t, <-released, 64<<20)
	drain(t, p)
	require.Len(t, r.Got, 1)
	require.False(t, p.Follows(task))
}

// held is a webhook that answers when it is told to.
func held(t testing.TB) (r *webhooktest.Receiver, release func()) {
	ch := make(chan struct{})
	r = webhooktest.New(t, func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-ch:
		case <-req.Context().Done():
		}
	})
	return r, sync.OnceFunc(func() { close(ch) })
}

func TestSlowWebhookGetsASnapshot(t *testing.T) {
	slow, release := held(t)
	quick := webhooktest.New(t, nil)
	defer release()
	p := quickly(t, slow, Options{queue: 4})
	task := aTask("alice")
	follow(t, p, task, sdk.PushConfig{URL: slow.URL})
	other := aTask("bob")
	follow(t, p, other, sdk.PushConfig{URL: quick.URL})
	p.Notify(task, status(task, sdk.TaskStateWorking), nil2)
	slow.Next(t) // is in hand, and stays so
	p.Notify(other, status(other, sdk.TaskStateWorking), nil2)
	quick.Next(t) // which is nothing to others

	asked := 0
	for i := range 1002 {
		u := status(task, sdk.TaskStateWorking)
		u.Metadata = map[string]any{"n": float64(i)}
		p.Notify(task, u, func() *sdk.Task {
			asked++
			s := snapshotOf(task, sdk.TaskStateWorking)()
			s.Metadata = u.Metadata
			return s
		})
	}
	p.Notify(task, status(task, sdk.TaskStateCompleted), snapshotOf(task, sdk.TaskStateCompleted))
	release()
	drain(t, p)
	require.Equal(t, 1000/4, asked, "one snapshot for a queue full of events")

	var got []sdk.Event
	for len(slow.Got) > 0 {
		got = append(got, slow.Next(t).Event)
	}
	require.Len(t, got, 3)
	_, ok := got[0].(*sdk.Task)
	require.True(t, ok)
	last := float64(-1)
	for i, e := range got[:len(got)-1] { // what follows the snapshot follows it without a gap
		n := e.Meta()["n"].(float64)
		if i > 0 {
			require.Equal(t, last+1, n)
		}
		last = n
	}
	require.Equal(t, 1001.0, last)
	require.Equal(t, status(task, sdk.TaskStateCompleted), got[len(got)-1])
}

func TestWaitingUpdatesAreJoined(t *testing.T) {
	slow, release := held(t)
	defer release()
	p := quickly(t, slow, Options{queue: 4})
	task := aTask("alice")
	follow(t, p, task, sdk.PushConfig{URL: slow.URL})
	p.Notify(task, status(task, sdk.TaskStateWorking), nil2)
	slow.Next(t)

	events := []*sdk.TaskArtifactUpdateEvent{words(task, "a", false, "0")}
	for i := 1; i < 100; i++ {
		events = append(events, words(task, "a", true, fmt.Sprint(i)))
	}
	last := words(task, "a", true, "100")
	last.LastChunk = true
	events = append(events, last, words(task, "b", false, "other"))
	for _, e := range events {
		p.Notify(task, e, nil2)
	}
	release()
	drain(t, p)
	require.Len(t, slow.Got, 2)
	one := slow.Next(t).Event.(*sdk.TaskArtifactUpdateEvent)
	require.False(t, one.Append)
	require.True(t, one.LastChunk)
	require.Len(t, one.Artifact.Parts, 101)
	require.Equal(t, "100", one.Artifact.Parts[100].Text())
	require.Len(t, events[0].Artifact.Parts, 1, "events are shared with others, and stay as they are")
	require.Equal(t, sdk.ArtifactID("b"), slow.Next(t).Event.(*sdk.TaskArtifactUpdateEvent).Artifact.ID)
}

// nil2 fails a test that needs a snapshot where none may be needed.
func nil2() *sdk.Task { panic("a snapshot was asked for") }

// apply does what an update does to the artifacts of a receiver.
func apply(have map[sdk.ArtifactID]sdk.Artifact, u *sdk.TaskArtifactUpdateEvent) {
	a := *u.Artifact
	if old, ok := have[a.ID]; ok && u.Append {
		old.Parts = slices.Concat(old.Parts, a.Parts)
		a = old
	}
	have[a.ID] = a
}

func TestJoiningChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := aTask("alice")
		var joined []sdk.Event
		want, got := make(map[sdk.ArtifactID]sdk.Artifact), make(map[sdk.ArtifactID]sdk.Artifact)
		for i := range rapid.IntRange(1, 20).Draw(t, "n") {
			u := words(task, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"), rapid.Bool().Draw(t, "append"),
				slices.Repeat([]string{fmt.Sprint(i)}, rapid.IntRange(0, 2).Draw(t, "parts"))...)
			u.LastChunk = rapid.Bool().Draw(t, "last")
			if rapid.Bool().Draw(t, "named") {
				u.Artifact.Name = "name"
			}
			if rapid.Bool().Draw(t, "meta") {
				u.Metadata = map[string]any{"agent": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "agent")}
			}
			apply(want, u)
			var last sdk.Event
			if len(joined) > 0 {
				last = joined[len(joined)-1]
			}
			if j := joinUpdates(last, u); j != nil {
				joined[len(joined)-1] = j
			} else {
				joined = append(joined, u)
			}
		}
		for _, e := range joined {
			apply(got, e.(*sdk.TaskArtifactUpdateEvent))
		}
		for id := range want {
			if len(want[id].Parts) != len(got[id].Parts) || len(want[id].Parts) > 0 && !reflect.DeepEqual(want[id], got[id]) {
				t.Fatalf("%s: want %v, got %v", id, want[id], got[id])
			}
		}
	})
}

func TestUpdatesThatAreNotJoined(t *testing.T) {
	task, other := aTask("alice"), aTask("alice")
	other.Task = "other"
	base := func() *sdk.TaskArtifactUpdateEvent { return words(task, "a", true, "x") }
	change := func(f func(*sdk.TaskArtifactUpdateEvent)) *sdk.TaskArtifactUpdateEvent {
		u := base()
		f(u)
		return u
	}
	many := change(func(u *sdk.TaskArtifactUpdateEvent) { u.Artifact.Parts = make(sdk.ContentParts, maxJoined) })
	require.NotNil(t, joinUpdates(base(), base()))
	for what, pair := range map[string][2]sdk.Event{
		"nothing before":   {nil, base()},
		"no update before": {status(task, sdk.TaskStateWorking), base()},
		"no update after":  {base(), status(task, sdk.TaskStateWorking)},
		"replaces":         {base(), words(task, "a", false, "x")},
		"another artifact": {base(), words(task, "b", true, "x")},
		"another task":     {base(), words(other, "a", true, "x")},
		"complete":         {change(func(u *sdk.TaskArtifactUpdateEvent) { u.LastChunk = true }), base()},
		"metadata":         {base(), change(func(u *sdk.TaskArtifactUpdateEvent) { u.Metadata = map[string]any{"agent": "x"} })},
		"context":          {base(), change(func(u *sdk.TaskArtifactUpdateEvent) { u.ContextID = "other" })},
		"name":             {base(), change(func(u *sdk.TaskArtifactUpdateEvent) { u.Artifact.Name = "x" })},
		"description":      {base(), change(func(u *sdk.TaskArtifactUpdateEvent) { u.Artifact.Description = "x" })},
		"extensions":       {base(), change(func(u *sdk.TaskArtifactUpdateEvent) { u.Artifact.Extensions = []string{"x"} })},
		"its metadata":     {base(), change(func(u *sdk.TaskArtifactUpdateEvent) { u.Artifact.Metadata = map[string]any{"x": 1} })},
		"too many parts":   {base(), many},
		"no artifact":      {base(), &sdk.TaskArtifactUpdateEvent{TaskID: task.Task, ContextID: "context", Append: true}},
	} {
		require.Nil(t, joinUpdates(pair[0], pair[1]), what)
	}
}

// After an event that did not arrive there is no use in the rest of an artifact:
// the next event is the whole task.
func TestLostEventIsMadeUpFor(t *testing.T) {
	r := webhooktest.New(t, script(400, 200))
	p := quickly(t, r, Options{})
	task := aTask("alice")
	w := follow(t, p, task, sdk.PushConfig{URL: r.URL})
	p.Notify(task, words(task, "a", false, "lost"), nil2)
	must.Wait(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.stale && !w.working
	})
	r.Next(t)
	p.Notify(task, words(task, "a", true, "more"), snapshotOf(task, sdk.TaskStateWorking))
	require.Equal(t, snapshotOf(task, sdk.TaskStateWorking)(), r.Next(t).Event)
	p.Notify(task, words(task, "a", true, "more"), nil2)
	require.Equal(t, words(task, "a", true, "more"), r.Next(t).Event)

	w = newWebhook(t.Context(), Record{}, 10)
	w.waiting = []sdk.Event{words(task, "a", true, "x"), status(task, sdk.TaskStateWorking), words(task, "b", false, "y")}
	w.lost()
	require.Equal(t, []sdk.Event{status(task, sdk.TaskStateWorking), words(task, "b", false, "y")}, w.waiting)
	// Without a snapshot the newest is worth more than the oldest.
	w.working = true
	w.add(status(task, sdk.TaskStateCompleted), func() *sdk.Task { return nil })
	require.Equal(t, []sdk.Event{words(task, "b", false, "y"), status(task, sdk.TaskStateCompleted)}, w.waiting)
}

func TestDeletedConfigHearsNothingMore(t *testing.T) {
	slow, release := held(t)
	defer release()
	p := quickly(t, slow, Options{})
	task := aTask("alice")
	w := follow(t, p, task, sdk.PushConfig{URL: slow.URL})
	p.Notify(task, status(task, sdk.TaskStateWorking), nil2)
	slow.Next(t)
	p.Notify(task, status(task, sdk.TaskStateCompleted), nil2)
	require.NoError(t, p.Delete(t.Context(), task, w.id))
	p.Notify(task, status(task, sdk.TaskStateCompleted), nil2)
	drain(t, p) // the attempt in hand is given up, though the webhook never answers
	require.Empty(t, slow.Got)
}

func TestReplacedConfigTakesOver(t *testing.T) {
	slow, release := held(t)
	defer release()
	p := quickly(t, slow, Options{})
	task := aTask("alice")
	follow(t, p, task, sdk.PushConfig{ID: "a", URL: slow.URL, Token: "old"})
	p.Notify(task, status(task, sdk.TaskStateWorking), nil2)
	require.Equal(t, "old", slow.Next(t).Header.Get("X-A2A-Notification-Token"))
	p.Notify(task, status(task, sdk.TaskStateCompleted), nil2)
	follow(t, p, task, sdk.PushConfig{ID: "a", URL: slow.URL, Token: "new"})
	release()
	require.Equal(t, "new", slow.Next(t).Header.Get("X-A2A-Notification-Token"))
}

// What was not told when the server went away is told by its successor.
func TestPushAfterRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "push.json")
	open := func() *File {
		return must.Get(NewFile(path))
	}
	slow, release := held(t)
	defer release()
	quick := webhooktest.New(t, nil)
	p := quickly(t, slow, Options{Store: open()})
	task, other, goesOn, gone := aTask("alice"), aTask("bob"), aTask("carol"), aTask("dave")
	follow(t, p, task, sdk.PushConfig{ID: "slow", URL: slow.URL})
	follow(t, p, task, sdk.PushConfig{ID: "quick", URL: quick.URL})
	for _, of := range []Task{other, goesOn, gone} {
		follow(t, p, of, sdk.PushConfig{URL: quick.URL})
	}
	for _, of := range []Task{task, other} {
		p.Notify(of, status(of, sdk.TaskStateCompleted), nil2)
	}
	slow.Next(t)
	for range 2 {
		quick.Next(t)
	}
	must.Wait(t, func() bool { return !p.find(task, "quick").open() && !p.Follows(other) })
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("no time left")
	cancel(why)
	require.ErrorIs(t, p.Close(ctx), why)
	require.True(t, p.Follows(task))
	require.ErrorIs(t, must.Err(p.Save(t.Context(), task, "", &sdk.PushConfig{URL: hookURL})), sdk.ErrServerError)
	p.Notify(task, status(task, sdk.TaskStateCompleted), nil2)

	release()
	p = quickly(t, slow, Options{Store: open()})
	var asked []Task
	missing := errors.New("no such task")
	err := p.Resume(t.Context(), func(_ context.Context, of Task) (*sdk.Task, error) {
		asked = append(asked, of)
		switch of {
		case task:
			return snapshotOf(of, sdk.TaskStateCompleted)(), nil
		case goesOn:
			return nil, nil
		}
		return nil, missing
	})
	require.ErrorIs(t, err, missing)
	require.ElementsMatch(t, []Task{task, goesOn, gone}, asked)
	require.Equal(t, snapshotOf(task, sdk.TaskStateCompleted)(), slow.Next(t).Event)
	drain(t, p)
	require.Empty(t, quick.Got, "who has heard the end does not hear it again")
	require.False(t, p.Follows(task))
	require.True(t, p.Follows(goesOn))

	p = quickly(t, slow, Options{Store: open()})
	require.False(t, p.Follows(task))
	require.True(t, p.Follows(goesOn))
	require.ErrorIs(t, p.Resume(ctx, func(context.Context, Task) (*sdk.Task, error) { return nil, missing }), why)
}

func TestPushForLegacyClients(t *testing.T) {
	r := webhooktest.New(t, nil)
	p := quickly(t, r, Options{}, deps{legacy: func(e sdk.Event) (any, error) {
		if _, ok := e.(*sdk.Message); ok {
			return nil, errors.New("no form")
		}
		return map[string]string{"kind": "status-update"}, nil
	}})
	task := aTask("alice")
	must.Get(p.Save(t.Context(), task, "0.3.0", &sdk.PushConfig{URL: r.URL}))
	p.Notify(task, &sdk.Message{}, snapshotOf(task, sdk.TaskStateWorking))
	p.Notify(task, status(task, sdk.TaskStateCompleted), snapshotOf(task, sdk.TaskStateCompleted))
	drain(t, p)
	require.Len(t, r.Got, 1)
	got := r.Next(t)
	require.Equal(t, `{"kind":"status-update"}`, string(got.Body))
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
}

func TestFailuresLogNoSecrets(t *testing.T) {
	var log lockedBuffer
	logs := deps{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	closed := webhooktest.New(t, nil)
	closed.Close()
	refuses := webhooktest.New(t, script(403))
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer untrusted.Close()
	for _, url := range []string{closed.URL, refuses.URL, untrusted.URL, "https://missing.invalid"} {
		p := quickly(t, refuses, Options{GiveUpAfter: 20 * time.Millisecond}, logs)
		p.poster.Client.Transport.(*http.Transport).TLSClientConfig.RootCAs = nil
		task := aTask("alice")
		follow(t, p, task, sdk.PushConfig{URL: url + "/path?secret=QUERY", Token: "TOKEN", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "CREDENTIALS"}})
		p.Notify(task, status(task, sdk.TaskStateCompleted), snapshotOf(task, sdk.TaskStateCompleted))
		drain(t, p)
	}
	require.Equal(t, 4, strings.Count(log.String(), "could not be delivered"))
	for _, secret := range []string{"TOKEN", "CREDENTIALS", "QUERY"} {
		require.NotContains(t, log.String(), secret)
	}
}

// lockedBuffer is a buffer that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
