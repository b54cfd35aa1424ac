package schema_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/schema"
)

// What a tag says is in the schema, in both styles.
func TestTagsThatAreUnderstood(t *testing.T) {
	type inner struct {
		City string `json:"city" jsonschema:"The city, such as Oslo (a=b)"`
	}
	s, err := schema.Of(reflect.TypeFor[struct {
		Text   string    `json:"text" jsonschema:"minLength=2,maxLength=9,pattern=^a{1\\,3}$,description=Red\\, or blue"`
		Number *float64  `json:"number" jsonschema:"minimum=1.5,maximum=9,required,nullable"`
		Bare   int       `json:"bare" jsonschema:"the number\\, of the order, as printed"`
		Other  bool      `json:"other" jsonschema_description:"Another way" jsonschema:"default=true"`
		List   []string  `json:"list" jsonschema:"maxItems=3,enum=a,enum=b"`
		ID     int64     `json:"id,string" jsonschema:"pattern=^1"`
		Form   int       `json:"form" jsonschema:"type=string,format=uuid"`
		When   time.Time `json:"when" jsonschema:"When it was"`
		Inner  inner     `json:"inner" jsonschema:"Where"`
		Inners []inner   `json:"inners,omitempty"`
	}]())
	require.NoError(t, err)
	var got struct {
		Properties map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal(s, &got))
	p := got.Properties
	require.Equal(t, map[string]any{"type": "string", "minLength": 2.0, "maxLength": 9.0, "pattern": "^a{1,3}$", "description": "Red, or blue"}, p["text"])
	require.Equal(t, []any{map[string]any{"type": "number", "minimum": 1.5, "maximum": 9.0}, map[string]any{"type": "null"}}, p["number"]["oneOf"])
	require.Equal(t, "the number, of the order, as printed", p["bare"]["description"])
	require.Equal(t, map[string]any{"type": "boolean", "description": "Another way", "default": true}, p["other"])
	require.Equal(t, map[string]any{"type": "array", "maxItems": 3.0, "items": map[string]any{"type": "string", "enum": []any{"a", "b"}}}, p["list"])
	require.Equal(t, map[string]any{"type": "string", "pattern": "^1"}, p["id"])
	require.Equal(t, map[string]any{"type": "string", "format": "uuid"}, p["form"])
	require.Equal(t, "When it was", p["when"]["description"])
	require.Equal(t, "Where", p["inner"]["description"])
	require.Equal(t, "The city, such as Oslo (a=b)", p["inner"]["properties"].(map[string]any)["city"].(map[string]any)["description"])
}

// A part of a tag without effect is an error: a limit that is missing would not be noticed.
func TestTagsThatAreNot(t *testing.T) {
	number, text := reflect.TypeFor[int](), reflect.TypeFor[string]()
	for _, c := range []struct {
		typ       reflect.Type
		tag, want string
	}{
		{number, `jsonschema:"minimun=1"`, `"minimun=1" means nothing for a field of type int; did you mean "minimum"?`},
		{number, `jsonschema:"minLength=1"`, `"minLength=1" means nothing for a field of type int`},
		{number, `jsonschema:"minimum=one"`, `"minimum=one" means nothing for a field of type int`},
		{reflect.TypeFor[[]string](), `jsonschema:"enum=a=b"`, `"enum=a=b" means nothing for a field of type []string`},
		{text, `jsonschema:"description=The charge, such as ch_1"`, `" such as ch_1" is not KEY=VALUE: a comma within a value is written \\,`},
		{text, `jsonschema:"description=a, or c=d"`, `" or c=d" means nothing for a field of type string`},
		{text, `jsonschema:"The charge,minLength=1"`, `"minLength=1" comes after a bare text: write description=TEXT first`},
		{text, `jsonschema:"The charge,required"`, `"required" comes after a bare text`},
		{text, `jsonschema:"description=Red\, or blue"`, "cannot be read: tags need a space between them, and in the quotes a backslash is written twice"},
		{text, `json:"a",jsonschema:"minLength=1"`, "cannot be read"},
	} {
		typ := reflect.StructOf([]reflect.StructField{{Name: "Field", Type: c.typ, Tag: reflect.StructTag(c.tag)}})
		for _, in := range []reflect.Type{typ, reflect.StructOf([]reflect.StructField{{Name: "All", Type: reflect.SliceOf(reflect.PointerTo(typ))}})} {
			_, err := schema.Of(in)
			require.Error(t, err, c.tag)
			require.ErrorContains(t, err, "the tag of field Field of struct {")
			require.ErrorContains(t, err, c.want)
		}
	}
}
