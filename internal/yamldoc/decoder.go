package yamldoc

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/visible"
)

// Decoder reads mappings and stores their values as the keys specify. It continues after an error, so that it reports
// all of them.
type Decoder struct {
	// Report receives each error. ErrorKind and Name describe the error during the call. If Report is nil, [Decoder.Err]
	// returns the errors, with File as the file name.
	Report    func(line, col int, message string)
	ErrorKind ErrorKind
	File      string
	// Seen, if set, receives each known key with its value before the value is read.
	Seen func(name string, key, value Node)
	// Top contains all keys of the file. A hint about a misplaced key searches them.
	Top []Key
	// Unknown, if set, is called for a key that the mapping does not have. It returns true if it has handled the key.
	Unknown func(keys []Key, name string, pair Pair) (handled bool)
	Brief   bool // messages contain only a key's own name
	Floats  bool // [Decoder.Any] returns float64 instead of json.Number

	Name     string          // the dotted name of the current key
	Key      Node            // the current key
	Problems int             // the number of errors so far
	Unclear  map[string]bool // repeated keys, and keys that an unknown key probably means
	found    []Problem       // if Report is nil
}

// ErrorKind is the kind of an error.
type ErrorKind int

// The kinds of errors.
const (
	WrongValue   ErrorKind = iota
	MissingValue           // the key has no value, or an empty string
	UnknownKey
	Unreadable // a repeated key, a key that is not a word, or a value that JSON does not have
)

// Err returns the errors as an [*Error], or nil if there are none. Columns are omitted.
func (d *Decoder) Err() error { return AsError(d.found) }

// Add reports an error at a node.
func (d *Decoder) Add(n Node, format string, args ...any) {
	line, col := n.Place()
	d.AddAt(line, col, fmt.Sprintf(format, args...))
}

func (d *Decoder) add(m ErrorKind, n Node, format string, args ...any) {
	d.ErrorKind = m
	d.Add(n, format, args...)
	d.ErrorKind = WrongValue
}

// keyName returns the name of the current key for messages.
func (d *Decoder) keyName() string {
	if d.Brief {
		return d.Name[strings.LastIndexByte(d.Name, '.')+1:]
	}
	return d.Name
}

// AddAt reports an error at a place.
func (d *Decoder) AddAt(line, col int, message string) {
	d.Problems++
	if d.Report != nil {
		d.Report(line, col, message)
		return
	}
	d.found = append(d.found, Problem{File: d.File, Line: line, Message: message})
}

// maxDepth and maxDocuments limit the files of [Decoder.Documents].
const maxDepth, maxDocuments = 64, 1000

// Documents returns the documents of a file of at most this many bytes, without empty ones. The file may contain only
// mappings, lists and scalars.
func (d *Decoder) Documents(data []byte, most int) (values []Node) {
	text, problem := Decode(data, most)
	if problem != nil {
		d.AddAt(problem.Line, problem.Col, problem.Message)
		return nil
	}
	file, problems := Parse(text, Rules{Depth: maxDepth, Documents: maxDocuments, Plain: true})
	for _, p := range problems {
		d.AddAt(p.Line, p.Col, p.Message)
	}
	if file == nil {
		return nil
	}
	return slices.DeleteFunc(file.Documents, func(n Node) bool { return n.Kind() == Nothing })
}

// Each calls read for each key of a mapping, with the key added to Name. Keys may have any name, but only once.
func (d *Decoder) Each(mapping Node, read func(name string, pair Pair)) {
	first, in := make(map[string]int, mapping.Len()), d.Name
	for i := range mapping.Len() {
		pair := mapping.Pair(i)
		name, ok := pair.Key.Name()
		if d.Name = strings.TrimPrefix(in+"."+name, "."); !ok {
			d.Name = in
		}
		switch line := first[name]; {
		case !ok:
			d.add(Unreadable, pair.Key, "a key must be a word, not %s", pair.Key.Quote())
		case line > 0:
			d.add(Unreadable, pair.Key, "the key %q is repeated: it is already on line %d", visible.Cut(name, 60), line)
			d.markUnclear(name)
		default:
			first[name] = pair.Key.Line()
			read(name, pair)
		}
	}
	d.Name = in
}

// Values is [Decoder.Each] for the value of a key, which may be missing.
func (d *Decoder) Values(k *Key, n Node, read func(name string, pair Pair)) {
	if n.Kind() != Mapping && n.Kind() != Nothing {
		d.WrongType(k, n)
		return
	}
	d.Each(n, read)
}

// Mapping reads a mapping in the order of keys, and returns its pairs by name. prefix is the mapping's name with a dot,
// or empty at the top level.
func (d *Decoder) Mapping(keys []Key, prefix string, mapping Node) map[string]Pair {
	found := make(map[string]Pair, mapping.Len())
	d.Name = strings.TrimSuffix(prefix, ".")
	d.Each(mapping, func(name string, pair Pair) {
		k := Find(keys, name)
		if k == nil {
			d.unknown(keys, prefix, name, pair)
			return
		}
		if other, twice := found[k.Name]; twice {
			d.Add(pair.Key, "%s and %s say the same thing: give one of them", other.Key.Written(), name)
			return
		}
		found[k.Name] = pair
	})
	for i := range keys {
		k := &keys[i]
		pair, ok := found[k.Name]
		if !ok {
			continue
		}
		name, _ := pair.Key.Name()
		d.Key, d.Name = pair.Key, prefix+name
		if d.Seen != nil {
			d.Seen(d.Name, pair.Key, pair.Value)
		}
		k.read(d, k, pair.Value)
	}
	return found
}

func (d *Decoder) unknown(keys []Key, prefix, name string, pair Pair) {
	_, word := pair.Key.Word()
	switch {
	case d.Unknown != nil && d.Unknown(keys, name, pair):
	case !word:
		d.add(Unreadable, pair.Key, "a key must be a word, not %s", pair.Key.Quote())
	default:
		d.add(UnknownKey, pair.Key, "unknown key %q%s", prefix+visible.Cut(name, 60), d.suggest(keys, prefix, name))
	}
}

// Any converts a value of any kind to the types of encoding/json, with the exceptions of [Node.Scalar].
func (d *Decoder) Any(n Node) any {
	switch n.Kind() {
	case List:
		out, in := make([]any, 0, n.Len()), d.Name
		for i := range n.Len() {
			d.Name = fmt.Sprintf("%s[%d]", in, i)
			out = append(out, d.Any(n.Item(i)))
		}
		d.Name = in
		return out
	case Mapping:
		out := make(map[string]any, n.Len())
		d.Each(n, func(name string, p Pair) { out[name] = d.Any(p.Value) })
		return out
	}
	v, wrong := n.Scalar()
	if wrong != "" {
		d.add(Unreadable, n, "%s", wrong)
	}
	if number, ok := v.(json.Number); ok && d.Floats {
		f, _ := number.Float64() // cannot fail: it was parsed as a number
		return f
	}
	return v
}

func (d *Decoder) markUnclear(name string) {
	if d.Unclear == nil {
		d.Unclear = map[string]bool{}
	}
	d.Unclear[name] = true
}

// suggest returns a hint about the key that is probably meant. It searches the mapping first, then the whole file.
func (d *Decoder) suggest(keys []Key, prefix, name string) string {
	here := make([]string, len(keys))
	for i, k := range keys {
		here[i] = k.Name
	}
	if meant := nearest.Of(name, here); meant != "" {
		d.markUnclear(meant)
		return nearest.Hint(name, here)
	}
	all := Names(d.Top, "")
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k[strings.LastIndexByte(k, '.')+1:]
	}
	meant := nearest.Of(name, names)
	for i, k := range all {
		in := strings.TrimSuffix(k, names[i])
		switch {
		case meant == "" || names[i] != meant || in == prefix:
		case in == "":
			d.markUnclear(meant)
			return `; did you mean the key "` + meant + `" of the front matter itself?`
		default:
			return `; did you mean "` + meant + `" below "` + strings.TrimSuffix(in, ".") + `"?`
		}
	}
	return "; the keys here are " + strings.Join(here, ", ")
}

// WrongType reports a value of a type other than the key's.
func (d *Decoder) WrongType(k *Key, n Node) {
	want, example := cmp.Or(k.want, k.Type), ""
	switch {
	case k.Example != "" && k.Type != "true or false":
		example = " such as " + k.Example
	case len(k.Keys) > 0:
		example = " with keys such as " + k.Keys[0].Name
	}
	switch {
	case n.Kind() == Nothing:
		d.add(MissingValue, d.Key, "%s has no value: it must be %s; remove the key if none is meant", d.keyName(), want)
	case k.Secret:
		d.Add(n, "%s must be %s%s", d.keyName(), want, example)
	default:
		d.Add(n, "%s must be %s%s, not %s%s", d.keyName(), want, example, n.Quote(), k.quotes(n))
	}
}

// quotes returns the end of a message about a value that would be the wanted string if it were quoted.
func (k *Key) quotes(n Node) string {
	if (n.Kind() == Number || n.Kind() == Bool) && strings.Contains(k.Type, "text") {
		return fmt.Sprintf(": put it in quotes, %q", n.Written())
	}
	return ""
}

// String reads a string that is not blank.
func (d *Decoder) String(k *Key, n Node) (string, bool) {
	v, ok := n.Trimmed()
	switch {
	case !ok:
		d.WrongType(k, n)
	case strings.TrimSpace(v) == "":
		d.empty(n)
		ok = false
	}
	return v, ok
}

func (d *Decoder) empty(n Node) {
	d.add(MissingValue, n, "%s is empty: remove the key if none is meant", d.keyName())
}

// List calls read for each string of a list.
func (d *Decoder) List(k *Key, n Node, read func(text string, n Node)) {
	if n.Kind() != List {
		d.WrongType(k, n)
		return
	}
	for i := range n.Len() {
		item := n.Item(i)
		switch s, ok := item.Trimmed(); {
		case !ok:
			d.Add(item, "%s must be %s, but one of them is %s%s", d.keyName(), k.Type, item.Quote(), k.quotes(item))
		case s == "":
			d.Add(item, "%s holds an empty text", d.keyName())
		default:
			read(s, item)
		}
	}
}

// Words calls read for a string, or for each string of a list. Neither may be empty.
func (d *Decoder) Words(k *Key, n Node, read func(text string, n Node)) {
	text, one := n.Trimmed()
	switch {
	case one && text == "":
		d.empty(n)
	case one:
		read(text, n)
	case n.Kind() == List && n.Len() == 0:
		d.Add(d.Key, "%s is empty", d.keyName())
	default:
		d.List(k, n, read)
	}
}

// Texts reads a list of strings.
func (d *Decoder) Texts(k *Key, n Node) (all []string) {
	d.List(k, n, func(text string, _ Node) { all = append(all, text) })
	return all
}

// Entries calls read for each mapping of a list.
func (d *Decoder) Entries(k *Key, n Node, read func(Node)) {
	if n.Kind() != List {
		d.WrongType(k, n)
		return
	}
	name := d.Name
	for i := range n.Len() {
		entry := n.Item(i)
		if d.Name = name; entry.Kind() != Mapping {
			d.Add(entry, "%s must be %s, but one of them is %s", name, k.Type, entry.Quote())
			continue
		}
		read(entry)
	}
}

// Needs reports missing keys of a mapping. A node of another kind is reported by the key that reads it.
func (d *Decoder) Needs(mapping Node, in string, names ...string) {
	if mapping.Kind() != Mapping {
		return
	}
	for i := range mapping.Len() {
		name, _ := mapping.Pair(i).Key.Word()
		names = slices.DeleteFunc(names, func(n string) bool { return n == name })
	}
	for _, name := range names {
		d.Add(mapping, "%s.%s is missing", in, name)
	}
}

// Labels calls read for each value of a mapping whose keys are labels. typ is the type of the values in messages.
func (d *Decoder) Labels(k *Key, n Node, typ string, read func(label string, k *Key, n Node)) {
	if n.Kind() != Mapping {
		d.WrongType(k, n)
		return
	}
	in := d.Name
	d.Each(n, func(label string, p Pair) {
		d.Key, d.Name = p.Key, in+"."+label
		read(label, &Key{Type: typ}, p.Value)
	})
}

// TimeType is the type name of keys that [Decoder.Time] reads.
const TimeType = "a time such as 50ms or 1.5s, or a number of milliseconds"

// Time reads a duration of at least 0.
func (d *Decoder) Time(k *Key, n Node) (time.Duration, bool) {
	if text, ok := n.Text(); ok {
		if t, err := time.ParseDuration(text); err == nil && t >= 0 {
			return t, true
		}
	}
	ms, ok := n.Number()
	if !ok || ms < 0 || ms > float64(math.MaxInt64/time.Millisecond) {
		d.WrongType(k, n)
		return 0, false
	}
	return time.Duration(ms * float64(time.Millisecond)), true
}

// Trimmed returns a string. It removes trailing line breaks from a block scalar.
func (n Node) Trimmed() (string, bool) {
	v, ok := n.Text()
	if n.Block() != "" {
		v = strings.TrimRight(v, "\n")
	}
	return v, ok
}

// Quote is like [Node.Describe], but shows short strings in quotes, and true and false as written.
func (n Node) Quote() string {
	switch n.Kind() {
	case Text:
		if v, _ := n.Text(); n.Block() == "" && len(v) <= 40 {
			return strconv.Quote(v)
		}
		return "a text"
	case Bool:
		return n.Written()
	}
	return n.Describe()
}
