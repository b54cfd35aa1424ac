package tools_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

type address struct {
	City string `json:"city" jsonschema:"minLength=2"`
	Zip  string `json:"zip,omitempty"`
}

type order struct {
	ID      int               `json:"id" jsonschema:"minimum=1,description=Number of the order"`
	Kind    string            `json:"kind" jsonschema:"enum=refund,enum=exchange"`
	Note    *string           `json:"note,omitempty"`
	Ship    address           `json:"ship"`
	Lines   []address         `json:"lines,omitempty"`
	Tags    []string          `json:"tags,omitempty" jsonschema:"maxItems=2"`
	Labels  map[string]string `json:"labels,omitempty"`
	When    time.Time         `json:"when,omitzero"`
	Hidden  string            `json:"-"`
	private int
}

var _ = order{}.private // no part of the schema

const goodOrder = `{"id":1,"kind":"refund","ship":{"city":"Oslo"}}`

func call(t testing.TB, tool tools.Tool, input string) tools.Result {
	res, err := tools.Execute(context.Background(), tool, tools.CallInfo{}, json.RawMessage(input))
	require.NoError(t, err)
	require.True(t, json.Valid(res.Output), "%q", res.Output)
	return res
}

func text(t testing.TB, res tools.Result) string {
	var s string
	require.NoError(t, json.Unmarshal(res.Output, &s))
	return s
}

func TestSchemaOfAStruct(t *testing.T) {
	tool, err := tools.Func("order", "Orders.", func(tools.Context, order) (string, error) { return "", nil })
	require.NoError(t, err)
	var s struct {
		Type                 string
		Required             []string
		AdditionalProperties *bool
		Properties           map[string]struct {
			Type, Description, Format string
			Enum                      []string
			Minimum, MaxItems         *float64
			Items                     struct{ Type string }
			Required                  []string
			Properties                map[string]struct{ MinLength *int }
		}
	}
	info := tool.Info()
	require.NoError(t, json.Unmarshal(info.Parameters, &s))
	require.NotContains(t, string(info.Parameters), "$ref", "models do not follow references")
	require.NotContains(t, string(info.Parameters), "$schema")
	require.Equal(t, "object", s.Type)
	require.False(t, *s.AdditionalProperties)
	require.Equal(t, []string{"id", "kind", "ship"}, s.Required)
	require.Len(t, s.Properties, 8)
	require.Equal(t, "integer", s.Properties["id"].Type)
	require.Equal(t, "Number of the order", s.Properties["id"].Description)
	require.EqualValues(t, 1, *s.Properties["id"].Minimum)
	require.Equal(t, []string{"refund", "exchange"}, s.Properties["kind"].Enum)
	require.Equal(t, "string", s.Properties["note"].Type)
	require.Equal(t, []string{"city"}, s.Properties["ship"].Required)
	require.Equal(t, 2, *s.Properties["ship"].Properties["city"].MinLength)
	require.Equal(t, "array", s.Properties["lines"].Type)
	require.Equal(t, "object", s.Properties["lines"].Items.Type)
	require.Equal(t, "string", s.Properties["tags"].Items.Type)
	require.EqualValues(t, 2, *s.Properties["tags"].MaxItems)
	require.Equal(t, "object", s.Properties["labels"].Type)
	require.Equal(t, "date-time", s.Properties["when"].Format)
}

func TestArgumentsArriveDecoded(t *testing.T) {
	var got order
	tool, err := tools.Func("order", "Orders.", func(_ tools.Context, in order) (map[string]any, error) {
		got = in
		return map[string]any{"ok": true, "html": "<b>"}, nil
	})
	require.NoError(t, err)
	res := call(t, tool, `{"id":7,"kind":"exchange","note":"n","ship":{"city":"Bonn","zip":"1"},"lines":[{"city":"Rom"}],"tags":["a"],"labels":{"x":"y"},"when":"2026-01-02T03:04:05Z"}`)
	require.False(t, res.IsError, "%s", res.Output)
	require.Equal(t, `{"html":"<b>","ok":true}`, string(res.Output))
	note := "n"
	require.Equal(t, order{ID: 7, Kind: "exchange", Note: &note, Ship: address{"Bonn", "1"}, Lines: []address{{City: "Rom"}}, Tags: []string{"a"},
		Labels: map[string]string{"x": "y"}, When: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, got)

	pointer, err := tools.Func("pointer", "", func(_ tools.Context, in *address) (string, error) { return in.City, nil })
	require.NoError(t, err)
	require.Equal(t, `"Rom"`, string(call(t, pointer, `{"city":"Rom"}`).Output))
	none, err := tools.Func("none", "", func(tools.Context, struct{}) (int, error) { return 3, nil })
	require.NoError(t, err)
	require.Equal(t, `3`, string(call(t, none, `{}`).Output))
}

func TestEveryViolationIsReported(t *testing.T) {
	called := false
	tool, err := tools.Func("order", "Orders.", func(tools.Context, order) (string, error) { called = true; return "", nil })
	require.NoError(t, err)
	for _, c := range []struct {
		input string
		want  []string
	}{
		{`{"id":0,"kind":"gift","ship":{"city":"X"},"tags":["a","b","c"],"more":1}`, []string{"/id", "/kind", "'refund', 'exchange'", "/ship/city", "/tags", "more"}},
		{`{}`, []string{"'id', 'kind', 'ship'"}},
		{`{"id":"1","kind":"refund","ship":"x"}`, []string{"/id: got string, want integer", "/ship: got string, want object"}},
		{`{"id":1.5,"kind":"refund","ship":{"city":"Oslo"}}`, []string{"/id: got number, want integer"}},
		{`{"id":1,"kind":"refund","ship":{"city":"Oslo"},"lines":[{"city":"Rom"},{}]}`, []string{"/lines/1", "city"}},
		{`{"raw":"{oops"}`, []string{"not a JSON object", "{oops"}},
		{`[]`, []string{"want object"}},
		{`null`, []string{"want object"}},
		{`{oops`, []string{"not JSON"}},
		{``, []string{"not JSON"}},
		{`{"id":99999999999999999999999,"kind":"refund","ship":{"city":"Oslo"}}`, []string{"cannot unmarshal number"}},
		{`{"id":1,"kind":"refund","ship":{"city":"Oslo"},"when":"yesterday"}`, []string{"yesterday"}},
	} {
		res := call(t, tool, c.input)
		require.True(t, res.IsError, c.input)
		require.False(t, called, c.input)
		for _, w := range c.want {
			require.Contains(t, text(t, res), w, c.input)
		}
	}
	require.False(t, call(t, tool, goodOrder).IsError)
	require.True(t, called)
}

func TestAToolWithAParameterNamedRaw(t *testing.T) {
	type in struct {
		Raw string `json:"raw"`
	}
	tool, err := tools.Func("parse", "", func(_ tools.Context, in in) (string, error) { return in.Raw, nil })
	require.NoError(t, err)
	require.Equal(t, `"{oops"`, string(call(t, tool, `{"raw":"{oops"}`).Output))
}

type cyclic struct {
	Name     string   `json:"name"`
	Children []cyclic `json:"children,omitempty"`
}

type embedsCycle struct {
	Inner map[string]*mutual `json:"inner"`
}
type mutual struct {
	Back []*embedsCycle `json:"back"`
}

func TestBadToolsAreErrors(t *testing.T) {
	nop := func(tools.Context, struct{}) (string, error) { return "", nil }
	for name, make := range map[string]func() (tools.Tool, error){
		"no name":     func() (tools.Tool, error) { return tools.Func("", "", nop) },
		"bad name":    func() (tools.Tool, error) { return tools.Func("a b", "", nop) },
		"newline":     func() (tools.Tool, error) { return tools.Func("a\n", "", nop) },
		"no function": func() (tools.Tool, error) { return tools.Func[struct{}, string]("a", "", nil) },
		"no struct": func() (tools.Tool, error) {
			return tools.Func("a", "", func(tools.Context, int) (int, error) { return 0, nil })
		},
		"a map": func() (tools.Tool, error) {
			return tools.Func("a", "", func(tools.Context, map[string]any) (int, error) { return 0, nil })
		},
		"a channel": func() (tools.Tool, error) {
			return tools.Func("a", "", func(tools.Context, struct{ C chan int }) (int, error) { return 0, nil })
		},
		"a cycle": func() (tools.Tool, error) {
			return tools.Func("a", "", func(tools.Context, cyclic) (int, error) { return 0, nil })
		},
		"a longer cycle": func() (tools.Tool, error) {
			return tools.Func("a", "", func(tools.Context, embedsCycle) (int, error) { return 0, nil })
		},
		"negative limit":   func() (tools.Tool, error) { return tools.Func("a", "", nop, tools.MaxOutput(-5)) },
		"raw, no function": func() (tools.Tool, error) { return tools.New(info("a", ""), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			tool, err := make()
			require.Error(t, err)
			require.Nil(t, tool)
		})
	}
}

func info(name, schema string) tools.Info {
	return tools.Info{ToolSpec: llm.ToolSpec{Name: name, Parameters: json.RawMessage(schema)}}
}

func TestExternalSchema(t *testing.T) {
	echo := func(_ tools.Context, in json.RawMessage) (any, error) { return in, nil }
	tool, err := tools.New(info("find", `{"type":"object","properties":{"q":{"$ref":"#/$defs/q"},"n":{"type":"integer","maximum":3}},"required":["q"],"$defs":{"q":{"type":"string","pattern":"^a"}}}`), echo)
	require.NoError(t, err)
	require.Equal(t, `{"q":"ab","other":[1]}`, string(call(t, tool, `{"q":"ab","other":[1]}`).Output))
	res := call(t, tool, `{"q":"b","n":4}`)
	require.Contains(t, text(t, res), "/q")
	require.Contains(t, text(t, res), "/n")

	empty, err := tools.New(info("now", ""), echo)
	require.NoError(t, err)
	require.True(t, json.Valid(empty.Info().Parameters))
	require.Equal(t, `{}`, string(call(t, empty, `{}`).Output))
	require.True(t, call(t, empty, `{"x":1}`).IsError)

	for name, schema := range map[string]string{
		"not JSON":       `{`,
		"no object":      `[]`,
		"a string":       `{"type":"string"}`,
		"no type":        `{"properties":{}}`,
		"a bad type":     `{"type":"object","properties":{"a":{"type":"strin"}}}`,
		"a bad pattern":  `{"type":"object","properties":{"a":{"pattern":"("}}}`,
		"a dangling ref": `{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`,
		"trailing":       `{"type":"object"} {}`,
	} {
		_, err := tools.New(info("a", schema), echo)
		require.Error(t, err, name)
	}
}

// TestSchemasLoadNothing points references at a file that exists and at a
// server that listens: neither may be touched.
func TestSchemasLoadNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"type":"string"}`), 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	touched := make(chan struct{}, 1)
	go func() {
		if c, err := listener.Accept(); err == nil {
			touched <- struct{}{}
			_ = c.Close()
		}
	}()
	for _, url := range []string{"file://" + file, file, "http://" + listener.Addr().String() + "/s.json", "s.json"} {
		for _, schema := range []string{
			`{"type":"object","properties":{"a":{"$ref":"` + url + `"}}}`,
			`{"$schema":"` + url + `","type":"object"}`,
		} {
			_, err := tools.New(info("a", schema), func(tools.Context, json.RawMessage) (any, error) { return nil, nil })
			require.Error(t, err, schema)
		}
	}
	select {
	case <-touched:
		t.Fatal("a schema was loaded over the network")
	default:
	}
}

func TestRegistry(t *testing.T) {
	must := func(name string) tools.Tool {
		tool, err := tools.New(info(name, ""), func(tools.Context, json.RawMessage) (any, error) { return nil, nil })
		require.NoError(t, err)
		return tool
	}
	b, a := must("b"), must("a")
	r, err := tools.NewRegistry(b, a)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, r.Names())
	require.Same(t, a, r.Get("a"))
	require.Nil(t, r.Get("c"))
	_, err = tools.NewRegistry(a, must("a"))
	require.ErrorContains(t, err, "twice")
	_, err = tools.NewRegistry(a, nil)
	require.Error(t, err)
	_, err = tools.NewRegistry(badName{a})
	require.Error(t, err)
	var none *tools.Registry
	require.Nil(t, none.Get("a"))
	require.Empty(t, none.Names())
}

type badName struct{ tools.Tool }

func (badName) Info() tools.Info { return info("bad name", "") }
