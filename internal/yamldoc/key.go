package yamldoc

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/nearest"
)

// Key is one key of a mapping: its name, and where its value goes. [Schema] says the same to editors.
type Key struct {
	Name    string
	Type    string   // in words, for messages: "a text"
	Example string   // for messages; may be empty
	Keys    []Key    // of a mapping
	Also    []string // other names
	Secret  bool     // the value may be a secret, which no message repeats
	want    string   // Type with the range of the value, if it has one, for messages
	nested  bool
	limits  map[string]any // of the value, as a JSON schema says them
	about   string         // for editors
	said    string         // the JSON schema of the value, if Type does not say all of it
	read    func(d *Decoder, k *Key, n Node)
}

// Hidden is a key whose value may be a secret.
func (k Key) Hidden() Key {
	k.Secret = true
	return k
}

// Over is a key with the keys of its mapping, which its function reads.
func (k Key) Over(keys ...Key) Key {
	k.Keys = keys
	return k
}

// Or is a key with other names.
func (k Key) Or(names ...string) Key {
	k.Also = names
	return k
}

// Says is a key with a description for editors, which may be empty, and with the JSON schema of its value.
func (k Key) Says(about, schema string) Key {
	k.about, k.said = about, schema
	return k
}

// Custom is a key whose value a function reads.
func Custom(name, typ, example string, read func(k *Key, n Node)) Key {
	return Key{Name: name, Type: typ, Example: example, read: func(_ *Decoder, k *Key, n Node) { read(k, n) }}
}

// String is the key of a text that is not blank.
func String[T ~string](name, example string, to *T) Key {
	return Key{Name: name, Type: "a text", Example: example, read: func(d *Decoder, k *Key, n Node) {
		if v, ok := d.String(k, n); ok {
			*to = T(v)
		}
	}}
}

// OneOf is the key of a text that is one of a few.
func OneOf(name, example string, set func(string), values ...string) Key {
	return Key{Name: name, Type: "a text", Example: example, limits: map[string]any{"enum": values}, read: func(d *Decoder, _ *Key, n Node) {
		v, ok := d.String(&Key{Type: Or(values)}, n)
		switch {
		case !ok:
		case slices.Contains(values, v):
			set(v)
		default:
			d.Add(n, "%s must be %s, not %q%s", d.called(), Or(values), Short(v), nearest.Hint(v, values))
		}
	}}
}

// Or joins words as an English sentence does: "auto, any or off".
func Or(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Strings is the key of a list of texts, which is empty and not nil if it holds none.
func Strings(name, example string, to *[]string) Key {
	return Key{Name: name, Type: "a list of texts", Example: example, read: func(d *Decoder, k *Key, n Node) {
		*to = append([]string{}, d.Texts(k, n)...)
	}}
}

// Words is the key of a text, or of a list of texts. Neither may be empty. A check may report what is wrong with one.
func Words(name string, to *[]string, checks ...func(text string, n Node)) Key {
	return Key{Name: name, Type: "a text or a list of texts", read: func(d *Decoder, k *Key, n Node) {
		d.Words(k, n, func(text string, n Node) {
			*to = append(*to, text)
			for _, check := range checks {
				check(text, n)
			}
		})
	}}
}

// Maybe is the key of a text that may be empty, or nothing.
func Maybe(name string, to *string) Key {
	return Key{Name: name, Type: "a text", read: func(d *Decoder, k *Key, n Node) {
		var ok bool
		if *to, ok = n.Text(); !ok && n.Kind() != Nothing {
			d.WrongType(k, n)
		}
	}}
}

// Value is the key of a value of any kind.
func Value(name string, to *any) Key {
	return Key{Name: name, read: func(d *Decoder, _ *Key, n Node) { *to = d.Any(n) }}
}

// Values is the key of a mapping of any values, which is empty for nothing.
func Values(name string, to *map[string]any) Key {
	return Key{Name: name, Type: "a mapping", read: func(d *Decoder, k *Key, n Node) {
		if n.Kind() != Mapping && n.Kind() != Nothing {
			d.WrongType(k, n)
			return
		}
		*to = map[string]any{}
		d.Each(n, func(name string, p Pair) { (*to)[name] = d.Any(p.Value) })
	}}
}

// Flag is the key of true or false.
func Flag(name string, to *bool) Key { return Switch(name, func(b bool) { *to = b }) }

// Switch is Flag for a function.
func Switch(name string, set func(bool)) Key {
	return scalar(Key{Name: name, Type: "true or false", Example: "true"}, Node.Bool, nil, set)
}

// AnyNumber is the key of any number.
func AnyNumber(name, example string, to *float64) Key {
	return scalar(Key{Name: name, Type: "a number", Example: example}, Node.Number, nil, func(v float64) { *to = v })
}

// Float is the key of a number in a range.
func Float(name, example string, low, high float64, to **float64) Key {
	k := Key{Name: name, Type: "a number", Example: example, limits: map[string]any{"minimum": low, "maximum": high}}
	k.want = fmt.Sprintf("a number from %g to %g", low, high)
	return scalar(k, Node.Number, func(v float64) bool { return v >= low && v <= high }, func(v float64) { *to = &v })
}

// Positive is the key of a number over 0 and at most 1, or without a bound.
func Positive(name, example string, most float64, to *float64) Key {
	k := Key{Name: name, Type: "a number", want: "a number over 0", Example: example, limits: map[string]any{"exclusiveMinimum": 0}}
	if most == 1 {
		k.limits["maximum"], k.want = 1, k.want+" and at most 1"
	}
	return scalar(k, Node.Number, func(v float64) bool { return v > 0 && v <= most }, func(v float64) { *to = v })
}

// AnyWhole is the key of any whole number.
func AnyWhole(name, example string, set func(int64)) Key {
	return scalar(Key{Name: name, Type: "a whole number", Example: example}, Node.Whole, nil, set)
}

// Int is the key of a whole number from 1, in 32 bits where it is an int.
func Int[T int | int64](name, example string, to *T) Key {
	most := int64(math.MaxInt32)
	if _, long := any(*to).(int64); long {
		most = math.MaxInt64
	}
	k := Key{Name: name, Type: "a whole number", want: "a whole number from 1", Example: example, limits: map[string]any{"minimum": 1}}
	return scalar(k, Node.Whole, func(v int64) bool { return v >= 1 && v <= most }, func(v int64) { *to = T(v) })
}

// Duration is the key of a time over 0.
func Duration(name, example string, to *time.Duration) Key {
	read := func(n Node) (time.Duration, bool) {
		v, _ := n.Text()
		t, err := time.ParseDuration(v)
		return t, err == nil && t > 0
	}
	return scalar(Key{Name: name, Type: "a time with its unit", Example: example}, read, nil, func(t time.Duration) { *to = t })
}

// scalar returns a key whose value has a type, and is in the range of the key unless fits is nil.
func scalar[T any](k Key, read func(Node) (T, bool), fits func(T) bool, set func(T)) Key {
	k.read = func(d *Decoder, k *Key, n Node) {
		v, ok := read(n)
		switch {
		case !ok:
			d.WrongType(k, n)
		case fits != nil && !fits(v):
			d.Add(n, "%s must be %s, not %v", d.called(), k.want, v)
		default:
			set(v)
		}
	}
	return k
}

// Object is the key of a mapping.
func Object(name, example string, keys ...Key) Key {
	read := func(d *Decoder, k *Key, n Node) {
		if n.Kind() != Mapping {
			d.WrongType(k, n)
			return
		}
		d.Mapping(k.Keys, d.Name+".", n)
	}
	return Key{Name: name, Type: "a mapping", Example: example, Keys: keys, nested: true, read: read}
}

// Find returns the key with the name, or nil if the keys have none.
func Find(keys []Key, name string) *Key {
	for i := range keys {
		if keys[i].Name == name || slices.Contains(keys[i].Also, name) {
			return &keys[i]
		}
	}
	return nil
}

// Names returns the names of all keys, and of those of mappings below them.
func Names(keys []Key, prefix string) (names []string) {
	for _, k := range keys {
		names = append(names, prefix+k.Name)
		if k.nested { // not those of the mappings in a list
			names = append(names, Names(k.Keys, prefix+k.Name+".")...)
		}
	}
	return names
}
