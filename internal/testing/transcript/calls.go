package transcript

import (
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/event"
)

// Calls are the ids of a log's tool calls. The runner's ids differ from run to run, so tests name the calls
// c1, c2 and so on in the order of the log.
type Calls []string

// CallsOf returns the calls of a log, or of a part of one that begins with its first call.
func CallsOf(log []*event.Event) Calls {
	var calls Calls
	for _, e := range log {
		calls.Add(e)
	}
	return calls
}

// Add adds the call of an event, if it is one.
func (c *Calls) Add(e *event.Event) {
	if e.Type() == event.TypeToolCall {
		*c = append(*c, e.ID)
	}
}

// Name returns the name of the call with this id. It returns the id of an unknown call.
func (c Calls) Name(id string) string {
	if i := slices.Index(c, id); i >= 0 {
		return "c" + strconv.Itoa(i+1)
	}
	return id
}

// ID returns the id of the call with this name. It returns any other text unchanged.
func (c Calls) ID(name string) string {
	digits, ok := strings.CutPrefix(name, "c")
	if n, err := strconv.Atoi(digits); ok && err == nil && n >= 1 && n <= len(c) {
		return c[n-1]
	}
	return name
}
