package session

import (
	"context"

	"github.com/agentarbor/arbor/event"
)

// Questions returns the calls of the user's conversation that nobody has decided about
// yet, in the order of the calls. The fold is that of the whole log; only what follows
// the beginning of its last run is loaded.
func Questions(ctx context.Context, s Store, key Key, f *Fold) ([]*event.Relay, error) {
	run := f.Scope("").Run
	open := make(map[string]*event.Relay)
	for _, c := range run.Pending {
		if c.Relay != "" && !c.Resolved {
			open[c.Relay] = nil
		}
	}
	if len(open) == 0 {
		return nil, nil
	}
	for e, err := range s.Load(ctx, key, run.Since) {
		if err != nil {
			return nil, err
		}
		if d, ok := e.Data.(*event.Relay); ok {
			if _, waits := open[e.ID]; waits {
				open[e.ID] = d
			}
		}
	}
	var asked []*event.Relay
	for _, c := range run.Pending {
		if d := open[c.Relay]; d != nil {
			asked = append(asked, d)
		}
	}
	return asked, nil
}
