package event_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/oddbytes"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// same requires that what is read without package json is what package json reads, down
// to nil and empty, and that Decode says the same of a row, with a memory and without.
// It returns what was read, nil if the row is left to package json.
func same(t require.TestingT, d *event.Decoder, row []byte) *event.Event {
	before := bytes.Clone(row)
	plain := event.Plain(row)
	slow, err := event.Slow(row)
	if plain != nil {
		require.NoError(t, err, "%q", row)
		if !reflect.DeepEqual(slow, plain) {
			require.Equal(t, slow, plain, "%q", row)
			require.Fail(t, "not deeply equal", "%q: %#v, %#v", row, slow.Data, plain.Data)
		}
	}
	if err == nil && !slow.Partial {
		slow.Data, _ = event.Bound(slow.Data)
		for range 2 {
			used := bytes.Clone(row)
			e := d.Decode(slow.Seq, used)
			clear(used) // as a driver does with its memory
			require.True(t, reflect.DeepEqual(slow, e), "%q", row)
		}
		require.True(t, reflect.DeepEqual(slow, event.Decode(slow.Seq, row)), "%q", row)
	} else {
		seq := int64(7)
		if err == nil {
			seq = slow.Seq
		}
		broken := d.Decode(seq, row)
		require.Equal(t, event.TypeUnreadable, broken.Type(), "%q", row)
		require.Equal(t, event.Decode(seq, row), broken)
	}
	require.Equal(t, before, row, "what is read is not changed")
	return plain
}

// sameWritten requires that what is written without package json is what it writes.
func sameWritten(t require.TestingT, e *event.Event) (row []byte, plain bool) {
	slow, err := event.WriteSlow(e)
	if written := event.WritePlain(e); written != nil {
		require.NoError(t, err, "%s", written)
		require.Equal(t, string(slow), string(written))
		return written, true
	}
	got, err2 := e.MarshalJSON()
	require.Equal(t, fmt.Sprint(err), fmt.Sprint(err2))
	require.Equal(t, string(slow), string(got))
	return slow, false
}

// FuzzPlain requires that whatever is read without package json means the same to it.
func FuzzPlain(f *testing.F) {
	for i, data := range sessiontest.Payloads() {
		e := &event.Event{Seq: int64(i), ID: "e", TurnID: "t", RunID: "r", Scope: "s", ParentID: "p", Agent: "a", Path: "b/a",
			Time: time.Unix(int64(i), int64(i)*1000), Partial: i%5 == 0, Attempt: i % 3, Data: data}
		row, err := e.MarshalJSON()
		require.NoError(f, err)
		f.Add(row)
	}
	for _, s := range []string{
		`{"type":"x",}`, `{,"type":"x"}`, `{"type":"x"}}`, `{"type":"text","content":"a"} `, `{"type":"text","content":"a","content":"b"}`, `{"type":"text","Content":"a"}`,
		`{"type":"text","content":"\ud83d\ude00"}`, `{"type":"text","content":"\u00e4\/\b\f\n\r\t\"\\\u0000"}`, "{\"type\":\"text\",\"content\":\"ä\u2028\x7f\"}",
		`{"seq":-0,"type":"text"}`, `{"seq":01,"type":"text"}`, `{"seq":9223372036854775807,"type":"text"}`, `{"seq":1e3,"type":"text"}`, `{"type":"usage","inputTokens":1e30,"outputTokens":-5}`,
		`{"type":"text","time":"2024-02-29T23:59:59.123Z"}`, `{"type":"text","time":"2023-02-29T00:00:00Z"}`, `{"type":"text","time":"2023-02-28T24:00:00Z"}`, `{"type":"text","time":"0000-01-01T00:00:00.000000000Z"}`,
		`{"type":"text","time":"2023-12-31T23:59:60Z"}`, `{"type":"text","time":"2023-12-31T23:59:59,5Z"}`, `{"type":"text","time":"2023-12-31T23:59:59.1234567891Z"}`, `{"type":"text","time":"0001-01-01T00:00:00Z"}`,
		`{"type":"text","time":"2023-12-30T10:00:60Z"}`, `{"type":"text","time":"2023-12-30T10:60:00Z"}`, `{"type":"text","time":"2023-13-30T10:00:00Z"}`, `{"type":"text","time":"2023-12-30T10:00:00.Z"}`,
		`{"type":"error","code":"a","message":"b","retryable":}`, `{"type":"text","partial":}`, `{"type":"text","attempt":}`, `{"seq":,"type":"text"}`, `{"type":"text","content":}`,
		`{"type":"x""a":1}`, `{"type":"x"}"a":1}`, `{"type":"x","a":1"b":2}`, `{"type":"text""content":"a"}`,
		`{"type":"x","a":["b""c"]}`, `{"type":"x","a":{"b":1"c":2}}`, `{"type":"x","a":[1,]}`, `{"type":"x","a":[,1]}`, "{\"type\":\"x\",\"a\":\"12345678\x1f\"}", "{\"type\":\"text\",\"content\":\"\x01\"}",
		`{"type":"user","content":["a"]}`, `{"type":"user","content":null,"metadata":null}`, `{"type":"user","content":"a","metadata":{"a":-0,"b":1e3,"c":123456789012345,"a":{}}}`,
		`{"type":"state","delta":{"a":[],"b":{},"c":[[],[null,true,false,"\n"]],"a":1}}`, `{"type":"state","delta":[1]}`, `{"type":"state","delta":{"a":9007199254740993}}`,
		`{"type":"route","from":"a","to":"b","ruleIndex":null,"latencyMs":1.5,"graphPath":null}`, `{"type":"route","from":"a","to":"b","ruleIndex":3,"sentiment":{},"latencyMs":-0,"graphPath":[]}`,
		`{"type":"tool_call","name":"a","input":{"a": 1}}`, `{"type":"tool_result","name":"a","output":"\ud800"}`, `{"type":"tool_result","name":"a","output":null,"isError":false}`,
		`{"type":"discard","code":"a","message":"b","ids":["a","b"],"usage":{"inputTokens":1,"OutputTokens":2}}`, `{"type":"remote_task","taskId":"a","usage":[{"inputTokens":1},null]}`,
		`{"type":"x","a":{"seq":1},"Seq":1}`, `{"type":"x","\u0061":1}`, `{"type":"x","ä":1}`, `{"type":"te\u0078t"}`, `{"type":"continue"}`, `{"type":""}`, `{"type":"text","partial":false,"attempt":0}`,
	} {
		f.Add([]byte(s))
	}
	for _, odd := range oddbytes.JSON() {
		f.Add([]byte(`{"seq":1,"type":"state","delta":{"a":` + odd + `}}`))
		f.Add([]byte(`{"seq":1,"type":"usage","inputTokens":` + odd + `,"outputTokens":` + odd + `}`))
		f.Add([]byte(`{"seq":1,"id":` + odd + `,"type":"tool_result","name":"a","output":` + odd + `}`))
		f.Add([]byte(`{"seq":1,"type":"hologram","a":` + odd + `}`))
		f.Add([]byte(`{"seq":1,"type":"transfer","from":` + odd + `,"to":"b","outcome":"committed","graphPath":[` + odd + `]}`))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		var d event.Decoder
		if e := same(t, &d, row); e != nil && e.Data != nil {
			sameWritten(t, e)
		}
	})
}

var (
	texts = []string{"", "a", "I was charged twice", "<&>", "\"\\\n\x00\x7f\b\f\r\t\x1f", "ä\u2028\u2029", "\xff\xc3", "😀", "\ufffd", strings.Repeat("word ", 20), strings.Repeat("é\n", 9),
		"12345678", "1234567\"", "1234567\\", "1234567\x19", "1234567é", `\u00e4`}
	raws = []string{`{}`, `[]`, `null`, `true`, `"a"`, `"a\n\u00e4\ud800"`, `{"a":[1,-2.50e+3,{"b":"c"}]}`, ` { "a" : 1 } `, `12345678901234567890`, "\"\xff\"", "\"\u2028<\"",
		`{"a":1,"a":2}`, `"\ud83d\ude00"`, `{"\ud83d\ude00":1}`, `"a" "b"`, oddbytes.Deep(63), oddbytes.Deep(64), oddbytes.Deep(65), oddbytes.Deep(1001), `{`, `1 2`, `01`, `-`, ``}
	floats = []float64{0, math.Copysign(0, -1), 1, -1.5, 0.1, 1e-6, 9e-7, 1e20, 1e21, 123456789012345678, math.MaxFloat64, 5e-324, math.NaN(), math.Inf(-1)}
	ints   = []int64{0, 1, -1, 12, 1 << 40, 999999999999999999, math.MaxInt64, math.MinInt64}
)

// Events of all types, with whatever they can hold, are written and read as by package json;
// so are those that one byte was changed of.
func TestPlainIsWhatPackageJSONReads(t *testing.T) {
	var d event.Decoder
	tried := make(map[reflect.Type][]reflect.Value)
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(event.Types()).Draw(t, "type")
		e := &event.Event{Data: event.New(typ)}
		payload := reflect.ValueOf(e.Data).Elem()
		for i := range payload.NumField() {
			field := payload.Type().Field(i)
			if tried[field.Type] == nil {
				tried[field.Type] = contents(field.Type)
			}
			n := rapid.IntRange(0, len(tried[field.Type])-1).Draw(t, field.Name)
			payload.Field(i).Set(tried[field.Type][n])
		}
		for _, field := range []*string{&e.ID, &e.TurnID, &e.RunID, &e.Scope, &e.ParentID, &e.Agent, &e.Path} {
			*field = rapid.SampledFrom(texts).Draw(t, "envelope")
		}
		e.Seq, e.Attempt = rapid.SampledFrom(ints).Draw(t, "seq"), int(rapid.SampledFrom(ints).Draw(t, "attempt"))
		e.Partial = rapid.Bool().Draw(t, "partial")
		e.Time = rapid.SampledFrom([]time.Time{{}, time.Unix(1, 20), time.Date(2024, 2, 29, 23, 59, 59, 120_000_000, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)}).Draw(t, "time")
		row, _ := sameWritten(t, e)
		if row == nil {
			return
		}
		same(t, &d, row)
		at := rapid.IntRange(0, len(row)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "change") {
		case 0:
			row[at] = rapid.SampledFrom([]byte("\"\\{}[],:0 eE.-+untf\x00\x80a")).Draw(t, "byte")
		case 1:
			row = append(row[:at:at], row[at+1:]...)
		case 2:
			row = append(row[:at:at], append([]byte{row[at]}, row[at:]...)...)
		}
		same(t, &d, row)
	})
}

// contents returns all that is worth trying in a field of a type.
func contents(field reflect.Type) (out []reflect.Value) {
	add := func(values ...any) {
		for _, v := range values {
			out = append(out, reflect.ValueOf(v).Convert(field))
		}
	}
	switch reflect.Zero(field).Interface().(type) {
	case json.RawMessage:
		add(json.RawMessage(nil))
		for _, s := range append(oddbytes.JSON(), raws...) {
			add(json.RawMessage(s))
		}
		return out
	case map[string]any:
		add(map[string]any(nil), map[string]any{}, map[string]any{"": nil, "b": true, "a": []any{}, "c": []any{1, map[string]any{}, "x"}, "\xff": 1.0, "\ufffd": 2.0, "z": []any(nil), "y": map[string]any(nil)})
		for _, s := range texts {
			add(map[string]any{s: s})
		}
		for _, n := range floats {
			add(map[string]any{"n": n})
		}
		for _, s := range append(oddbytes.JSON(), raws...) {
			add(map[string]any{"raw": json.RawMessage(s)}, map[string]any{"raw": event.DecodeValue([]byte(s))})
		}
		return out
	case llm.Content:
		for _, s := range texts {
			add(llm.Content{Text: s}, llm.Content{Text: s, Parts: []llm.Part{llm.TextPart{Text: s}, llm.Media{Kind: llm.MediaImage, Data: []byte(s), URL: s}}})
		}
		add(llm.Content{Parts: []llm.Part{}}, llm.Content{Parts: []llm.Part{llm.ToolCall{}}})
		return out
	case map[string]float64:
		add(map[string]float64{})
		for _, n := range floats {
			add(map[string]float64{"\xff": n})
		}
		return out
	}
	switch field.Kind() {
	case reflect.String:
		for _, s := range texts {
			add(s)
		}
	case reflect.Bool:
		add(true, false)
	case reflect.Int, reflect.Int64:
		for _, n := range ints {
			add(n)
		}
	case reflect.Float64:
		for _, n := range floats {
			add(n)
		}
	case reflect.Pointer:
		out = append(out, reflect.Zero(field))
		for _, v := range contents(field.Elem()) {
			p := reflect.New(field.Elem())
			p.Elem().Set(v)
			out = append(out, p)
		}
	case reflect.Slice:
		list := reflect.Zero(field)
		out = append(out, list, reflect.MakeSlice(field, 0, 0))
		for _, v := range contents(field.Elem()) {
			list = reflect.Append(list, v)
			out = append(out, list)
		}
	case reflect.Struct:
		for i := range field.NumField() {
			for _, v := range contents(field.Field(i).Type) {
				s := reflect.New(field).Elem()
				s.Field(i).Set(v)
				out = append(out, s)
			}
		}
	default:
		panic(fmt.Sprint("a field of the kind ", field.Kind()))
	}
	return out
}

// Each field of each type is written and read as by package json, with whatever may be in it,
// and so is each field of the envelope.
func TestEachFieldIsWhatPackageJSONReads(t *testing.T) {
	var d event.Decoder
	plain := 0
	try := func(e *event.Event) {
		if row, _ := sameWritten(t, e); row != nil && same(t, &d, row) != nil {
			plain++
		}
	}
	for _, typ := range event.Types() {
		before := plain
		for _, v := range contents(reflect.TypeOf(event.New(typ)).Elem()) {
			e := &event.Event{Seq: 7, ID: "e7", Data: event.New(typ)}
			reflect.ValueOf(e.Data).Elem().Set(v)
			try(e)
		}
		require.NotEqual(t, before, plain, "nothing of %s is read without package json", typ)
	}
	envelope := reflect.TypeFor[event.Event]()
	for i := range envelope.NumField() {
		field := envelope.Field(i)
		if field.Name == "Time" || field.Name == "Data" || field.Name == "More" || field.Name == "Streamed" {
			continue
		}
		for _, v := range contents(field.Type) {
			e := &event.Event{Time: time.Unix(7, 0), Data: &event.Text{Content: "hi"}}
			reflect.ValueOf(e).Elem().Field(i).Set(v)
			try(e)
		}
	}
}

// What MarshalJSON makes of ordinary events is read without package json, and written so.
func TestExamplesArePlain(t *testing.T) {
	for _, data := range sessiontest.Payloads() {
		e := &event.Event{Seq: 7, ID: "e7", TurnID: "t1", RunID: "r1", Scope: "c1", ParentID: "r0:harness_end", Agent: "billing",
			Path: "support/billing", Time: time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC), Data: data}
		row, plain := sameWritten(t, e)
		_, unknown := data.(*event.Unknown)
		require.NotEqual(t, unknown, plain, "%s", row)
		require.NotNil(t, same(t, new(event.Decoder), row), "%s", row)
	}
}

// FuzzValues holds the small functions against package json.
func FuzzValues(f *testing.F) {
	for _, s := range append(append(oddbytes.JSON(), raws...), texts...) {
		f.Add(s)
	}
	for _, s := range texts {
		f.Add(string(event.EncodeJSON(s)))
	}
	f.Fuzz(func(t *testing.T, s string) {
		encoded := func(v any) string {
			var buf bytes.Buffer
			enc := json.NewEncoder(&buf)
			enc.SetEscapeHTML(false)
			if enc.Encode(v) != nil {
				return "none"
			}
			return strings.TrimSuffix(buf.String(), "\n")
		}
		require.Equal(t, encoded(s), string(event.EncodeJSON(s)))
		require.Equal(t, encoded([]any{s, map[string]any{s: s}}), string(event.EncodeJSON([]any{s, map[string]any{s: s}})))
		if raw := encoded(json.RawMessage(s)); raw != "none" && !event.TooDeep([]byte(s)) {
			require.Equal(t, raw, string(event.EncodeJSON(json.RawMessage(s))))
		}
		var text string
		if strings.HasPrefix(s, `"`) && strings.HasSuffix(s, `"`) && json.Unmarshal([]byte(s), &text) == nil {
			require.Equal(t, text, event.OutputText(json.RawMessage(s)))
		} else {
			require.Equal(t, s, event.OutputText(json.RawMessage(s)))
		}
		input := event.ObjectInput(s)
		switch trimmed := bytes.TrimSpace([]byte(s)); {
		case len(trimmed) == 0:
			require.Equal(t, `{}`, string(input))
		case trimmed[0] == '{' && (event.TooDeep(trimmed) || json.Valid(trimmed)):
			require.Equal(t, string(trimmed), string(input))
		default:
			require.Equal(t, encoded(map[string]string{"raw": s}), string(input))
		}
		row := `{"seq":1,"type":"state","delta":{"k":` + s + `}}`
		if e, err := event.Slow([]byte(row)); err == nil && json.Valid([]byte(s)) && !event.TooDeep([]byte(s)) {
			value := event.DecodeValue([]byte(s))
			if !strings.Contains(fmt.Sprint(s), "e") && !strings.Contains(s, "E") { // a number beyond all is the text of all of the value
				require.True(t, reflect.DeepEqual(e.Data.(*event.State).Delta["k"], value), "%q", s)
			}
		}
	})
}
