package router_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/router"
)

// plain is a matcher and what it means, found out without an engine.
type plain struct {
	m    router.Matcher
	mean func(message, language string, tier any) bool
}

// TestEngine compares the engine with the meaning of random rules.
func TestEngine(t *testing.T) {
	words := []string{"refund", "re", "fund", "invoice", "card", "car", "lost", "Straße", "κάρτα", "退款", "款"}
	dense := regexp.MustCompile(`\p{Han}`)
	word := regexp.MustCompile(`[\pL\pM\pN_]+`)
	heard := func(message, w string) bool {
		stem, begins := strings.CutSuffix(w, "*")
		if dense.MatchString(stem) {
			return strings.Contains(message, stem)
		}
		return slices.ContainsFunc(word.FindAllString(dense.ReplaceAllString(message, " "), -1), func(said string) bool {
			return strings.EqualFold(said, stem) || begins && len(said) >= len(stem) && strings.EqualFold(said[:len(stem)], stem)
		})
	}
	one := func(t *rapid.T) string {
		return rapid.SampledFrom(words).Draw(t, "word") + rapid.SampledFrom([]string{"", "", "*"}).Draw(t, "end")
	}
	var some func(t *rapid.T, depth int) plain
	some = func(t *rapid.T, depth int) plain {
		kind := rapid.IntRange(0, 3+3*min(depth, 1)).Draw(t, "kind")
		var parts []plain
		for range rapid.IntRange(1, 3).Draw(t, "parts") * min(1, max(0, kind-3)) {
			parts = append(parts, some(t, depth-1))
		}
		of := make([]router.Matcher, len(parts))
		for i, p := range parts {
			of[i] = p.m
		}
		switch kind {
		case 0:
			all := rapid.SliceOfN(rapid.Custom(one), 1, 4).Draw(t, "words")
			return plain{router.Keyword(all...), func(message, _ string, _ any) bool {
				return slices.ContainsFunc(all, func(w string) bool { return heard(message, w) })
			}}
		case 1:
			re := rapid.SampledFrom([]string{`(?i)re(fund|ceipt)`, `\d+`, `car[dt]|invoice`, `^lost`, `退.?款`, `(?i)STRASSE|straße`, `a|b`}).Draw(t, "re")
			return plain{router.Regexp(re), func(message, _ string, _ any) bool { return regexp.MustCompile(re).MatchString(message) }}
		case 2:
			tag := rapid.SampledFrom([]string{"de", "de-AT", "fr"}).Draw(t, "tag")
			return plain{router.Language(tag), func(_, language string, _ any) bool {
				return language == tag || strings.HasPrefix(language, tag+"-")
			}}
		case 3:
			value := rapid.SampledFrom([]any{"gold", true, 2, nil}).Draw(t, "value")
			return plain{router.State("tier", value), func(_, _ string, tier any) bool { return fmt.Sprint(value) == fmt.Sprint(tier) }}
		case 4:
			return plain{router.All(of...), func(m, l string, s any) bool {
				return !slices.ContainsFunc(parts, func(p plain) bool { return !p.mean(m, l, s) })
			}}
		case 5:
			return plain{router.Any(of...), func(m, l string, s any) bool {
				return slices.ContainsFunc(parts, func(p plain) bool { return p.mean(m, l, s) })
			}}
		}
		return plain{router.Not(of[0]), func(m, l string, s any) bool { return !parts[0].mean(m, l, s) }}
	}
	yes, no := router.Specialist(quiet(t, "yes")), router.Specialist(quiet(t, "no"))
	rapid.Check(t, func(t *rapid.T) {
		var rules []router.Rule
		var meant []plain
		for range rapid.IntRange(1, 8).Draw(t, "rules") {
			p := some(t, 2)
			rules, meant = append(rules, router.When(p.m).To(yes)), append(meant, p)
		}
		r := must.Get(router.New("front", router.Rules(rules...), router.Default(no)))
		for range 3 {
			parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(words), rapid.SampledFrom([]string{" ", "  ", ", ", "7", "t", "REFUND", "LOST", "_", "b"})), 0, 8).Draw(t, "message")
			message := strings.Join(parts, "")
			language := rapid.SampledFrom([]string{"", "de", "de-AT", "den", "fr-CA"}).Draw(t, "language")
			tier := rapid.SampledFrom([]any{"gold", true, 2.0, nil, "2x"}).Draw(t, "tier")
			d, err := r.Explain(context.Background(), message, map[string]any{"language": language}, map[string]any{"tier": tier})
			require.NoError(t, err)
			want := slices.IndexFunc(meant, func(p plain) bool { return p.mean(message, language, tier) })
			if want < 0 {
				require.Nil(t, d.RuleIndex, "%q %q %v: %+v of %v", message, language, tier, d, r.Rules())
				continue
			}
			require.NotNil(t, d.RuleIndex, "%q %q %v: none of %v", message, language, tier, r.Rules())
			require.Equal(t, want, *d.RuleIndex, "%q %q %v: %v", message, language, tier, r.Rules())
		}
	})
}

// many makes a router with n rules of keywords, or with a mixture. Its messages match none or the last.
func many(t testing.TB, n int, mixed bool) (r *router.Router, messages []string) {
	to := router.Specialist(quiet(t, "to"))
	var rules []router.Rule
	for i := range n {
		m := router.Keyword(fmt.Sprintf("word%d", i), fmt.Sprintf("a phrase %d", i), fmt.Sprintf("begin%d*", i))
		if mixed {
			switch i % 5 {
			case 1:
				m = router.Regexp(fmt.Sprintf(`(?i)ticket\s+nr%d\b`, i))
			case 2:
				m = router.All(router.Keyword("order", "bill"), router.Not(router.Keyword("other")), router.State("n", i))
			case 3:
				m = router.Any(router.Language(fmt.Sprintf("x%d", i)), m)
			case 4:
				m = router.All(router.Not(m), router.Keyword(fmt.Sprintf("rare%d", i)))
			}
		}
		rules = append(rules, router.When(m).To(to))
	}
	rules = append(rules, router.When(router.Keyword("lastword")).To(to))
	r, err := router.New("front", router.Rules(rules...), router.Wrap(quiet(t, "rest")))
	require.NoError(t, err)
	text := "Hello, I have a question about my order: the bill says that I was charged twice for word and phrase, begin of last month, and nobody has answered my ticket since. "
	return r, []string{text, text + "lastword", strings.Repeat(text, 3), "Grüße aus Köln, wo ist meine Bestellung geblieben? Ich warte seit drei Wochen."}
}

func decide(t testing.TB, r *router.Router, message string) {
	if _, err := r.Explain(context.Background(), message, nil, nil); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkDecision(b *testing.B) {
	for _, mixed := range []bool{false, true} {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("mixed=%v/rules=%d", mixed, n), func(b *testing.B) {
				r, messages := many(b, n, mixed)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					decide(b, r, messages[i%len(messages)])
					i++
				}
			})
		}
	}
}

// TestAllocationBudget holds decisions to a number of allocations, whatever the number of
// rules.
func TestAllocationBudget(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		few, messages := many(t, 10, mixed)
		lots, _ := many(t, 1000, mixed)
		for _, message := range messages {
			least := race.Allocations(t, 200, func() { decide(t, few, message) })
			require.LessOrEqual(t, least, 12.0, message)
			require.InDelta(t, least, race.Allocations(t, 200, func() { decide(t, lots, message) }), 1.5, message)
		}
	}
}

// TestLatency measures how long decisions among a thousand rules take.
func TestLatency(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		r, messages := many(t, 1000, mixed)
		took := make([]time.Duration, 5000)
		for i := range took {
			began := time.Now()
			decide(t, r, messages[i%len(messages)])
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		p99 := took[len(took)*99/100]
		t.Logf("1,000 rules, mixed=%v: p50 %s, p99 %s", mixed, took[len(took)/2], p99)
		require.Less(t, p99, 200*time.Millisecond)
	}
}
