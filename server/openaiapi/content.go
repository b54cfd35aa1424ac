package openaiapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/internal/front"
)

// faults collects what is wrong with a request.
type faults []front.Problem

func (f *faults) addf(path, format string, a ...any) {
	*f = append(*f, front.Problem{Path: path, Message: fmt.Sprintf(format, a...)})
}

// err is nil if nothing is wrong.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	fault := front.BadRequest("the request cannot be served")
	fault.Problems = f
	return fault
}

// fields are the members of a request of one protocol.
type fields struct {
	honoured []string
	// refused would change the answer, but for the values that are given. All others are ignored.
	refused map[string][]string
}

// read reads a body, whose members it sorts.
func (f *fields) read(c *front.Call, v any, wrong *faults) (ignored []string, err error) {
	body, err := c.Body(front.JSON)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := front.Decode(body, &members); err != nil {
		return nil, err
	}
	return f.sort(members, v, wrong)
}

// sort reads those members of a request that are honoured into what v points to, and returns the names of those
// that are ignored. It adds what is refused.
func (f *fields) sort(members map[string]json.RawMessage, v any, wrong *faults) (ignored []string, err error) {
	kept := make(map[string]json.RawMessage, len(f.honoured))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		harmless, refused := f.refused[name]
		switch value := string(event.CompactJSON(members[name])); {
		case value == "null" || slices.Contains(harmless, value):
		case slices.Contains(f.honoured, name):
			kept[name] = members[name]
		case refused:
			wrong.addf(name, "is not supported")
		default: // clients send what they have for other servers
			ignored = append(ignored, name)
		}
	}
	strangers, err := front.DecodeKnown(event.EncodeJSON(kept), v)
	return append(ignored, strangers...), err
}
