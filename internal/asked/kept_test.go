package asked

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/session"
)

// The oldest requests make room, and what is larger than all the room is not kept.
func TestRoom(t *testing.T) {
	_, err := Keep(0)
	require.Error(t, err)
	r, err := Keep(10_000)
	require.NoError(t, err)
	key := session.ID("s")
	body := func(n int) json.RawMessage { return json.RawMessage(strings.Repeat("x", n)) }
	for seq := range int64(100) {
		r.keep(entry{key, "a", seq, Sent{Attempt: int(seq), Request: body(1000)}})
		require.LessOrEqual(t, r.used, r.most)
	}
	kept := 0
	for seq := range int64(100) {
		if s := r.Find(key, "a", seq); s != nil {
			require.EqualValues(t, seq, s.Attempt)
			kept++
		}
	}
	require.Equal(t, 7, kept)
	require.NotNil(t, r.Find(key, "a", 99))
	require.Nil(t, r.Find(key, "b", 99))
	require.Nil(t, r.Find(session.ID("other"), "a", 99))

	r.keep(entry{key, "a", 99, Sent{Attempt: 2, Request: body(10)}})
	require.Equal(t, 2, r.Find(key, "a", 99).Attempt, "the last one")
	r.keep(entry{key, "a", 100, Sent{Request: body(20_000)}})
	require.Nil(t, r.Find(key, "a", 100))
	require.NotNil(t, r.Find(key, "a", 99), "it drives out no others")
	require.Nil(t, (*Requests)(nil).Find(key, "a", 1))
}
