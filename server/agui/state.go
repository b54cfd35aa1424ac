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
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
)

// stateKey is the key of the state that pages receive for the active agent. The session's state does not have it.
const stateKey = "arbor"

// maxState is the limit of the state that a page may write in one run, in bytes.
const maxState = 256 << 10

// checkKeys returns an error if pages cannot be allowed to write one of the keys.
func checkKeys(keys []string) error {
	for _, key := range keys {
		if key == "" || key == stateKey || live.Reserved(key) || strings.Contains(key, ":") {
			return fmt.Errorf("the state key %.64q cannot be writable for pages: it must not be empty or %q, begin with %q, or contain a colon", key, stateKey, stateKey+".")
		}
	}
	return nil
}

// stateChange is the change of a session's state that a page requests.
type stateChange struct {
	delta   map[string]any // null deletes
	sum     string         // the writable values of the page, to compare repeated runs
	ignored []string       // keys with another value than in the session that pages cannot write
}

// stateChangeOf compares a page's state with the session's. Keys that the page does not have are unchanged.
func (h *Handler) stateChangeOf(page json.RawMessage, stored map[string]any) (w stateChange, err error) {
	var all map[string]json.RawMessage
	if len(page) > 0 && json.Unmarshal(page, &all) != nil {
		return w, front.ProblemAt("state", "must be an object")
	}
	w.delta = make(map[string]any)
	writable, size := make(map[string]any), 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := event.DecodeValue(all[key])
		same := reflect.DeepEqual(value, event.DecodeValue(event.EncodeJSON(stored[key])))
		switch {
		case slices.Contains(h.pageState, key):
			if writable[key] = value; !same {
				w.delta[key] = value
				size += len(key) + len(all[key])
			}
		case !same && key != stateKey && !strings.HasPrefix(key, "turn:"): // the page may have state of an earlier turn
			w.ignored = append(w.ignored, key)
		}
	}
	if len(writable) > 0 {
		w.sum = string(event.EncodeJSON(writable))
	}
	if size > maxState {
		err = &front.Fault{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Detail: fmt.Sprintf("the page changes %d bytes of the state, and the limit is %d", size, maxState)}
	}
	return w, err
}
