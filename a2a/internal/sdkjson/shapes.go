package sdkjson

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// kind is the type of a value.
type kind int

const (
	kindAny kind = iota // any JSON value
	kindObject
	kindArray
	kindString
	kindBool
	kindInt // of 32 bits
	kindEnum
	kindTime
	kindBytes
)

func (k kind) String() string {
	return [...]string{"a value", "an object", "an array", "a string", "true or false",
		"a whole number", "the name of a value", "a time such as 2025-10-28T10:30:00.000Z", "a string in base64"}[k]
}

// Shape describes a value. It is immutable.
type Shape struct {
	kind     kind
	members  func() map[string]*Shape // of an object, by camelCase name; nil: any members
	elem     *Shape                   // of an array
	names    []string                 // of an enum, by number
	min, max int64                    // of a number; max 0: no maximum
	oneOf    []string                 // exactly one of these fields must be set

	once   sync.Once             // sets fields at the first use
	fields map[string]shapeField // the members by camelCase and snake_case name
}

// shapeField is a field of an object.
type shapeField struct {
	name  string // in camelCase
	shape *Shape
}

// typeError returns the error for a value of the wrong type.
func (s *Shape) typeError(field string) error {
	return Wrong(field, "must be "+s.kind.String())
}

// Bounds describes the limits of a number.
func (s *Shape) Bounds() string {
	if s.max != 0 {
		return fmt.Sprintf("must be between %d and %d", s.min, s.max)
	}
	return fmt.Sprintf("must be at least %d", s.min)
}

// Has reports whether an enum has a name, other than that of no value.
func (s *Shape) Has(name string) bool { return slices.Contains(s.names[1:], name) }

// Choices describes the names of an enum.
func (s *Shape) Choices() string { return "must be one of " + strings.Join(s.names[1:], ", ") }

// Of returns the shape of a type of the SDK, whose fields have the names in the protocol's specification/a2a.proto. The
// members of objects are computed at the first use.
func Of[T any]() *Shape { return shapeOf(reflect.TypeFor[T]()) }

func shapeOf(t reflect.Type) *Shape {
	switch t {
	case reflect.TypeFor[sdk.Part]():
		return partShape
	case reflect.TypeFor[sdk.StreamResponse]():
		return &Shape{kind: kindObject, oneOf: EventKinds, members: func() map[string]*Shape { return membersOf(reflect.TypeFor[events]()) }}
	case reflect.TypeFor[sdk.MessageRole]():
		return roleShape
	case reflect.TypeFor[sdk.TaskState]():
		return State
	case reflect.TypeFor[time.Time]():
		return aTime
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem())
	case reflect.Slice:
		return &Shape{kind: kindArray, elem: shapeOf(t.Elem())}
	case reflect.Map:
		return aStruct
	case reflect.Interface:
		return aValue
	case reflect.Bool:
		return aBool
	case reflect.Int:
		return aCount
	case reflect.Struct:
		return &Shape{kind: kindObject, members: func() map[string]*Shape { return membersOf(t) }}
	}
	return aString
}

func membersOf(t reflect.Type) map[string]*Shape {
	members := make(map[string]*Shape, t.NumField())
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		members[name] = shapeOf(f.Type)
	}
	if t == reflect.TypeFor[sdk.ListTasksRequest]() {
		members["pageSize"] = Page
	}
	return members
}

// field returns the field of an object by its name, in camelCase or in snake_case.
func (s *Shape) field(name string) (f shapeField, known bool) {
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

// EventKinds are the fields of which an sdk.StreamResponse has one.
var EventKinds = []string{"task", "message", "statusUpdate", "artifactUpdate"}

// events are the fields of an sdk.StreamResponse, which has an interface for them.
type events struct {
	Task           *sdk.Task                    `json:"task"`
	Message        *sdk.Message                 `json:"message"`
	StatusUpdate   *sdk.TaskStatusUpdateEvent   `json:"statusUpdate"`
	ArtifactUpdate *sdk.TaskArtifactUpdateEvent `json:"artifactUpdate"`
}

// Shapes of values.
var (
	aValue  = &Shape{kind: kindAny}
	aString = &Shape{kind: kindString}
	aBool   = &Shape{kind: kindBool}
	aTime   = &Shape{kind: kindTime}
	aCount  = &Shape{kind: kindInt}
	aStruct = &Shape{kind: kindObject}

	// Page is the number of tasks of a page.
	Page = &Shape{kind: kindInt, min: 1, max: 100}
	// State is the state of a task.
	State = &Shape{kind: kindEnum, names: []string{
		"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED",
		"TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_REJECTED",
		"TASK_STATE_AUTH_REQUIRED",
	}}
	roleShape = &Shape{kind: kindEnum, names: []string{"ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"}}
	// The SDK's type has an interface for the content of a part.
	partShape = &Shape{kind: kindObject, oneOf: []string{"text", "raw", "url", "data"}, members: func() map[string]*Shape {
		return map[string]*Shape{
			"text": aString, "raw": {kind: kindBytes}, "url": {kind: kindString, min: 1}, "data": aValue,
			"metadata": aStruct, "filename": aString, "mediaType": aString,
		}
	}}
)
