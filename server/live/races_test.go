package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
	"github.com/agentarbor/arbor/tools"
)

// race is what several clients of several processes do at once.
type race struct {
	*testing.T
	*desk
	processes []*Turns
	past      *checkpoint.Sessions

	mu    sync.Mutex
	keys  []session.Key      // the session and its edited copies
	begun map[string]string  // turns, by session and request
	seen  map[string]watched // how far turns were watched, by session and turn
}

// Several processes and clients begin, decide, stop, cancel and edit in one session as they like,
// and watch it, one of the processes is killed, and the other one adopts what it finds. Whatever comes first, the log is lawful, which the
// store checks; every error is one of those that are promised; no request begins two turns; each
// watch tells a part of the log without a gap and goes on where another one was left; reports
// and states say what the log does; and in the end the sessions can be brought to rest.
func TestRaces(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { play(t, seed) })
	}
}

func play(t *testing.T, seed uint64) {
	ctx := context.Background()
	d, a := newDesk(t)
	store := clocked(t)
	dying := &crashes{Store: store}
	past := must.Get(checkpoint.New(store))
	x := &race{T: t, desk: d, processes: []*Turns{newTurns(t, a, store, WithAdoption(20*time.Millisecond)), newTurns(t, a, dying)}, past: past,
		keys: []session.Key{key}, begun: make(map[string]string), seen: make(map[string]watched)}
	var clients sync.WaitGroup
	for i := range uint64(4) {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(seed, i))
			for range 15 {
				x.act(r)
				time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond) // of the bubble
			}
		})
	}
	if r := rand.New(rand.NewPCG(seed, 99)); r.IntN(2) == 0 {
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		dying.dead.Store(true)
	}
	clients.Wait()
	for range 20 { // what waits is let go on
		select {
		case d.free <- struct{}{}:
		default:
		}
	}
	time.Sleep(2 * session.LeaseTTL)
	synctest.Wait()
	for _, key := range x.keys {
		_, err := x.processes[0].Cancel(ctx, key)
		if errors.Is(err, agent.ErrSessionBusy) && !dying.dead.Load() {
			_, err = x.processes[1].Cancel(ctx, key)
		}
		require.NoError(t, err)
		s, err := x.processes[0].Look(ctx, key)
		require.NoError(t, err)
		require.Contains(t, []State{"", Done, Failed, Canceled}, s.State)
		x.reports(ctx, key, s)
	}
}

// reports checks what is said of each turn of a session that is at rest, here by all processes.
func (x *race) reports(ctx context.Context, key session.Key, s Status) {
	var turns []Report
	for e, err := range x.processes[0].Store().Load(ctx, key, 0) {
		require.NoError(x, err)
		if e.Type() == event.TypeUser {
			turns = append(turns, Report{})
		}
		turns[len(turns)-1].Apply(e)
	}
	for i, want := range turns {
		if i < len(turns)-1 && (want.State == Running || want.State == Waiting) {
			want.State = Canceled
		}
		for _, p := range x.processes {
			got, err := p.Report(ctx, key, want.ID)
			require.NoError(x, err)
			require.Equal(x, want, *got)
		}
		if i == len(turns)-1 {
			require.Equal(x, s.State, want.State)
			require.Equal(x, s.Turn, want.ID)
		}
	}
}

// act is something that a client does.
func (x *race) act(r *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(20))*time.Millisecond)
	defer cancel()
	x.mu.Lock()
	key := x.keys[r.IntN(len(x.keys))]
	x.mu.Unlock()
	turns, words := x.processes[r.IntN(2)], []string{"hello", "think", "ask", "fail"}
	var err error
	act := r.IntN(12)
	if (act == 5 || act == 6) && r.IntN(3) == 0 { // long enough for the other process to see the request
		ctx = context.Background()
	}
	switch act {
	case 0:
		_, err = turns.Begin(ctx, key, llm.UserText(words[r.IntN(4)]))
	case 1, 2:
		var b *Begun
		n := r.IntN(8)
		b, err = turns.BeginOnce(ctx, key, llm.UserText(words[n%4]), Request{ID: fmt.Sprint(n), Wait: time.Duration(r.IntN(10)) * time.Millisecond})
		if err == nil {
			x.mu.Lock()
			name := fmt.Sprint(key, n)
			if before, ok := x.begun[name]; ok && before != b.ID {
				x.Errorf("the request %s has begun the turns %s and %s", name, before, b.ID)
			}
			x.begun[name] = b.ID
			x.mu.Unlock()
		}
	case 3:
		var s Status
		if s, err = turns.Look(ctx, key); err == nil && len(s.Pending) > 0 {
			d := runner.Decision{CallID: s.Pending[0].ToolCallID, Approved: r.IntN(2) == 0}
			if r.IntN(2) == 0 {
				_, err = turns.Resume(ctx, key, d)
			} else { // with a name that another client may have used for the opposite
				_, err = turns.DecideOnce(ctx, key, s.Turn, Request{ID: fmt.Sprint(r.IntN(2))}, d)
			}
		}
	case 4:
		_, err = turns.Resume(ctx, key)
	case 5:
		err = turns.Stop(ctx, key)
	case 6:
		_, err = turns.Cancel(ctx, key)
	case 7:
		x.free <- struct{}{}
	case 8:
		for _, err = range turns.Follow(ctx, key, "") {
		}
	case 9, 10:
		var rep *Report
		if rep, err = turns.Report(ctx, key, ""); err == nil {
			err = x.watch(ctx, r, turns, key, rep)
		}
	case 11:
		err = x.edit(ctx, r, turns, key)
	}
	for _, known := range []error{agent.ErrSessionBusy, agent.ErrConflict, runner.ErrNoApproval, context.DeadlineExceeded, agent.ErrSuspended, ErrCanceled, ErrNoTurn, errDead, runner.ErrTurnOver, ErrMismatch} {
		if err == nil || errors.Is(err, known) {
			return
		}
	}
	if !errors.As(err, new(*agent.RunError)) {
		x.Errorf("%T %v", err, err)
	}
}

// watch goes on to watch a turn where it was left, or from the beginning.
func (x *race) watch(ctx context.Context, r *rand.Rand, turns *Turns, key session.Key, rep *Report) error {
	name, w := fmt.Sprint(key, rep.ID), watched{}
	if r.IntN(2) == 0 {
		x.mu.Lock()
		w = x.seen[name]
		x.mu.Unlock()
	}
	next, most := rep.First, r.IntN(8)
	if n := len(w.seqs); n > 0 {
		next = w.seqs[n-1] + 1
	}
	for entry, err := range turns.Watch(ctx, key, rep.First, w.last) {
		if err != nil {
			return err
		}
		w.last = entry.ID
		if e := entry.Event; !e.Partial {
			if e.Seq != next || e.TurnID != rep.ID {
				x.Errorf("a watch of the turn %s tells the event %d of %s, not %d", rep.ID, e.Seq, e.TurnID, next)
			}
			next, w.seqs = next+1, append(w.seqs[:len(w.seqs):len(w.seqs)], e.Seq)
		}
		if len(w.seqs) == most {
			break
		}
	}
	x.mu.Lock()
	x.seen[name] = w
	x.mu.Unlock()
	return nil
}

// edit says something else instead of the last words, in a copy that others find, too.
func (x *race) edit(ctx context.Context, r *rand.Rand, turns *Turns, key session.Key) error {
	rep, err := turns.Report(ctx, key, "")
	if err != nil {
		return err
	}
	x.mu.Lock()
	to := session.ID(fmt.Sprint("edit", len(x.keys)))
	full := len(x.keys) == 4
	x.mu.Unlock()
	if full {
		return nil
	}
	if err := x.past.Edit(ctx, key, rep.First, llm.Content{Text: "ask"}, to); err != nil {
		return err
	}
	x.mu.Lock()
	x.keys = append(x.keys, to)
	x.mu.Unlock()
	_, err = turns.Resume(ctx, to)
	return err
}

// before calls a function before the first lease is taken through it.
type before struct {
	session.Store
	lease func()
	once  sync.Once
}

func (s *before) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if w.Acquires() {
		s.once.Do(s.lease)
	}
	return s.Store.Write(ctx, key, w)
}

// A decision that waits for a busy session answers the question that was open when it came, and not what the same call
// asks afterwards.
func TestDecisionAboutALaterQuestion(t *testing.T) {
	for _, later := range []string{"Pay 10,000 to it?", "Is the address right?"} { // or it asks the same again
		t.Run(later, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testLaterQuestion(t, later) }) })
	}
}

func testLaterQuestion(t *testing.T, later string) {
	ctx, answered, hold := t.Context(), make(chan bool), make(chan bool)
	pay := must.Get(tools.Func("pay", "Pays.", func(c tools.Context, _ struct{}) (string, error) {
		if _, err := c.Ask("Is the address right?", nil); err != nil {
			return "", err
		}
		answered <- true
		<-hold
		_, err := c.Ask(later, nil)
		return "paid", err
	}))
	a := must.Get(llmagent.New("a", "", scripted.Always("a", scripted.Reply(scripted.Call("pay", "{}"))), llmagent.WithTools(pay)))
	store := clocked(t)
	one := newTurns(t, a, store)
	require.NoError(t, must.Get(one.Begin(ctx, key, llm.UserText("pay"))).Wait(ctx))
	asked := must.Get(one.Report(ctx, key, ""))
	yes := runner.Answer(asked.Pending[0].ToolCallID, "yes")
	two := newTurns(t, a, &before{Store: store, lease: func() {
		must.Get(one.DecideOnce(ctx, key, asked.ID, Request{}, yes))
		<-answered
		time.AfterFunc(time.Millisecond, func() { close(hold) }) // of the bubble: when the other decision waits
	}})
	given := []runner.Decision{yes}
	_, err := two.DecideOnce(ctx, key, asked.ID, Request{ID: "again", Wait: time.Minute}, given...)
	require.ErrorIs(t, err, runner.ErrNoApproval)
	require.Equal(t, yes, given[0], "a caller may use its decisions again")
	r := must.Get(one.Report(ctx, key, ""))
	require.Equal(t, later, r.Pending[0].Message)
	require.Len(t, r.Decisions(), 1)
}

// A decision that waits for another request of this process answers the question that was open when it came.
func TestDecisionThatWaitsForTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		pay := must.Get(tools.Func("pay", "Pays.", func(c tools.Context, _ struct{}) (string, error) {
			if _, err := c.Ask("Is the address right?", nil); err != nil {
				return "", err
			}
			_, err := c.Ask("Pay 10,000 to it?", nil)
			return "paid", err
		}))
		a := must.Get(llmagent.New("a", "", scripted.Always("a", scripted.Reply(scripted.Call("pay", "{}"))), llmagent.WithTools(pay)))
		turns := newTurns(t, a, clocked(t))
		require.NoError(t, must.Get(turns.Begin(ctx, key, llm.UserText("pay"))).Wait(ctx))
		asked := must.Get(turns.Report(ctx, key, ""))
		yes := runner.Answer(asked.Pending[0].ToolCallID, "yes")
		unlock := must.Get(turns.Lock(ctx, key, nil))
		late := make(chan error)
		go func() {
			_, err := turns.DecideOnce(ctx, key, asked.ID, Request{}, yes)
			late <- err
		}()
		synctest.Wait()
		require.NoError(t, must.Get(turns.Resume(ctx, key, yes)).Wait(ctx))
		unlock()
		require.ErrorIs(t, <-late, runner.ErrNoApproval)
		require.Equal(t, "Pay 10,000 to it?", stateIs(t, turns, key, Waiting).Pending[0].Message)
		must.Get(turns.DecideOnce(ctx, key, asked.ID, Request{}, yes))
	})
}
