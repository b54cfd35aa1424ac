package router

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/internal/pack"
)

// pastForm is the version of the bytes of a past. Whoever changes what it keeps of a log changes it.
const pastForm = 1

// Seq is the position up to which the log was read.
func (p *past) Seq() int64 { return p.seq }

// SnapshotName is the name under which the runner stores a past beside the log.
func (p *past) SnapshotName() string { return pack.Name("router", p.name) }

// AppendSnapshot appends all of the past: it is small.
func (p *past) AppendSnapshot(b []byte) []byte {
	b = pack.Text(pack.Int(b, pastForm), p.of.namesBelow())
	b = pack.Bool(pack.Int(b, p.seq), p.asked)
	b = pack.Text(pack.Text(pack.Text(b, p.turn), p.active), p.before)
	b = pack.Int(pack.Texts(b, p.gone), len(p.asking))
	for _, a := range p.asking {
		b = pack.Bool(pack.Text(b, a.agent), a.task)
	}
	b = pack.Int(b, len(p.moods))
	for _, m := range p.moods {
		b = pack.Int(pack.Text(b, m.turn), len(m.values))
		for _, label := range slices.Sorted(maps.Keys(m.values)) {
			b = pack.Text(pack.Text(b, label), strconv.FormatFloat(m.values[label], 'g', -1, 64))
		}
	}
	return b
}

// ReadSnapshot makes a fresh past what was stored, unless that is of a router with other agents below it.
func (p *past) ReadSnapshot(r *pack.Reader) bool {
	if r.Int() != pastForm || r.Text() != p.of.namesBelow() {
		return false
	}
	p.seq, p.asked, p.turn, p.active, p.before = r.Position(), r.Bool(), r.Text(), r.Text(), r.Text()
	p.gone = r.Texts()
	for range r.Items() {
		p.asking = append(p.asking, asks{r.Text(), r.Bool()})
	}
	for range r.Items() {
		m := mood{turn: r.Text(), values: make(map[string]float64)}
		for range r.Items() {
			label := r.Text()
			value, err := strconv.ParseFloat(r.Text(), 64)
			if m.values[label] = value; err != nil {
				r.Fail()
			}
		}
		p.moods = append(p.moods, m)
	}
	return len(p.moods) <= maxTurns
}

// namesBelow are the names of all agents below the router, whose words it looks for.
func (r *Router) namesBelow() string {
	return strings.Join(slices.Sorted(maps.Keys(r.index)), "\x00")
}
