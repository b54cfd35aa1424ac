package conversation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/agentarbor/arbor/event"
)

// activeJSON is the JSON form of an Active.
type activeJSON struct {
	Next      map[string]string     `json:"next,omitempty"`
	Begins    []string              `json:"begins,omitempty"`
	Beside    map[string]string     `json:"beside,omitempty"`
	Ends      map[string]endingJSON `json:"ends,omitempty"`
	Collapsed []string              `json:"collapsed,omitempty"`
	Summaries map[string]string     `json:"summaries,omitempty"`
}

type endingJSON struct {
	Node    string   `json:"node,omitempty"`
	Without []string `json:"without,omitempty"`
}

// MarshalJSON writes the path as an object, for a page's address or a store:
// equal paths give equal bytes, and the zero value is {}. All ids in it are those
// of runs, but for node. The members, which are absent if they are empty:
//
//   - next: which run follows a run.
//   - begins: runs that were chosen among the beginnings beside them.
//   - beside: the run that [Active.Edit] made of a message without a parent, and
//     that message's.
//   - ends: where the path ends, by run: at a node, or with the run without one.
//     Of what follows there, the runs in without are not on the path.
//   - collapsed: runs that are folded.
//   - summaries: texts, by the last run that they replace.
func (a Active) MarshalJSON() ([]byte, error) {
	out := activeJSON{Next: a.next, Begins: slices.Sorted(maps.Keys(a.begins)), Beside: a.beside,
		Collapsed: slices.Sorted(maps.Keys(a.collapsed)), Summaries: a.summaries}
	for run, end := range a.ends {
		if out.Ends == nil {
			out.Ends = make(map[string]endingJSON, len(a.ends))
		}
		out.Ends[run] = endingJSON{end.node, slices.Sorted(maps.Keys(end.without))}
	}
	return event.EncodeJSON(out), nil
}

// UnmarshalJSON is the inverse of MarshalJSON. Members that it does not know are
// left out, and null is the zero value. The error says that the text is not such
// an object; the path is then as before.
func (a *Active) UnmarshalJSON(text []byte) error {
	var in activeJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("conversation: active path: %w", err)
	}
	*a = Active{next: in.Next, begins: set(in.Begins), beside: in.Beside, collapsed: set(in.Collapsed), summaries: in.Summaries}
	for run, end := range in.Ends {
		if a.ends == nil {
			a.ends = make(map[string]ending, len(in.Ends))
		}
		a.ends[run] = ending{end.Node, set(end.Without)}
	}
	return nil
}

func set(ids []string) map[string]bool {
	if len(ids) == 0 {
		return nil
	}
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}
