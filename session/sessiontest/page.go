package sessiontest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// pages reads a list in pages of a given size, and requires that no page is larger. between runs after each page.
func (f *fixture) pages(filter session.Key, size int, between func(page int)) []session.Info {
	f.Helper()
	return f.pagesOf(filter, session.Page{Limit: size}, between)
}

// pagesOf reads a list from a page to the end.
func (f *fixture) pagesOf(filter session.Key, first session.Page, between func(page int)) []session.Info {
	f.Helper()
	return f.paged(first, between, func(page session.Page) ([]session.Info, error) {
		return f.store.List(f.Context(), filter, page)
	})
}

type readPage func(session.Page) ([]session.Info, error)

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

// several creates the sessions a, b, c and so on of one user, one each second.
func (f *fixture) several(n int) {
	f.Helper()
	for i := range n {
		f.pass(time.Second)
		f.write(f.of("ann", i), text("x"))
	}
}

func (f *fixture) of(user string, i int) session.Key {
	return session.Key{App: f.app, User: user, ID: string(rune('a' + i))}
}

var pageTests = []test{
	{"pages are the parts of the list", func(f *fixture) {
		f.several(7)
		f.write(f.of("bob", 0), text("another user's"))
		for _, filter := range []session.Key{{App: f.app}, {App: f.app, User: "ann"}, {App: f.app, ID: "a"}, f.of("ann", 3), f.of("ann", 20)} {
			whole := f.list(filter)
			for _, size := range []int{1, 2, 3, 7, 8, 100, math.MaxInt32} {
				require.Equal(f, whole, append(whole[:0:0], f.pages(filter, size, nil)...), "%v in pages of %d", filter, size)
			}
			for i, info := range whole { // and what has no limit is the rest
				rest, err := f.store.List(f.Context(), filter, session.Page{After: info.Place()})
				require.NoError(f, err)
				require.Equal(f, idsOf(whole[i+1:]), idsOf(rest))
			}
		}
	}},
	{"sessions of one time stand in the order of their keys", func(f *fixture) {
		f.pass(0) // needs a clock that the test sets
		var want []string
		for _, app := range []string{f.app, f.app + "-b"} {
			for _, user := range []string{"ann", "bob"} {
				for i := range 5 {
					f.write(session.Key{App: app, User: user, ID: fmt.Sprint(4 - i)}, text("x"))
					want = append(want, fmt.Sprint(app, user, i))
				}
			}
		}
		list := func(of session.Key, size int) (keys []string) {
			for _, i := range f.pages(of, size, nil) {
				if i.Key.App == f.app || i.Key.App == f.app+"-b" { // the database may hold more, and much more
					keys = append(keys, i.Key.App+i.Key.User+i.Key.ID)
				}
			}
			return keys
		}
		require.Equal(f, want, list(session.Key{}, 13))
		for _, size := range []int{1, 3, 4, 20} {
			require.Equal(f, want[:10], list(session.Key{App: f.app}, size))
			require.Equal(f, want[10:], list(session.Key{App: f.app + "-b"}, size))
			require.Equal(f, []string{"0", "1", "2", "3", "4"}, idsOf(f.pages(session.Key{App: f.app, User: "bob"}, size, nil)))
		}
	}},
	{"what changes while a list is read shifts nothing", func(f *fixture) {
		f.several(6) // f e d c b a
		got := f.pages(session.Key{App: f.app, User: "ann"}, 2, func(page int) {
			f.pass(time.Second)
			switch page {
			case 1:
				f.write(f.of("ann", 4), text("shown already"))
				f.write(f.of("ann", 1), text("not shown yet"))
				f.write(f.of("ann", 9), text("new"))
			case 2:
				require.NoError(f, f.store.Delete(f.Context(), f.of("ann", 2))) // the last one shown
			}
		})
		require.Equal(f, []string{"f", "e", "d", "c", "a"}, idsOf(got), "those that did not change, once")
		require.Equal(f, []string{"b", "e", "j", "f", "d", "a"}, f.ids(session.Key{App: f.app, User: "ann"}))
	}},
	{"a session that is deleted is on no page", func(f *fixture) {
		f.several(6)
		got := f.pages(session.Key{App: f.app, User: "ann"}, 2, func(page int) {
			if page == 1 {
				require.NoError(f, f.store.Delete(f.Context(), f.of("ann", 3)))
				require.NoError(f, f.store.Delete(f.Context(), f.of("ann", 0)))
				f.write(f.of("ann", 3), text("anew"))
			}
		})
		require.Equal(f, []string{"f", "e", "c", "b"}, slices.DeleteFunc(idsOf(got), func(id string) bool { return id == "d" }))
	}},
	{"forks stand where they were made", func(f *fixture) {
		f.several(3)
		f.pass(time.Second)
		require.NoError(f, f.store.Fork(f.Context(), f.of("ann", 0), 1, f.of("ann", 5)))
		f.pass(time.Second)
		require.NoError(f, f.store.Fork(f.Context(), f.of("ann", 1), 0, f.of("ann", 6)))
		for _, size := range []int{1, 2, 5} {
			got := f.pages(session.Key{App: f.app, User: "ann"}, size, nil)
			require.Equal(f, []string{"g", "f", "c", "b", "a"}, idsOf(got))
			require.Equal(f, f.of("ann", 1), got[0].Parent)
			require.Equal(f, f.of("ann", 0), got[1].Parent)
			require.EqualValues(f, 1, got[1].ParentSeq)
		}
		f.pass(time.Second)
		f.write(f.of("ann", 5), text("y"))
		require.NoError(f, f.store.Delete(f.Context(), f.of("ann", 0)))
		got := f.pages(session.Key{App: f.app, User: "ann"}, 1, nil)
		require.Equal(f, []string{"f", "g", "c", "b"}, idsOf(got))
		require.Zero(f, got[0].Parent)
	}},
	{"a place need not be a session's", func(f *fixture) {
		f.several(3)
		at := f.list(session.Key{App: f.app})[1].Updated
		for id, want := range map[string][]string{"": {"b", "a"}, "b": {"a"}, "bb": {"a"}, "aa": {"b", "a"}} {
			got, err := f.store.List(f.Context(), session.Key{App: f.app, User: "ann"}, session.Page{After: session.Place{Updated: at, Key: session.Key{App: f.app, User: "ann", ID: id}}})
			require.NoError(f, err)
			require.Equal(f, want, idsOf(got), "after %q", id)
		}
	}},
	{"a page of less than nothing is refused", func(f *fixture) {
		_, err := f.store.List(f.Context(), session.Key{App: f.app}, session.Page{Limit: -1})
		require.ErrorIs(f, err, agent.ErrBadInput)
	}},
	{"an info names the incarnation", func(f *fixture) {
		lease := f.acquire(f.key)
		f.append(f.key, 0, lease, text("a"))
		f.release(f.key, lease)
		first := f.list(f.key)[0]
		require.Equal(f, lease.Incarnation, first.Incarnation)
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		f.write(f.key, text("b"))
		second := f.list(f.key)[0]
		require.Equal(f, first.Seq, second.Seq)
		require.NotEqual(f, first.Incarnation, second.Incarnation)
		fork := session.Key{App: f.app, User: "ann", ID: "fork"}
		require.NoError(f, f.store.Fork(f.Context(), f.key, 1, fork))
		require.Equal(f, f.acquire(fork).Incarnation, f.list(fork)[0].Incarnation)
	}},
}
