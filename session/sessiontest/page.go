package sessiontest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

func (f *fixture) list(filter session.Key) []session.Info {
	f.Helper()
	infos, err := f.store.List(f.Context(), filter, session.Page{})
	require.NoError(f, err)
	require.True(f, slices.IsSortedFunc(infos, session.CompareInfo))
	return infos
}

// own selects the sessions of the test's apps.
func (f *fixture) own(all []session.Info) []session.Info {
	return slices.DeleteFunc(all, func(i session.Info) bool { return i.Key.App != f.app && i.Key.App != "other-"+f.app })
}

type readPage func(session.Page) ([]session.Info, error)

// paged reads a list from a page to the end, and requires that no page is larger than its limit. between runs after each
// page.
func (f *fixture) paged(page session.Page, between func(page int), read readPage) (all []session.Info) {
	f.Helper()
	for n := 1; ; n++ {
		infos, err := read(page)
		require.NoError(f, err)
		require.True(f, page.Limit == 0 || len(infos) <= page.Limit, "%d on a page of %d", len(infos), page.Limit)
		if len(infos) == 0 {
			return all
		}
		require.True(f, page.After == (session.Place{}) || infos[0].Place().Compare(page.After) > 0, "a page begins after the end of the last one")
		all = append(all, infos...)
		page.After = infos[len(infos)-1].Place()
		if between != nil {
			between(n)
		}
	}
}

func idsOf(infos []session.Info) []string {
	out := []string{}
	for _, i := range infos {
		out = append(out, i.Key.ID)
	}
	return out
}

// several creates sessions of one user, one each second.
func (f *fixture) several(ids ...string) {
	f.Helper()
	for _, id := range ids {
		f.pass(time.Second)
		f.write(f.another(id), text("x"))
	}
}

var pageTests = []test{
	{"what changes while a list is read shifts nothing", func(f *fixture) {
		f.several("a", "b", "c", "d", "e", "f") // the list begins with f
		read := func(page session.Page) ([]session.Info, error) {
			return f.store.List(f.Context(), session.Key{App: f.app}, page)
		}
		got := f.paged(session.Page{Limit: 2}, func(page int) {
			f.pass(time.Second)
			switch page {
			case 1:
				f.write(f.another("e"), text("shown already"))
				f.write(f.another("b"), text("not shown yet"))
				f.write(f.another("j"), text("new"))
			case 2:
				require.NoError(f, f.store.Delete(f.Context(), f.another("c"))) // the last one shown
			}
		}, read)
		require.Equal(f, []string{"f", "e", "d", "c", "a"}, idsOf(got), "those that did not change, once")
		require.Equal(f, []string{"b", "e", "j", "f", "d", "a"}, idsOf(f.list(session.Key{App: f.app})))
	}},
	{"a place need not be a session's", func(f *fixture) {
		f.several("a", "b", "c")
		at := f.list(session.Key{App: f.app})[1].Updated
		for id, want := range map[string][]string{"": {"b", "a"}, "b": {"a"}, "bb": {"a"}, "aa": {"b", "a"}} {
			got, err := f.store.List(f.Context(), session.Key{App: f.app, User: "ann"}, session.Page{After: session.Place{Updated: at, Key: session.Key{App: f.app, User: "ann", ID: id}}})
			require.NoError(f, err)
			require.Equal(f, want, idsOf(got), "after %q", id)
		}
	}},
	{"what is no page is refused", func(f *fixture) {
		for _, page := range []session.Page{{Limit: -1}, {Status: "over"}} {
			_, err := f.store.List(f.Context(), session.Key{App: f.app}, page)
			require.ErrorIs(f, err, agent.ErrBadInput)
			_, err = f.store.Orphans(f.Context(), page)
			require.ErrorIs(f, err, agent.ErrBadInput)
		}
	}},
}
