package cli_test

import (
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
)

// TestDamagedSession damages each event of a session in turn. Every command about it
// works, tells what cannot be read and what is around it, and a fork of it goes on.
func TestDamagedSession(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.unlawful = true
	db := must.Get(sql.Open("sqlite", s.db))
	defer func() { require.NoError(t, db.Close()) }()
	const row = " AND session = (SELECT key FROM session WHERE id = 'story')"
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	const events = 27
	tried := make(map[string]bool)
	for seq := 1; seq <= events; seq++ {
		var sound string
		require.NoError(t, db.QueryRow("SELECT json FROM event WHERE seq = ?"+row, seq).Scan(&sound))
		for i, damaged := range []string{strings.TrimSuffix(sound, "}") + `,"more":` + deep + "}", sound[:len(sound)/2]} {
			must.Get(db.Exec("UPDATE log SET line = ? WHERE seq = ?"+row, damaged, seq))
			require.Contains(t, s.sessions(t, "history", "story").out, fmt.Sprintf(" %d cannot be read: ", seq))
			if kind := kindOf.FindString(sound); i > 0 || tried[kind] {
				continue // of each type of events one is enough
			} else {
				tried[kind] = true
			}
			for _, args := range [][]string{{"show", "story"}, {"replay", "story", "--speed", "0"}, {"export", "story", "--format", "md"}} {
				if args[0] == "export" && strings.Contains(sound, `"scope"`) {
					continue // of inner scopes it has nothing
				}
				require.Contains(t, s.sessions(t, args...).all(), fmt.Sprintf(" %d cannot be read: ", seq), "%s", args)
			}
			lines := strings.Split(strings.TrimSpace(s.sessions(t, "export", "story").out), "\n")
			require.Len(t, lines, events)
			var e event.Event
			require.NoError(t, e.UnmarshalJSON([]byte(lines[seq-1])))
			require.Equal(t, event.TypeUnreadable, e.Type())
			for _, args := range [][]string{{"ls"}, {"show", "story", "--json"}, {"export", "story", "--format", "html"}, {"export", "story", "--format", "openai"},
				{"diff", "story", "story"}} {
				s.sessions(t, args...)
			}
			fork := fmt.Sprintf("fork%d", seq)
			s.sessions(t, "fork", "story", "--to", fork)
			got := s.run(t, "run", desk, "again", "--session", fork, "--db", s.db)
			require.Equal(t, 0, got.status, got.err)
		}
		must.Get(db.Exec("UPDATE log SET line = ? WHERE seq = ?"+row, sound, seq))
	}
}

var kindOf = regexp.MustCompile(`"type":"[a-z_]+"`)

func (o outcome) all() string { return o.out + o.err }
