package checkpoint

import (
	"context"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/session"
)

// Family returns a session with all its ancestors and all their forks, each parent before its forks. A session whose
// parent was deleted, or belongs to another app or user, is the root of its own family. Family reads the list of the
// user's sessions. If the session does not exist, the error is an [agent.ErrBadInput].
func (s *Sessions) Family(ctx context.Context, key session.Key) ([]session.Info, error) {
	all, err := s.store.List(ctx, session.Key{App: key.App, User: key.User}, session.Page{})
	if err != nil {
		return nil, err
	}
	byKey := make(map[session.Key]session.Info, len(all))
	forks := make(map[session.Key][]session.Info)
	for _, info := range slices.Backward(all) { // the oldest first
		byKey[info.Key] = info
		if info.Parent != (session.Key{}) {
			forks[info.Parent] = append(forks[info.Parent], info)
		}
	}
	first, ok := byKey[key]
	if !ok {
		return nil, fmt.Errorf("session %s does not exist: %w", key, agent.ErrBadInput)
	}
	for parent, ok := byKey[first.Parent]; ok; parent, ok = byKey[first.Parent] {
		first = parent
	}
	family := []session.Info{first}
	for i := 0; i < len(family); i++ {
		family = append(family, forks[family[i].Key]...)
	}
	return family, nil
}

// Graph returns the conversation of a session's whole family, with its forks as branches, and the path of the session
// through it.
func (s *Sessions) Graph(ctx context.Context, key session.Key) (*conversation.Graph, conversation.Active, error) {
	var path conversation.Active
	family, err := s.Family(ctx, key)
	if err != nil {
		return nil, path, err
	}
	g, tip := conversation.New(), ""
	for _, info := range family {
		after := info.ParentSeq
		if info.Key == family[0].Key || info.Key == key {
			after = 0
		}
		for e, err := range s.store.Load(ctx, info.Key, after) {
			if err != nil {
				return nil, path, err
			}
			g = g.Reduce(e)
			if last, ok := g.Last(e.RunID); ok && info.Key == key && e.Scope == "" {
				tip = last.ID
			}
		}
	}
	if tip != "" {
		path, err = path.Branch(g, tip)
	}
	return g, path, err
}
