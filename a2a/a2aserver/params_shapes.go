package a2aserver

import (
	"fmt"
	"strings"
)

// kind is the type of a value in a request.
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

// shape is what a value of a request looks like. The shapes of this file are those of the
// messages in the protocol's specification/a2a.proto.
type shape struct {
	kind     jsonKind
	fields   map[string]shapeField // of an object, below both spellings; nil: a free one
	elem     *shape                // of an array
	names    []string              // of an enum, in the order of its numbers
	min, max int64                 // of a number; max 0: none
	oneOf    []string              // fields of which exactly one is there
}

// member is a field of an object.
type shapeField struct {
	name  string // in camelCase
	shape *shape
}

// bounds words the limits of a number.
func (s *shape) bounds() string {
	if s.max != 0 {
		return fmt.Sprintf("must be between %d and %d", s.min, s.max)
	}
	return fmt.Sprintf("must be at least %d", s.min)
}

// objectShape makes the shape of an object; its fields are known under their snake_case names too.
func objectShape(fields map[string]*shape) *shape {
	s := &shape{kind: kindObject, fields: make(map[string]shapeField, 2*len(fields))}
	for name, f := range fields {
		s.fields[name] = shapeField{name, f}
		s.fields[snakeCase(name)] = shapeField{name, f}
	}
	return s
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

// The shapes of what the operations take. They are never changed.
var (
	aString  = &shape{kind: kindString}
	aBool    = &shape{kind: kindBool}
	aTime    = &shape{kind: kindTime}
	aCount   = &shape{kind: kindInt}
	aStruct  = &shape{kind: kindObject}
	aPage    = &shape{kind: kindInt, min: 1, max: 100}
	theNames = &shape{kind: kindArray, elem: aString}

	roleShape  = &shape{kind: kindEnum, names: []string{"ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"}}
	stateShape = &shape{kind: kindEnum, names: []string{
		"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED",
		"TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_REJECTED",
		"TASK_STATE_AUTH_REQUIRED",
	}}

	partShape = func() *shape {
		s := objectShape(map[string]*shape{
			"text": aString, "raw": {kind: kindBytes}, "url": {kind: kindString, min: 1}, "data": {kind: kindAny},
			"metadata": aStruct, "filename": aString, "mediaType": aString,
		})

		s.oneOf = []string{"text", "raw", "url", "data"}
		return s
	}()
	messageShape = objectShape(map[string]*shape{
		"messageId": aString, "contextId": aString, "taskId": aString, "role": roleShape,
		"parts": {kind: kindArray, elem: partShape}, "metadata": aStruct,
		"extensions": theNames, "referenceTaskIds": theNames,
	})

	pushShape = objectShape(map[string]*shape{
		"tenant": aString, "id": aString, "taskId": aString, "url": aString, "token": aString,
		"authentication": objectShape(map[string]*shape{"scheme": aString, "credentials": aString}),
	})

	sendShape = objectShape(map[string]*shape{
		"tenant": aString, "message": messageShape, "metadata": aStruct,
		"configuration": objectShape(map[string]*shape{
			"acceptedOutputModes": theNames, "taskPushNotificationConfig": pushShape,
			"historyLength": aCount, "returnImmediately": aBool,
		}),
	})

	getShape  = objectShape(map[string]*shape{"tenant": aString, "id": aString, "historyLength": aCount})
	listShape = objectShape(map[string]*shape{
		"tenant": aString, "contextId": aString, "status": stateShape, "pageSize": aPage,
		"pageToken": aString, "historyLength": aCount, "statusTimestampAfter": aTime, "includeArtifacts": aBool,
	})

	cancelShape    = objectShape(map[string]*shape{"tenant": aString, "id": aString, "metadata": aStruct})
	subscribeShape = objectShape(map[string]*shape{"tenant": aString, "id": aString})
	pushIDShape    = objectShape(map[string]*shape{"tenant": aString, "taskId": aString, "id": aString})
	pushListShape  = objectShape(map[string]*shape{"tenant": aString, "taskId": aString, "pageSize": aCount, "pageToken": aString})
	cardShape      = objectShape(map[string]*shape{"tenant": aString})
)
