package session

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
)

// foldForm is the version of the bytes of a fold. Whoever changes what Apply keeps, or what it
// makes of an event, changes it, and folds that were stored before are made anew from their logs.
const foldForm = 1

// longUser is from how many bytes on what the user said is left out of a fold's bytes: it
// may hold images, and is at Turn.First in the log.
const longUser = 16 << 10

var (
	_ encoding.BinaryAppender    = (*Fold)(nil)
	_ encoding.BinaryUnmarshaler = (*Fold)(nil)
)

// AppendBinary appends the fold as bytes: all that Apply needs to go on. What the user said is
// left out if it is long. The error is that of an event without a JSON form.
func (f *Fold) AppendBinary(b []byte) ([]byte, error) {
	w := foldWriter{b: pack.Int(b, foldForm)}
	w.b = pack.Time(pack.Int(w.b, f.Seq), f.Latest)
	w.b = pack.Int(w.b, f.before)
	w.turn(&f.Turn)
	w.scope(&f.conversation)
	w.count(len(f.inner))
	for _, name := range slices.Sorted(maps.Keys(f.inner)) {
		w.text(name)
		w.scope(f.inner[name])
	}
	w.count(len(f.over))
	for _, o := range f.over {
		w.text(o.Scope, o.Agent, string(o.Input), o.call)
		w.b = pack.Bool(pack.Bool(pack.Int(w.b, o.First), o.Over), o.Canceled)
	}
	w.count(len(f.state))
	for _, key := range slices.Sorted(maps.Keys(f.state)) {
		value, err := json.Marshal(f.state[key])
		if err != nil {
			return nil, fmt.Errorf("session: the state %q: %w", key, err)
		}
		w.text(key, string(value))
	}
	w.count(len(f.spent))
	for i := range f.spent {
		s := &f.spent[i]
		w.text(s.Agent, s.Model)
		w.use(&s.Session)
		w.use(&s.Turn)
	}
	w.b = pack.Int(pack.Int(w.b, int64(f.time.Session)), int64(f.time.Turn))
	w.count(len(f.time.Agents))
	for _, t := range f.time.Agents {
		w.text(t.Agent)
		w.b = pack.Int(w.b, int64(t.Session))
	}
	w.count(len(f.remote))
	for i := range f.remote {
		r := &f.remote[i]
		w.payload(&r.RemoteTask)
		w.text(r.Scope, r.Agent, r.Path, r.RunID, r.TurnID)
		w.b = pack.Int(pack.Int(w.b, r.Since), r.First)
		w.count(len(r.Way))
		for _, step := range r.Way {
			w.text(step.Agent, step.Inner)
		}
	}
	return w.b, w.err
}

// UnmarshalBinary makes the fold what AppendBinary has written. If that left out what the user
// said, Turn.User is nil although Turn.First is not 0: it is the event at that position.
// Bytes that no fold can have are an error, and leave an empty fold.
func (f *Fold) UnmarshalBinary(data []byte) error {
	*f = Fold{}
	r := foldReader{Reader: pack.NewReader(string(data))}
	if r.Int() != foldForm {
		return errors.New("session: the bytes are not those of a fold")
	}
	f.Seq, f.Latest, f.before = r.Position(), r.Time(), r.Int64()
	r.turn(&f.Turn)
	r.scope(&f.conversation)
	for range r.Items() {
		name, s := r.Text(), new(Scope)
		r.scope(s)
		r.require(name != "" && f.inner[name] == nil)
		put(&f.inner, name, s)
		if s.opener != "" {
			put(&f.inside, s.opener, f.inside[s.opener]+1)
		}
	}
	for range r.Items() {
		o := Opened{Scope: r.Text(), Agent: r.Text(), Input: r.Bytes(), call: r.Text()}
		o.First, o.Over, o.Canceled = r.Position(), r.Bool(), r.Bool()
		f.over = append(f.over, o)
	}
	for range r.Items() {
		key := r.Text()
		put(&f.state, key, event.DecodeValue([]byte(r.Text())))
		r.require(f.state[key] != nil)
	}
	for range r.Items() {
		s := Spent{Agent: r.Text(), Model: r.Text()}
		r.use(&s.Session)
		r.use(&s.Turn)
		f.spent = append(f.spent, s)
	}
	f.time.Session, f.time.Turn = r.duration(), r.duration()
	for n := range r.Items() {
		name := r.Text()
		r.require(f.timed(name) == n) // else it is there already
		if r.Err() == nil {
			f.time.Agents[n].Session = r.duration()
		}
	}
	for n := range r.Items() {
		r.require(n < maxRemote)
		f.remote = append(f.remote, r.remote())
	}
	r.require(f.nested())
	if err := r.Done(); err != nil {
		*f = Fold{}
		return fmt.Errorf("session: a fold's bytes: %w", err)
	}
	return nil
}

// nested reports whether each inner scope was opened after the one that it is in, so that none is
// inside of itself.
func (f *Fold) nested() bool {
	if len(f.inner) == 0 {
		return true
	}
	opened := make(map[string]int64) // where the scope begins whose run opens others by an id
	for _, s := range f.inner {
		s.Run.Opens(func(id string) { opened[id] = max(opened[id], s.first) })
	}
	for _, s := range f.inner {
		if first, ok := opened[s.opener]; ok && s.opener != "" && first >= s.first {
			return false
		}
	}
	return true
}

func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = value
}

// foldWriter appends the parts of a fold. Transfers are written once, though several places
// name them.
type foldWriter struct {
	b         []byte
	transfers []*event.Transfer
	err       error
}

func (w *foldWriter) count(n int) { w.b = pack.Int(w.b, n) }

func (w *foldWriter) text(texts ...string) {
	for _, s := range texts {
		w.b = pack.Text(w.b, s)
	}
}

func (w *foldWriter) payload(d event.Data) {
	var err error
	if w.b, err = pack.Payload(w.b, d); err != nil && w.err == nil {
		w.err = err
	}
}

func (w *foldWriter) turn(t *Turn) {
	w.text(t.ID, t.UserRunID)
	w.b = pack.Time(pack.Int(w.b, t.First), t.Started)
	w.b = pack.Int(pack.Int(pack.Int(w.b, t.Transfers), t.ModelCalls), t.ToolCalls)
	if t.User == nil {
		w.text("")
		return
	}
	before := len(w.b)
	if w.payload(t.User); len(w.b)-before > longUser {
		w.b = w.b[:before]
		w.text("")
	}
}

func (w *foldWriter) scope(s *Scope) {
	w.text(s.Active, s.LastEnd, string(s.Input), s.root, s.opener)
	w.b = pack.Int(pack.Int(w.b, s.first), s.began)
	w.text(s.node.id, s.node.run, s.node.typ)
	w.count(s.node.n)
	w.transfer(s.handed)
	w.transfer(s.given)
	w.count(len(s.pairs))
	for _, p := range s.pairs {
		w.text(p.from, p.to)
	}
	w.run(&s.Run)
}

func (w *foldWriter) run(r *Run) {
	w.text(r.ID, r.Agent, r.Path, r.TurnID, r.AgentID, string(r.Finish), r.Target, r.Said)
	w.b = pack.Int(pack.Int(pack.Int(w.b, r.Since), r.Start), r.Answers)
	w.b = pack.Bool(pack.Bool(w.b, r.Open), r.TakesUp)
	w.count(len(r.Before))
	w.text(r.Before...)
	w.transfer(r.Transfer)
	w.count(len(r.Pending))
	for i := range r.Pending {
		c := &r.Pending[i]
		w.text(c.ID, c.Name, c.RunID, c.Relay)
		w.b = pack.Int(pack.Int(pack.Int(w.b, c.Made), c.Number), c.at)
		w.b = pack.Bool(pack.Bool(w.b, c.Resolved), c.Asks != nil)
		if c.Asks != nil {
			w.payload(c.Asks)
		}
	}
}

// transfer appends 0 for none, the place from 1 of one that was written before, or the next place
// and the transfer.
func (w *foldWriter) transfer(t *event.Transfer) {
	if t == nil {
		w.count(0)
		return
	}
	i := slices.Index(w.transfers, t)
	if i >= 0 {
		w.count(i + 1)
		return
	}
	w.transfers = append(w.transfers, t)
	w.count(len(w.transfers))
	w.payload(t)
}

func (w *foldWriter) use(u *Use) {
	for _, n := range [...]int{u.Answers, u.Reported, u.InputTokens, u.OutputTokens, u.CachedTokens} {
		w.b = pack.Int(w.b, n)
	}
}
