package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// callIDs are the ids of the calls in a request. An endpoint gets back the ids that it has sealed. All other calls are
// numbered, with the nine letters and digits that the strictest endpoints require. So the request of a conversation
// does not depend on the ids in the log.
type callIDs struct {
	wire map[string]string // by the ids in the log
	used map[string]bool
}

// of returns the id of a call in the request. own is the id that the endpoint sealed, or "".
func (c *callIDs) of(id, own string) string {
	if wire := c.wire[id]; wire != "" || id == "" {
		return wire
	}
	if c.wire == nil {
		c.wire, c.used = map[string]string{}, map[string]bool{}
	}
	wire := own
	for n := len(c.wire) + 1; wire == "" || c.used[wire]; n++ {
		wire = fmt.Sprintf("call%05d", n)
	}
	c.wire[id], c.used[wire] = wire, true
	return wire
}

// place returns the index of a call among the calls of its answer. before is the number of calls before it in the
// message.
func place(c llm.ToolCall, before int) int {
	if c.Place > 0 {
		return c.Place - 1
	}
	return before
}

// wireName turns a name that a model invented into a legal one, because endpoints refuse the whole conversation
// otherwise.
func wireName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && nameByte(byte(r)) {
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), 64)]
}

// toolName returns the name of a tool in the form that the endpoint accepts.
func (q quirks) toolName(name string) string {
	if q.has(quirkLetterNames) && name != "" && (name[0] == '-' || name[0] >= '0' && name[0] <= '9') {
		return "_" + name
	}
	return name
}

// wireArguments returns arguments as the JSON object that endpoints require. If they are not one, the object has the
// text of the model as "raw".
func wireArguments(args string) string {
	trimmed := strings.TrimSpace(args)
	if trimmed == "" {
		return "{}"
	}
	if trimmed[0] == '{' && json.Valid([]byte(trimmed)) {
		return args
	}
	// Encoding a map of strings cannot fail.
	raw, _ := json.Marshal(map[string]string{"raw": args})
	return string(raw)
}
