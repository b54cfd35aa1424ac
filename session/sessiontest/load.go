package sessiontest

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

var loadTests = []test{
	{"a long log", func(f *fixture) {
		lease := f.acquire(f.key)
		seq := int64(0)
		var want []string
		for i := 0; len(want) < 2000; i++ {
			batch := texts(1+i*7%60, fmt.Sprintf("%d-", i))
			seq = f.append(f.key, seq, lease, batch...)
			for _, d := range batch {
				want = append(want, d.(*event.Text).Content)
			}
		}
		require.Equal(f, want, f.contents(f.key))
	}},
	{"large events", func(f *fixture) {
		lease := f.acquire(f.key)
		big := difficult()["120 KB"]
		for i := range int64(6) {
			f.append(f.key, 5*i, lease, text(big), text("small"), text(big), text(big), text(big))
		}
		log := f.load(f.key, 3)
		require.Len(f, log, 27)
		for i, e := range log {
			require.EqualValues(f, i+4, e.Seq)
			if e.Seq%5 == 2 {
				require.Equal(f, "small", e.Text())
			} else {
				require.True(f, e.Text() == big) // require.Equal would print it
			}
		}
	}},
	{"a sequence can be ranged over again", func(f *fixture) {
		f.write(f.key, texts(3, "a")...)
		seq := f.store.Load(f.Context(), f.key, 0)
		for n := range 3 {
			count := 0
			for _, err := range seq {
				require.NoError(f, err)
				count++
			}
			require.Equal(f, 3+n, count)
			f.write(f.key, text("one more"))
		}
	}},
	{"breaking out frees what the load holds", func(f *fixture) {
		f.write(f.key, texts(400, "a")...)
		for range 50 {
			for e, err := range f.store.Load(f.Context(), f.key, 0) {
				require.NoError(f, err)
				if e.Seq == 3 {
					break
				}
			}
		}
		f.write(f.key, text("b"))
		require.Len(f, f.load(f.key, 0), 401)
	}},
	{"loads can be nested", func(f *fixture) {
		f.write(f.key, texts(3, "a")...)
		var nested func(depth int) int
		nested = func(depth int) int {
			if depth == 0 {
				return 1
			}
			for _, err := range f.store.Load(f.Context(), f.key, 0) {
				require.NoError(f, err)
				return nested(depth - 1) // the load outside is still at its first event
			}
			return 0
		}
		require.Equal(f, 1, nested(50))
	}},
	{"the body of a load may append", func(f *fixture) {
		lease := f.acquire(f.key)
		seq := f.append(f.key, 0, lease, texts(40, "a")...)
		next := int64(1)
		for e, err := range f.store.Load(f.Context(), f.key, 0) {
			require.NoError(f, err)
			require.Equal(f, next, e.Seq)
			next++
			if e.Seq <= 40 {
				seq = f.append(f.key, seq, lease, texts(10, "b")...)
			}
		}
		require.Greater(f, next, int64(40))
		require.Len(f, f.load(f.key, 0), 440)
	}},
	{"a load that is canceled ends with the error", func(f *fixture) {
		f.write(f.key, texts(50, "a")...)
		ctx, cancel := context.WithCancel(f.Context())
		defer cancel()
		var last error
		count := 0
		for e, err := range f.store.Load(ctx, f.key, 0) {
			require.NoError(f, last, "nothing comes after an error")
			if last = err; err == nil {
				count++
				if e.Seq == 10 {
					cancel()
				}
			}
		}
		require.ErrorIs(f, last, context.Canceled)
		require.Equal(f, 10, count)
	}},
	{"returned events are the caller's", func(f *fixture) {
		batch := events(0, texts(3, "a")...)
		lease := f.acquire(f.key)
		require.NoError(f, Append(f.Context(), f.store, f.key, 0, lease, batch...))
		want := toJSON(f.T, f.load(f.key, 0))
		for _, list := range [][]*event.Event{batch, f.load(f.key, 0)} {
			for _, e := range list {
				*e = event.Event{Seq: 99, ID: "changed", Data: text("changed")}
			}
		}
		clear(batch)
		require.Equal(f, want, toJSON(f.T, f.load(f.key, 0)))
	}},
	{"a load beside appends sees a growing prefix", func(f *fixture) {
		const total = 300
		lease := f.acquire(f.key)
		done := make(chan error, 1)
		go func() {
			for seq := int64(0); seq < total; seq += 3 {
				if err := Append(f.Context(), f.store, f.key, seq, lease, events(seq, texts(3, "a")...)...); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		for seen := int64(0); seen < total; {
			last := int64(0)
			for e, err := range f.store.Load(f.Context(), f.key, 0) {
				require.NoError(f, err)
				require.Equal(f, last+1, e.Seq)
				last = e.Seq
			}
			require.Zero(f, last%3, "a batch was seen in part")
			require.GreaterOrEqual(f, last, seen)
			seen = last
			select {
			case err := <-done:
				require.NoError(f, err)
				require.Len(f, f.load(f.key, 0), total)
				return
			default:
			}
		}
		require.NoError(f, <-done)
	}},
	{"a load while its session is deleted ends or fails", func(f *fixture) {
		f.write(f.key, texts(2000, "a")...)
		next := int64(1)
		for e, err := range f.store.Load(f.Context(), f.key, 0) {
			if err != nil {
				require.ErrorIs(f, err, agent.ErrConflict)
				break
			}
			require.Equal(f, next, e.Seq)
			require.Equal(f, fmt.Sprintf("a%d", e.Seq-1), e.Text(), "an event of the new session")
			next++
			if e.Seq == 5 {
				require.NoError(f, f.store.Delete(f.Context(), f.key))
				f.write(f.key, texts(2000, "new")...)
			}
		}
	}},
}

var payloadTests = []test{
	{"every type", func(f *fixture) {
		f.roundTrip(events(0, Payloads()...))
	}},
	{"odd ids, names and times", func(f *fixture) {
		f.roundTrip(OddEvents())
		for _, e := range f.load(f.key, 0) {
			require.False(f, e.More, "it joins events, and is not stored")
		}
	}},
	{"difficult texts", func(f *fixture) {
		var data []event.Data
		for _, s := range difficult() {
			data = append(data, text(s), &event.State{Delta: map[string]any{s: s}}, &event.ToolResult{Name: "t", Output: event.EncodeJSON(s)})
		}
		f.roundTrip(events(0, data...))
		for i, e := range f.load(f.key, 0) {
			if want := data[i]; e.Type() == event.TypeText && want.(*event.Text).Content != difficult()["invalid"] {
				require.True(f, e.Text() == want.(*event.Text).Content, "event %d", e.Seq)
			}
		}
	}},
	{"JSON as deep as is allowed", func(f *fixture) { f.roundTrip(events(0, nested(event.MaxDepth-1)...)) }},
	{"JSON too deep to be read again", func(f *fixture) {
		lease := f.acquire(f.key)
		seq := f.append(f.key, 0, lease, text("a"))
		for _, levels := range []int{event.MaxDepth + 1, 10_001} {
			for _, data := range nested(levels) {
				err := Append(f.Context(), f.store, f.key, seq, lease, entry(seq+1, text("b")), entry(seq+2, data))
				require.ErrorIs(f, err, agent.ErrBadInput, "%s of %d levels", (&event.Event{Data: data}).Type(), levels)
				require.Less(f, len(err.Error()), 1000)
			}
		}
		require.Equal(f, []string{"a"}, f.contents(f.key))
	}},
}

// roundTrip requires that a batch comes back byte for byte.
func (f *fixture) roundTrip(batch []*event.Event) {
	f.Helper()
	want := toJSON(f.T, batch)
	lease := f.acquire(f.key)
	require.NoError(f, Append(f.Context(), f.store, f.key, 0, lease, batch...))
	got := f.load(f.key, 0)
	require.Len(f, got, len(want))
	for i, s := range toJSON(f.T, got) {
		require.True(f, want[i] == s, "event %d:\n%.2000s\n%.2000s", i+1, want[i], s)
		require.Equal(f, batch[i].Time.UTC(), got[i].Time)
		require.Equal(f, batch[i].Type(), got[i].Type())
	}
}
