package cardjson

import (
	"encoding/json"
	"errors"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// Marshal returns the JSON of a card that A2A 1.0 requires: with all required fields, with capabilities that are false
// if unset, and with objects for the scopes of security requirements.
func Marshal(c *sdk.AgentCard) ([]byte, error) {
	tree, err := Tree(c)
	if err != nil {
		return nil, err
	}
	return plainjson.Marshal(tree)
}

// Tree returns the tree that Marshal encodes.
func Tree(c *sdk.AgentCard) (map[string]any, error) {
	if c == nil {
		return nil, errors.New("the card is nil")
	}
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	tree, err := Parse(b)
	if err != nil {
		return nil, err
	}
	scopesAsObjects(tree)
	skills, _ := tree["skills"].([]any)
	for _, v := range skills {
		if skill, ok := v.(map[string]any); ok {
			scopesAsObjects(skill)
		}
	}
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

// scopesAsObjects replaces the scopes in the security requirements of a card or a skill by objects with a list.
func scopesAsObjects(tree map[string]any) {
	requirements, _ := tree["securityRequirements"].([]any)
	for _, v := range requirements {
		requirement, _ := v.(map[string]any)
		schemes, _ := requirement["schemes"].(map[string]any)
		for name, scopes := range schemes {
			object := map[string]any{}
			if list, ok := scopes.([]any); ok && len(list) > 0 {
				object["list"] = list
			}
			schemes[name] = object
		}
	}
}
