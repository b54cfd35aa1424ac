package offline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agentarbor/arbor/internal/bm25"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

var (
	sentenceEnd = lazyregexp.New(`[.!?;]+(\s+|$)|\n+`)
	quoted      = lazyregexp.New("[\"“„«`]([^\"“”„«»`]+)[\"“”»`]")
	number      = lazyregexp.New(`^-?(0|[1-9]\d{0,17})(\.\d{1,17})?$`)
	ids         = lazyregexp.New(`^[\w-]*\d[\w-]*$`)
	codes       = lazyregexp.New(`^[\w-]*\d[\w-]*$`) // like ids, but a numeral may replace them
	names       = lazyregexp.New(`^\p{Lu}[\p{L}\p{M}'’ -]+$`)
	emails      = lazyregexp.New(`^\S+@\S+\.\S+$`)
	dates       = lazyregexp.New(`^\d{4}-\d\d-\d\d(T\S+)?$`)
	punctuation = ".,;:!?()[]{}<>\"'“”„«»`#$€£"
	numerals    = map[string]string{"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10"}
	// blanks are tried for values that a response needs and the text does not contain.
	blanks = []any{"", false, 0, 1, 10, 100, 1000, -1, 0.5, []any{}, "1970-01-01", "1970-01-01T00:00:00Z", "00:00:00Z", "PT0S", "nobody@example.invalid",
		"00000000-0000-0000-0000-000000000000", "about:blank", "0.0.0.0", "::", "localhost", "-", strings.Repeat("-", 10), strings.Repeat("-", 100)}
)

// shapeOf returns the pattern of a property's value for a word of its name or format; nil allows any value.
func shapeOf(word string) *lazyregexp.Regexp {
	switch word {
	case "email", "mail":
		return emails
	case "date", "day":
		return dates
	case "uuid", "id", "ids", "code", "key":
		return ids
	case "number":
		return codes
	case "name", "customer", "person", "city", "country", "company":
		return names
	}
	return nil
}

// sureness is how much evidence a value needs.
type sureness int

const (
	optional sureness = iota // the text names the property
	another                  // the text has another value of the kind
	needed
)

// filler fills JSON schemas with values from a text. It uses each word once.
type filler struct {
	text    string // for strings without a pattern
	words   []bm25.Word
	quotes  [][]string
	invent  bool     // use blanks
	missing []string // the required members without a value
	used    map[any]bool
	steps   int
}

// fill returns JSON that the schema accepts, or the names of the missing values. It reads only the first thousand
// words, because a longer text is a pasted document.
func fill(schema json.RawMessage, words []bm25.Word, text string, invent bool) (arguments, missing string) {
	f := &filler{text: text, words: words[:min(1000, len(words))], quotes: quoted.Get().FindAllStringSubmatch(text, 100), invent: invent, used: map[any]bool{}}
	if s, err := compile(schema); err == nil {
		if v, ok := f.value("", s, needed, 0); ok {
			data, _ := json.Marshal(v) // the types of JSON can always be encoded
			return string(data), ""
		}
	}
	return "", cmp.Or(strings.Join(f.missing, " and "), "values that its schema allows")
}

func compile(schema json.RawMessage) (*jsonschema.Schema, error) {
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // references open nothing
	if err = cmp.Or(err, c.AddResource("mem:///schema.json", doc)); err != nil {
		return nil, err
	}
	return c.Compile("mem:///schema.json")
}

// respond returns JSON for a response format, from the results told or else from the user's text. If a value of the
// text does not fit, it uses only blanks.
func respond(schema json.RawMessage, user, told string) (string, error) {
	for _, words := range [][]bm25.Word{bm25.Split(user + "\n" + told), nil} {
		if answer, missing := fill(schema, words, cmp.Or(told, user), true); missing == "" {
			return answer, nil
		}
	}
	return "", &llm.Error{Code: llm.CodeBadRequest, Message: "the offline model finds no answer for this response schema"}
}

// value returns a value that the schema accepts, or false.
func (f *filler) value(key string, s *jsonschema.Schema, sure sureness, depth int) (any, bool) {
	if f.steps++; s == nil || depth > 8 || f.steps > 5000 { // a schema may contain itself
		return nil, false
	}
	all := f.candidates(key, s, sure, depth)
	for _, again := range []bool{false, f.invent && sure == needed} { // if needed, use a word twice
		for _, c := range all {
			if (c.from == nil || !f.used[c.from] || again) && s.Validate(c.value) == nil {
				f.used[c.from] = true
				return c.value, true
			}
		}
	}
	return nil, false
}

// candidate is a possible value. from is the part of the text that it uses, if any.
type candidate struct{ from, value any }

// candidates returns the possible values of a property: those of the text, then those of the schema, then blanks.
func (f *filler) candidates(key string, s *jsonschema.Schema, sure sureness, depth int) (all []candidate) {
	for _, o := range rank(f.words, choices(s)) {
		if o.score > 0 || f.invent && sure == needed {
			all = append(all, candidate{key + "=" + o.name, o.value})
		}
	}
	for _, part := range slices.Concat([]*jsonschema.Schema{s.Ref}, s.AllOf, s.AnyOf, s.OneOf) {
		if v, ok := f.value(key, part, sure, depth+1); ok && v != nil {
			all = append(all, candidate{nil, v})
		}
	}
	if s.Properties != nil {
		if v, ok := f.object(s, sure, depth); ok {
			all = append(all, candidate{nil, v})
		}
	} else if s.Items != nil || s.Items2020 != nil {
		if v := f.array(key, s, sure, depth); len(v) > 0 || f.invent && sure == needed {
			all = append(all, candidate{nil, v})
		}
	} else if len(all) == 0 {
		all = f.seen(key, s, sure)
	}
	if sure < needed {
		return all
	}
	for _, own := range []*any{s.Const, s.Default, new(any)} { // null last
		if own != nil {
			all = append(all, candidate{nil, *own})
		}
	}
	all = append(all, candidate{nil, map[string]any{}})
	for i := 0; f.invent && i < len(blanks); i++ {
		all = append(all, candidate{nil, blanks[i]})
	}
	return all
}

// seen returns the values in the text for a property: after a word that names it, then elsewhere, and for a required
// string without a pattern the whole text.
func (f *filler) seen(key string, s *jsonschema.Schema, sure sureness) []candidate {
	about := bm25.Split(key)
	if s.Format != nil {
		about = append(about, bm25.Split(s.Format.Name)...)
	}
	var shape *lazyregexp.Regexp
	for _, w := range about {
		shape = cmp.Or(shapeOf(w.Text), shape)
	}
	var near, far []candidate
	free, anywhere := shape == nil || shape == names, sure > optional || shape == emails || shape == dates
	named := slices.IndexFunc(f.words, func(w bm25.Word) bool { return w.In(about) })
	for i, w := range f.words {
		if behind := named >= 0 && i > named && i <= named+3; behind {
			near = append(near, f.valuesAt(i, w, shape, free)...)
		} else if anywhere {
			far = append(far, f.valuesAt(i, w, shape, false)...)
		}
	}
	near = append(near, far...)
	for i := 0; free && (anywhere || named >= 0) && i < len(f.quotes); i++ {
		near = append(near, candidate{-1 - i, f.quotes[i][1]})
	}
	if named >= 0 {
		near = append(near, candidate{key, !negated(f.words[:named])})
	}
	if free && f.text != "" && sure == needed {
		near = append(near, candidate{nil, f.text})
	}
	return near
}

// valuesAt returns the values that a word is, or starts: those that match the shape, and ids if they are allowed.
func (f *filler) valuesAt(i int, w bm25.Word, shape *lazyregexp.Regexp, id bool) (found []candidate) {
	field := strings.Trim(w.Field, punctuation)
	if n := numerals[w.Text]; n != "" && shape != ids { // "cancel one of them" contains no number
		field = n
	}
	if number.MatchString(field) {
		found = append(found, candidate{i, json.Number(field)})
	}
	if shape == names && (i == 0 || w.Stem == "") {
		field = "" // the capital letter may only start a sentence
	} else if shape == names && i+1 < len(f.words) && names.MatchString(w.Field) && names.MatchString(strings.Trim(f.words[i+1].Field, punctuation)) {
		field = strings.Trim(w.Field+" "+f.words[i+1].Field, punctuation)
	}
	if shape != nil && shape.MatchString(field) || id && ids.MatchString(field) {
		found = append(found, candidate{i, field})
	}
	return found
}

// choices returns an enum's values, with the words of the value and of the description's sentences that contain it.
func choices(s *jsonschema.Schema) (options []option) {
	if s.Enum == nil {
		return nil
	}
	for _, v := range s.Enum.Values {
		o := option{name: fmt.Sprint(v), value: v, doc: bm25.Split(fmt.Sprint(v))}
		for _, sentence := range sentenceEnd.Get().Split(s.Description, -1) {
			if strings.Contains(sentence, o.name) {
				o.doc = append(o.doc, bm25.Split(sentence)...)
			}
		}
		options = append(options, o)
	}
	return options
}

// object fills the required members in order, then the others by name.
func (f *filler) object(s *jsonschema.Schema, sure sureness, depth int) (any, bool) {
	out, complete := map[string]any{}, true
	for _, key := range s.Required {
		v, ok := f.value(key, cmp.Or(s.Properties[key], &jsonschema.Schema{}), sure, depth+1)
		if ok {
			out[key] = v
		} else if complete = false; sure == needed {
			f.missing = append(f.missing, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, key) {
			continue
		}
		if v, ok := f.value(key, s.Properties[key], optional, depth+1); ok {
			out[key] = v
		}
	}
	return out, complete && (sure == needed || len(out) > 0)
}

// array returns the values in the text that fit the items. If blanks are allowed, it adds items until the schema
// accepts the array.
func (f *filler) array(key string, s *jsonschema.Schema, sure sureness, depth int) []any {
	items, _ := s.Items.(*jsonschema.Schema)
	out := []any{}
	for len(out) < 16 && (s.MaxItems == nil || len(out) < *s.MaxItems) {
		each := another
		if len(out) == 0 || f.invent && s.Validate(out) != nil {
			each = sure
		}
		v, ok := f.value(key, cmp.Or(s.Items2020, items), each, depth+1)
		if !ok {
			break
		}
		out = append(out, v)
	}
	return out
}
