package cardjson

import (
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// Marshal writes the card as A2A 1.0 wants it: every required field is there,
// the capabilities say no where they do not say yes, and the scopes of security
// requirements are objects with a list.
func Marshal(c *sdk.AgentCard) ([]byte, error) {
	tree, err := Tree(c)
	if err != nil {
		return nil, err
	}
	return Write(tree)
}

// Tree is Marshal before the bytes are written.
func Tree(c *sdk.AgentCard) (map[string]any, error) {
	if c == nil {
		return nil, errors.New("there is no card")
	}
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	tree, err := Parse(b)
	if err != nil {
		return nil, err
	}
	eachRequirement(tree, func(scopes any) any {
		if l, ok := scopes.([]any); ok && len(l) > 0 {
			return map[string]any{"list": l}
		}
		return map[string]any{}
	})
	tree = present(tree, true)
	if caps, ok := tree["capabilities"].(map[string]any); ok {
		for _, name := range []string{"streaming", "pushNotifications", "extendedAgentCard"} {
			if _, ok := caps[name]; !ok {
				caps[name] = false
			}
		}
	}
	return tree, nil
}

// Unmarshal reads a card of A2A 1.0. Fields count by their exact names, fields
// and security schemes that it does not know are ignored, as section 5.7 asks,
// and scopes may also be the plain arrays that a2a-go writes.
func Unmarshal(doc []byte) (*sdk.AgentCard, error) {
	tree, err := Parse(doc)
	if err != nil {
		return nil, err
	}
	eachRequirement(tree, func(scopes any) any {
		if m, ok := scopes.(map[string]any); ok {
			scopes = m["list"]
		}
		if scopes == nil {
			return []any{}
		}
		return scopes
	})
	tree = present(tree, false)
	if schemes, ok := tree["securitySchemes"].(map[string]any); ok {
		for name, v := range schemes {
			if s, ok := v.(map[string]any); ok && len(s) == 0 {
				delete(schemes, name)
			}
		}
	}
	b, err := Write(tree)
	if err != nil {
		return nil, err
	}
	c := new(sdk.AgentCard)
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJSON, err)
	}
	return c, nil
}

// eachRequirement replaces the scopes of a scheme wherever a card has security
// requirements.
func eachRequirement(tree map[string]any, replace func(scopes any) any) {
	in := func(m map[string]any) {
		l, _ := m["securityRequirements"].([]any)
		for _, v := range l {
			r, _ := v.(map[string]any)
			schemes, _ := r["schemes"].(map[string]any)
			for name, scopes := range schemes {
				schemes[name] = replace(scopes)
			}
		}
	}
	in(tree)
	skills, _ := tree["skills"].([]any)
	for _, v := range skills {
		if skill, ok := v.(map[string]any); ok {
			in(skill)
		}
	}
}
