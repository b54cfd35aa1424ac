package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// order returns the positions at which keys first occur in valid JSON.
func order(text []byte) map[string]int {
	places := map[string]int{}
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		start, key := i, ""
		for i++; text[i] != '"'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
		if after := bytes.TrimLeft(text[i+1:], " \t\r\n"); len(after) > 0 && after[0] == ':' && json.Unmarshal(text[start:i+1], &key) == nil {
			if _, there := places[key]; !there {
				places[key] = i
			}
		}
	}
	return places
}

// write writes JSON with its keys in this order; keys without a position come last.
func write(b *bytes.Buffer, v any, places map[string]int) {
	switch v := v.(type) {
	case map[string]any:
		place := func(key string) int {
			if at, ok := places[key]; ok {
				return at
			}
			return math.MaxInt
		}
		b.WriteByte('{')
		for i, k := range slices.SortedFunc(maps.Keys(v), func(a, b string) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b)) }) {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, k, nil)
			b.WriteByte(':')
			write(b, v[k], places)
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, inner := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, inner, places)
		}
		b.WriteByte(']')
	default:
		text, _ := plainjson.Marshal(v) // a scalar that was decoded from JSON
		b.Write(text)
	}
}
