package yamldoc

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/visible"
)

// Key is a key of a mapping: its name, and where its value is stored. [Schema] describes it for editors.
type Key struct {
	Name      string
	Type      string   // the name of the type in messages, such as "a text"
	Example   string   // for messages; may be empty
	Keys      []Key    // the keys of a mapping
	Also      []string // other names
	Secret    bool     // the value may be a secret and must not be in messages
	want      string   // Type with the range of the value, for messages; empty without a range
	nested    bool
	limits    map[string]any // limits of the value, as in a JSON schema
	about     string         // a description for editors
	rawSchema string         // the JSON schema of the value, if Type does not describe it fully
	read      func(d *Decoder, k *Key, n Node)
}

// Hidden returns the key, marked as one whose value may be a secret.
func (k Key) Hidden() Key {
	k.Secret = true
	return k
}

// WithKeys returns the key with the keys of its mapping, which its function reads.
func (k Key) WithKeys(keys ...Key) Key {
	k.Keys = keys
	return k
}

// Or returns the key with alternative names.
func (k Key) Or(names ...string) Key {
	k.Also = names
	return k
}

// About returns the key with a description for editors.
func (k Key) About(text string) Key {
	k.about = text
	return k
}

// WithSchema returns the key with the JSON schema of its value, in place of one that follows from the key's type.
func (k Key) WithSchema(schema string) Key {
	k.rawSchema = schema
	return k
}

// Custom returns a key whose value a function reads.
func Custom(name, typ, example string, read func(k *Key, n Node)) Key {
	return Key{Name: name, Type: typ, Example: example, read: func(_ *Decoder, k *Key, n Node) { read(k, n) }}
}

// String returns a key for a string that is not blank.
func String[T ~string](name, example string, to *T) Key {
	return Key{Name: name, Type: "a text", Example: example, limits: map[string]any{"pattern": `\S`}, read: func(d *Decoder, k *Key, n Node) {
		if v, ok := d.String(k, n); ok {
			*to = T(v)
		}
	}}
}

// OneOf returns a key for a string that must be one of values.
func OneOf(name, example string, set func(string), values ...string) Key {
	return Key{Name: name, Type: "a text", Example: example, limits: map[string]any{"enum": values}, read: func(d *Decoder, _ *Key, n Node) {
		v, ok := d.String(&Key{Type: Or(values)}, n)
		switch {
		case !ok:
		case slices.Contains(values, v):
			set(v)
		default:
			d.Add(n, "%s must be %s, not %q%s", d.keyName(), Or(values), visible.Cut(v, 60), nearest.Hint(v, values))
		}
	}}
}

// Or joins words as in an English sentence: "auto, any or off".
func Or(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Strings returns a key for a list of strings. An empty list is stored as an empty slice, not nil.
func Strings(name, example string, to *[]string) Key {
	return Key{Name: name, Type: "a list of texts", Example: example, read: func(d *Decoder, k *Key, n Node) {
		*to = append([]string{}, d.Texts(k, n)...)
	}}
}

// Words returns a key for a string or a list of strings. Neither may be empty. checks may report errors in each string.
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

// OptionalString returns a key for a string that may be empty or null.
func OptionalString(name string, to *string) Key {
	return Key{Name: name, Type: "a text", limits: map[string]any{"type": []string{"string", "null"}}, read: func(d *Decoder, k *Key, n Node) {
		var ok bool
		if *to, ok = n.Text(); !ok && n.Kind() != Nothing {
			d.WrongType(k, n)
		}
	}}
}

// Value returns a key for a value of any kind.
func Value(name string, to *any) Key {
	return Key{Name: name, read: func(d *Decoder, _ *Key, n Node) { *to = d.Any(n) }}
}

// Values returns a key for a mapping with any values. Null is stored as an empty map.
func Values(name string, to *map[string]any) Key {
	return Key{Name: name, Type: "a mapping", read: func(d *Decoder, k *Key, n Node) {
		*to = map[string]any{}
		d.Values(k, n, func(name string, p Pair) { (*to)[name] = d.Any(p.Value) })
	}}
}

// Flag returns a key for true or false.
func Flag(name string, to *bool) Key { return Switch(name, func(b bool) { *to = b }) }

// Switch is like [Flag], but calls a function.
func Switch(name string, set func(bool)) Key {
	return scalar(Key{Name: name, Type: "true or false", Example: "true"}, Node.Bool, nil, set)
}

// AnyNumber returns a key for any number.
func AnyNumber(name, example string, to *float64) Key {
	return scalar(Key{Name: name, Type: "a number", Example: example}, Node.Number, nil, func(v float64) { *to = v })
}

// Float returns a key for a number in a range.
func Float(name, example string, low, high float64, to **float64) Key {
	k := Key{Name: name, Type: "a number", Example: example, limits: map[string]any{"minimum": low, "maximum": high}}
	k.want = fmt.Sprintf("a number from %g to %g", low, high)
	return scalar(k, Node.Number, func(v float64) bool { return v >= low && v <= high }, func(v float64) { *to = &v })
}

// Positive returns a key for a number above 0. most is 1 or infinite.
func Positive(name, example string, most float64, to *float64) Key {
	k := Key{Name: name, Type: "a number", want: "a number over 0", Example: example, limits: map[string]any{"exclusiveMinimum": 0}}
	if most == 1 {
		k.limits["maximum"], k.want = 1, k.want+" and at most 1"
	}
	return scalar(k, Node.Number, func(v float64) bool { return v > 0 && v <= most }, func(v float64) { *to = v })
}

// AnyWhole returns a key for any integer.
func AnyWhole(name, example string, set func(int64)) Key {
	return scalar(Key{Name: name, Type: "a whole number", Example: example}, Node.Whole, nil, set)
}

// Int returns a key for an integer of at least 1. For an int, it must fit into 32 bits.
func Int[T int | int64](name, example string, to *T) Key {
	most := int64(math.MaxInt32)
	if _, long := any(*to).(int64); long {
		most = math.MaxInt64
	}
	k := Key{Name: name, Type: "a whole number", want: "a whole number from 1", Example: example, limits: map[string]any{"minimum": 1}}
	return scalar(k, Node.Whole, func(v int64) bool { return v >= 1 && v <= most }, func(v int64) { *to = T(v) })
}

// Duration returns a key for a duration above 0.
func Duration(name, example string, to *time.Duration) Key {
	read := func(n Node) (time.Duration, bool) {
		v, _ := n.Text()
		t, err := time.ParseDuration(v)
		return t, err == nil && t > 0
	}
	return scalar(Key{Name: name, Type: "a time with its unit", Example: example}, read, nil, func(t time.Duration) { *to = t })
}

// scalar returns a key for a value of one type. If fits is not nil, the value must also be in the key's range.
func scalar[T any](k Key, read func(Node) (T, bool), fits func(T) bool, set func(T)) Key {
	k.read = func(d *Decoder, k *Key, n Node) {
		v, ok := read(n)
		switch {
		case !ok:
			d.WrongType(k, n)
		case fits != nil && !fits(v):
			d.Add(n, "%s must be %s, not %v", d.keyName(), k.want, v)
		default:
			set(v)
		}
	}
	return k
}

// Object returns a key for a mapping.
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

// Find returns the key with this name, or nil.
func Find(keys []Key, name string) *Key {
	for i := range keys {
		if keys[i].Name == name || slices.Contains(keys[i].Also, name) {
			return &keys[i]
		}
	}
	return nil
}

// Names returns the names of all keys, including the dotted names of keys in mappings below them.
func Names(keys []Key, prefix string) (names []string) {
	for _, k := range keys {
		names = append(names, prefix+k.Name)
		if k.nested { // keys of mappings in a list are left out
			names = append(names, Names(k.Keys, prefix+k.Name+".")...)
		}
	}
	return names
}
