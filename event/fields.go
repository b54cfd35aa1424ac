package event

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// fields goes over the fields of an object in the order in which MarshalJSON writes them,
// and either reads them or writes them. A method of it is called for each field; one whose
// name ends in If leaves an empty value out, as omitempty does.
//
// It reads and writes what package json does, or else says that it is odd: what has
// another order, unknown fields, or a form of its own is left to package json, so that a
// log means the same to both.
type fields struct {
	scan      // of what is read
	first int // where the object begins
	out   []byte
	// writing says that out is written and nothing is read.
	writing bool
	odd     bool
	// names are texts that occurred before, nil if nobody keeps them.
	names *names
	// places are texts that have been found and are made strings together, of so many
	// bytes.
	places [16]place
	n      int
	bytes  int
}

// place is a text that is to become a string.
type place struct {
	to   *string
	text span
	// name is the text's place among the names, from 1; 0 is none.
	name uint8
}

// names keeps short texts that occur in many events, such as those of agents and runs, so
// that all of them have one string.
type names [64]string

// maxName is the longest text that names keep, and maxNamed is how many bytes beside it a
// name may keep from being freed.
const (
	maxName  = 64
	maxNamed = 512
)

func (*names) index(text []byte) uint64 {
	var word uint64
	if n := len(text); n >= 8 {
		word = binary.LittleEndian.Uint64(text[n-8:])
	} else {
		for _, c := range text {
			word = word<<8 | uint64(c)
		}
	}
	return (word * 0x9e3779b97f4a7c15) >> 58
}

// begin goes to the beginning of an object.
func (f *fields) begin(data []byte, at int) {
	f.scan, f.first, f.odd, f.n, f.bytes = scan{data: data, at: at}, at, false, 0, 0
}

// key writes a field's name.
func (f *fields) key(name string) {
	f.out = append(append(append(f.out, `,"`...), name...), `":`...)
}

// has goes over the name of the next field if it is this one.
func (f *fields) has(name string) bool {
	data, from, before := f.data, f.at+2, byte(',')
	if f.at == f.first {
		before = '{'
	}
	to := from + len(name)
	if f.odd || to+2 > len(data) || data[from-2] != before || data[from-1] != '"' || string(data[from:to]) != name || data[to] != '"' || data[to+1] != ':' {
		return false
	}
	f.at = to + 2
	return true
}

// ended reports whether all of the object has been read.
func (f *fields) ended() bool {
	if f.at == f.first { // it has no fields
		f.is('{')
	}
	return !f.odd && f.is('}') && f.at == len(f.data)
}

// must says that it is odd if something is not so.
func (f *fields) must(ok bool) { f.odd = f.odd || !ok }

// find goes over a string whose text package json would not change.
func (f *fields) find() span {
	text, ok := f.str()
	f.must(ok && text.form != surrogates)
	return text
}

// span reads a field whose text is put to its place later.
func (f *fields) span(name string) (text span) {
	if f.has(name) {
		text = f.find()
	}
	return text
}

// put makes a string of a text, together with others.
func (f *fields) put(to *string, text span) {
	switch {
	case f.odd || text.size() == 0:
	case f.n == len(f.places):
		*to = f.scan.text(text)
	default:
		f.places[f.n] = place{to: to, text: text}
		f.n++
		f.bytes += text.size()
	}
}

// putName is put for a text that is likely to occur again.
func (f *fields) putName(to *string, text span) {
	if f.odd || f.names == nil || text.form != plainForm || text.size() == 0 || text.size() > maxName {
		f.put(to, text)
		return
	}
	name := f.data[text.from:text.to]
	i := f.names.index(name)
	if f.names[i] == string(name) {
		*to = f.names[i]
		return
	}
	before := f.n
	if f.put(to, text); f.n > before {
		f.places[before].name = uint8(i) + 1
	}
}

// strings makes the strings: one, of which all others are parts.
func (f *fields) strings() {
	if f.n == 0 {
		return
	}
	var b strings.Builder
	b.Grow(f.bytes)
	for i := range f.places[:f.n] {
		p := &f.places[i]
		from := b.Len()
		writeText(&b, f.data[p.text.from:p.text.to], p.text.form)
		text := b.String()[from:]
		*p.to = text
		if p.name > 0 {
			if f.bytes > maxNamed {
				text = strings.Clone(text)
				*p.to = text
			}
			f.names[p.name-1] = text
		}
		p.to = nil
	}
}

func (f *fields) text(name string, v *string) {
	if f.writing {
		f.key(name)
		f.out = appendString(f.out, *v)
	} else if f.has(name) {
		f.put(v, f.find())
	}
}

func (f *fields) textIf(name string, v *string) {
	if !f.writing || *v != "" {
		f.text(name, v)
	}
}

// name is text that is likely to occur in other events as well.
func (f *fields) name(name string, v *string) {
	if f.writing {
		f.text(name, v)
	} else if f.has(name) {
		f.putName(v, f.find())
	}
}

func (f *fields) nameIf(name string, v *string) {
	if !f.writing || *v != "" {
		f.name(name, v)
	}
}

func (f *fields) texts(name string, v *[]string) {
	switch {
	case f.writing && *v == nil:
		f.key(name)
		f.out = append(f.out, "null"...)
	case f.writing:
		f.key(name)
		f.out = append(f.out, '[')
		for i := range *v {
			if i > 0 {
				f.out = append(f.out, ',')
			}
			f.out = appendString(f.out, (*v)[i])
		}
		f.out = append(f.out, ']')
	case f.has(name) && !f.literal("null"):
		start, n := f.at, 0
		if f.must(f.each('[', ']', 1, func() bool { n++; _, ok := f.str(); return ok })); f.odd {
			return
		}
		f.at = start
		*v = make([]string, n)
		n = 0
		f.each('[', ']', 1, func() bool { f.put(&(*v)[n], f.find()); n++; return true })
	}
}

func (f *fields) textsIf(name string, v *[]string) {
	if !f.writing || len(*v) > 0 {
		f.texts(name, v)
	}
}

func (f *fields) truth(name string, v *bool) {
	switch {
	case f.writing:
		f.key(name)
		f.out = strconv.AppendBool(f.out, *v)
	case f.has(name):
		*v = f.literal("true")
		f.must(*v || f.literal("false"))
	}
}

func (f *fields) truthIf(name string, v *bool) {
	if !f.writing || *v {
		f.truth(name, v)
	}
}

func (f *fields) long(name string, v *int64) {
	if f.writing {
		f.key(name)
		f.out = strconv.AppendInt(f.out, *v, 10)
	} else if f.has(name) {
		var ok bool
		*v, ok = f.integer()
		f.must(ok)
	}
}

func (f *fields) longIf(name string, v *int64) {
	if !f.writing || *v != 0 {
		f.long(name, v)
	}
}

func (f *fields) number(name string, v *int) {
	n := int64(*v)
	if f.long(name, &n); f.writing { // others may read the event
		return
	}
	*v = int(n)
	f.must(n == int64(*v))
}

func (f *fields) numberIf(name string, v *int) {
	if !f.writing || *v != 0 {
		f.number(name, v)
	}
}

// numberOrNull is a number that may be unknown, which is null.
func (f *fields) numberOrNull(name string, v **int) {
	switch {
	case f.writing && *v == nil:
		f.key(name)
		f.out = append(f.out, "null"...)
	case f.writing:
		f.number(name, *v)
	case f.has(name) && !f.literal("null"):
		n, ok := f.integer()
		small := int(n)
		*v = &small
		f.must(ok && n == int64(small))
	}
}

func (f *fields) float(name string, v *float64) {
	if f.writing {
		f.key(name)
		var ok bool
		f.out, ok = appendFloat(f.out, *v)
		f.must(ok)
	} else if f.has(name) {
		text, _, ok := f.scan.number()
		if f.must(ok); ok {
			n, err := strconv.ParseFloat(string(text), 64)
			*v = n
			f.must(err == nil)
		}
	}
}

func (f *fields) floatIf(name string, v *float64) {
	if !f.writing || *v != 0 {
		f.float(name, v)
	}
}

// raw is JSON of others, of which the event has a copy.
func (f *fields) raw(name string, v *json.RawMessage) {
	switch {
	case f.writing && *v == nil:
		f.key(name)
		f.out = append(f.out, "null"...)
	case f.writing:
		f.must(isPlain(*v))
		f.key(name)
		f.out = append(f.out, *v...)
	case f.has(name):
		from := f.at
		if f.must(f.skip(maxPlainDepth)); !f.odd {
			*v = bytes.Clone(f.data[from:f.at])
		}
	}
}

func (f *fields) rawIf(name string, v *json.RawMessage) {
	if !f.writing || len(*v) > 0 {
		f.raw(name, v)
	}
}

// values are JSON of others, as Go's own types.
func (f *fields) values(name string, v *map[string]any) {
	if f.writing {
		f.key(name)
		var ok bool
		f.out, ok = appendValue(f.out, *v, maxPlainDepth)
		f.must(ok)
	} else if f.has(name) {
		value, ok := f.value(maxPlainDepth)
		if value != nil && ok {
			*v, ok = value.(map[string]any)
		}
		f.must(ok)
	}
}

func (f *fields) valuesIf(name string, v *map[string]any) {
	if !f.writing || len(*v) > 0 {
		f.values(name, v)
	}
}

// content is what a user has said: text, or parts, which are llm's business.
func (f *fields) content(name string, v *llm.Content) {
	at := f.at
	switch {
	case f.writing && len(v.Parts) == 0:
		f.text(name, &v.Text)
	case !f.writing && f.has(name) && f.at < len(f.data) && f.data[f.at] == '"':
		f.put(&v.Text, f.find())
	default:
		f.at = at
		f.other(name, v)
	}
}

// other is a field that is rare, or has a form that is not the codec's business. v points
// to its value, which holds no JSON of others.
func (f *fields) other(name string, v any) {
	if f.writing {
		text, err := encodeJSON(v)
		f.must(err == nil)
		f.key(name)
		f.out = append(f.out, text...)
	} else if f.has(name) {
		from := f.at
		f.must(f.skip(maxPlainDepth))
		f.must(!f.odd && json.Unmarshal(f.data[from:f.at], v) == nil)
	}
}

func (f *fields) otherIf(name string, v any, empty bool) {
	if !f.writing || !empty {
		f.other(name, v)
	}
}

// appendFloat writes a number as package json does, unless that is with an exponent.
func appendFloat(out []byte, v float64) ([]byte, bool) {
	if size := math.Abs(v); size != 0 && !(size >= 1e-6 && size < 1e21) {
		return out, false // also what is no number
	}
	return strconv.AppendFloat(out, v, 'f', -1, 64), true
}
