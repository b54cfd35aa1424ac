package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
)

// FuzzKey: whatever is accepted as the name of a session names one session, that is found,
// listed and read again under it.
func FuzzKey(f *testing.F) {
	for _, part := range []string{"s1", "a/b", "%2F", "é", "\u202e", "a\x00b", "\xff", " ", "' OR 1=1 --", "\U000e0041", "..", "A", "a"} {
		f.Add("app", "user", part)
		f.Add(part, part, "id")
	}
	f.Fuzz(func(t *testing.T, app, user, id string) {
		key := session.Key{App: app, User: user, ID: id}
		if session.CheckKey(key) != nil {
			t.Skip()
		}
		s := open(t, newFile(t))
		appendAll(t, s, key, storetest.Batch(0, 2), 2)
		appendAll(t, s, session.Key{App: user, User: app, ID: id + "2"}, storetest.Batch(0, 1), 1)
		require.Len(t, storetest.Contents(t, s, key), 2)
		infos, err := s.List(t.Context(), key, session.Page{})
		require.NoError(t, err)
		require.Len(t, infos, 1)
		require.Equal(t, key, infos[0].Key)
	})
}
