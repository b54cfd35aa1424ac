package server_test

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
)

// What a stream of a turn looks like, from its first frame to its last.
func TestTurnStream(t *testing.T) {
	s := newServed(t)
	in := s.stream(t, "ann", "POST", "/sessions", `{"id":"s","content":"bill me"}`)
	require.Equal(t, "text/event-stream", in.res.Header.Get("Content-Type"))
	require.Equal(t, "no", in.res.Header.Get("X-Accel-Buffering"))
	require.Contains(t, in.res.Header.Get("Cache-Control"), "no-store")
	require.NotEmpty(t, in.res.Header.Get("Location"))
	all := in.rest()
	require.Equal(t, "1000", all[0].retry)
	require.Equal(t, "state", all[0].event)
	for _, f := range all[1:] {
		require.Empty(t, f.retry)
		require.Equal(t, f.event == "", f.id != "", f)
	}
	told := lines(t, all)
	require.Equal(t, "end turn", told[len(told)-1])
	states := slices.DeleteFunc(slices.Clone(told), func(l string) bool { return !strings.HasPrefix(l, "state") })
	require.Contains(t, states[len(states)-1], "state done")
	require.Contains(t, states[len(states)-1], "active billing")
	// Stored events come once and in order, and partial ones between them.
	var stored []int64
	var last session.Position
	for _, f := range all {
		if f.event != "" {
			continue
		}
		p := must.Get(session.ParsePosition(f.id))
		require.Positive(t, p.Compare(last), f.id)
		if last = p; !f.decoded(t).Partial {
			stored = append(stored, p.Seq)
		}
	}
	require.Equal(t, int64(1), stored[0])
	require.Equal(t, int64(len(stored)), stored[len(stored)-1])
}

// Whoever comes back gets exactly what came after the last id, whatever was filtered before.
func TestStreamResumes(t *testing.T) {
	s := newServed(t)
	self := s.begin(t, "s")["links"].(map[string]any)["self"].(string)
	partial := func(f frame) bool { return strings.Contains(f.data, `"partial":true`) }
	first := s.stream(t, "ann", "GET", self+"/events", "")
	seen := first.until(partial)
	first.res.Body.Close()
	at := seen[len(seen)-1].id
	// A connection that wants nothing of it hears of the same places.
	other := s.stream(t, "ann", "GET", self+"/events?types=tool_call", "", "Last-Event-ID", at)
	f, _ := other.next()
	require.Equal(t, "state", f.event)
	s.free <- struct{}{}
	require.Equal(t, []string{"state done", "end turn"}, func() (short []string) {
		for _, l := range lines(t, other.rest()) {
			short = append(short, strings.Split(l, " seq")[0])
		}
		return short
	}())
	var ids []string
	for _, f := range s.stream(t, "ann", "GET", self+"/events", "", "Last-Event-ID", at).rest() {
		if f.id != "" {
			ids = append(ids, f.id)
		}
	}
	whole := s.stream(t, "ann", "GET", self+"/events?after=0", "").rest()
	var all []string
	for _, f := range whole {
		if f.id != "" {
			all = append(all, f.id)
		}
	}
	i := slices.Index(all, at)
	require.Positive(t, i)
	require.Equal(t, all[i+1:], ids, "the rest, also of the words that were shown in part")

	// A turn that was read to its end has nothing more to say, which ends an EventSource.
	end := all[len(all)-1]
	a := s.get(t, "ann", self+"/events", "Accept", "text/event-stream", "Last-Event-ID", end)
	require.Equal(t, 204, a.status)
	require.Equal(t, 204, s.get(t, "ann", self+"/events?after="+end, "Accept", "text/event-stream").status)
	for _, path := range []string{self + "/events", "/sessions/s/events"} {
		a = s.get(t, "ann", path, "Accept", "text/event-stream", "Last-Event-ID", "999-0")
		require.Equal(t, 412, a.status)
		require.Equal(t, "position_moved", a.code(t))
		require.EqualValues(t, strings.Split(end, "-")[0], fmt.Sprint(a.json(t)["seq"]))
		for _, odd := range []string{"x", "1-2-3", "-1", "99999999999999999999"} {
			require.Equal(t, "bad_request", s.get(t, "ann", path, "Accept", "text/event-stream", "Last-Event-ID", odd).code(t), odd)
		}
	}
	// A request that is repeated streams the turn, from where it was left.
	again := s.stream(t, "ann", "POST", "/sessions/s/turns", `{"content":"hello"}`, "Idempotency-Key", "k")
	told, last := again.rest(), ""
	for _, f := range told {
		last = cmp.Or(f.id, last)
	}
	more := s.stream(t, "ann", "POST", "/sessions/s/turns", `{"content":"hello"}`, "Idempotency-Key", "k", "Last-Event-ID", last).rest()
	require.Equal(t, lines(t, told)[len(told)-1:], lines(t, more)[len(more)-1:])
	for _, f := range more[:len(more)-1] {
		require.Equal(t, "state", f.event, "all was read")
	}
}

// The stream of a session goes on from turn to turn, and says how the session stands.
func TestSessionStream(t *testing.T) {
	s := newServed(t)
	s.say(t, "s", "hello")
	in := s.stream(t, "ann", "GET", "/sessions/s/events?types=user,text", "")
	is := func(what string) func(frame) bool {
		return func(f frame) bool { return strings.HasPrefix(lines(t, []frame{f})[0], what) }
	}
	in.until(is("state done"))
	turn := s.begin(t, "x")["id"].(string)
	require.NotEmpty(t, turn)
	s.free <- struct{}{}
	a := s.do(t, "ann", "POST", "/sessions/s/turns", `{"content":"think"}`)
	self := a.json(t)["links"].(map[string]any)["self"].(string)
	in.until(is("state running"))
	<-s.thinks
	require.Equal(t, 200, s.do(t, "ann", "POST", self+"/stop", "").status)
	in.until(is("state cut_off"))
	require.Equal(t, 202, s.do(t, "ann", "POST", self+"/resume", "").status)
	in.until(is("state running"))
	s.free <- struct{}{}
	in.until(is("state done"))
	require.Equal(t, "waiting", s.say(t, "s", "ask")["state"])
	in.until(is("state waiting"))
	require.Equal(t, "billing", s.say(t, "s", "bill me")["agent"])
	all := in.until(func(f frame) bool {
		return strings.Contains(f.data, `"active":"billing"`) && strings.Contains(f.data, "done")
	})
	for _, f := range all {
		if f.event == "" {
			require.Contains(t, []string{"user", "text"}, f.decoded(t).Type())
		}
	}
	require.Equal(t, 204, s.do(t, "ann", "DELETE", "/sessions/s", "").status)
	require.Equal(t, "end deleted", lines(t, in.until(is("end")))[0])

	in = s.stream(t, "ann", "GET", "/sessions/x/events", "")
	in.until(is("state done"))
	require.NoError(t, s.turns.Close(context.Background()))
	require.Contains(t, lines(t, in.rest()), "end stopping")
	require.Equal(t, "stopping", s.do(t, "ann", "POST", "/sessions/x/turns", `{"content":"hello"}`).code(t))
	require.Equal(t, 503, s.health(t, "/readyz"))
}

// Decisions stream what comes of them, and nothing of what was before.
func TestDecisionStream(t *testing.T) {
	s := newServed(t)
	asks := s.say(t, "s", "ask")
	in := s.stream(t, "ann", "POST", asks["links"].(map[string]any)["self"].(string)+"/decisions",
		fmt.Sprintf(`{"decisions":[{"callId":%q,"approved":true}]}`, asks["pending"].([]any)[0].(map[string]any)["callId"]), "Idempotency-Key", "k")
	all := in.rest()
	require.Contains(t, lines(t, all)[1], "relay_resolved")
	require.Equal(t, "end turn", lines(t, all)[len(all)-1])
	again := s.stream(t, "ann", "POST", asks["links"].(map[string]any)["self"].(string)+"/decisions",
		fmt.Sprintf(`{"decisions":[{"callId":%q,"approved":true}]}`, asks["pending"].([]any)[0].(map[string]any)["callId"]), "Idempotency-Key", "k").rest()
	require.Equal(t, lines(t, all)[1], lines(t, again)[1])
}

// Changes tell of the caller's sessions, and of no others.
func TestChanges(t *testing.T) {
	s := newServed(t)
	in := s.stream(t, "ann", "GET", "/changes", "")
	looks := s.stream(t, "eve", "GET", "/changes?user=ann", "")
	s.do(t, "bob", "POST", "/sessions", `{"content":"hello"}`, "Prefer", "wait=60")
	s.say(t, "s", "hello")
	for _, in := range []*stream{in, looks} {
		for _, f := range in.until(func(f frame) bool { return strings.Contains(f.data, `"state":"done"`) }) {
			require.Equal(t, "s", f.json(t)["id"])
			require.Equal(t, "hello", f.json(t)["title"])
		}
	}
	require.Equal(t, 403, s.get(t, "bob", "/changes?user=ann", "Accept", "text/event-stream").status)
}

// Followers who do not read slow nobody down: a turn ends, and who reads hears all of it.
func TestStalledReaders(t *testing.T) {
	s := newServed(t)
	self := s.begin(t, "s")["links"].(map[string]any)["self"].(string)
	for range 20 {
		c := must.Get(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))
		defer c.Close()
		fmt.Fprintf(c, "GET %s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ann\r\nAccept: text/event-stream\r\n\r\n", self)
	}
	in := s.stream(t, "ann", "GET", self+"/events", "")
	s.free <- struct{}{}
	all := lines(t, in.rest())
	require.Equal(t, "end turn", all[len(all)-1])
	require.Equal(t, "done", s.get(t, "ann", self).json(t)["state"])
}

// A stream that is open holds the place of one, and gives it back.
func TestStreamsAreCounted(t *testing.T) {
	s := newServed(t)
	s.say(t, "s", "hello")
	var open []*stream
	for range 1024 {
		in := s.stream(t, "ann", "GET", "/sessions/s/events?after=1", "")
		in.next()
		open = append(open, in)
	}
	a := s.get(t, "ann", "/sessions/s/events", "Accept", "text/event-stream")
	require.Equal(t, 429, a.status)
	require.Equal(t, "too_many", a.code(t))
	require.NotEmpty(t, a.header.Get("Retry-After"))
	for _, in := range open {
		in.res.Body.Close()
	}
	must.Wait(t, func() bool {
		res := s.send(t, "ann", http.MethodGet, "/sessions/s/events", "", "Accept", "text/event-stream")
		res.Body.Close()
		return res.StatusCode == 200
	})
}
