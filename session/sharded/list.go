package sharded

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/agentarbor/arbor/session"
)

// patience is how long a shard is waited for if it can be done without, and rest how long it is not
// asked again.
const (
	patience = 5 * time.Second
	rest     = 30 * time.Second
)

// without does what can be left out while the shard is down. It reports whether it was done.
func (x *shard) without(ctx context.Context, do func(context.Context) error) (bool, error) {
	if time.Now().UnixNano() < x.down.Load() {
		return false, nil
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := do(limited)
	if err != nil && ctx.Err() == nil {
		x.down.Store(time.Now().Add(rest).UnixNano())
	}
	return err == nil, ctx.Err()
}

// List implements [session.Store]. A page of a user's sessions costs a page of the user's shard and a look for
// forks on others; another one costs a page of every shard, all of which must be up.
func (s *Store) List(ctx context.Context, filter session.Key, page session.Page) ([]session.Info, error) {
	if err := errors.Join(ctx.Err(), page.Check()); err != nil {
		return nil, err
	}
	of := s.shards
	if filter.App != "" && filter.User != "" {
		of = s.homes(filter.App, filter.User)
		for _, x := range of {
			strays, err := x.List(ctx, session.Key{App: App, User: stray(filter, x).User}, session.Page{})
			if err != nil {
				return nil, x.explain(err)
			}
			for _, i := range strays {
				if on := s.named(i.Key.ID); on != nil && !slices.Contains(of, on) {
					of = append(of, on)
				}
			}
		}
	}
	var all []session.Info
	for _, x := range of {
		infos, err := s.pageOf(ctx, x, page, func(page session.Page) ([]session.Info, error) { return x.List(ctx, filter, page) })
		if err != nil {
			return nil, err
		}
		all = append(all, infos...)
	}
	return merge(all, page), nil
}

// Orphans implements [session.Store]. Those on a shard that is down are not among them.
func (s *Store) Orphans(ctx context.Context, page session.Page) ([]session.Info, error) {
	if err := page.Check(); err != nil {
		return nil, err
	}
	var all []session.Info
	for _, x := range s.shards {
		if _, err := x.without(ctx, func(ctx context.Context) error {
			infos, err := s.pageOf(ctx, x, page, func(page session.Page) ([]session.Info, error) { return x.Orphans(ctx, page) })
			all = append(all, infos...)
			return err
		}); err != nil {
			return nil, err
		}
	}
	return merge(all, page), nil
}

// pageOf reads a page of the sessions that a shard is to show.
func (s *Store) pageOf(ctx context.Context, x *shard, page session.Page, read func(session.Page) ([]session.Info, error)) (kept []session.Info, err error) {
	for {
		infos, err := read(page)
		if err != nil {
			return nil, x.explain(err)
		}
		for _, i := range infos {
			if isNote(i) {
				continue
			}
			// Until a session has left its former shard, another one has a copy at most, unless a note there says that it is the one.
			if homes := s.homes(i.Key.App, i.Key.User); len(homes) > 1 && x == homes[1] {
				was, ok, err := homes[0].info(ctx, i.Key)
				if err != nil {
					return nil, err
				}
				if ok && !(isNote(was) && s.noted(was) == x) {
					continue
				}
			}
			i.Incarnation ^= x.mark
			kept = append(kept, i)
		}
		if len(infos) == 0 || page.Limit == 0 || len(infos) < page.Limit || len(kept) >= page.Limit {
			return kept, nil
		}
		page.After = infos[len(infos)-1].Place()
	}
}

// merge makes one page of several.
func merge(all []session.Info, page session.Page) []session.Info {
	slices.SortStableFunc(all, session.CompareInfo)
	seen := make(map[session.Key]bool, len(all))
	all = slices.DeleteFunc(all, func(i session.Info) bool {
		was := seen[i.Key]
		seen[i.Key] = true
		return was
	})
	if page.Limit > 0 {
		all = all[:min(len(all), page.Limit)]
	}
	return all
}
