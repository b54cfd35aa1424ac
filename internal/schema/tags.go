package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/nearest"
)

// A tag jsonschema has one of two forms: parts such as minimum=1, separated by commas, or a text that is the field's
// description.
var keyed = lazyregexp.New(`^[^ \t\n]*=`)

// The keys that nearest suggests, and the parts without a value.
const (
	tagKeys  = "title description type minLength maxLength pattern format readOnly writeOnly default example enum multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems uniqueItems"
	tagWords = "required nullable"
)

func reflector() *jsonschema.Reflector {
	return &jsonschema.Reflector{DoNotReference: true, ExpandedStruct: true, Anonymous: true, LookupComment: bareText}
}

// bareText returns a field's description if its tag is one.
func bareText(t reflect.Type, field string) string {
	var f reflect.StructField
	if t.Kind() == reflect.Struct {
		f, _ = t.FieldByName(field)
	}
	if parts := tagParts(f); len(parts) > 0 && bare(parts) {
		return strings.Join(parts, ",")
	}
	return ""
}

func bare(parts []string) bool {
	return !keyed.MatchString(parts[0]) && !slices.Contains(strings.Fields(tagWords), parts[0])
}

// tagParts splits a field's tag at its commas, except for those after a backslash.
func tagParts(f reflect.StructField) (parts []string) {
	tag := f.Tag.Get("jsonschema")
	if tag == "" {
		return nil
	}
	for part := range strings.SplitSeq(tag, ",") {
		if last := len(parts) - 1; last >= 0 && strings.HasSuffix(parts[last], `\`) {
			parts[last] = strings.TrimSuffix(parts[last], `\`) + "," + part
			continue
		}
		parts = append(parts, part)
	}
	return parts
}

// checkTags returns the errors in the tags of a struct's fields. The generator ignores tags that it cannot use, so a
// limit would silently be missing.
func checkTags(t reflect.Type) error {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return checkTags(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" || f.Tag.Get("jsonschema") == "-" {
				continue
			}
			if wrong := checkTag(f); wrong != "" {
				return fmt.Errorf("the tag of field %s of %s: %s", f.Name, t, wrong)
			}
			if err := checkTags(f.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkTag(f reflect.StructField) string {
	if _, read := f.Tag.Lookup("jsonschema"); !read && strings.Contains(string(f.Tag), "jsonschema:") {
		return `jsonschema:"…" cannot be read: tags need a space between them, and in the quotes a backslash is written twice, as in description=Red\\, or blue`
	}
	parts := tagParts(f)
	var usual string // the types that the generator gets
	for i, part := range parts {
		key, _, assigned := strings.Cut(part, "=")
		known := slices.Contains(strings.Fields(tagKeys+" "+tagWords), key)
		switch {
		case bare(parts):
			if i > 0 && known && (assigned || slices.Contains(strings.Fields(tagWords), part)) {
				return fmt.Sprintf("%q comes after a bare text: write description=TEXT first", part)
			}
		case slices.Contains(strings.Fields(tagWords), part):
		case !assigned:
			return fmt.Sprintf(`%q is not KEY=VALUE: a comma within a value is written \\,`, part)
		case key == "type":
			usual = part + ","
		case bytes.Equal(propertyOf(f, usual), propertyOf(f, usual+strings.ReplaceAll(part, ",", `\,`))):
			hint := ""
			if !known {
				hint = nearest.Hint(key, strings.Fields(tagKeys))
			}
			return fmt.Sprintf("%q means nothing for a field of type %s%s", part, f.Type, hint)
		}
	}
	return ""
}

// propertyOf returns the schema of a field with another tag.
func propertyOf(f reflect.StructField, tag string) []byte {
	own := reflect.StructField{Name: "Field", Type: f.Type}
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	own.Tag = reflect.StructTag(fmt.Sprintf("json:%q jsonschema:%q", "field,"+options, tag))
	r := reflector()
	r.LookupComment = nil // a part without effect is not a description
	schema, _ := json.Marshal(r.ReflectFromType(reflect.StructOf([]reflect.StructField{own})))
	return schema
}
