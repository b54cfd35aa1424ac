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
	"github.com/agentarbor/arbor/server/live"
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

// Added contains the items that clients added to a conversation. [Added.After] decodes them.
type Added struct {
	id    ID
	state map[string]any
	keys  map[string][]string // of the state, by the turns before the items
}

// AddedIn returns the items in a session's state. id contains the session and the path of its agent.
func AddedIn(state map[string]any, id ID) Added {
	a := Added{id, state, make(map[string][]string)}
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if name, ok := strings.CutPrefix(key, addedPrefix); ok {
			_, turn, _ := strings.Cut(name, ".")
			a.keys[turn] = append(a.keys[turn], key)
		}
	}
	return a
}

// After returns the items that were added after a turn and before the next one. [TurnBefore] returns the turn of the
// newest ones.
func (a Added) After(turn string) (items []*Item) {
	for _, key := range a.keys[turn] {
		var kept struct {
			Item    map[string]any `json:"item"`
			Request string         `json:"request"`
		}
		if json.Unmarshal(event.EncodeJSON(a.state[key]), &kept) != nil || kept.Item == nil {
			continue
		}
		id := a.id
		id.Turn, id.Seq = turn, 0
		number, _, _ := strings.Cut(strings.TrimPrefix(key, addedPrefix), ".")
		kind, _ := kept.Item["type"].(string)
		item := &Item{Type: kind, ID: id.item(kind + "_" + number), Key: key, whole: kept.Item, request: kept.Request}
		kept.Item["id"] = item.ID
		items = append(items, item)
	}
	return items
}

// Size returns the number of bytes of all items, as JSON.
func (a Added) Size() (n int) {
	for _, keys := range a.keys {
		for _, key := range keys {
			n += len(event.EncodeJSON(a.state[key]))
		}
	}
	return n
}

// TurnBefore returns the turn before the items that clients add now.
func TurnBefore(f *session.Fold) string { return cmp.Or(f.Turn.ID, beforeFirst) }

// AddedTo calls [AddedIn] with the current state of a session. turn is the turn before the newest items.
func AddedTo(ctx context.Context, turns *live.Turns, key session.Key, id ID) (added Added, turn string, err error) {
	err = turns.Runner().ReadFold(ctx, key, func(f *session.Fold) error {
		added, turn = AddedIn(f.States(), id), TurnBefore(f)
		return nil
	})
	return added, turn, err
}

// Again returns the items that the same request has added before, or nil. If the request has no id, they must be the last
// ones after the turn. The error is live.ErrMismatch if a request with this id has added others.
func (a Addition) Again(in Added, turn string) ([]*Item, error) {
	if a.Request == "" && !a.Repeats {
		return nil, nil
	}
	old := in.of(a.Request)
	if a.Request == "" {
		old = in.After(turn)
		old = old[max(0, len(old)-len(a.Items)):]
	}
	same := slices.EqualFunc(old, a.Items, func(item *Item, given map[string]any) bool {
		kept := maps.Clone(item.whole)
		delete(kept, "id")
		return item.request == a.Request && reflect.DeepEqual(event.DecodeValue(event.EncodeJSON(kept)), event.DecodeValue(event.EncodeJSON(given)))
	})
	switch {
	case same:
		return old, nil
	case a.Request != "" && len(old) > 0:
		return nil, live.ErrMismatch
	}
	return nil, nil
}

// of returns the items that a request with an id has added.
func (a Added) of(request string) (items []*Item) {
	for turn := range a.keys {
		for _, item := range a.After(turn) {
			if item.request == request {
				items = append(items, item)
			}
		}
	}
	return items
}

// MarshalJSON returns an added item as the client sent it, and any other item with its members.
func (i *Item) MarshalJSON() ([]byte, error) {
	if i.whole != nil {
		return event.EncodeJSON(i.whole), nil
	}
	type members Item
	return event.EncodeJSON((*members)(i)), nil
}
