package human

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// indexPrefix is the prefix of the keys in the app's state that list the handoffs in progress, one key for each. A
// value is an object with the members user, session, status, from, reason and since. It changes in the same write as
// the handoff's status.
const indexPrefix = "app:handoff:"

// index returns the event that adds the handoff to the app's list, or removes it in a final status.
func index(key agent.SessionKey, l *leg, s Status) *event.State {
	var entry any
	if !s.Final() {
		entry = map[string]any{"user": key.User, "session": key.ID, "status": string(s), "from": l.Asked.From, "reason": l.Asked.Reason,
			"since": l.Since.UTC().Format(time.RFC3339)}
	}
	return &event.State{Delta: map[string]any{indexPrefix + l.ID: entry}}
}

// Handoff is a handoff in progress, as the app's state lists it.
type Handoff struct {
	ID string `json:"id"`
	// Session and User are parts of the session's key. The app is that of the state.
	Session string `json:"session"`
	User    string `json:"user"`
	Status  Status `json:"status"`
	From    string `json:"from"` // the agent that asked for the person
	Reason  string `json:"reason"`
	Since   string `json:"since"` // the time of the request, as RFC 3339
}

// Handoffs returns the handoffs in progress of an app, oldest first. Shared is the state that
// [session.Store.SharedState] returns for any session of the app. Handoffs ignores entries that are not valid.
//
// [session.Store.SharedState]: https://pkg.go.dev/github.com/agentarbor/arbor/session#Store
func Handoffs(shared map[string]any) (all []Handoff) {
	for key, value := range shared {
		entry, ok := value.(map[string]any)
		if id, is := strings.CutPrefix(key, indexPrefix); is && ok {
			text := func(name string) string { s, _ := entry[name].(string); return s }
			all = append(all, Handoff{id, text("session"), text("user"), Status(text("status")), text("from"), text("reason"), text("since")})
		}
	}
	slices.SortFunc(all, func(a, b Handoff) int { return cmp.Or(strings.Compare(a.Since, b.Since), strings.Compare(a.ID, b.ID)) })
	return all
}
