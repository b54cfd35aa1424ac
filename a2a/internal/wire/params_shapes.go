package wire

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// jsonKind is the type of a value in a request.
type jsonKind int

const (
	kindAny jsonKind = iota // any JSON value
	kindObject
	kindArray
	kindString
	kindBool
	kindInt // of 32 bits
	kindEnum
	kindTime
	kindBytes
)

func (k jsonKind) String() string {
	return [...]string{"a value", "an object", "an array", "a string", "true or false",
		"a whole number", "the name of a value", "a time such as 2025-10-28T10:30:00.000Z", "a string in base64"}[k]
}

// shape describes a value of a request.
type shape struct {
	kind     jsonKind
	members  func() map[string]*shape // of an object, by camelCase name; nil: any members
	elem     *shape                   // of an array
	names    []string                 // of an enum, by number
	min, max int64                    // of a number; max 0: no maximum
	oneOf    []string                 // exactly one of these fields must be set

	once   sync.Once             // sets fields at the first use
	fields map[string]shapeField // the members by camelCase and snake_case name
}

// shapeField is a field of an object.
type shapeField struct {
	name  string // in camelCase
	shape *shape
}

// typeError returns the error for a value of the wrong type.
func (s *shape) typeError(field string) error {
	return &violation{field, "must be " + s.kind.String(), nil}
}

// bounds describes the limits of a number.
func (s *shape) bounds() string {
	if s.max != 0 {
		return fmt.Sprintf("must be between %d and %d", s.min, s.max)
	}
	return fmt.Sprintf("must be at least %d", s.min)
}

// shapeOf returns the shape of a type of the SDK, whose fields have the names in the protocol's
// specification/a2a.proto. The members of objects are computed at the first use.
func shapeOf(t reflect.Type) *shape {
	switch t {
	case reflect.TypeFor[sdk.Part]():
		return partShape
	case reflect.TypeFor[sdk.MessageRole]():
		return roleShape
	case reflect.TypeFor[sdk.TaskState]():
		return stateShape
	case reflect.TypeFor[time.Time]():
		return aTime
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem())
	case reflect.Slice:
		return &shape{kind: kindArray, elem: shapeOf(t.Elem())}
	case reflect.Map:
		return aStruct
	case reflect.Bool:
		return aBool
	case reflect.Int:
		return aCount
	case reflect.Struct:
		return &shape{kind: kindObject, members: func() map[string]*shape { return membersOf(t) }}
	}
	return aString
}

func membersOf(t reflect.Type) map[string]*shape {
	members := make(map[string]*shape, t.NumField())
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		members[name] = shapeOf(f.Type)
	}
	if t == reflect.TypeFor[sdk.ListTasksRequest]() {
		members["pageSize"] = aPage
	}
	return members
}

// field returns the field of an object by its name, in camelCase or in snake_case.
func (s *shape) field(name string) (f shapeField, known bool) {
	s.once.Do(func() {
		s.fields = make(map[string]shapeField)
		for name, member := range s.members() {
			s.fields[name] = shapeField{name, member}
			s.fields[snakeCase(name)] = shapeField{name, member}
		}
	})
	f, known = s.fields[name]
	return f, known
}

// snakeCase returns the name of a field in Protocol Buffers.
func snakeCase(camel string) string {
	var b strings.Builder
	for _, c := range camel {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Shapes of values. They are immutable.
var (
	aValue  = &shape{kind: kindAny}
	aString = &shape{kind: kindString}
	aBool   = &shape{kind: kindBool}
	aTime   = &shape{kind: kindTime}
	aCount  = &shape{kind: kindInt}
	aStruct = &shape{kind: kindObject}
	aPage   = &shape{kind: kindInt, min: 1, max: 100}

	roleShape  = &shape{kind: kindEnum, names: []string{"ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"}}
	stateShape = &shape{kind: kindEnum, names: []string{
		"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED",
		"TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_REJECTED",
		"TASK_STATE_AUTH_REQUIRED",
	}}
	// The SDK's type has an interface for the content of a part.
	partShape = &shape{kind: kindObject, oneOf: []string{"text", "raw", "url", "data"}, members: func() map[string]*shape {
		return map[string]*shape{
			"text": aString, "raw": {kind: kindBytes}, "url": {kind: kindString, min: 1}, "data": aValue,
			"metadata": aStruct, "filename": aString, "mediaType": aString,
		}
	}}
)
