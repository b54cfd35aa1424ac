package sessiontest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
)

var followTests = []tailTest{
	{"a running turn", func(f *tailFixture) {
		c := f.follow("")
		f.begin(&event.User{}, &event.HarnessStart{AgentID: "support"})
		f.show("b1", "One", " moment")
		f.addEvents(block("b1", "One moment"), entry(0, &event.Usage{}))
		f.show("b2", "Done")
		f.addEvents(block("b2", "Done"))
		f.add(&event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonStop})
		f.end()
		got := c.until(6)
		require.Equal(f, []string{".", ".", "One", " moment", "One moment.", ".", "Done", "Done.", "."}, words(got))
		f.whole(got)
	}},
	{"partial events keep their fields", func(f *tailFixture) {
		c := f.follow("")
		f.begin(text("a"))
		want := []*event.Event{delta("b", "x"), delta("r", ""), delta("c", "")}
		want[0].Scope, want[0].ParentID, want[0].Attempt = "c1", "p", 3
		want[1].Data = &event.Reasoning{Content: "hm"}
		want[2].Data = &event.Unknown{Type: "hologram", Raw: []byte(`{"angle":0.10}`)}
		require.NoError(f, f.store.Publish(f.Context(), f.key, want...))
		got := c.take(4)[1:]
		list := make([]*event.Event, len(got))
		for i, e := range got {
			list[i] = e.Event
		}
		require.Equal(f, toJSON(f.T, want), toJSON(f.T, list))
	}},
	{"difficult texts", func(f *tailFixture) {
		c := f.follow("")
		f.begin(text("a"))
		c.take(1)
		for name, s := range difficult() {
			d := delta(name, s)
			require.NoError(f, f.store.Publish(f.Context(), f.key, d))
			require.Equal(f, toJSON(f.T, []*event.Event{d}), toJSON(f.T, []*event.Event{c.take(1)[0].Event}))
		}
	}},
	{"a session that does not exist yet", func(f *tailFixture) {
		c := f.follow("")
		other := f.followOn(f.store, session.Key{App: f.app, User: "ann", ID: "other"}, "")
		f.begin(text("a"))
		require.Equal(f, []string{"a."}, words(c.take(1)))
		f.key.ID = "other"
		f.begin(text("b"))
		require.Equal(f, []string{"b."}, words(other.take(1)))
	}},
	{"a finished session", func(f *tailFixture) {
		f.begin()
		for i := range 100 {
			f.add(texts(7, fmt.Sprint(i, " "))...)
		}
		f.end()
		got := f.follow("").until(700)
		f.sound(got, session.Position{})
		f.sameEntries(f.stored(), got)
		f.sameEntries(got[500:], f.follow("500-0").until(700))
		f.sameEntries(got[500:], f.follow("500").until(700))
		c := f.follow("700-0")
		f.begin(text("goes on"))
		require.Equal(f, []string{"goes on."}, words(c.take(1)))
	}},
	{"keys do not mix", func(f *tailFixture) {
		keys := []session.Key{
			{App: f.app, User: "a/b", ID: "c"}, {App: f.app, User: "a", ID: "b/c"}, {App: f.app, User: "a%2Fb", ID: "c"}, {App: f.app, User: "a}", ID: "{c"},
			{App: f.app, User: "", ID: "a"}, {App: f.app, User: "a", ID: ""}, {App: f.app, User: "é \n*?[x]", ID: "☃"}, {App: f.app + "{x}", User: "a", ID: "b"},
		}
		clients := make([]*follower, len(keys))
		for i, key := range keys {
			clients[i] = f.followOn(f.store, key, "")
		}
		for _, key := range keys {
			f.key = key
			f.begin(text(key.String()))
			f.show("b", "delta of "+key.String())
		}
		for i, key := range keys {
			require.Equal(f, []string{key.String() + ".", "delta of " + key.String()}, words(clients[i].take(2)))
		}
	}},
	{"several followers", func(f *tailFixture) {
		story := newStory(1, 40)
		var wg sync.WaitGroup
		results := make([][]session.Entry, 8)
		for i := range results {
			wg.Go(func() { results[i] = f.collect(f.store, f.key, "", story.events) })
		}
		f.tell(story)
		wg.Wait()
		for _, got := range results {
			f.sameEntries(results[0], got)
		}
		f.whole(results[0])
	}},
	{"who stops reading slows nobody down", func(f *tailFixture) {
		c := f.follow("")
		f.begin(text("first"))
		c.take(1)
		for i := range 300 {
			id := fmt.Sprintf("b%d", i)
			for range 10 {
				f.show(id, "words ")
			}
			f.addEvents(block(id, "words"))
		}
		f.end()
		got := c.until(f.seq)
		f.sound(got, session.Position{Seq: 1})
		f.sameEntries(f.stored()[1:], complete(got))
	}},
	{"the writer may follow", func(f *tailFixture) {
		f.begin(text("0"))
		n := 0
		for e, err := range f.store.Follow(f.Context(), f.key, "") {
			require.NoError(f, err)
			require.Equal(f, fmt.Sprint(n), e.Event.Text())
			if n++; n == 30 {
				break
			}
			if n%3 == 0 {
				f.add(text(fmt.Sprint(n)))
			} else {
				f.show("b"+fmt.Sprint(n), fmt.Sprint(n))
			}
		}
	}},
	{"a fork begins with the shared past", func(f *tailFixture) {
		fork := session.Key{App: f.app, User: "ann", ID: "fork"}
		c := f.followOn(f.store, fork, "")
		f.begin(texts(5, "a")...)
		require.NoError(f, f.store.Fork(f.Context(), f.key, 3, fork))
		require.Equal(f, []string{"a0.", "a1.", "a2."}, words(c.take(3)))
		f.add(text("not the fork's"))
		f.key = fork
		f.begin()
		f.show("b", "its ", "own")
		f.addEvents(block("b", "its own"))
		f.end()
		require.Equal(f, []string{"its ", "own", "its own."}, words(c.take(3)))
		require.Equal(f, []string{"a2.", "its ", "own", "its own."}, words(f.follow("2-0").take(4)))
		second := session.Key{App: f.app, User: "ann", ID: "second"}
		c = f.followOn(f.store, second, "")
		require.NoError(f, f.store.Fork(f.Context(), fork, 1, second, events(1, text("said"))...))
		require.Equal(f, []string{"a0.", "said."}, words(c.take(2)))
	}},
}

var interruptedTests = []tailTest{
	{"a turn that was cut off voids what it showed", func(f *tailFixture) {
		c := f.follow("")
		f.begin(text("a"))
		f.show("b1", "half an", " answer")
		f.show("b2", "and more")
		f.end()
		got := c.take(5)
		require.Equal(f, []string{"a.", "half an", " answer", "and more", "void b1 b2"}, words(got))
		require.Equal(f, "r1", got[4].Event.RunID)
		f.whole(got)
	}},
	{"a lease that is taken over voids what was shown", func(f *tailFixture) {
		c := f.follow("")
		f.beginToLose(text("a"))
		f.show("b1", "half")
		e := entry(0, text("of another scope"))
		e.RunID, e.Scope = "r2", "c1"
		f.addEvents(e)
		got := c.take(3)
		f.lose()
		f.begin()
		got = append(got, c.take(1)...)
		f.answer(c, got, "anew", "a.", "half", "of another scope.", "void b1", "anew", "anew.")
	}},
	{"a lease that is abandoned voids what was shown", func(f *tailFixture) {
		c := f.follow("")
		f.begin(text("a"))
		f.show("b1", "half")
		f.abandon(f.key, f.lease)
		require.ErrorIs(f, f.store.Publish(f.Context(), f.key, delta("b1", " more")), agent.ErrConflict)
		got := c.take(3)
		f.begin()
		f.answer(c, got, "anew", "a.", "half", "void b1", "anew", "anew.")
	}},
	{"what is complete or discarded is not voided", func(f *tailFixture) {
		c := f.follow("")
		f.begin(text("a"))
		f.show("b1", "one")
		f.show("b2", "two")
		f.show("b3", "three")
		void := delta("v", "")
		void.Data = &event.Discard{Code: "retry", Message: "again", IDs: []string{"b2"}}
		require.NoError(f, f.store.Publish(f.Context(), f.key, void))
		f.addEvents(block("b1", "one"), entry(0, &event.Discard{Code: "retry", Message: "again", IDs: []string{"b3"}}))
		f.show("b1", "late")
		f.show("b2", "late")
		f.end()
		f.begin(text("end"))
		got := c.until(4)
		require.Equal(f, []string{"a.", "one", "two", "three", "void b2", "one.", ".", "end."}, words(got))
		f.whole(got)
	}},
	{"nobody publishes without the lease", func(f *tailFixture) {
		c := f.follow("")
		require.ErrorIs(f, f.store.Publish(f.Context(), f.key, delta("b0", "nobody's")), agent.ErrConflict)
		f.begin(text("a"))
		f.end()
		require.ErrorIs(f, f.store.Publish(f.Context(), f.key, delta("b1", "too late")), agent.ErrConflict)
		f.begin(text("b"))
		require.Equal(f, []string{"a.", "b."}, words(c.take(2)))
	}},
	{"only partial events are published", func(f *tailFixture) {
		f.begin(text("a"))
		whole, numbered, empty := delta("b", "x"), delta("b", "x"), delta("b", "x")
		whole.Partial, numbered.Seq, empty.Data = false, 1, nil
		control := delta("b", "x")
		control.Data = &event.Continue{}
		for _, e := range []*event.Event{whole, numbered, empty, control, nil} {
			require.ErrorIs(f, f.store.Publish(f.Context(), f.key, delta("b", "before"), e), agent.ErrBadInput)
		}
		require.NoError(f, f.store.Publish(f.Context(), f.key))
		f.add(text("b"))
		require.Equal(f, []string{"a.", "b."}, words(f.follow("").take(2)))
	}},
}

var endTests = []tailTest{
	{"the context's end", func(f *tailFixture) {
		f.begin(text("a"), text("b"))
		for _, n := range []int{1, 2} { // between entries, and while waiting
			ctx, cancel := context.WithCancel(f.Context())
			var last error
			count := 0
			for _, err := range f.store.Follow(ctx, f.key, "") {
				require.NoError(f, last, "nothing comes after an error")
				if last = err; err == nil {
					if count++; count == n {
						if n == 1 {
							cancel()
						} else {
							time.AfterFunc(20*time.Millisecond, cancel)
						}
					}
				}
			}
			cancel()
			require.ErrorIs(f, last, context.Canceled)
			require.Equal(f, n, count)
		}
		for _, err := range f.store.Follow(ended(f.T), f.key, "") {
			require.ErrorIs(f, err, context.Canceled)
		}
	}},
	{"no goroutine stays behind", func(f *tailFixture) {
		f.begin(text("a"))
		f.follow("").take(1) // what the tail itself needs is running now
		before := runtime.NumGoroutine()
		for range 10 {
			for _, err := range f.store.Follow(f.Context(), f.key, "") {
				require.NoError(f, err)
				break
			}
			ctx, cancel := context.WithTimeout(f.Context(), 5*time.Millisecond)
			for _, err := range f.store.Follow(ctx, f.key, "1-0") {
				require.True(f, isCanceled(err), "%v", err)
			}
			cancel()
		}
		must.Wait(f, func() bool { return runtime.NumGoroutine() <= before+2 })
	}},
	{"a sequence can be ranged over again", func(f *tailFixture) {
		f.begin(text("a"))
		seq := f.store.Follow(f.Context(), f.key, "")
		for range 3 {
			for e, err := range seq {
				require.NoError(f, err)
				require.Equal(f, "a", e.Event.Text())
				break
			}
		}
	}},
	{"close ends followers", func(f *tailFixture) {
		f.begin(text("a"))
		c := f.follow("")
		c.take(1)
		done := make(chan error)
		go func() {
			_, err, _ := c.next()
			done <- err
		}()
		time.AfterFunc(10*time.Millisecond, func() { _ = f.store.Close() })
		select {
		case err := <-done:
			require.Error(f, err)
			require.False(f, isCanceled(err), "%v", err)
		case <-time.After(patience):
			f.Fatal("it follows a closed store")
		}
		require.NoError(f, f.store.Close(), "closing twice")
		require.Error(f, f.follow("").fails())
		require.Error(f, f.store.Publish(f.Context(), f.key, delta("b", "x")))
	}},
	{"positions that cannot be", func(f *tailFixture) {
		f.begin(text("a"))
		for _, id := range []string{"x", "1-", "-1", "1-0-0", "1-x", " 1-0", "99999999999999999999-0", "2-0", "7-3"} {
			require.ErrorIs(f, f.follow(id).fails(), agent.ErrBadInput, "%q", id)
		}
	}},
	{"a deleted session", func(f *tailFixture) {
		f.begin(text("a"), text("b"))
		f.show("b1", "half")
		c, nothing := f.follow(""), f.followOn(f.store, session.Key{App: f.app, User: "ann", ID: "never"}, "")
		slow := f.follow("")
		c.take(3)
		slow.take(3)
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		require.ErrorIs(f, c.fails(), agent.ErrConflict)
		require.ErrorIs(f, f.follow("2-0").fails(), agent.ErrBadInput)
		require.ErrorIs(f, f.store.Publish(f.Context(), f.key, delta("b1", "stale")), agent.ErrConflict)

		if f.Advance != nil {
			f.Advance(time.Second)
		}
		anew := f.follow("")
		f.begin()
		f.addEvents(block("other 1", "c"), block("other 2", "d"))
		f.show("b2", "fresh", " words")
		require.Equal(f, []string{"c.", "d.", "fresh", " words"}, words(anew.take(4)))
		require.Equal(f, []string{"c.", "d.", "fresh", " words"}, words(f.follow("").take(4)))
		require.ErrorIs(f, slow.fails(), agent.ErrConflict, "it continues after another session with this name has the same length")
		require.NoError(f, f.store.Delete(f.Context(), session.Key{App: f.app, User: "ann", ID: "never"}))
		f.key.ID = "never"
		f.begin(text("d"))
		require.Equal(f, []string{"d."}, words(nothing.take(1)))
	}},
}
