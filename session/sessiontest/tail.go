package sessiontest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Followed is a [session.Tail]: a store whose sessions can be followed while they run.
type Followed interface {
	session.Store
	session.Tail
}

// RunTail runs the suite that every [session.Tail] must pass, with a subtest for each rule. open returns an open tail
// around an open store; the suite closes it. A tail must keep the partial events of a turn for at least some seconds
// after its end. The entries of a follower must reduce to the same conversation graph as the log.
func RunTail(t *testing.T, open func(t *testing.T) Followed, o Options) {
	if o.Cuts == 0 && testing.Short() {
		o.Cuts = 100
	}
	o.Cuts = cmp.Or(o.Cuts, 1000)
	runAll(t, []group[*tailFixture]{
		{"follow", followTests}, {"lease", tailLeaseTests}, {"interrupted", interruptedTests}, {"end", endTests}, {"reconnect", reconnectTests}, {"others", otherTests},
	}, func(t *testing.T) *tailFixture {
		store := open(t)
		return &tailFixture{fixture: newFixture(t, store, o), store: store}
	})
}

type tailTest = rule[*tailFixture]

type tailFixture struct {
	*fixture
	store Followed

	lease session.Lease // of key, by begin
	seq   int64
}

// begin acquires the lease of the fixture's session, and then stores events.
func (f *tailFixture) begin(data ...event.Data) {
	f.Helper()
	f.beginAs(session.Self(), data)
}

func (f *tailFixture) beginAs(owner session.Owner, data []event.Data) {
	f.Helper()
	lease, err := Acquire(f.Context(), f.store, f.key, owner)
	require.NoError(f, err)
	if f.lease, f.seq = lease, lease.Head.Seq; len(data) > 0 {
		f.add(data...)
	}
}

// beginToLose is like begin. After lose, others can acquire the lease.
func (f *tailFixture) beginToLose(data ...event.Data) {
	f.Helper()
	owner := session.Self()
	if f.Advance == nil {
		owner.PID, owner.Started = 1<<30, 1 // above every system's highest PID
		if !f.DeadOwners || session.Alive(owner) {
			f.Skip("needs the option Advance, or DeadOwners")
		}
	}
	f.beginAs(owner, data)
}

func (f *tailFixture) lose() {
	if f.Advance != nil {
		f.Advance(session.LeaseTTL)
	}
}

// add stores events under the lease.
func (f *tailFixture) add(data ...event.Data) {
	f.Helper()
	f.addEvents(events(f.seq, data...)...)
}

func (f *tailFixture) addEvents(list ...*event.Event) {
	f.Helper()
	require.NoError(f, f.put(list))
}

// put stores events at the end of the log.
func (f *tailFixture) put(list []*event.Event) error {
	for i, e := range list {
		e.Seq, e.Time = f.seq+int64(i)+1, time.Now().UTC() // a tail may ask how old an event is
	}
	err := Append(f.Context(), f.store, f.key, f.seq, f.lease, list...)
	if err == nil {
		f.seq += int64(len(list))
	}
	return err
}

// answer ends a turn with an answer in a new block, and requires that all entries of the client contain the text want.
// got are the entries that the client has so far.
func (f *tailFixture) answer(c *follower, got []session.Entry, says string, want ...string) []session.Entry {
	f.Helper()
	f.show("answer", says)
	f.addEvents(block("answer", says))
	f.end()
	got = append(got, c.until(f.seq)...)
	require.Equal(f, want, words(got))
	f.whole(got)
	return got
}

// show publishes deltas of a block of text.
func (f *tailFixture) show(id string, words ...string) {
	f.Helper()
	for _, w := range words {
		require.NoError(f, f.store.Publish(f.Context(), f.key, delta(id, w)))
	}
}

func (f *tailFixture) end() {
	f.Helper()
	require.NoError(f, Release(f.Context(), f.store, f.key, f.lease))
}

func delta(id, words string) *event.Event {
	return &event.Event{ID: id, TurnID: "t1", RunID: "r1", Agent: "support", Path: "support", Time: recorded, Partial: true, Attempt: 1, Data: text(words)}
}

// block is the complete event of streamed deltas.
func block(id, words string) *event.Event {
	e := entry(0, text(words))
	e.ID = id
	return e
}

// patience is how long the suite waits for an entry before it reports it as lost.
const patience = 2 * time.Minute

// follower is a client that reads one entry after the other.
type follower struct {
	f    *tailFixture
	next func() (session.Entry, error, bool)
	stop func()
	last string
}

// follow begins to follow the fixture's session. The end of the test disconnects the client.
func (f *tailFixture) follow(after string) *follower {
	f.Helper()
	return f.followOn(f.store, f.key, after)
}

func (f *tailFixture) followOn(tail session.Tail, key session.Key, after string) *follower {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	next, stop := iter.Pull2(tail.Follow(ctx, key, after))
	wait := func() (session.Entry, error, bool) {
		late := time.AfterFunc(patience, cancel)
		defer late.Stop()
		return next()
	}
	c := &follower{f: f, next: wait, last: after, stop: func() { stop(); cancel() }}
	f.Cleanup(c.stop)
	return c
}

// take returns the next n entries.
func (c *follower) take(n int) []session.Entry {
	c.f.Helper()
	out := make([]session.Entry, 0, n)
	for range n {
		e, err, ok := c.next()
		require.True(c.f, ok, "the follower ended")
		require.NoError(c.f, err, "after %q", c.last)
		c.last = e.ID
		out = append(out, e)
	}
	return out
}

// until takes entries up to the stored event of a position.
func (c *follower) until(seq int64) []session.Entry {
	c.f.Helper()
	var out []session.Entry
	for {
		e := c.take(1)[0]
		if out = append(out, e); e.Event.Seq >= seq {
			return out
		}
	}
}

// fails requires that the follower ends with an error, and returns it.
func (c *follower) fails() error {
	c.f.Helper()
	_, err, ok := c.next()
	require.True(c.f, ok, "it ended without an error")
	require.Error(c.f, err)
	_, _, ok = c.next()
	require.False(c.f, ok, "something came after the error")
	return err
}

// words returns the texts of entries, with a mark before those of stored events.
func words(entries []session.Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		switch out[i] = e.Event.Text(); {
		case !e.Event.Partial:
			out[i] += "."
		case e.Event.Type() == event.TypeDiscard:
			out[i] = "void"
			for _, id := range e.Event.Data.(*event.Discard).IDs {
				out[i] += " " + id
			}
		}
	}
	return out
}

// sound requires what is true of every sequence of entries: ids increase, stored events come in order and without gaps
// after the position from, and partial events are where they were published.
func (f *tailFixture) sound(entries []session.Entry, from session.Position) {
	f.Helper()
	at := from
	for _, e := range entries {
		p, err := session.ParsePosition(e.ID)
		require.NoError(f, err)
		require.Equal(f, e.ID, p.String())
		require.True(f, p.Seq > at.Seq || p.Seq == at.Seq && p.Part > at.Part, "%s follows %s", p, at)
		if e.Event.Partial {
			require.Zero(f, e.Event.Seq)
			require.NotZero(f, p.Part)
			require.Equal(f, at.Seq, p.Seq, "a partial event skips stored ones")
		} else {
			require.Equal(f, at.Seq+1, p.Seq)
			require.Equal(f, session.Position{Seq: e.Event.Seq}, p)
		}
		at = p
	}
}

// whole requires that a client has received the fixture's whole session: sound entries with all stored events, and the
// graph of the log.
func (f *tailFixture) whole(got []session.Entry) {
	f.Helper()
	stored := f.stored()
	f.sound(got, session.Position{})
	f.sameEntries(stored, complete(got))
	require.Equal(f, graphOf(f.T, stored), graphOf(f.T, got))
}

// sameEntries requires that two clients received the same entries, compared as JSON.
func (f *tailFixture) sameEntries(want, got []session.Entry) {
	f.Helper()
	require.Equal(f, f.lines(want), f.lines(got))
}

func (f *tailFixture) lines(entries []session.Entry) []string {
	f.Helper()
	list := make([]*event.Event, len(entries))
	for i, e := range entries {
		list[i] = e.Event
	}
	out := toJSON(f.T, list)
	for i, e := range entries {
		out[i] = e.ID + " " + out[i]
	}
	return out
}

// stored returns the log of the fixture's session as entries.
func (f *tailFixture) stored() []session.Entry {
	f.Helper()
	var out []session.Entry
	for _, e := range load(f.T, f.store, f.key, 0) {
		out = append(out, session.Entry{ID: session.Position{Seq: e.Seq}.String(), Event: e})
	}
	return out
}

func complete(entries []session.Entry) []session.Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e session.Entry) bool { return e.Event.Partial })
}

// graphOf reduces entries to a graph without what depends only on the order of parallel runs.
func graphOf(t *testing.T, entries []session.Entry) any {
	t.Helper()
	g := conversation.New()
	for _, e := range entries {
		g = g.Reduce(e.Event)
	}
	b, err := json.Marshal(g)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(b, &out))
	for name, list := range out {
		if list, ok := list.([]any); ok {
			lines := make([]string, len(list))
			for i, v := range list {
				if node, ok := v.(map[string]any); ok { // of the envelope, the delta's stays
					for _, field := range []string{"seq", "time", "attempt", "partial"} {
						delete(node, field)
					}
				}
				b, err := json.Marshal(v)
				require.NoError(t, err)
				lines[i] = string(b)
			}
			slices.Sort(lines)
			out[name] = lines
		}
	}
	return out
}

func isCanceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
