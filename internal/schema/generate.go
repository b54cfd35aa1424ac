package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// Of returns the JSON schema of a struct type, without references.
func Of(typ reflect.Type) (schema json.RawMessage, err error) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return nil, fmt.Errorf("the input type %s is no struct", typ)
	}
	if recursive(typ, nil) {
		return nil, fmt.Errorf("the input type %s contains itself: a schema without references cannot say that", typ)
	}
	defer func() {
		if r := recover(); r != nil { // the generator panics on types without a JSON form
			err = fmt.Errorf("no JSON schema can be made of %s: %v", typ, r)
		}
	}()
	if err := checkTags(typ); err != nil {
		return nil, err
	}
	s := reflector().ReflectFromType(typ)
	s.Version = ""
	return json.Marshal(s)
}

// recursive reports whether a type contains itself, which would make the generator recurse without end.
func recursive(t reflect.Type, within []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		if slices.Contains(within, t) {
			return true
		}
		return recursive(t.Elem(), append(within, t))
	case reflect.Struct:
		if slices.Contains(within, t) {
			return true
		}
		within = append(within, t)
		for f := range t.Fields() {
			if (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" && f.Tag.Get("jsonschema") != "-" && recursive(f.Type, within) {
				return true
			}
		}
	}
	return false
}
