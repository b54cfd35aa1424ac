package openaiapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/internal/front"
)

// faults collects the problems of a request.
type faults []front.Problem

func (f *faults) addf(path, format string, a ...any) {
	*f = append(*f, front.Problem{Path: path, Message: fmt.Sprintf(format, a...)})
}

// err returns a fault with all problems, or nil without one.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	fault := front.BadRequest("the request is invalid")
	fault.Problems = f
	return fault
}

// isMissing reports whether err is the fault of a thing that does not exist, or that belongs to another user.
func isMissing(err error) bool { return err != nil && front.FaultOf(err).Status == http.StatusNotFound }

// missing returns the fault of a member that names a thing which [isMissing].
func missing(code, member, kind, name string) error {
	return &front.Fault{Status: http.StatusNotFound, Code: code, Detail: fmt.Sprintf("the %s %.100q does not exist", kind, name),
		Problems: []front.Problem{{Path: member, Message: "names nothing that exists"}}}
}

// fields are the members of a request. Members that are in neither list are ignored.
type fields struct {
	supported []string
	// refused are members that would change the answer, with the values that are allowed because they would not.
	refused map[string][]string
}

// read reads a body and splits its members.
func (f *fields) read(c *front.Call, v any, wrong *faults) (ignored []string, err error) {
	body, err := c.Body(front.JSON)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := front.Decode(body, &members); err != nil {
		return nil, err
	}
	return f.split(members, v, wrong)
}

// split reads the supported members into the value that v points to, and returns the names of ignored members. It adds
// a problem for each refused member.
func (f *fields) split(members map[string]json.RawMessage, v any, wrong *faults) (ignored []string, err error) {
	kept := make(map[string]json.RawMessage, len(f.supported))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		harmless, refused := f.refused[name]
		switch value := string(event.CompactJSON(members[name])); {
		case value == "null" || slices.Contains(harmless, value):
		case slices.Contains(f.supported, name):
			kept[name] = members[name]
		case refused:
			wrong.addf(name, "is not supported")
		default: // clients also send members for other servers
			ignored = append(ignored, name)
		}
	}
	unknown, err := front.DecodeKnown(event.EncodeJSON(kept), v)
	for _, p := range unknown {
		ignored = append(ignored, p.Path)
	}
	return ignored, err
}
