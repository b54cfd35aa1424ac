package openaiapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/event"
)

// TestStops: however a text is split, a client gets what comes before the first stop string, and as soon as it can.
func TestStops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab\n")), 0, 20, -1).Draw(t, "text")
		s := stops{texts: rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab\n")), 1, 4, -1), 0, 3).Draw(t, "stops")}
		want, longest := text, 0
		for n := len(text); n > 0; n-- {
			size := 0
			for _, stop := range s.texts {
				if longest = max(longest, len(stop)); strings.HasSuffix(text[:n], stop) {
					size = max(size, len(stop))
				}
			}
			if size > 0 {
				want = text[:n-size] // of the first one, at last
			}
		}
		got := ""
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "size")
			got += s.pass(rest[:n])
			rest = rest[n:]
			require.True(t, s.met || len(got) >= len(text)-len(rest)-max(longest-1, 0), "%q of %q", got, text)
		}
		require.Equal(t, want, got+s.rest())
	})
}

// TestStopOfClients: the text ends before a stop string, the turn does not, and the client's next message continues it.
func TestStopOfClients(t *testing.T) {
	for _, stream := range []bool{false, true} {
		w := newWorld(t, newDesk(t).root)
		asked := []any{map[string]any{"role": "user", "content": "hello"}}
		body := func() map[string]any {
			return map[string]any{"model": "support", "messages": asked, "stream": stream, "stop": []string{"Observation:", "or"}}
		}
		first := w.chat(t.Context(), body())
		require.Equal(t, "W", first.Content)
		require.Equal(t, "stop", first.Finish)
		var whole string
		for _, e := range w.log(ann(first.Arbor.Session)) {
			if text, ok := e.Data.(*event.Text); ok {
				whole += text.Content
			}
		}
		require.Contains(t, whole, "Words ")
		asked = append(asked, map[string]any{"role": "assistant", "content": first.Content}, map[string]any{"role": "user", "content": "more"})
		require.Equal(t, first.Arbor.Session, w.chat(t.Context(), body()).Arbor.Session)
	}
}
