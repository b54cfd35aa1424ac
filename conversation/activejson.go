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

// MarshalJSON encodes the path as a JSON object, for the address of a page or a store. Equal paths have equal bytes,
// and the zero value is {}. All ids are ids of runs, except those of nodes in ends. Empty members are left out:
//
//   - next: the run that follows a run.
//   - begins: the runs without a parent that were chosen among their alternatives.
//   - beside: by a run that [Active.Edit] made and that has no parent, the run that it is an alternative to.
//   - ends: by the run in which the path ends, its last node, if it is not the whole run. The runs in without are not
//     on the path although they follow.
//   - collapsed: the collapsed runs.
//   - summaries: the texts, by the last run that they replace.
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

// UnmarshalJSON decodes the result of MarshalJSON. It ignores unknown members; null is the zero value. After an error
// the path is unchanged.
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
