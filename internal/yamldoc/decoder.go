package yamldoc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/internal/nearest"
)

// Decoder stores the values of mappings where their keys say. It continues after a mistake, so that
// it reports all of them.
type Decoder struct {
	// Report receives each mistake.
	Report func(line, col int, message string)
	// Seen, if set, receives each known key with its value, before the value is read.
	Seen func(name string, key, value Node)
	// Top are the keys of the file, among which a hint about a key in the wrong place looks.
	Top []Key

	Name     string          // of the key whose value is being read, with the names of its mappings
	Key      Node            // that key
	Problems int             // the number of mistakes so far
	Doubtful map[string]bool // keys that are repeated, or that an unknown key probably means
}

// Add reports a mistake at a node.
func (d *Decoder) Add(n Node, format string, args ...any) {
	line, col := n.Place()
	d.Problems++
	d.Report(line, col, fmt.Sprintf(format, args...))
}

// Mapping reads a mapping. prefix is its name with a dot, empty for the file's own.
func (d *Decoder) Mapping(keys []Key, prefix string, mapping Node) {
	first := make(map[string]int, mapping.Len())
	for i := range mapping.Len() {
		pair := mapping.Pair(i)
		name, ok := pair.Key.Word()
		if !ok {
			d.Add(pair.Key, "a key must be a word, not %s", pair.Key.Quote())
			continue
		}
		if line, repeated := first[name]; repeated {
			d.Add(pair.Key, "the key %q is repeated: it stands on line %d already", name, line)
			d.doubt(name)
			continue
		}
		first[name] = pair.Key.Line()
		k := Find(keys, name)
		if k == nil {
			d.Add(pair.Key, "unknown key %q%s", prefix+name, d.suggest(keys, prefix, name))
			continue
		}
		d.Key, d.Name = pair.Key, prefix+name
		if d.Seen != nil {
			d.Seen(d.Name, pair.Key, pair.Value)
		}
		k.read(d, k, pair.Value)
	}
}

func (d *Decoder) doubt(name string) {
	if d.Doubtful == nil {
		d.Doubtful = map[string]bool{}
	}
	d.Doubtful[name] = true
}

// suggest looks for the key that is meant: first among those of the mapping, then in the whole file.
func (d *Decoder) suggest(keys []Key, prefix, name string) string {
	here := make([]string, len(keys))
	for i, k := range keys {
		here[i] = k.Name
	}
	if meant := nearest.Of(name, here); meant != "" {
		d.doubt(meant)
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
			d.doubt(meant)
			return `; did you mean the key "` + meant + `" of the front matter itself?`
		default:
			return `; did you mean "` + meant + `" below "` + strings.TrimSuffix(in, ".") + `"?`
		}
	}
	return "; the keys here are " + strings.Join(here, ", ")
}

// WrongType reports a value of another type than the key's.
func (d *Decoder) WrongType(k *Key, n Node) {
	example := ""
	if k.Example != "" && k.Type != "true or false" {
		example = " such as " + k.Example
	}
	switch {
	case n.Kind() == Nothing:
		d.Add(d.Key, "%s has no value: it must be %s; remove the key if none is meant", d.Name, k.Type)
	case k.Secret:
		d.Add(n, "%s must be %s%s", d.Name, k.Type, example)
	default:
		d.Add(n, "%s must be %s%s, not %s", d.Name, k.Type, example, n.Quote())
	}
}

// String reads a text that is not blank.
func (d *Decoder) String(k *Key, n Node) (string, bool) {
	v, ok := n.Trimmed()
	switch {
	case !ok:
		d.WrongType(k, n)
	case strings.TrimSpace(v) == "":
		d.Add(n, "%s is empty: remove the key if none is meant", d.Name)
		ok = false
	}
	return v, ok
}

// List calls read for each text of a list.
func (d *Decoder) List(k *Key, n Node, read func(text string, n Node)) {
	if n.Kind() != List {
		d.WrongType(k, n)
		return
	}
	for i := range n.Len() {
		item := n.Item(i)
		switch s, ok := item.Trimmed(); {
		case !ok:
			d.Add(item, "%s must be %s, but one of them is %s", d.Name, k.Type, item.Quote())
		case s == "":
			d.Add(item, "%s holds an empty text", d.Name)
		default:
			read(s, item)
		}
	}
}

// Texts reads a list of texts.
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

// Needs reports keys that a mapping must have.
func (d *Decoder) Needs(mapping Node, in string, names ...string) {
	for i := range mapping.Len() {
		name, _ := mapping.Pair(i).Key.Word()
		names = slices.DeleteFunc(names, func(n string) bool { return n == name })
	}
	for _, name := range names {
		d.Add(mapping, "%s.%s is missing", in, name)
	}
}

// Labels calls read for each value of a mapping whose keys are labels; the values are of a type.
func (d *Decoder) Labels(k *Key, n Node, typ string, read func(label string, k *Key, n Node)) {
	if n.Kind() != Mapping {
		d.WrongType(k, n)
		return
	}
	in, seen := d.Name, map[string]bool{}
	for i := range n.Len() {
		pair := n.Pair(i)
		label, ok := pair.Key.Name()
		if !ok || seen[label] {
			d.Add(pair.Key, "%s: a label must be a word that is there once, not %s", in, pair.Key.Quote())
			continue
		}
		seen[label], d.Key, d.Name = true, pair.Key, in+"."+label
		read(label, &Key{Type: typ}, pair.Value)
	}
}

// Trimmed returns a text, without the line ends below one whose lines begin below it.
func (n Node) Trimmed() (string, bool) {
	v, ok := n.Text()
	if n.Block() != "" {
		v = strings.TrimRight(v, "\n")
	}
	return v, ok
}

// Quote is Describe with short texts and true or false as they are written.
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
