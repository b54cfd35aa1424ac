package human

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// IndexPrefix begins the keys of the app's state under which the handoffs that are under way
// are listed, one key a handoff. The value of each is an object with the members user,
// session, status, from, reason and since. It is changed in one write with the handoff's status.
const IndexPrefix = "app:handoff:"

func index(key agent.SessionKey, l *leg, s Status) *event.State {
	var entry any
	if !s.Final() {
		entry = map[string]any{"user": key.User, "session": key.ID, "status": string(s), "from": l.Asked.From, "reason": l.Asked.Reason,
			"since": l.Since.UTC().Format(time.RFC3339)}
	}
	return &event.State{Delta: map[string]any{IndexPrefix + l.ID: entry}}
}

// Handoff is one that is under way, as the app's state lists it.
type Handoff struct {
	ID string `json:"id"`
	// Session and User are those parts of the session's key; its app is the one that has the state.
	Session string `json:"session"`
	User    string `json:"user"`
	Status  Status `json:"status"`
	From    string `json:"from"` // the agent that handed over
	Reason  string `json:"reason"`
	Since   string `json:"since"` // when a person was asked for, by RFC 3339
}

// Handoffs returns the handoffs that are under way in an app, the oldest first, from the state that
// [session.Store.SharedState] gives of any of its sessions. Entries that are none are left out.
//
// [session.Store.SharedState]: https://pkg.go.dev/github.com/agentarbor/arbor/session#Store
func Handoffs(shared map[string]any) (all []Handoff) {
	for key, value := range shared {
		entry, ok := value.(map[string]any)
		if id, is := strings.CutPrefix(key, IndexPrefix); is && ok {
			text := func(name string) string { s, _ := entry[name].(string); return s }
			all = append(all, Handoff{id, text("session"), text("user"), Status(text("status")), text("from"), text("reason"), text("since")})
		}
	}
	slices.SortFunc(all, func(a, b Handoff) int { return cmp.Or(strings.Compare(a.Since, b.Since), strings.Compare(a.ID, b.ID)) })
	return all
}
