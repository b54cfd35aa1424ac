package sessiontest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

const modelRuns, modelSteps = 24, 80

// modelTests makes random changes to a store and to a model of it, and requires after each that the store contains what
// the model does. The log of a failed test lists the changes.
func modelTests() (tests []test) {
	for seed := range uint64(modelRuns) {
		tests = append(tests, test{fmt.Sprint("as the model, case ", seed), func(f *fixture) { newModel(f, seed).run() }})
	}
	return tests
}

// model is the simplest store: each of its sessions has a copy of its whole log.
type model struct {
	*fixture
	rng      *rand.Rand
	stores   []session.Store // all have the same data
	keys     []session.Key
	sessions map[session.Key]*modelSession
	state    map[session.Key]map[string]any // the state of users, and of apps under a key without a user
	leases   []session.Lease                // all that the store has returned
	used     map[session.Key]map[int64]bool // the incarnations of a key
	passed   time.Duration                  // by the clock of the store, since the start of the test
	start    time.Time                      // the start by that clock; zero before the first list
	events   int
}

type modelSession struct {
	key              session.Key
	log              []*event.Event
	lastID           string // of the log's end; "" in an empty log, and if a store does not record it for a fork
	fork             bool
	shared           int64
	parent           *modelSession // of a fork: whose own event the last shared one is
	deleted, listed  bool
	created, updated time.Duration
	incarnation      int64 // 0 before the store has returned it
	token            int64 // of the last lease
	lease            session.Lease
	held, dead       bool // the lease was not released; its holder has died
	until            time.Duration
	stop             int64            // the largest position of a request to stop
	blobs            map[string]int64 // the position at which each was put, by digest
	snapshot         session.Snapshot
}

func newModel(f *fixture, seed uint64) *model {
	m := &model{fixture: f, rng: rand.New(rand.NewPCG(seed, 1)), stores: []session.Store{f.store}, sessions: make(map[session.Key]*modelSession),
		state: make(map[session.Key]map[string]any), used: make(map[session.Key]map[int64]bool)}
	for _, app := range []string{f.app, "other-" + f.app} {
		for _, name := range []string{"ann s1", "ann s2", "bob s1"} {
			user, id, _ := strings.Cut(name, " ")
			m.keys = append(m.keys, session.Key{App: app, User: user, ID: id})
		}
	}
	m.keys = m.keys[:5]
	if f.Peer != nil && seed%2 == 0 {
		m.stores = append(m.stores, f.mustOpen(f.Peer(f.T, f.store)))
	}
	return m
}

func (m *model) run() {
	defer func() {
		if m.passed < 0 { // other tests share the clock
			m.Advance(-m.passed)
		}
	}()
	begun := time.Now()
	for range modelSteps {
		if m.Advance == nil && time.Since(begun) > session.LeaseTTL/3 {
			break // before a lease ends by the store's own clock
		}
		key := m.key()
		switch n := m.rng.IntN(30); {
		case n < 2:
			m.requestStop(key)
		case n < 13:
			m.write(key)
		case n < 17:
			key = m.prefer(key, func(s *modelSession) bool { return s != nil && s.held })
			m.putBlob(key)
		case n < 22:
			key = m.prefer(key, func(s *modelSession) bool { return s == nil || !s.listed })
			m.forkTo(m.key(), key)
		case n < 25:
			m.remove(key)
		case n < 29 && m.Advance != nil:
			m.wait()
		case n == 29 && m.Reopen != nil:
			m.Logf("reopen")
			m.fixture.store = m.mustOpen(m.Reopen(m.T, m.fixture.store))
			m.stores[0] = m.fixture.store
		}
		m.compare(key)
	}
	for _, i := range m.rng.Perm(len(m.keys)) {
		m.remove(m.keys[i])
		m.compare(m.key())
	}
}

func (m *model) key() session.Key { return m.keys[m.rng.IntN(len(m.keys))] }

// prefer mostly returns a key whose session, or nil if there is none, is as wanted.
func (m *model) prefer(key session.Key, wanted func(*modelSession) bool) session.Key {
	for range 4 {
		if !wanted(m.sessions[key]) {
			key = m.key()
		}
	}
	return key
}

func (m *model) one() session.Store { return m.stores[m.rng.IntN(len(m.stores))] }

func (m *model) chance(percent int) bool { return m.rng.IntN(100) < percent }

func (m *model) wait() {
	d := []time.Duration{time.Millisecond, time.Second, session.LeaseTTL - time.Millisecond, session.LeaseTTL, -time.Hour}[m.rng.IntN(5)]
	m.Logf("%s passes", d)
	m.passed += d
	m.Advance(d)
}

// list returns new events after a position.
func (m *model) list(seq int64) (list []*event.Event) {
	n := m.rng.IntN(4)
	if m.chance(3) {
		n = 150 // more than a page
	}
	for range n {
		m.events++
		var value any
		if m.chance(70) {
			values := []any{m.events, 0, 2.5, false, "", "<&>", []any{1, "two", nil, map[string]any{"k": 2.5}}, map[string]any{}}
			value = values[m.rng.IntN(len(values))]
		}
		seq++
		e := entry(seq, m.payload(value))
		if e.ID, e.RunID = fmt.Sprint("m", m.events), fmt.Sprint("r", m.rng.IntN(3)); m.chance(20) {
			e.ID += " with a space"
		}
		if m.chance(20) {
			e.Scope = "inner"
		}
		list = append(list, e)
	}
	return list
}

// payload returns what changes a session's status or state, or looks like it.
func (m *model) payload(value any) event.Data {
	fake := `{"type":"harness_end","finishReason":"error"}`
	reasons := []event.FinishReason{event.FinishReasonStop, event.FinishReasonLength, event.FinishReasonContentFilter, event.FinishReasonInputRequired,
		event.FinishReasonError, event.FinishReasonLimit, event.FinishReasonCanceled, event.FinishReasonTransfer}
	all := []event.Data{text(fmt.Sprint("text ", m.events)), text([]string{fake, "user", "harness_end"}[m.rng.IntN(3)]),
		&event.User{Content: llm.Content{Text: fake}}, &event.HarnessStart{AgentID: "support"},
		&event.HarnessEnd{AgentID: "support", FinishReason: reasons[m.rng.IntN(len(reasons))]},
		state(), state([]string{"user:a", "user:b\x00/ü", "user:", "app:a", "app:", "type", "turn:a", "User:a", "user"}[m.rng.IntN(9)], value)}
	return all[m.rng.IntN(len(all))]
}

// spoilOne makes one of some events wrong, so that a store must refuse all of them.
func (m *model) spoilOne(list []*event.Event) {
	i := m.rng.IntN(len(list))
	switch e := list[i]; m.rng.IntN(8) {
	case 0:
		e.Seq++
	case 1:
		e.Seq--
	case 2:
		e.Seq = 0
	case 3:
		e.Partial = true
	case 4:
		e.Data = nil
	case 5:
		e.Data = &event.Continue{}
	case 6:
		e.Data = &event.Finish{}
	default:
		list[i] = nil
	}
}

func (s *modelSession) head() session.Head {
	if s == nil {
		return session.Head{}
	}
	return session.Head{Seq: int64(len(s.log)), ID: s.lastID}
}

// leased reports whether a living process holds the session.
func (m *model) leased(s *modelSession) bool {
	return s != nil && s.held && !s.dead && s.until > m.passed && s.until <= m.passed+session.LeaseTTL
}

func (s *modelSession) holds(l session.Lease) bool {
	return s != nil && s.held && l.Token == s.lease.Token && l.Nonce == s.lease.Nonce && l.Nonce != 0
}

// someLease returns the lease of a session, or one that is not.
func (m *model) someLease(s *modelSession) (l session.Lease) {
	if s != nil {
		l = s.lease
	}
	switch m.rng.IntN(12) {
	case 0:
		l.Token += int64(m.rng.IntN(5) - 2)
	case 1:
		l.Nonce++
	case 2, 3:
		if len(m.leases) > 0 {
			l = m.leases[m.rng.IntN(len(m.leases))]
		}
	}
	return l
}

func (m *model) owner() (o session.Owner, dead bool) {
	me := session.Self()
	switch o = (session.Owner{Host: me.Host, PID: 1 << 30, Started: 1}); { // above every system's highest PID
	case m.DeadOwners && !session.Alive(o) && m.chance(20):
		return o, true
	case m.chance(20):
		return session.Owner{Host: "not-" + me.Host, PID: 1 << 30, Started: 1}, false
	}
	return me, false
}

// requestStop requests a stop at a position that the log may lack.
func (m *model) requestStop(key session.Key) {
	s := m.sessions[key]
	at, before := 1+m.rng.Int64N(s.head().Seq+2), s.head()
	m.Logf("%s: request a stop at %d", key, at)
	lease, err := m.one().Write(m.Context(), key, session.Write{Stop: at})
	var moved *session.HeadError
	if at > before.Seq {
		require.ErrorAs(m, err, &moved)
		require.Equal(m, []session.Head{{Seq: at}, before}, []session.Head{moved.Want, moved.Got})
		return
	}
	require.NoError(m, err)
	s.stop = max(s.stop, at)
	require.Equal(m, s.stop, lease.Stop)
}

func (m *model) write(key session.Key) {
	s := m.sessions[key]
	w := session.Write{Head: s.head(), Release: m.chance(30)}
	dead := false
	if !m.leased(s) && m.chance(60) || m.chance(10) {
		w.Acquire, dead = m.owner()
	} else {
		w.Lease = m.someLease(s)
		w.Abandon = !w.Release && m.chance(15)
	}
	if m.chance(15) {
		others := []session.Head{{}, {Seq: w.Head.Seq}, {Seq: w.Head.Seq, ID: "other"}, {Seq: w.Head.Seq + 1, ID: w.Head.ID}, {Seq: max(w.Head.Seq-1, 0), ID: w.Head.ID}}
		w.Head = others[m.rng.IntN(len(others))]
	}
	w.Events = m.list(w.Head.Seq)
	if m.fixture.store.KeepsSnapshots() && m.chance(30) {
		w.Snapshot = session.Snapshot{Seq: m.rng.Int64N(w.End().Seq+3) - 1, Data: fmt.Sprint("snapshot ", m.events, string(m.bytes()))}
	}
	end, wrong := w.End().Seq, m.chance(12) && len(w.Events) > 0
	if wrong {
		m.spoilOne(w.Events)
	}
	m.Logf("%s: write %d events at %v, wrong %v, acquire %v, lease %d, release %v, abandon %v, snapshot %d",
		key, len(w.Events), w.Head, wrong, w.Acquire, w.Lease.Token, w.Release, w.Abandon, w.Snapshot.Seq)
	lease, err := m.one().Write(m.Context(), key, w)
	var moved *session.HeadError
	switch {
	case wrong:
		require.Error(m, err)
		require.NotErrorIs(m, err, agent.ErrConflict)
	case w.Snapshot.Seq < 0:
		require.ErrorIs(m, err, agent.ErrBadInput)
	case w.Snapshot.Seq > end:
		require.ErrorIs(m, err, agent.ErrConflict)
	case w.Acquires() && m.leased(s):
		require.ErrorIs(m, err, agent.ErrSessionBusy)
	case !w.Acquires() && !s.holds(w.Lease):
		require.ErrorIs(m, err, agent.ErrConflict)
		require.False(m, errors.As(err, &moved))
	case w.Stores() && w.Head != s.head() && (w.Acquires() || s.head() != session.Head{Seq: w.Head.Seq}):
		require.ErrorAs(m, err, &moved)
		require.Equal(m, []session.Head{w.Head, s.head()}, []session.Head{moved.Want, moved.Got})
		require.ErrorIs(m, err, agent.ErrConflict)
	default:
		require.NoError(m, err)
		m.written(key, w, lease, dead)
	}
}

// written makes a write that the store accepted.
func (m *model) written(key session.Key, w session.Write, lease session.Lease, dead bool) {
	s := m.sessions[key]
	if s == nil {
		s = &modelSession{key: key}
		m.sessions[key] = s
	}
	m.lives(s, lease.Incarnation)
	m.append(s, w.Events)
	require.Equal(m, s.head(), lease.Head)
	require.Equal(m, s.fork, lease.Fork)
	require.Equal(m, s.shared, lease.Shared)
	require.Equal(m, s.stop, lease.Stop)
	if w.Acquires() {
		require.Greater(m, lease.Token, s.token)
		require.False(m, slices.ContainsFunc(m.leases, func(l session.Lease) bool { return l.Nonce == lease.Nonce }))
		m.leases = append(m.leases, lease)
		s.token, s.dead, s.lease = lease.Token, dead, lease
	} else if !w.Ends() {
		require.True(m, s.holds(lease))
	}
	s.held, s.until = !w.Release, m.passed+session.LeaseTTL
	if w.Abandon {
		s.lease, s.dead = session.Lease{}, true
	}
	if w.Snapshot.Data != "" {
		s.snapshot = w.Snapshot
	}
}

// lives requires that the incarnation of a session stays, and that no session of its key had it before.
func (m *model) lives(s *modelSession, incarnation int64) {
	if s.incarnation == 0 {
		require.False(m, m.used[s.key][incarnation])
		put(m.used, s.key, incarnation, true)
		s.incarnation = incarnation
	}
	require.Equal(m, s.incarnation, incarnation)
}

func put[K, N comparable, V any](m map[K]map[N]V, key K, name N, v V) {
	if m[key] == nil {
		m[key] = make(map[N]V)
	}
	m[key][name] = v
}

func (m *model) append(s *modelSession, list []*event.Event) {
	s.log = append(s.log, list...)
	if len(list) > 0 {
		s.lastID = list[len(list)-1].ID
		if s.updated = m.passed; !s.listed {
			s.listed, s.created = true, m.passed
		}
	}
	for _, e := range list {
		d, _ := e.Data.(*event.State)
		if d == nil {
			continue
		}
		for name, value := range d.Delta {
			of := session.Key{App: s.key.App}
			switch {
			case strings.HasPrefix(name, "user:"):
				of.User = s.key.User
			case !strings.HasPrefix(name, "app:"):
				continue
			}
			if put(m.state, of, name, value); value == nil {
				delete(m.state[of], name)
			}
		}
	}
}

func (m *model) putBlob(key session.Key) {
	s := m.sessions[key]
	lease, data := m.someLease(s), m.bytes()
	m.Logf("%s: put a blob of %d bytes, lease %d", key, len(data), lease.Token)
	want := session.Digest(data)
	digest, err := m.one().PutBlob(m.Context(), key, lease, data)
	clear(data) // the slice is the caller's
	if !s.holds(lease) {
		require.ErrorIs(m, err, agent.ErrConflict)
		return
	}
	require.NoError(m, err)
	require.Equal(m, want, digest)
	if s.blobs == nil {
		s.blobs = make(map[string]int64)
	}
	if _, ok := s.blobs[digest]; !ok {
		s.blobs[digest] = int64(len(s.log))
	}
	renewed, err := m.one().Write(m.Context(), key, session.Write{Lease: lease}) // a store may prolong the lease for a blob
	require.NoError(m, err)
	m.written(key, session.Write{Lease: lease}, renewed, s.dead)
}

func (m *model) forkTo(from, key session.Key) {
	of, to := m.sessions[from], m.sessions[key]
	end, at := int64(0), []int64{0}
	if of != nil {
		end = int64(len(of.log))
		at = append(slices.Sorted(maps.Values(of.blobs)), end, of.shared)
	}
	seq := at[m.rng.IntN(len(at))] + int64(m.rng.IntN(2)) // where the answers of a store may differ
	if m.chance(50) {
		seq = m.rng.Int64N(end+1) - int64(m.rng.IntN(5)/4)
	}
	own := m.list(seq)[:0]
	if m.chance(50) {
		own = m.list(seq)
	}
	wrong := m.chance(25) && len(own) > 0
	if wrong {
		m.spoilOne(own)
	}
	m.Logf("%s: fork %s at %d with %d events, wrong %v", key, from, seq, len(own), wrong)
	err := m.one().Fork(m.Context(), from, seq, key, own...)
	switch {
	case wrong:
		require.Error(m, err)
		return
	case of == nil || !of.listed || seq < 0 || seq > end:
		require.ErrorIs(m, err, agent.ErrBadInput)
		return
	case to != nil && (to.listed || m.leased(to)):
		require.ErrorIs(m, err, agent.ErrConflict)
		return
	}
	require.NoError(m, err)
	s := &modelSession{key: key, log: slices.Clone(of.log[:seq]), fork: true, shared: seq, parent: of, listed: true, created: m.passed, updated: m.passed,
		blobs: maps.Clone(of.blobs)}
	for s.parent.parent != nil && seq <= s.parent.shared {
		s.parent = s.parent.parent
	}
	maps.DeleteFunc(s.blobs, func(_ string, at int64) bool { return at >= seq })
	m.sessions[key] = s
	if m.append(s, own); len(own) == 0 && seq > 0 {
		if s.lastID = m.info(key).LastID; s.lastID != "" {
			require.Equal(m, s.log[seq-1].ID, s.lastID)
		}
	}
}

func (m *model) remove(key session.Key) {
	m.Logf("%s: delete", key)
	require.NoError(m, m.one().Delete(m.Context(), key))
	if s := m.sessions[key]; s != nil {
		s.deleted = true
		delete(m.sessions, key)
	}
}

// compare requires that the store has a session as it is in the model, and a random part of all sessions.
func (m *model) compare(key session.Key) {
	s := cmp.Or(m.sessions[key], &modelSession{})
	end := int64(len(s.log))
	after := m.rng.Int64N(end + 2)
	if m.chance(10) {
		after = []int64{math.MinInt64, -1, math.MaxInt64}[m.rng.IntN(3)]
	}
	require.Equal(m, toJSON(m.T, s.log[min(max(after, 0), end):]), toJSON(m.T, load(m.T, m.one(), key, after)))
	switch m.rng.IntN(3) {
	case 0:
		m.compareBlobs(s, key)
	case 1:
		require.Equal(m, s.snapshot, m.snapshotOf(key))
	default:
		want := make(map[string]any)
		maps.Copy(want, m.state[session.Key{App: key.App}])
		maps.Copy(want, m.state[session.Key{App: key.App, User: key.User}])
		clear(m.shared(m.one(), key, want)) // the map is the caller's
	}
	m.compareLists(key)
}

// shared requires that the shared state of a key has these values, and returns it.
func (f *fixture) shared(store session.Store, key session.Key, want map[string]any) map[string]any {
	f.Helper()
	got, err := store.SharedState(f.Context(), key)
	require.NoError(f, err)
	require.NotNil(f, got)
	require.JSONEq(f, string(event.EncodeJSON(want)), string(event.EncodeJSON(got)))
	return got
}

func (m *model) compareBlobs(s *modelSession, key session.Key) {
	for _, data := range blobsOfModel() {
		digest := session.Digest(data)
		if _, ok := s.blobs[digest]; ok {
			m.hasBlob(m.one(), key, data)
		} else {
			m.hasNoBlob(m.one(), key, digest)
		}
	}
	for _, digest := range []string{"", "x", "sha256:", "\x00\xff", "../../x"} {
		m.hasNoBlob(m.one(), key, digest)
	}
}

// blobsOfModel returns the contents of the files that a model stores.
func blobsOfModel() [][]byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return [][]byte{nil, {0}, {1}, all, bytes.Repeat(all, 1<<9)}
}

func (m *model) bytes() []byte { all := blobsOfModel(); return all[m.rng.IntN(len(all))] }

func (m *model) compareLists(key session.Key) {
	filter := []session.Key{{}, {App: key.App}, {App: key.App, User: key.User}, {App: key.App, ID: key.ID}, {User: key.User}, key}[m.rng.IntN(6)]
	statuses := []session.Status{"", "", "", "", "", session.StatusOpen, session.StatusDone, session.StatusWaiting, session.StatusFailed, session.StatusCanceled}
	page := session.Page{Status: statuses[m.rng.IntN(len(statuses))]}
	if filter.App != "" {
		page.Limit = m.rng.IntN(4)
	} else if m.chance(10) { // the database may have many more
		page.Limit = 1 + m.rng.IntN(20)
	}
	read := func(page session.Page) ([]session.Info, error) { return m.one().List(m.Context(), filter, page) }
	m.same(read, page, func(s *modelSession, i session.Info) bool {
		k := s.key
		return (page.Status == "" || page.Status == i.Status) && (filter.App == "" || filter.App == k.App) &&
			(filter.User == "" || filter.User == k.User) && (filter.ID == "" || filter.ID == k.ID)
	})
	if m.chance(30) {
		read := func(page session.Page) ([]session.Info, error) { return m.one().Orphans(m.Context(), page) }
		m.same(read, session.Page{Limit: m.rng.IntN(100)}, func(s *modelSession, i session.Info) bool { return s.held && !i.Leased })
	}
}

// same requires that a list, read in pages, consists of the sessions that has selects.
func (m *model) same(read readPage, page session.Page, has func(*modelSession, session.Info) bool) {
	got := m.own(m.readAll(page, read))
	require.True(m, slices.IsSortedFunc(got, session.CompareInfo))
	for _, i := range got {
		require.Equal(m, []*time.Location{time.UTC, time.UTC}, []*time.Location{i.Created.Location(), i.Updated.Location()}, i.Key)
	}
	want := []session.Info{}
	for _, s := range m.sessions {
		if i := m.infoOf(s, got); s.listed && has(s, i) {
			want = append(want, i)
		}
	}
	slices.SortFunc(want, session.CompareInfo)
	require.Equal(m, want, append([]session.Info{}, got...))
}

// readAll reads a list from a page to the end. A page without a limit is the whole list.
func (m *model) readAll(page session.Page, read readPage) []session.Info {
	if page.Limit > 0 {
		return m.paged(page, nil, read)
	}
	infos, err := read(page)
	require.NoError(m, err)
	return infos
}

// infoOf returns what lists say about a session. It takes from got what the store alone knows: the first incarnation,
// and the times if the test does not set the clock.
func (m *model) infoOf(s *modelSession, got []session.Info) session.Info {
	i := session.Info{Key: s.key, Seq: int64(len(s.log)), LastID: s.head().ID, Status: session.Status("").After(s.log...), ParentSeq: s.shared, Leased: m.leased(s)}
	if s.parent != nil && !s.parent.deleted {
		i.Parent = s.parent.key
	}
	if at := slices.IndexFunc(got, func(i session.Info) bool { return i.Key == s.key }); at >= 0 {
		m.lives(s, got[at].Incarnation)
		if m.Advance == nil {
			i.Created, i.Updated = got[at].Created, got[at].Updated
		} else if m.start.IsZero() {
			m.start = got[at].Updated.Add(-s.updated)
		}
	}
	i.Incarnation = s.incarnation
	if m.Advance != nil {
		i.Created, i.Updated = m.start.Add(s.created), m.start.Add(s.updated)
	}
	return i
}
