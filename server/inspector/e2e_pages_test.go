package inspector_test

import "testing"

// Browsers sign in with a code or a token, stay signed in over a restart, and sign out.
func TestSigningIn(t *testing.T) {
	t.Parallel()
	play(t, support(t), "signin", nil)
}

// The worlds of these tests are as the scripts expect them.
func TestWorlds(t *testing.T) {
	for name, make := range map[string]func(testing.TB) *host{"support": support, "office": office, "hostile": hostiles, "big": func(t testing.TB) *host { return big(t, 10_000) }} {
		t.Run(name, func(t *testing.T) {
			h := make(t)
			for _, id := range []string{"s1", "edited", "forked", "routed", "analysed", "person", "hostile", "long", "short"} {
				events, err := h.log(id)
				if err != nil {
					t.Fatal(err)
				}
				if len(events) == 0 {
					continue
				}
				t.Log(id, len(events))
				for _, e := range events[:min(len(events), 40)] {
					s := e.Text()
					t.Logf("%d %s %s %.80q", e.Seq, e.Type(), e.Agent, s)
				}
			}
		})
	}
}
