package human

import "github.com/agentarbor/arbor/internal/pack"

// legForm is the version of the bytes of a leg. Whoever changes what it keeps of a log changes it.
const legForm = 1

// Seq is the position up to which the log was read.
func (l *leg) Seq() int64 { return l.seq }

// SnapshotName is the name under which the runner stores a leg beside the log.
func (l *leg) SnapshotName() string { return "desk" }

// AppendSnapshot appends all of the leg. It grows by seventeen bytes for each word of the desk.
func (l *leg) AppendSnapshot(b []byte) []byte {
	b = pack.Time(pack.Int(pack.Int(b, legForm), l.seq), l.at)
	b = pack.Text(pack.Text(b, l.id), l.now)
	b = pack.Int(pack.Time(pack.Int(b, l.askedAt), l.since), l.upTo)
	b = pack.Texts(b, l.heard)
	for _, w := range []wish{l.asked, l.handed} {
		b = pack.Texts(pack.Text(pack.Text(pack.Text(b, w.from), w.reason), w.route), w.path)
	}
	return b
}

// ReadSnapshot makes a fresh leg what was stored.
func (l *leg) ReadSnapshot(r *pack.Reader) bool {
	if r.Int() != legForm {
		return false
	}
	l.seq, l.at = r.Position(), r.Time()
	l.id, l.now = r.Text(), Status(r.Text())
	l.askedAt, l.since, l.upTo = r.Position(), r.Time(), r.Position()
	l.heard = r.Texts()
	for _, w := range []*wish{&l.asked, &l.handed} {
		*w = wish{r.Text(), r.Text(), r.Text(), r.Texts()}
	}
	return l.now.Known() && l.askedAt <= l.seq && l.upTo <= l.seq
}
