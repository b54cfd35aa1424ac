package cardjson

import "sync"

// kind is what the value of a field is.
type kind int

const (
	text     kind = iota // a string
	flag                 // a boolean
	message              // an object with known fields
	free                 // an object of any content, google.protobuf.Struct
	texts                // a list of strings
	messages             // a list of objects
	textMap              // an object of strings
	msgMap               // an object of objects
)

// presence says what becomes of a field that has its default value (A2A 1.0,
// sections 5.7 and 8.4.1).
type presence int

const (
	implicit presence = iota // it is left out
	optional                 // it stays if it was there
	required                 // it is always there
)

type field struct {
	kind     kind
	presence presence
	of       schema // of messages
}

// schema is what the fields of a message are, by their names in JSON.
type schema map[string]field

// card returns the schema of an agent card in A2A 1.0.
var card = sync.OnceValue(func() schema {
	stringList := schema{"list": {kind: texts}}
	requirement := schema{"schemes": {kind: msgMap, of: stringList}}
	flow := func(more ...string) field {
		s := schema{"refreshUrl": {}, "scopes": {kind: textMap, presence: required}}
		for _, name := range more {
			s[name] = field{presence: required}
		}
		return field{kind: message, of: s}
	}
	oldFlow := func(more ...string) field { // deprecated, and nothing in it is required
		s := schema{"refreshUrl": {}, "scopes": {kind: textMap}}
		for _, name := range more {
			s[name] = field{}
		}
		return field{kind: message, of: s}
	}
	code := flow("authorizationUrl", "tokenUrl")
	code.of["pkceRequired"] = field{kind: flag}
	scheme := schema{
		"apiKeySecurityScheme": {kind: message, of: schema{
			"description": {}, "location": {presence: required}, "name": {presence: required},
		}},
		"httpAuthSecurityScheme": {kind: message, of: schema{
			"description": {}, "scheme": {presence: required}, "bearerFormat": {},
		}},
		"oauth2SecurityScheme": {kind: message, of: schema{
			"description": {}, "oauth2MetadataUrl": {},
			"flows": {kind: message, presence: required, of: schema{
				"authorizationCode": code,
				"clientCredentials": flow("tokenUrl"),
				"implicit":          oldFlow("authorizationUrl"),
				"password":          oldFlow("tokenUrl"),
				"deviceCode":        flow("deviceAuthorizationUrl", "tokenUrl"),
			}},
		}},
		"openIdConnectSecurityScheme": {kind: message, of: schema{
			"description": {}, "openIdConnectUrl": {presence: required},
		}},
		"mtlsSecurityScheme": {kind: message, of: schema{"description": {}}},
	}
	return schema{
		"name":        {presence: required},
		"description": {presence: required},
		"supportedInterfaces": {kind: messages, presence: required, of: schema{
			"url": {presence: required}, "protocolBinding": {presence: required}, "tenant": {}, "protocolVersion": {presence: required},
		}},
		"provider": {kind: message, of: schema{
			"url": {presence: required}, "organization": {presence: required},
		}},
		"version":          {presence: required},
		"documentationUrl": {presence: optional},
		"capabilities": {kind: message, presence: required, of: schema{
			"streaming":         {kind: flag, presence: optional},
			"pushNotifications": {kind: flag, presence: optional},
			"extendedAgentCard": {kind: flag, presence: optional},
			"extensions": {kind: messages, of: schema{
				"uri": {}, "description": {}, "required": {kind: flag}, "params": {kind: free},
			}},
		}},
		"securitySchemes":      {kind: msgMap, of: scheme},
		"securityRequirements": {kind: messages, of: requirement},
		"defaultInputModes":    {kind: texts, presence: required},
		"defaultOutputModes":   {kind: texts, presence: required},
		"skills": {kind: messages, presence: required, of: schema{
			"id": {presence: required}, "name": {presence: required}, "description": {presence: required},
			"tags": {kind: texts, presence: required}, "examples": {kind: texts},
			"inputModes": {kind: texts}, "outputModes": {kind: texts},
			"securityRequirements": {kind: messages, of: requirement},
		}},
		"signatures": {kind: messages, of: schema{
			"protected": {presence: required}, "signature": {presence: required}, "header": {kind: free},
		}},
		"iconUrl": {presence: optional},
	}
})

// empty returns the default value of a field.
func (f field) empty() any {
	switch f.kind {
	case text:
		return ""
	case flag:
		return false
	case texts, messages:
		return []any{}
	default:
		return map[string]any{}
	}
}

// isDefault reports whether v is the default value. A message has none: it is
// there or not.
func (f field) isDefault(v any) bool {
	switch f.kind {
	case text:
		return v == ""
	case flag:
		return v == false
	case texts, messages:
		l, ok := v.([]any)
		return ok && len(l) == 0
	case textMap, msgMap:
		m, ok := v.(map[string]any)
		return ok && len(m) == 0
	default:
		return false
	}
}
