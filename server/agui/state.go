package agui

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/server/internal/front"
)

// place is the key under which the state that pages get says which agent is active.
const place = "arbor"

// maxState bounds what a page may write to the state in one run, in bytes.
const maxState = 256 << 10

// checkKeys returns an error if pages cannot be allowed to write one of the keys.
func checkKeys(keys []string) error {
	for _, key := range keys {
		if key == "" || key == place || live.Reserved(key) || strings.Contains(key, ":") {
			return fmt.Errorf("pages cannot be allowed to write the key %.64q of the state: it must not be empty, %q, begin with %q, or have a colon", key, place, place+".")
		}
	}
	return nil
}

// written is what a page's state changes of the session's.
type written struct {
	delta   map[string]any // null deletes
	sum     string         // stands for what the page may write, for repetitions of a run
	ignored []string       // keys that have another value than in the session, and that pages cannot write
}

// written compares the page's state with the session's. Keys that the page does not have stay as they are.
func (h *Handler) written(page json.RawMessage, stored map[string]any) (w written, err error) {
	var all map[string]json.RawMessage
	if len(page) > 0 && json.Unmarshal(page, &all) != nil {
		return w, front.ProblemAt("state", "must be an object")
	}
	w.delta = make(map[string]any)
	mine, size := make(map[string]any), 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := event.DecodeValue(all[key])
		same := reflect.DeepEqual(value, event.DecodeValue(event.EncodeJSON(stored[key])))
		switch {
		case slices.Contains(h.pageState, key):
			if mine[key] = value; !same {
				w.delta[key] = value
				size += len(key) + len(all[key])
			}
		case !same && key != place && !strings.HasPrefix(key, "turn:"): // the page may have what a turn left
			w.ignored = append(w.ignored, key)
		}
	}
	if len(mine) > 0 {
		w.sum = string(event.EncodeJSON(mine))
	}
	if size > maxState {
		err = &front.Fault{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Detail: fmt.Sprintf("what the page changes of the state has %d bytes, and the limit is %d", size, maxState)}
	}
	return w, err
}
