package event_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// structs returns the payload types of package event that can be stored, by the names of
// their Go types: all with the method eventType besides the control values and Unknown.
func structs(t *testing.T) []string {
	file, err := parser.ParseFile(token.NewFileSet(), "payload.go", nil, 0)
	require.NoError(t, err)
	var names []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "eventType" {
			name := f.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name
			if name != "Continue" && name != "Finish" && name != "Unknown" {
				names = append(names, name)
			}
		}
	}
	return names
}

// TestEveryTypeIsListed: what has a type of its own is read as it, not as Unknown.
func TestEveryTypeIsListed(t *testing.T) {
	var listed []string
	for _, typ := range event.Types() {
		d := event.New(typ)
		require.Equal(t, typ, (&event.Event{Data: d}).Type())
		listed = append(listed, reflect.TypeOf(d).Elem().Name())
	}
	require.ElementsMatch(t, structs(t), listed)
	require.Nil(t, event.New("hologram"))
	require.Nil(t, event.New("continue"))
}

// TestEveryTypeHasAnExample: the suites of stores and of readers take their events from there.
func TestEveryTypeHasAnExample(t *testing.T) {
	tried := make(map[string]bool)
	for _, data := range sessiontest.Payloads() {
		tried[(&event.Event{Data: data}).Type()] = true
	}
	for _, typ := range event.Types() {
		require.True(t, tried[typ], "sessiontest.Payloads has no %s", typ)
	}
}

// TestEveryTypeIsBounded fills each field that can hold JSON of others with too much of it.
func TestEveryTypeIsBounded(t *testing.T) {
	deep := json.RawMessage(strings.Repeat("[", 1500) + strings.Repeat("]", 1500))
	var value any
	require.NoError(t, json.Unmarshal(deep, &value))
	for _, typ := range event.Types() {
		fields := reflect.TypeOf(event.New(typ)).Elem()
		for i := range fields.NumField() {
			data := event.New(typ)
			switch field := reflect.ValueOf(data).Elem().Field(i); field.Interface().(type) {
			case json.RawMessage:
				field.SetBytes(deep)
			case map[string]any:
				field.Set(reflect.ValueOf(map[string]any{"a": value}))
			default:
				continue
			}
			bounded, notice := event.Bound(data)
			require.NotNil(t, notice, "%s.%s", typ, fields.Field(i).Name)
			require.Equal(t, event.NoticeTooDeep, notice.Code)
			again, notice := event.Bound(bounded)
			require.Nil(t, notice)
			require.Same(t, bounded, again)
			written, err := (&event.Event{Data: bounded}).MarshalJSON()
			require.NoError(t, err)
			require.False(t, event.TooDeep(written))
		}
	}
}

// TestCanonicalIsAsStored: what a session that is warm keeps of an event is what a store gives
// back, whatever bytes the fields of its payload contain.
func TestCanonicalIsAsStored(t *testing.T) {
	tried := sessiontest.Payloads()
	for _, typ := range event.Types() {
		if typ == event.TypeUser {
			continue // is checked when its turn begins
		}
		fields := reflect.TypeOf(event.New(typ)).Elem()
		for i := range fields.NumField() {
			data := event.New(typ)
			switch field := reflect.ValueOf(data).Elem().Field(i); {
			case field.Kind() == reflect.String:
				field.SetString("a\xffb")
			case field.Type() == reflect.TypeFor[json.RawMessage]():
				field.SetBytes([]byte(" { \"a\" : \"b\xff \" } "))
			case field.Type() == reflect.TypeFor[[]string]():
				field.Set(reflect.ValueOf([]string{"a\xffb"}))
			case field.Type() == reflect.TypeFor[map[string]any]():
				field.Set(reflect.ValueOf(map[string]any{"a\xff": []int{1}, "b": json.RawMessage(" 7 ")}))
			}
			tried = append(tried, data)
		}
	}
	for _, data := range tried {
		b, err := (&event.Event{Data: data}).MarshalJSON()
		require.NoError(t, err)
		var back event.Event
		require.NoError(t, back.UnmarshalJSON(b))
		require.Equal(t, back.Data, event.Canonical(data), "%s", b)
	}
}

// TestRenderersNameEveryType: whoever shows events names each type in a case of its file, if
// only in one that says that it shows nothing of it.
func TestRenderersNameEveryType(t *testing.T) {
	for _, name := range []string{"internal/render/eventline.go", "view/view.go", "conversation/event.go", "a2a/a2aserver/projection.go", "server/agui/projection.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", filepath.FromSlash(name)), nil, 0)
		require.NoError(t, err)
		named := make(map[string]bool)
		ast.Inspect(file, func(n ast.Node) bool {
			c, ok := n.(*ast.CaseClause)
			if !ok {
				return true
			}
			for _, e := range c.List {
				switch e := e.(type) {
				case *ast.StarExpr:
					if typ, ok := e.X.(*ast.SelectorExpr); ok {
						named[typ.Sel.Name] = true
					}
				case *ast.SelectorExpr:
					named[strings.TrimPrefix(e.Sel.Name, "Type")] = true
				case *ast.Ident:
					named[strings.TrimPrefix(e.Name, "Kind")] = true
				}
			}
			return true
		})
		for _, typ := range structs(t) {
			if !named[typ] && !(typ == "Failure" && named["Error"]) {
				t.Errorf("%s has no case for %s: add it, or name it in the case of what is not shown", name, typ)
			}
		}
	}
}
