package event

import "fmt"

// Decode returns the event that a store holds at a position, from its JSON. It never
// fails, so that only the damaged entry itself is lost. An event that cannot be
// read, or whose JSON has another seq, is an [Unknown] of [TypeUnreadable] with the
// position's seq, and with as much of its envelope as precedes the damage. JSON
// deeper than [MaxDepth], which earlier versions stored, is a string, as by [Bound].
func Decode(seq int64, data []byte) *Event {
	var f fields
	return f.decode(seq, data)
}

// A Decoder decodes the events of one log as [Decode] does. It remembers the ids, the
// names of agents and tools, and other short texts that events have in common, so that
// they are one string. The zero value has seen nothing. It is not safe for concurrent
// use.
type Decoder struct{ known *known }

// known is what a Decoder makes when there is something to decode; many loads find nothing.
type known struct {
	fields
	names
}

func newKnown() *known {
	k := new(known)
	k.fields.names = &k.names
	return k
}

// Decode returns the event that a store holds at a position; see the function [Decode].
// Nothing of data is kept.
func (d *Decoder) Decode(seq int64, data []byte) *Event {
	if d.known == nil {
		d.known = newKnown()
	}
	return d.known.decode(seq, data)
}

func (f *fields) decode(seq int64, data []byte) *Event {
	e := f.event(data)
	f.data = nil
	plain := e != nil // and so not too deep
	var err error
	if !plain {
		e = new(Event)
		err = e.unmarshal(data)
	}
	switch {
	case err != nil:
	case e.Seq != seq:
		err = fmt.Errorf("it says that it is event %d", e.Seq)
	case e.Partial:
		err = fmt.Errorf("it says that it is partial, and no partial event is stored")
	default:
		if !plain {
			e.Data, _ = Bound(e.Data)
		}
		return e
	}
	return unreadable(seq, data, err)
}

// event reads an event in the form that MarshalJSON writes, and returns nil if it has
// another one. The fields are those of the envelope and of its payload, in their order.
//
// Its strings are parts of one, which is no longer than they are together: one string
// that somebody keeps holds the others of the same event.
func (f *fields) event(data []byte) *Event {
	f.begin(data, 0)
	var seq int64
	f.long("seq", &seq)
	id, turn, run, scope, parent, typ := f.span("id"), f.span("turnId"), f.span("runId"), f.span("scope"), f.span("parentId"), f.span("type")
	if f.odd || typ.size() == 0 || typ.form != plainForm {
		return nil
	}
	name := data[typ.from:typ.to]
	e, payload := empty(name)
	if e == nil {
		if isControl(string(name)) {
			return nil
		}
		e = new(Event)
	}
	e.Seq = seq
	f.put(&e.ID, id)
	f.putName(&e.TurnID, turn)
	f.putName(&e.RunID, run)
	f.putName(&e.Scope, scope)
	f.put(&e.ParentID, parent)
	f.name("agent", &e.Agent)
	f.name("path", &e.Path)
	if f.has("time") {
		var ok bool
		e.Time, ok = f.time()
		f.must(ok)
	}
	f.truth("partial", &e.Partial)
	f.number("attempt", &e.Attempt)
	if payload == nil {
		payload = f.unknown(typ)
	} else if !walk(f, payload) {
		return nil
	}
	if !f.ended() {
		return nil
	}
	f.strings()
	e.Data = payload
	return e
}

// unknown reads the fields behind the envelope as they are.
func (f *fields) unknown(typ span) *Unknown {
	u := new(Unknown)
	f.putName(&u.Type, typ)
	rest := f.data[f.at:]
	more := len(rest) > 1 && rest[0] == ',' && rest[1] == '"'
	if f.must(more || string(rest) == "}"); f.odd {
		return u
	}
	if more {
		rest = rest[1:]
	}
	u.Raw = append(append(make([]byte, 0, len(rest)+1), '{'), rest...)
	own := scan{data: u.Raw}
	f.must(own.ownFields() && own.at == len(u.Raw))
	f.at = len(f.data) - 1
	return u
}
