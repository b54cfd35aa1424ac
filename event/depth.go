package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// MaxDepth is the maximal number of levels of arrays and objects in the JSON of a payload. JSON decoders, including
// Go's, refuse JSON that is much deeper. A stored payload must stay readable inside an event, a task or a page.
const MaxDepth = 1000

// maxReadable is the number of levels from which encoding/json refuses to decode.
const maxReadable = 10000

// TooDeep reports whether JSON has more levels than [MaxDepth]. It does not check that the bytes are JSON.
func TooDeep(raw []byte) bool { return Deeper(raw, MaxDepth) }

// Deeper reports whether JSON has more than limit levels of arrays and objects. It does not check that
// the bytes are JSON.
func Deeper(raw []byte, limit int) bool {
	if len(raw) <= 2*limit || bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) <= limit {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > limit {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// valueTooDeep reports whether the JSON of a value has more than left levels.
func valueTooDeep(v any, left int) bool {
	switch v := v.(type) {
	case nil, bool, string, float64, int, int64, json.Number:
		return false
	case map[string]any:
		for _, inner := range v {
			if left == 0 || valueTooDeep(inner, left-1) {
				return true
			}
		}
		return left == 0
	case []any:
		return left == 0 || slices.ContainsFunc(v, func(inner any) bool { return valueTooDeep(inner, left-1) })
	}
	return Deeper(EncodeJSON(v), left)
}

var rawType, valuesType = reflect.TypeFor[json.RawMessage](), reflect.TypeFor[map[string]any]()

// Bound returns a payload whose JSON is at most [MaxDepth] levels deep. Deeper JSON becomes a string with its text,
// or {"raw": text} where an object is required, and the notice reports it. If nothing is too deep, Bound returns the
// given payload and a nil notice. It never changes the given payload.
func Bound(data Data) (Data, *Notice) {
	given := reflect.ValueOf(data)
	if data == nil || given.IsNil() {
		return data, nil
	}
	var notice *Notice
	for i := range given.Elem().NumField() {
		var bounded any
		switch field := given.Elem().Field(i); field.Type() {
		case rawType:
			if !TooDeep(field.Bytes()) {
				continue
			}
			bounded = boundRaw(data, field.Bytes())
		case valuesType:
			values, changed := boundValues(field.Interface().(map[string]any))
			if !changed {
				continue
			}
			bounded = values
		default:
			continue
		}
		if notice == nil {
			c := reflect.New(given.Type().Elem())
			c.Elem().Set(given.Elem())
			given, data = c, c.Interface().(Data)
			notice = &Notice{Code: NoticeTooDeep, Message: fmt.Sprintf("JSON of the event %s was nested deeper than %d levels and is kept as text", data.eventType(), MaxDepth)}
		}
		given.Elem().Field(i).Set(reflect.ValueOf(bounded))
	}
	return data, notice
}

func boundRaw(data Data, raw json.RawMessage) json.RawMessage {
	switch data.(type) {
	case *ToolCall, *Unknown:
		return rawObject(string(raw))
	}
	return EncodeJSON(string(raw))
}

func rawObject(text string) json.RawMessage { return EncodeJSON(map[string]string{"raw": text}) }

// BoundAll applies [Bound] to events before they are stored in one write. It inserts each notice after its event, or
// before the event if that ends a run. If nothing is too deep, it returns the given slice. It never changes the
// slice, but it sets Data and More of events that are too deep.
func BoundAll(events []*Event) []*Event {
	out, changed := events, false
	for i, e := range events {
		data, notice := Bound(e.Data)
		if notice == nil {
			if changed {
				out = append(out, e)
			}
			continue
		}
		if !changed {
			out, changed = append(make([]*Event, 0, len(events)+1), events[:i]...), true
		}
		e.Data = data
		said := &Event{TurnID: e.TurnID, RunID: e.RunID, Scope: e.Scope, Agent: e.Agent, Path: e.Path, Data: notice}
		if _, ends := data.(*HarnessEnd); ends {
			said.More = true
			out = append(out, said, e)
		} else {
			said.More, e.More = e.More, true
			out = append(out, e, said)
		}
	}
	return out
}

// boundValues bounds each value of a map separately. It copies the map only if a value changes.
func boundValues(values map[string]any) (bounded map[string]any, changed bool) {
	for key, value := range values {
		if valueTooDeep(value, MaxDepth) {
			if !changed {
				values, changed = maps.Clone(values), true
			}
			values[key] = string(EncodeJSON(value))
		}
	}
	return values, changed
}
