package sessiontest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// step is one call of a turn: it publishes or stores events.
type step []*event.Event

// do publishes or stores a step. It may run on any goroutine.
func (f *tailFixture) do(s step) error {
	list := make([]*event.Event, len(s))
	for i, e := range s {
		own := *e
		list[i] = &own
	}
	if list[0].Partial {
		return f.store.Publish(f.Context(), f.key, list...)
	}
	return f.put(list)
}

// tell plays a story in a separate turn.
func (f *tailFixture) tell(story *story) {
	f.Helper()
	f.begin()
	for _, step := range story.steps {
		require.NoError(f, f.do(step))
	}
	f.end()
}

// story contains turns like those of a runner: answers in parts, discarded attempts, tools, and inner agents that
// answer at the same time.
type story struct {
	steps  []step
	events int64 // stored ones
	shown  int   // entries that a follower gets
	rng    *rand.Rand
	n      int
}

// newStory returns a story with the given number of steps, and those that end its last turn.
func newStory(seed uint64, steps int) *story {
	s := &story{rng: rand.New(rand.NewPCG(seed, 7))}
	for len(s.steps) < steps {
		s.turn()
	}
	return s
}

func (s *story) id(kind string) string { s.n++; return fmt.Sprintf("%s%d", kind, s.n) }

func (s *story) do(list ...*event.Event) {
	s.steps = append(s.steps, list)
	s.shown += len(list)
	if !list[0].Partial {
		s.events += int64(len(list))
	}
}

func (s *story) turn() {
	turn, run := s.id("t"), s.id("r")
	in := func(id string, data event.Data) *event.Event {
		return &event.Event{ID: id, TurnID: turn, RunID: run, Agent: "support", Path: "support", Time: recorded, Data: data}
	}
	user := in(s.id("u"), &event.User{})
	user.RunID, user.Agent = s.id("ur"), "user"
	start := in(s.id("s"), &event.HarnessStart{AgentID: "support"})
	start.ParentID = user.RunID + ":user"
	s.do(user, start)
	for range 1 + s.rng.IntN(3) {
		if s.rng.IntN(4) == 0 { // an attempt that is discarded
			id := s.id("b")
			s.deltas(in, id, false)
			s.do(in(s.id("d"), &event.Discard{Code: "retry", Message: "again", IDs: []string{id}}))
		}
		var answer []*event.Event
		for _, thinks := range []bool{true, false} {
			id := s.id("b")
			answer = append(answer, s.deltas(in, id, thinks))
		}
		call := s.id("c")
		s.do(append(answer, in(call, &event.ToolCall{Name: "look", Input: []byte("{}")}), in(s.id("x"), &event.Usage{}))...)
		s.inside(turn, call)
		s.do(in(call, &event.ToolResult{Name: "look", Output: []byte(`"seen"`)}))
	}
	s.do(in(s.id("e"), &event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonStop}))
}

type stamp func(id string, data event.Data) *event.Event

// deltas publishes a block, and returns its complete event.
func (s *story) deltas(in stamp, id string, thinks bool) *event.Event {
	all := ""
	data := func(words string) event.Data {
		if thinks {
			return &event.Reasoning{Content: words}
		}
		return text(words)
	}
	for range 1 + s.rng.IntN(8) {
		var batch []*event.Event
		for range 1 + s.rng.IntN(2) {
			word := s.id(" w")
			all += word
			e := in(id, data(word))
			e.Partial, e.Attempt = true, 1
			batch = append(batch, e)
		}
		s.do(batch...)
	}
	return in(id, data(all))
}

// inside lets two agents answer at the same time inside a call.
func (s *story) inside(turn, call string) {
	if s.rng.IntN(3) > 0 {
		return
	}
	var runs []stamp
	for range 2 {
		scope, run := s.id("scope"), s.id("r")
		in := func(id string, data event.Data) *event.Event {
			return &event.Event{ID: id, TurnID: turn, RunID: run, Scope: scope, Agent: "inner", Path: "inner", Time: recorded, Data: data}
		}
		start := in(s.id("s"), &event.HarnessStart{AgentID: "inner"})
		start.ParentID = call
		s.do(start)
		runs = append(runs, in)
	}
	ids, all := []string{s.id("b"), s.id("b")}, []string{"", ""}
	for range 2 + s.rng.IntN(10) {
		i := s.rng.IntN(2)
		word := s.id(" w")
		all[i] += word
		e := runs[i](ids[i], text(word))
		e.Partial, e.Attempt = true, 1
		s.do(e)
		if s.rng.IntN(6) == 0 { // the block is complete, and another begins
			s.do(runs[i](ids[i], text(all[i])))
			ids[i], all[i] = s.id("b"), ""
		}
	}
	for i, in := range runs {
		if all[i] != "" {
			s.do(in(ids[i], text(all[i])))
		}
		s.do(in(s.id("e"), &event.HarnessEnd{AgentID: "inner", FinishReason: event.FinishReasonStop}))
	}
}

// collect follows the session up to the stored event of a position. It may run on any goroutine.
func (f *tailFixture) collect(tail session.Tail, key session.Key, after string, until int64) (out []session.Entry) {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	for e, err := range tail.Follow(ctx, key, after) {
		if err != nil {
			f.Errorf("after %d entries: %v", len(out), err)
			return out
		}
		if out = append(out, e); e.Event.Seq == until {
			return out
		}
	}
	f.Errorf("the follower ended after %d entries", len(out))
	return out
}

var reconnectTests = []tailTest{
	{"at every entry", func(f *tailFixture) {
		story := newStory(2, 30)
		f.tell(story)
		all := f.collect(f.store, f.key, "", story.events)
		require.Len(f, all, story.shown)
		f.whole(all)
		lines := f.lines(all)
		for i, e := range all[:len(all)-1] {
			require.Equal(f, lines[i+1:], f.lines(f.collect(f.store, f.key, e.ID, story.events)))
		}
	}},
	{"after partial events that are gone", func(f *tailFixture) {
		f.begin(text("a"), text("b"))
		got := f.follow("1-5").take(1)
		require.Equal(f, []string{"b."}, words(got))
		c := f.follow("2-9")
		f.add(text("c"))
		require.Equal(f, []string{"c."}, words(c.take(1)))
	}},
	{"at random, while it runs", func(f *tailFixture) { f.cutAtRandom(f.store) }},
}

// cutAtRandom disconnects a client again and again while a stream runs. The client reconnects to any of the tails, and
// must receive the same entries as a client that stays connected.
func (f *tailFixture) cutAtRandom(tails ...session.Tail) {
	story := newStory(3, 0)
	for story.shown < 27*f.Cuts/10 {
		story.turn()
	}
	rng := rand.New(rand.NewPCG(4, 4))

	// The writer runs ahead of the client by a number of entries that changes, so that
	// cuts hit the end of the stream as well as earlier entries.
	ahead := make(chan struct{}, story.shown+64)
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := make(chan struct{})
	defer close(stop)
	f.begin()
	wg.Go(func() { f.play(story, ahead, stop) })
	var uncut []session.Entry
	wg.Go(func() { uncut = f.collect(f.store, f.key, "", story.events) })

	const least = 8 // entries of the largest step, and some
	for range least {
		ahead <- struct{}{}
	}
	var got []session.Entry
	extra, cuts, last := 0, 0, ""
	for done := false; !done; {
		c := f.followOn(tails[rng.IntN(len(tails))], f.key, last)
		for range rng.IntN(6) {
			e := c.take(1)[0]
			got = append(got, e)
			if done = e.Event.Seq == story.events; done {
				break
			}
			switch want := rng.IntN(40); {
			case want > extra:
				extra++
				ahead <- struct{}{}
				ahead <- struct{}{}
			case want < extra-20:
				extra--
			default:
				ahead <- struct{}{}
			}
		}
		c.stop()
		last = c.last
		cuts++
	}
	f.Logf("%d entries, %d cuts", len(got), cuts)
	wg.Wait()
	require.GreaterOrEqual(f, cuts, f.Cuts)
	f.sameEntries(uncut, got)
	require.Len(f, got, story.shown)
	f.whole(got)
}

// play writes and publishes the steps of a story. It waits for ahead before each entry.
func (f *tailFixture) play(story *story, ahead, stop <-chan struct{}) {
	for _, step := range story.steps {
		for range step {
			select {
			case <-ahead:
			case <-stop:
				return
			}
		}
		if err := f.do(step); err != nil {
			f.Error(err)
			return
		}
	}
}

var otherTests = []tailTest{
	{"another machine sees what is published here", func(f *tailFixture) {
		peer := f.other()
		c, here := f.followOn(peer, f.key, ""), f.follow("")
		story := newStory(5, 100)
		f.tell(story)
		got := c.until(story.events)
		f.whole(got)
		require.Len(f, got, story.shown)
		f.sameEntries(here.until(story.events), got)
	}},
	{"a client that reconnects to another machine, at random", func(f *tailFixture) { f.cutAtRandom(f.store, f.other()) }},
	{"a session moves to another machine", func(f *tailFixture) {
		peer := f.other()
		c := f.follow("")
		f.begin(text("a"))
		f.show("b1", "here")
		f.addEvents(block("b1", "here"))
		f.show("b2", "half")
		f.end()
		got := c.take(5) // else the other machine might be faster, and these be lost
		f.store = peer
		f.begin()
		f.answer(c, got, "there", "a.", "here", "here.", "half", "void b2", "there", "there.")
	}},
	{"another machine takes a lease over", func(f *tailFixture) {
		peer := f.other()
		c := f.follow("")
		f.beginToLose(text("a"))
		f.show("b1", "half")
		got := c.take(2)
		stale := f.store
		f.lose()
		f.store = peer
		f.begin()
		got = append(got, c.take(1)...)
		_ = stale.Publish(f.Context(), f.key, delta("b1", " more"), delta("b9", "of a stale writer")) // it does not know yet
		got = f.answer(c, got, "anew", "a.", "half", "void b1", "anew", "anew.")
		f.sameEntries(got, f.follow("").until(2))
	}},
	{"what is stored past the tail is seen", func(f *tailFixture) {
		if f.PlainStore == nil {
			f.Skip("needs the option PlainStore")
		}
		plain := f.PlainStore(f.T, f.store)
		f.Cleanup(func() { _ = plain.Close() })
		c := f.follow("")
		for i := range int64(3) {
			lease, err := Acquire(f.Context(), plain, f.key, session.Self())
			require.NoError(f, err)
			require.NoError(f, Append(f.Context(), plain, f.key, i, lease, entry(i+1, text(fmt.Sprint(i)))))
			require.NoError(f, Release(f.Context(), plain, f.key, lease))
			require.Equal(f, []string{fmt.Sprint(i) + "."}, words(c.take(1)))
		}
		require.NoError(f, plain.Delete(f.Context(), f.key))
		require.ErrorIs(f, c.fails(), agent.ErrConflict)
	}},
}

func (f *tailFixture) other() Followed {
	if f.Peer == nil {
		f.Skip("needs the option Peer")
	}
	return f.mustOpen(f.Peer(f.T, f.store)).(Followed)
}
