package agentgraph

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/schema"
)

// data is a JSON value that moves through a graph. Its bytes are shared and never changed. They are decoded once for
// expressions, whose results are copies, so that no node's value is part of another's.
type data struct {
	raw   json.RawMessage
	value any
	known bool
}

// values contains what expressions see. state is nil if the graph has no shared state.
type values struct {
	output, input *data
	state         map[string]any
}

// dataOf returns a node's output as data. A string that contains JSON, also inside a code fence, becomes that JSON
// value.
func dataOf(raw json.RawMessage) data {
	if len(raw) == 0 {
		return data{raw: json.RawMessage("null"), known: true}
	}
	if raw[0] != '"' {
		return data{raw: raw}
	}
	text := schema.StripCodeFence(event.OutputText(raw))
	if !mayBeJSON(text) || event.TooDeep([]byte(text)) || !json.Valid([]byte(text)) {
		return data{raw: raw}
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return data{raw: raw}
	}
	return data{raw: b.Bytes()}
}

// mayBeJSON reports whether the first character can begin JSON. Most texts fail this check, which is cheap.
func mayBeJSON(text string) bool {
	return text != "" && strings.IndexByte(`{["-0123456789tfn`, text[0]) >= 0
}

// decoded returns the value as expressions see it. The value is shared.
func (d *data) decoded() any {
	if !d.known {
		d.value, d.known = expression.Decode(d.raw), true
	}
	return d.value
}

// decode returns a new value, with numbers as json.Number.
func decode(raw json.RawMessage) any {
	var v any
	_ = plainjson.Unmarshal(raw, &v) // raw is always JSON
	return v
}

// object returns a JSON object with these values, in order. The names are JSON strings. Values that are nil are left
// out.
func object(names func(i int) json.RawMessage, values []json.RawMessage) json.RawMessage {
	size := 2
	for i, v := range values {
		size += len(names(i)) + len(v) + 2
	}
	b := append(make([]byte, 0, size), '{')
	for i, v := range values {
		if v == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, names(i)...), ':'), v...)
	}
	return append(b, '}')
}

// Condition compiles a condition in the language of graph conditions, for decisions outside of graphs. The condition
// sees output, input, and the given state keys, whose values [Expression.WithState] sets. The error reports the
// position in the source.
func Condition(source string, stateKeys ...string) (*Expression, error) {
	program, err := expression.WithState(stateKeys...).CompileCondition(source)
	if err != nil {
		return nil, err
	}
	return &Expression{program: program}, nil
}

// OutputValue returns an agent's output as expressions see it. A string that contains JSON, also inside a code fence,
// becomes that JSON value. The caller must not change the result.
func OutputValue(output json.RawMessage) any {
	d := dataOf(output)
	return d.decoded()
}
