package cardjson

import (
	"reflect"
	"strings"
	"sync"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// kind is the type of a field.
type kind int

const (
	text       kind = iota // a string
	boolean                // a boolean
	message                // an object with known fields
	anyObject              // an object of any content, google.protobuf.Struct
	stringList             // a list of strings
	messages               // a list of objects
	stringMap              // an object of strings
	messageMap             // an object of objects
)

// presence is the rule for a field with its default value (A2A 1.0, sections 5.7 and 8.4.1).
type presence int

const (
	implicit presence = iota // it is omitted
	optional                 // it is kept if it is present
	required                 // it is always written
)

type field struct {
	kind     kind
	presence presence
	of       schema // the schema of messages
}

// schema contains the fields of a message by their JSON names.
type schema map[string]field

// card returns the schema of an agent card in A2A 1.0. The SDK's types define the names and which fields are required;
// the rest is defined here.
var card = sync.OnceValue(func() schema {
	flows := schema{
		"authorizationCode": {kind: message, of: schemaOf[sdk.AuthorizationCodeOAuthFlow]()},
		"clientCredentials": {kind: message, of: schemaOf[sdk.ClientCredentialsOAuthFlow]()},
		"implicit":          {kind: message, of: schemaOf[sdk.ImplicitOAuthFlow]()},
		"password":          {kind: message, of: schemaOf[sdk.PasswordOAuthFlow]()},
		"deviceCode":        {kind: message, of: schemaOf[sdk.DeviceCodeOAuthFlow]()},
	}
	for _, name := range []string{"implicit", "password"} { // deprecated, and without required fields
		for inner := range flows[name].of {
			flows[name].of.set(inner, implicit)
		}
	}
	oauth := schemaOf[sdk.OAuth2SecurityScheme]()
	oauth["flows"] = field{kind: message, presence: required, of: flows}
	scheme := schema{
		"apiKeySecurityScheme":        {kind: message, of: schemaOf[sdk.APIKeySecurityScheme]()},
		"httpAuthSecurityScheme":      {kind: message, of: schemaOf[sdk.HTTPAuthSecurityScheme]()},
		"oauth2SecurityScheme":        {kind: message, of: oauth},
		"openIdConnectSecurityScheme": {kind: message, of: schemaOf[sdk.OpenIDConnectSecurityScheme]()},
		"mtlsSecurityScheme":          {kind: message, of: schemaOf[sdk.MutualTLSSecurityScheme]()},
	}
	scopeList := schema{"list": {kind: stringList}}
	requirements := field{kind: messages, of: schema{"schemes": {kind: messageMap, of: scopeList}}}

	s := schemaOf[sdk.AgentCard]()
	s["securitySchemes"] = field{kind: messageMap, of: scheme}
	s["securityRequirements"] = requirements
	s["skills"].of["securityRequirements"] = requirements
	s.set("documentationUrl", optional)
	s.set("iconUrl", optional)
	for _, name := range []string{"streaming", "pushNotifications", "extendedAgentCard"} {
		s["capabilities"].of.set(name, optional)
	}
	return s
})

func (s schema) set(name string, p presence) {
	f := s[name]
	f.presence = p
	s[name] = f
}

func schemaOf[T any]() schema { return fieldsOf(reflect.TypeFor[T]()) }

// fieldsOf returns the fields of a struct. A field without omitempty is required.
func fieldsOf(t reflect.Type) schema {
	s := schema{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		s[name] = fieldOf(f.Type)
		if options != "omitempty" {
			s.set(name, required)
		}
	}
	return s
}

func fieldOf(t reflect.Type) field {
	switch t.Kind() {
	case reflect.Bool:
		return field{kind: boolean}
	case reflect.Struct:
		return field{kind: message, of: fieldsOf(t)}
	case reflect.Pointer:
		return fieldOf(t.Elem())
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return field{kind: stringMap}
		}
		return field{kind: anyObject}
	case reflect.Slice:
		if of := fieldOf(t.Elem()); of.kind == message {
			return field{kind: messages, of: of.of}
		}
		return field{kind: stringList}
	default:
		return field{kind: text}
	}
}

// empty returns the default value of a field.
func (f field) empty() any {
	switch f.kind {
	case text:
		return ""
	case boolean:
		return false
	case stringList, messages:
		return []any{}
	default:
		return map[string]any{}
	}
}

// isDefault reports whether v is the default value. A message has no default value.
func (f field) isDefault(v any) bool {
	switch f.kind {
	case text:
		return v == ""
	case boolean:
		return v == false
	case stringList, messages:
		l, ok := v.([]any)
		return ok && len(l) == 0
	case stringMap, messageMap:
		m, ok := v.(map[string]any)
		return ok && len(m) == 0
	default:
		return false
	}
}
