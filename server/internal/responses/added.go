package responses

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/session"
)

// addedPrefix is the prefix of the keys of a session's state for items that a client added. The item's number and the
// id of the turn before it follow, so that the order of the keys is that of the items.
const addedPrefix = "arbor.item."

// beforeFirst stands for the turn before the first one.
const beforeFirst = "-"

// Addition is a list of items that a client adds to a conversation at once.
type Addition struct {
	Items   []map[string]any // as [Normal] returns them
	Request string           // the Idempotency-Key of the request, or ""
	Repeats bool             // the request may have been sent before
}

// Normal returns an item of a client in the form in which conversations list it. ok is false if the item is not a JSON
// object, or if it is nested too deeply.
func Normal(raw json.RawMessage) (item map[string]any, ok bool) {
	if item, ok = event.DecodeValue(raw).(map[string]any); !ok {
		return nil, false
	}
	delete(item, "id")
	role, _ := item["role"].(string)
	if item["type"] == nil {
		item["type"] = "message"
	}
	if item["status"] == nil && item["type"] != "reasoning" {
		item["status"] = "completed"
	}
	switch text, isText := item["content"].(string); {
	case isText && role == "assistant":
		item["content"] = []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}
	case isText:
		item["content"] = []any{map[string]any{"type": "input_text", "text": text}}
	case item["type"] == "message" && item["content"] == nil:
		item["content"] = []any{}
	}
	return item, true
}

// Delta returns the change of a session's state that stores the items after the fold's last turn. seq is the position of
// the event with the change.
func (a Addition) Delta(f *session.Fold, seq int64) map[string]any {
	delta := make(map[string]any, len(a.Items))
	for i, item := range a.Items {
		delta[fmt.Sprintf("%s%010d-%02d.%s", addedPrefix, seq, i, TurnBefore(f))] = map[string]any{"item": item, "request": a.Request}
	}
	return delta
}

// Added returns the items that clients added to a conversation, by the turns before them, as [TurnBefore] returns these.
// state is the session's state, and id contains the session and the path of its agent.
func Added(state map[string]any, id ID) map[string][]*Item {
	added := make(map[string][]*Item)
	for _, key := range slices.Sorted(maps.Keys(state)) {
		name, ok := strings.CutPrefix(key, addedPrefix)
		number, turn, _ := strings.Cut(name, ".")
		var kept struct {
			Item    map[string]any `json:"item"`
			Request string         `json:"request"`
		}
		if !ok || json.Unmarshal(event.EncodeJSON(state[key]), &kept) != nil || kept.Item == nil {
			continue
		}
		id.Turn, id.Seq = turn, 0
		kind, _ := kept.Item["type"].(string)
		item := &Item{Type: kind, ID: (&Response{ID: id}).itemID(kind + "_" + number), Key: key, whole: kept.Item, request: kept.Request}
		kept.Item["id"] = item.ID
		added[turn] = append(added[turn], item)
	}
	return added
}

// TurnBefore returns the turn before the items that clients add now.
func TurnBefore(f *session.Fold) string { return cmp.Or(f.Turn.ID, beforeFirst) }

// AddedTo calls [Added] with the current state of a session. last are the items that no turn follows.
func AddedTo(ctx context.Context, turns *live.Turns, key session.Key, id ID) (added map[string][]*Item, last []*Item, err error) {
	err = turns.Runner().Glance(ctx, key, func(f *session.Fold) error {
		added = Added(f.States(), id)
		last = added[TurnBefore(f)]
		return nil
	})
	return added, last, err
}

// Again returns the last of the items if a repeated request added them, and nil otherwise.
func (a Addition) Again(last []*Item) []*Item {
	if !a.Repeats || len(last) < len(a.Items) {
		return nil
	}
	last = last[len(last)-len(a.Items):]
	for i, item := range last {
		old := maps.Clone(item.whole)
		delete(old, "id")
		if item.request != a.Request || !reflect.DeepEqual(event.DecodeValue(event.EncodeJSON(old)), event.DecodeValue(event.EncodeJSON(a.Items[i]))) {
			return nil
		}
	}
	return last
}

// MarshalJSON returns an added item as the client sent it, and any other item with its members.
func (i *Item) MarshalJSON() ([]byte, error) {
	if i.whole != nil {
		return event.EncodeJSON(i.whole), nil
	}
	type members Item
	return event.EncodeJSON((*members)(i)), nil
}
