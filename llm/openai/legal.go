package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// maxWireID is the longest tool call id that OpenAI takes.
const maxWireID = 40

// wireID shortens ids that another endpoint made longer than OpenAI allows; a
// call and its result get the same id, because it depends on the old one only.
func wireID(id string) string {
	if len(id) <= maxWireID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// id returns the id of a call as the endpoint accepts it.
func (g *giving) id(id string) string {
	switch {
	case g.has(quirkShortIDs):
		return shortID(id)
	case g.own[id] != "":
		return g.own[id]
	}
	return wireID(id)
}

// wireName makes a legal name of one that a model invented, because endpoints
// refuse the whole conversation for it.
func wireName(name string) string {
	legal := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	if name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool { return !legal(r) }) {
		return name
	}
	name = strings.Map(func(r rune) rune {
		if legal(r) {
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), 64)]
}

// wireArguments makes a JSON object of arguments that are none, as endpoints
// demand: what a model wrote instead is under "raw".
func wireArguments(args string) string {
	trimmed := strings.TrimSpace(args)
	if trimmed == "" {
		return "{}"
	}
	if trimmed[0] == '{' && json.Valid([]byte(trimmed)) {
		return args
	}
	// A map of strings cannot fail to encode.
	raw, _ := json.Marshal(map[string]string{"raw": args})
	return string(raw)
}
