package cardjson

import (
	"reflect"
	"strings"
	"sync"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// presence is the rule for a field with its default value (A2A 1.0, sections 5.7 and 8.4.1).
type presence int

const (
	implicit presence = iota // it is omitted
	optional                 // it is kept if it is present
	required                 // it is always written
)

type field struct {
	presence presence
	zero     any    // the default value; nil: an object that has none
	of       schema // of the message, or of the messages in the list or map
	named    bool   // a map of messages
}

// schema contains the fields of a message by their JSON names.
type schema map[string]field

// card returns the schema of an agent card in A2A 1.0. The SDK's types define the names and which fields are required;
// the rest is defined here.
var card = sync.OnceValue(func() schema {
	flows := schema{
		"authorizationCode": {of: schemaOf[sdk.AuthorizationCodeOAuthFlow]()},
		"clientCredentials": {of: schemaOf[sdk.ClientCredentialsOAuthFlow]()},
		"implicit":          {of: schemaOf[sdk.ImplicitOAuthFlow]()},
		"password":          {of: schemaOf[sdk.PasswordOAuthFlow]()},
		"deviceCode":        {of: schemaOf[sdk.DeviceCodeOAuthFlow]()},
	}
	for _, name := range []string{"implicit", "password"} { // deprecated, and without required fields
		for inner := range flows[name].of {
			flows[name].of.set(inner, implicit)
		}
	}
	oauth := schemaOf[sdk.OAuth2SecurityScheme]()
	oauth["flows"] = field{presence: required, of: flows}
	scheme := schema{
		"apiKeySecurityScheme":        {of: schemaOf[sdk.APIKeySecurityScheme]()},
		"httpAuthSecurityScheme":      {of: schemaOf[sdk.HTTPAuthSecurityScheme]()},
		"oauth2SecurityScheme":        {of: oauth},
		"openIdConnectSecurityScheme": {of: schemaOf[sdk.OpenIDConnectSecurityScheme]()},
		"mtlsSecurityScheme":          {of: schemaOf[sdk.MutualTLSSecurityScheme]()},
	}
	list := schema{"list": {zero: []any{}}}
	requirements := field{zero: []any{}, of: schema{"schemes": {zero: map[string]any{}, of: list, named: true}}}

	s := schemaOf[sdk.AgentCard]()
	s["securitySchemes"] = field{zero: map[string]any{}, of: scheme, named: true}
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
		return field{zero: false}
	case reflect.Struct:
		return field{of: fieldsOf(t)}
	case reflect.Pointer:
		return fieldOf(t.Elem())
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return field{zero: map[string]any{}}
		}
		return field{} // any object, google.protobuf.Struct
	case reflect.Slice:
		return field{zero: []any{}, of: fieldOf(t.Elem()).of}
	default:
		return field{zero: ""}
	}
}

// empty returns the value of a required field that is missing.
func (f field) empty() any {
	if _, isMap := f.zero.(map[string]any); isMap || f.zero == nil {
		return make(map[string]any)
	}
	return f.zero
}

// isDefault reports whether v is the default value.
func (f field) isDefault(v any) bool { return f.zero != nil && reflect.DeepEqual(v, f.zero) }
